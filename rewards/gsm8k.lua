-- rewards/gsm8k.lua - grade-school maths: the right number, in the asked-for layout.
--
--   <thinking>
--   ...
--   </thinking>
--   <answer>
--   42
--   </answer>
--
-- `row.answer` is GSM8K's: a worked solution that ends in "#### 42", or just the number.
-- The answer a completion gives is its first complete <answer> tag, of nested ones the innermost,
-- so that a second guess earns nothing; gsm8k.with { answer = "last" } takes the last.  The tags of
-- the answer may be in upper case; the layout may not.  A typical entry list: correct (weight 2),
-- and the others.

local answer = require "grpo.answer"
local core = require "grpo.core"
local format = require "rewards.format"
local length = require "rewards.length"
local options = require "grpo.options"

---@class rewards.gsm8k
local gsm8k = {}

local takes = { first = { first = true, any_case = true }, last = { any_case = true } }

local function correct(text, row, take)
  local gold = answer.of_row(row, "answer", "gsm8k.correct")
  local given = answer.tagged(text, take)
  return given and answer.equal(given, gold) and 1 or 0
end

local whole_number = core.regex [[\A[\t-\r ]*[-+]?[0-9]+[\t-\r ]*\z]]

local function integer(text, take)
  local given = answer.tagged(text, take)
  return given and whole_number:test(given) and 1 or -1
end

local ends = {
  first = core.regex [[\A[^<]*+(?:<(?!/answer>)[^<]*+)*+</answer>[\t-\r ]*+\z]],
  last = core.regex [[</answer>[\t-\r ]*+\z]],
}

local function nothing_after(text, take)
  return format.matches(take.first and ends.first or ends.last, text) and 0 or -0.5
end

--- 1 when the answer in <answer> equals the gold one, else 0.  Values are compared, not spellings:
--- 1,234 and $1234 and 1234.0 are the same.
---@param text string
---@param row { answer: string|number }
---@return number
function gsm8k.correct(text, row) return correct(text, row, takes.first) end

--- 1 when <answer> holds nothing but digits (a sign may lead), else -1.
---@param text string
---@return number
function gsm8k.integer(text) return integer(text, takes.first) end

local in_layout = format.tags { "thinking", "answer", newlines = true }

--- 1 when the text is exactly <thinking>\n...\n</thinking>\n<answer>\n...\n</answer>, every tag
--- once and on its own line, else -1.  The PCRE2 expression of this is
--- format.pattern({ "thinking", "answer" }, { newlines = true }).
---@param text string
---@param row table|nil
---@param c table|nil
---@return number
function gsm8k.layout(text, row, c)
  return in_layout(text, row, c) == 1 and 1 or -1
end

--- 0 when nothing but white space follows the first </answer>; -0.5 when something does, or when
--- there is no </answer> at all.
---@param text string
---@return number
function gsm8k.nothing_after(text) return nothing_after(text, takes.first) end

--- 0 for a length within bounds, else `penalty`.  Lengths are in tokens, or in characters if the
--- caller gives no token count.
---@param opts { min: integer?, max: integer?, penalty: number? }
---@return fun(text: string, row: table, c: table): number
function gsm8k.length(opts)
  local o = options.check(opts, {
    min = { type = "number", default = 0, min = 0 },
    max = { type = "number", default = math.huge, min = 0 },
    penalty = { type = "number", default = -0.5 },
  }, "gsm8k.length")
  return function(text, _, c)
    local n = length.measure(text, c)
    return n >= o.min and n <= o.max and 0 or o.penalty
  end
end

--- These rewards, with another answer of several taken: answer = "last" lets a completion correct
--- itself, and lets it guess twice.
---@param opts { answer: "first"|"last"? }
---@return rewards.gsm8k
function gsm8k.with(opts)
  local o = options.check(opts, {
    answer = { type = "string", default = "first", one_of = { "first", "last" } },
  }, "gsm8k.with")
  local take = takes[o.answer]
  return setmetatable({
    correct = function(text, row) return correct(text, row, take) end,
    integer = function(text) return integer(text, take) end,
    nothing_after = function(text) return nothing_after(text, take) end,
  }, { __index = gsm8k })
end

return gsm8k
