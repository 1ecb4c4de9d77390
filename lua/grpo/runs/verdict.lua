-- The answer that is read in a completion, beside the right one, for samples that are shown.

local answer = require "grpo.answer"

local verdict = {}

local LONGEST = 60 -- characters shown

local function short(text)
  text = text:gsub("%s+", " ")
  local cut = utf8.offset(text, LONGEST + 1)
  return cut and cut <= #text and text:sub(1, utf8.offset(text, LONGEST - 2) - 1) .. "..." or text
end

-- The column "prediction" that a reward has given as its second result.
local function own_prediction(c)
  for name, value in pairs(c.extra or {}) do
    if name:find("%.prediction$") and type(value) ~= "table" then return tostring(value) end
  end
end

local function is_right(c)
  if c.passed ~= nil then return c.passed end
  local correct = c.rewards and c.rewards.correct
  if type(correct) == "number" then return correct > 0 end
end

-- { prediction = text or nil, gold = text, right = true, false or nil }; nil for a completion whose
-- row has no `answer`.
function verdict.of(c)
  local gold = type(c.row) == "table" and c.row.answer or nil
  if type(gold) ~= "string" and type(gold) ~= "number" then return nil end
  local prediction = own_prediction(c) or answer.extract(c.text)
  return { prediction = prediction and short(prediction), gold = short(answer.gold(gold)),
    right = is_right(c) }
end

-- That as a line: "prediction 41, gold 42: wrong"; nil where there is none.
function verdict.line(c)
  local v = verdict.of(c)
  if not v then return nil end
  local text = ("prediction %s, gold %s"):format(v.prediction or "none", v.gold)
  if v.right == nil then return text end
  return ("%s: %s"):format(text, v.right and "right" or "wrong")
end

return verdict
