-- The answer that is read in a completion, beside the right one, for samples that are shown.

local answer = require "grpo.answer"
local sorted_pairs = require "grpo.base.sorted"

-- PASS: a measure from 1 on is a pass; weights such as 0.7, 0.2 and 0.1 add up to a little less.
local verdict = { PASS = 1 - 1e-9 }

local LONGEST = 60 -- characters shown

local function short(text)
  text = text:gsub("%s+", " "):gsub("^[\x80-\xbf]+", "") -- a text may begin within a character
  local cut = utf8.offset(text, LONGEST + 1)
  return cut and cut <= #text and text:sub(1, utf8.offset(text, LONGEST - 2) - 1) .. "..." or text
end

-- The column "prediction" that a reward has given as its second result.
local function own_prediction(c)
  for name, value in pairs(c.extra or {}) do
    if name:find("%.prediction$") and type(value) ~= "table" then return tostring(value) end
  end
end

-- The answer that is read in a completion; nil if there is none.
function verdict.prediction(c) return own_prediction(c) or answer.extract(c.text) end

local function is_right(c)
  if c.passed ~= nil then return c.passed end
  local correct = c.rewards and c.rewards.correct
  if type(correct) == "number" then return correct >= verdict.PASS end
end

-- The names of the rewards that keep(value) holds for, without `correct`.
local function names_where(rewards, keep)
  local names = {}
  for name, value in sorted_pairs(rewards or {}) do
    if name ~= "correct" and type(value) == "number" and keep(value) then
      names[#names + 1] = name
    end
  end
  return #names > 0 and table.concat(names, ", ") or nil
end

-- Returns why a completion with the right answer is wrong: the names of the rewards below 0, else
-- of those below 1, else the value of `correct`.
local function reason(c)
  local correct = c.rewards and c.rewards.correct
  return names_where(c.rewards, function(value) return value < 0 end)
    or names_where(c.rewards, function(value) return value < verdict.PASS end)
    or type(correct) == "number" and correct < verdict.PASS
      and ("correct is %.4g"):format(correct) or nil
end

-- { prediction = text or nil, gold = text, right = true, false or nil, why = text or nil }; nil for
-- a completion whose row has no `answer`.
function verdict.of(c)
  local gold = type(c.row) == "table" and c.row.answer or nil
  if type(gold) ~= "string" and type(gold) ~= "number" then return nil end
  local prediction, right = verdict.prediction(c), is_right(c)
  gold = answer.gold(gold)
  local why = right == false and prediction and answer.equal(prediction, gold) and reason(c)
  return { prediction = prediction and short(prediction), gold = short(gold), right = right,
    why = why or nil }
end

-- That as a line: "prediction 41, gold 42: wrong", or "prediction 42, gold 42: wrong: layout"; nil
-- where there is none.
function verdict.line(c)
  local v = verdict.of(c)
  if not v then return nil end
  local text = ("prediction %s, gold %s"):format(v.prediction or "none", v.gold)
  if v.right == nil then return text end
  if v.right then return text .. ": right" end
  return ("%s: wrong%s"):format(text, v.why and ": " .. v.why or "")
end

return verdict
