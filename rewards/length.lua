-- rewards/length.lua - rewards for the length of a completion.
--
-- Lengths are in tokens (c.length) unless unit = "chars"; with tag = "think" they are those of the
-- reasoning alone.

local answer = require "grpo.answer"
local format = require "rewards.format"
local numeric = require "rewards.numeric"
local options = require "grpo.options"

---@alias LengthUnit "tokens"|"chars"

---@class rewards.length
local length = {}

local unit_option = { type = "string", default = "tokens", one_of = { "tokens", "chars" } }

local tag_option = { type = "string" }

-- Returns the text between <tag> and </tag>, without white space at both ends.  A block that is not
-- closed ends with the text; one that is not opened begins with it.
local function between(text, tag)
  local open, close = ("<%s>"):format(tag), ("</%s>"):format(tag)
  local first, start = text:find(open, 1, true)
  local stop = text:find(close, 1, true)
  if stop and (not first or stop < first) then first, start = 0, 0 end
  local parts = {}
  while first do
    local after
    stop, after = text:find(close, start + 1, true)
    parts[#parts + 1] = answer.trim(text:sub(start + 1, (stop or #text + 1) - 1))
    if not stop then break end
    first, start = text:find(open, after + 1, true)
  end
  return table.concat(parts)
end

local function characters(text)
  return utf8.len(text, 1, -1, true) or #text
end

-- The tokens of a part of a completion.  Where there is no tokenizer, or none that can write the
-- part, it has its share of the completion's tokens.
local function tokens(part, text, c)
  local ok, ids = pcall(function() return c.tokenizer:encode(part) end)
  if ok then return #ids end
  return math.floor(c.length * characters(part) / math.max(1, characters(text)) + 0.5)
end

--- Length of a completion, in tokens, or in characters if `c` has no token count.
---@param text string
---@param c table|nil
---@param unit? LengthUnit
---@param tag? string of what stands in these tags alone; one that ends the prompt counts
---@return integer
function length.measure(text, c, unit, tag)
  local part = tag and between(format.whole(text, c, { tag }), tag) or text
  if unit == "chars" or not (c and c.length) then return characters(part) end
  return tag and tokens(part, text, c) or c.length
end

-- The default judge, which says nil where the gold answer is not mathematics.
local function is_right(text, row) return numeric.equal(text, row) end

local function judged(correct, text, row, c)
  local verdict = correct(text, row, c)
  if verdict == nil then return nil end
  return verdict == true or type(verdict) == "number" and verdict >= 1
end

---@class rewards.length.Cosine
---@field max_len? number
---@field min_value_wrong? number value of a wrong answer at length 0
---@field max_value_wrong? number and at max_len
---@field min_value_correct? number value of a right answer at max_len
---@field max_value_correct? number and at length 0
---@field unit? LengthUnit
---@field tag? string
---@field correct? fun(text: string, row: table, c: table): boolean|number|nil
---   true or >= 1 is right, nil leaves the completion out

--- A right answer is worth more the shorter it is, a wrong one costs less the longer it is,
--- along a cosine (2502.03373).  nil where the judge says nil.  Past max_len the value stays.
---@param opts? rewards.length.Cosine
---@return fun(text: string, row: table, c: table): number|nil
function length.cosine(opts)
  local o = options.check(opts, {
    max_len = { type = "number", default = 1000, above = 0 },
    min_value_wrong = { type = "number", default = -1.0 },
    max_value_wrong = { type = "number", default = -0.5 },
    min_value_correct = { type = "number", default = 0.5 },
    max_value_correct = { type = "number", default = 1.0 },
    unit = unit_option, tag = tag_option,
    correct = { type = "function", default = is_right },
  }, "length.cosine")
  return function(text, row, c)
    local right = judged(o.correct, text, row, c)
    if right == nil then return nil end
    local progress = math.min(length.measure(text, c, o.unit, o.tag) / o.max_len, 1)
    local short = right and o.max_value_correct or o.min_value_wrong -- value at length 0
    local long = right and o.min_value_correct or o.max_value_wrong  -- and at max_len
    return long + 0.5 * (short - long) * (1 + math.cos(math.pi * progress))
  end
end

--- 0 up to limit - cache, then falling linearly to -1 at `limit` (DAPO's overlong shaping).
---@param opts { limit: number, cache: number, unit: LengthUnit?, tag: string? }
---@return fun(text: string, row: table, c: table): number
function length.soft_overlong(opts)
  local o = options.check(opts, {
    limit = { type = "number", required = true, above = 0 },
    cache = { type = "number", required = true, above = 0 },
    unit = unit_option, tag = tag_option,
  }, "length.soft_overlong")
  if o.cache > o.limit then
    error(("length.soft_overlong.cache: must be at most limit (%s), got %s")
      :format(o.limit, o.cache), 2)
  end
  return function(text, _, c)
    local over = length.measure(text, c, o.unit, o.tag) - (o.limit - o.cache)
    return over <= 0 and 0 or math.max(-over / o.cache, -1)
  end
end

--- For `group_fn`: 0.5 for the shortest of the group down to -0.5 for the longest, at most 0 for
--- a wrong one; all 0 when the lengths are equal (Kimi 1.5, 2501.12599).
---@param opts? { unit: LengthUnit?, tag: string?, correct: function? }
---@return fun(texts: string[], row: table, cs: table[]): number[]
function length.relative(opts)
  local o = options.check(opts, {
    unit = unit_option, tag = tag_option, correct = { type = "function", default = is_right },
  }, "length.relative")
  return function(texts, row, cs)
    local lengths, least, most = {}, math.huge, -math.huge
    for i, text in ipairs(texts) do
      lengths[i] = length.measure(text, cs and cs[i], o.unit, o.tag)
      least, most = math.min(least, lengths[i]), math.max(most, lengths[i])
    end
    local values = {}
    for i, text in ipairs(texts) do
      local value = most > least and 0.5 - (lengths[i] - least) / (most - least) or 0
      if judged(o.correct, text, row, cs and cs[i]) == false then value = math.min(value, 0) end
      values[i] = value
    end
    return values
  end
end

--- The length of the reasoning alone: 0 within the bounds, else `penalty`.  The reasoning stands
--- between <think> and </think>, also where the prompt ends in <think> or the reasoning is cut
--- off; a completion without reasoning has length 0.
---@param opts? { min: number?, max: number?, penalty: number?, tag: string?, unit: LengthUnit? }
---@return fun(text: string, row: table, c: table): number
function length.reasoning(opts)
  local o = options.check(opts, {
    min = { type = "number", default = 0, min = 0 },
    max = { type = "number", default = math.huge, min = 0 },
    penalty = { type = "number", default = -0.5 },
    tag = { type = "string", default = "think" },
    unit = unit_option,
  }, "length.reasoning")
  return function(text, _, c)
    local n = length.measure(text, c, o.unit, o.tag)
    return n >= o.min and n <= o.max and 0 or o.penalty
  end
end

return length
