-- rewards/numeric.lua - is the answer right, as a number?
--
-- numeric.equal is a reward by itself and also makes one when it is called with a table of
-- options.  How an answer is found and compared: lua/grpo/answer.lua.

local answer = require "grpo.answer"
local extensions = require "grpo.base.extensions"
local options = require "grpo.options"

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

for _, row in ipairs(extensions.rows "rewards") do
  if row.module == "numeric" then numeric[row.name] = row.load() end
end

return numeric
