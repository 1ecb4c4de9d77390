-- rewards/numeric.lua - is the answer right, as a number?
--
-- numeric.equal is a reward by itself and also makes one when it is called with a table of
-- options.  How an answer is found and compared: lua/grpo/answer.lua.
-- numeric.verl reproduces the scorers of verl to the letter, their strictness
-- included, for results that must compare with published ones.

local answer = require "grpo.answer"
local options = require "grpo.options"
local verl = require "grpo.verl"

---@class rewards.numeric
local numeric = {}

local spec = {
  field = { type = "string", default = "answer" }, -- the row's field with the gold answer
  after = { type = "string" }, -- only what follows the last occurrence of this counts
}

local function judge(o, text, row)
  local gold = answer.of_row(row, o.field, "numeric.equal")
  if o.after then
    local back = text:reverse():find(o.after:reverse(), 1, true)
    text = back and text:sub(#text - back + 2)
  end
  return answer.verdict(text and answer.extract(text), gold)
end

local defaults = options.check({}, spec, "numeric.equal")

--- 1 when the completion's answer (last \boxed{}, or ####, or <answer>, or the last number or
--- formula) equals the row's, else 0; nil where the row's is not mathematics or cannot be read, so
--- that a bad row teaches nothing.
--- Called with { field =, after = } it returns such a reward.
---@param text string|table
---@param row? table
---@return number|nil|fun(text: string, row: table): number|nil
function numeric.equal(text, row)
  if type(text) == "string" then return judge(defaults, text, row) end
  local o = options.check(text, spec, "numeric.equal")
  return function(t, r) return judge(o, t, r) end
end

-- The gold answer as it is: after ####, in \boxed{} or <answer>, or the whole value.
local function gold_of(row, field)
  local value = answer.field(row, field, "numeric.verl")
  if type(value) == "number" then return tostring(value) end
  return answer.hashed(value) or answer.boxed(value, true) or answer.tagged(value)
    or answer.trim(value)
end

-- verl's preparation of GSM8K removes the commas of its answers.
local of_gsm8k = { strict = true, flexible = true }

--- verl's scorers.  "strict": the number after ####, as text; "flexible": the last number, as
--- text; "math": the last \boxed, normalised text; these give 1 or 0.  "dapo": the last
--- "Answer:" line, normalised text, else the last \boxed as it is, 1 or -1.
---@param opts { method: "strict"|"flexible"|"math"|"dapo", field: string? }
---@return fun(text: string, row: table): number, { extracted: string }
function numeric.verl(opts)
  local o = options.check(opts, {
    method = { type = "string", required = true,
      one_of = { "strict", "flexible", "math", "dapo" } },
    field = { type = "string", default = "answer" },
  }, "numeric.verl")
  local score = verl[o.method]
  return function(text, row)
    local gold = gold_of(row, o.field)
    if of_gsm8k[o.method] then gold = gold:gsub(",", "") end
    local value, extracted = score(text, gold)
    return value, extracted and { extracted = extracted } or nil
  end
end

return numeric
