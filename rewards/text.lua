-- rewards/text.lua - comparing with a text of the row.
--
-- Each is a reward by itself, comparing with row.answer, and also makes one when it is
-- called with a table of options:
--   rewards = { text.contains, text.equals { field = "reference", ignore_case = true } }

local answer = require "grpo.answer"
local options = require "grpo.options"

---@class rewards.text
local text = {}

local spec = {
  field = { type = "string", default = "answer" }, -- which field of the row
  value = { type = "string" },                     -- or a fixed text
  ignore_case = { type = "boolean", default = false },
}

-- Turns compare(completion, reference) -> number into a reward that is also its constructor.
local function reward(where, compare)
  local function apply(o, completion, row)
    local reference = o.value or row and row[o.field]
    if type(reference) == "number" then reference = tostring(reference) end
    if type(reference) ~= "string" then
      error(("%s: the row has no field '%s' with a text"):format(where, o.field), 0)
    end
    if o.ignore_case then completion, reference = completion:lower(), reference:lower() end
    return compare(completion, reference)
  end
  local defaults = options.check({}, spec, where)
  return function(first, row)
    if type(first) == "string" then return apply(defaults, first, row) end
    local o = options.check(first, spec, where)
    return function(completion, its_row) return apply(o, completion, its_row) end
  end
end

--- 1 when the reference occurs in the completion, else 0.  The reference is row.answer; called with
--- { field = } it returns such a reward.
---@param completion string|table
---@param row? table
---@return number|fun(text: string, row: table): number
text.contains = reward("text.contains", function(completion, reference)
  return completion:find(reference, 1, true) and 1 or 0
end)

--- 1 when both are equal except for white space at the ends, else 0.  The reference is row.answer;
--- called with { field = } it returns such a reward.
---@param completion string|table
---@param row? table
---@return number|fun(text: string, row: table): number
text.equals = reward("text.equals", function(completion, reference)
  return answer.trim(completion) == answer.trim(reference) and 1 or 0
end)

-- Counts each pair of neighbouring bytes; also returns the number of pairs.
local function pairs_of(s)
  local counts = {}
  for i = 1, #s - 1 do
    local a, b = s:byte(i, i + 1)
    local key = a * 256 + b
    counts[key] = (counts[key] or 0) + 1
  end
  return counts, #s - 1
end

--- The similarity of two texts, 0 to 1: the Dice coefficient of their pairs of neighbouring bytes.
--- The reference is row.answer; called with { field = } it returns such a reward.
---@param completion string|table
---@param row? table
---@return number|fun(text: string, row: table): number
text.similarity = reward("text.similarity", function(completion, reference)
  local a, b = answer.trim(completion), answer.trim(reference)
  if a == b then return 1 end -- also when both have less than a pair
  if #a < 2 or #b < 2 then return 0 end
  local counts, n = pairs_of(a)
  local others, m = pairs_of(b)
  local common = 0
  for key, count in pairs(others) do common = common + math.min(count, counts[key] or 0) end
  return 2 * common / (n + m)
end)

return text
