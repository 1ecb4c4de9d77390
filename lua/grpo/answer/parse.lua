-- parse.lua - reads an answer: a tree (grammar.lua), words, or neither.

local grammar = require "grpo.answer.grammar"
local lex = require "grpo.answer.lex"
local rational = require "grpo.answer.rational"
local symbols = require "grpo.answer.symbols"

local parse = { MAX_ANSWER = 1000 } -- bytes; longer ones are not read

local WORK = 200000 -- steps

-- Calls fn(...); returns nil and the reason if it refuses what it reads.  Other errors are raised.
local function attempt(fn, ...)
  local ok, first, second = pcall(fn, ...)
  if ok then return first, second end
  if type(first) ~= "string" or not first:find("^not read: ") then error(first, 0) end
  return nil, first
end
parse.attempt = attempt

-- ---- whole answers --------------------------------------------------------------------

-- (B) 12 and B. 12: a choice with what it stands for.
local function choice_of(tokens)
  local function is(k, t, v)
    return tokens[k] ~= nil and tokens[k].t == t and (not v or tokens[k].v == v)
  end
  local first = is(1, "op", "(") and 2 or 1
  if not is(first, "name") or not tokens[first].v:find("^[A-J]$") then return nil end
  local mark = tokens[first + 1]
  if not mark or mark.t ~= "op" then return nil end
  if mark.v ~= ")" and not (first == 1 and (mark.v == "." or mark.v == ":")) then return nil end
  for k = first + 2, #tokens do
    if is(k, "name") and tokens[k].v:find("^[A-J]$") then return nil end -- (B) or (C)
  end
  return tokens[first].v, first + 2
end

local function run(tokens, from)
  local parser = grammar.new(tokens, from)
  local node = parser:list()
  if parser:peek() then error("not read: more than an answer", 0) end
  return node
end

-- Whether the text is only words: letters, of which some stand together, and no sign of a formula.
local function is_words(tokens)
  local together = false
  for _, token in ipairs(tokens) do
    if token.t == "name" then together = together or #token.v > 1
    elseif token.t ~= "op" or not token.v:find("^[.,:?!'\"()-]$") then return false end
  end
  return together
end

local function tree(s, commas)
  local tokens, merged = attempt(lex.tokens, s, commas)
  if not tokens then return nil, merged end
  if #tokens == 0 then return nil, "empty" end
  local letter, from = choice_of(tokens)
  if is_words(tokens) and not (letter and tokens[from - 1].v == ")") then
    return nil, "words", (attempt(run, tokens, 1))
  end
  if letter and not tokens[from] then return { "choice", letter } end
  local node, reason = attempt(run, tokens, from or 1)
  if letter then return { "choice", letter, node } end
  if not node then return nil, reason end
  if #tokens == 1 and tokens[1].t == "name" then
    return { "choice", tokens[1].v, letter = node }
  end
  return node, merged
end

-- An answer without a full stop at its end and without "Final answer:" before it.
local function prepared(s)
  s = s:gsub("^[%s*]*[%a%s]*answer[%a%s]*is:?%**%s+", ""):gsub("^[%s*]*%a%a[%a%s]*:%**%s*", "")
  return (s:gsub("([^.%s])%s*%.%s*$", "%1"))
end

local last = {}

--- The tree of an answer, or nil and "words", "empty" or what could not be read.  With a tree the
--- second result says whether commas have been read as thousands.  After "words" a third result is
--- the product of the letters, if they are few.
---@param s string
---@param lists? boolean commas stand between numbers, also in 1,234
function parse.answer(s, lists)
  if #s > parse.MAX_ANSWER then return nil, "too long" end
  if last.text ~= s or last.lists ~= lists then
    rational.budget = WORK
    last = table.pack(tree(prepared(s), not lists))
    last.text, last.lists = s, lists
  end
  return last[1], last[2], last[3]
end

--- Whether a unit is one whose other names are known.
parse.is_known_unit = symbols.is_known_unit

return parse
