-- rewards.numeric.verl reproduces the scorers of verl to the letter, their strictness included, for
-- results that must compare with published ones.  meta/verl.lua says what the methods are.

local answer = require "grpo.answer"
local options = require "grpo.options"
local verl = require "grpo.verl"

local numeric = {}

-- The gold answer as it is: after ####, in \boxed{} or <answer>, or the whole value.
local function gold_of(row, field)
  local value = answer.field(row, field, "numeric.verl")
  if type(value) == "number" then return tostring(value) end
  return answer.hashed(value) or answer.boxed(value, true) or answer.tagged(value)
    or answer.trim(value)
end

-- verl's preparation of GSM8K removes the commas of its answers.
local of_gsm8k = { strict = true, flexible = true }

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

return numeric.verl
