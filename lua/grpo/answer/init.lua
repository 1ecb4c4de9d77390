-- grpo.answer - finds an answer in text, and decides whether two answers are equal.
--
-- extract() tries, in this order: the last \boxed{}, what stands behind the last #### or below that
-- heading, the last complete <answer> tag, a formula at the end, the last number.  equal() reads
-- LaTeX and plain text (lex.lua, parse.lua) and compares numbers as exact fractions; other formulas
-- by their values at fixed points, within 1e-13 relative (evaluate.lua); equations up to a factor;
-- lists in any order, and tuples in theirs (compare.lua).  There is no computer algebra: what has
-- two readings, or cannot be read, equals its own text only.
--
-- The time is linear in the length of any text: only plain strings are searched in it, and only
-- answers of at most MAX_ANSWER bytes are parsed, with a bound on the work.

local compare = require "grpo.answer.compare"
local find = require "grpo.answer.find"
local parse = require "grpo.answer.parse"
local rational = require "grpo.answer.rational"

local answer = {
  trim = find.trim, tagged = find.tagged, boxed = find.boxed, hashed = find.hashed,
  last_number = find.last_number, extract = find.answer,
}

local WORK = 400000 -- steps of a comparison

-- ---- what a dataset gives -------------------------------------------------------------

-- The shortest spelling of a number that is read as the same number.
local function spelled(value)
  if math.type(value) == "integer" or value % 1 == 0 and math.abs(value) < 2 ^ 53 then
    return ("%d"):format(value)
  end
  for digits = 15, 17 do
    local text = ("%." .. digits .. "g"):format(value)
    if tonumber(text) == value then return text end
  end
  return tostring(value)
end

--- The answer that a dataset gives: after ####, in \boxed{} or <answer>, or the whole value.
---@param value string|number
---@return string
function answer.gold(value)
  if type(value) == "number" then return spelled(value) end
  return find.headed(value) or find.boxed(value) or find.tagged(value) or find.trim(value)
end

--- The string or number in a field of a dataset row; raises an error that names the field if there
--- is none.
---@param row table
---@param field string
---@param where string the reward that asks
---@return string|number
function answer.field(row, field, where)
  local value = row and row[field]
  if type(value) ~= "string" and type(value) ~= "number" then
    error(("%s: the row has no field '%s' with a string or a number"):format(where, field), 0)
  end
  return value
end

--- The answer that a dataset row gives in one of its fields.
---@param row table
---@param field string
---@param where string the reward that asks
---@return string
function answer.of_row(row, field, where) return answer.gold(answer.field(row, field, where)) end

-- ---- comparing ------------------------------------------------------------------------

local function digits_of(s)
  local sign, digits = s:match("^%s*([-+]?)0*(%d+)%s*$")
  return digits and (sign == "-" and digits ~= "0" and "-" .. digits or digits)
end

-- A text without spaces and what only changes how it looks; words in lower case.
local function bare(s, reason)
  local text = s
  if #s <= parse.MAX_ANSWER then
    text = s:gsub("\\%a*text%a*%s*{([^{}]*)}", "%1"):gsub("\\[dt]frac", "\\frac")
      :gsub("\\left%f[%A]", ""):gsub("\\right%f[%A]", ""):gsub("\\[,;:! ]", "")
  end
  text = text:gsub("[%s$*]+", ""):gsub("%.$", "")
  return reason == "words" and text:lower() or text
end

-- Reads an answer for comparisons: its tree, or its bare text and, where it may be a product of
-- letters, the tree of that.
local function read(s)
  local known = { text = s, digits = digits_of(s) }
  known.tree, known.merged, known.product = parse.answer(s)
  if not known.tree then known.bare = bare(s, known.merged) end
  return known
end

-- Whether two trees are the same; an answer that would take more work than WORK is not.
local function same(a, b)
  rational.budget = WORK
  return (parse.attempt(compare.same, a, b)) == true
end

local function same_answers(a, b)
  if a.text == b.text then return a.text:find("%S") ~= nil end
  if a.digits and b.digits then return a.digits == b.digits end
  if not a.tree and not b.tree then return a.bare == b.bare and a.bare ~= "" end
  local x, y = a.tree or a.product, b.tree or b.product -- ab beside a b
  if not x or not y then return false end
  if same(x, y) then return true end
  if a.merged ~= true and b.merged ~= true then return false end
  x, y = parse.answer(a.text, true), parse.answer(b.text, true) -- 100,200 may be two numbers
  return x ~= nil and y ~= nil and same(x, y)
end

--- Whether two answers are the same.
---@param a string
---@param b string
---@return boolean
function answer.equal(a, b)
  if a == b then return a:find("%S") ~= nil end
  local x, y = digits_of(a), digits_of(b)
  if x and y then return x == y end
  return same_answers(read(a), read(b))
end

--- Equal numbers for equal answers: that of the first one to which an answer is equal.
---@param answers (string|false)[] false for none
---@return (integer|false)[]
function answer.numbered(answers)
  local numbers, of_text, distinct = {}, {}, {}
  local function place_of(known)
    for k, other in ipairs(distinct) do
      if same_answers(known, other) then return k end
    end
    distinct[#distinct + 1] = known
    return #distinct
  end
  for i, text in ipairs(answers) do
    if text and not of_text[text] then of_text[text] = place_of(read(text)) end
    numbers[i] = text and of_text[text]
  end
  return numbers
end

--- Whether other answers can be judged by this one, because it is read as mathematics.
---@param s string
---@return boolean
function answer.is_readable(s) return digits_of(s) ~= nil or parse.answer(s) ~= nil end

-- Signs that words alone do not have.
local signs = { "[%d\\^_=<>]", "\xE2[\x88-\x8B]" }

--- Whether an answer is mathematics: it is readable, or has the signs of it.  Words alone are not,
--- nor is an empty text.
---@param s string
---@return boolean
function answer.is_mathematics(s)
  if answer.is_readable(s) then return true end
  if select(2, parse.answer(s)) == "words" then return false end
  for _, sign in ipairs(signs) do
    if s:find(sign) then return true end
  end
  return false
end

--- 1 if a given answer equals the gold one, 0 if not; nil where that cannot be judged, because the
--- gold one is words, or is mathematics that cannot be read and has another text.
---@param given string|nil
---@param gold string
---@return number|nil
function answer.verdict(given, gold)
  if not answer.is_mathematics(gold) then return nil end
  if given and answer.equal(given, gold) then return 1 end
  return answer.is_readable(gold) and 0 or nil
end

return answer
