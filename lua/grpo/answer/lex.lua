-- lex.lua - cuts an answer in LaTeX or plain text into tokens.
--
-- A token is { t = kind, v = value, spaced = a space stands before it, text = within \text{} }:
--   "num"   v: the spelling; number = { whole =, part =, period =, exponent = } in digits
--   "name"  v: a run of letters;  "letter": one letter, be it of several characters (\alpha)
--   "cmd"   v: a command with a meaning, such as frac, sqrt, sin
--   "op"    v: an operator, a bracket, a separator;  "money" v: a currency
--   "begin", "end" v: the name of an environment

local symbols = require "grpo.answer.symbols"

local lex = {}

local MAX_NESTED = 8 -- texts within texts

local function fail(what) error("not read: " .. what, 0) end

-- ---- characters -----------------------------------------------------------------------

local UTF8 = "[\xC2-\xF4][\x80-\xBF]+"

-- Replaces runs of raised or lowered digits by ^{...} or _{...}.
local function runs(s, characters, open)
  local out, inside = {}, false
  local at = 1
  for start, char, after in s:gmatch("()(" .. UTF8 .. ")()") do
    local digit = characters[char]
    if inside and (start > at or not digit) then
      out[#out + 1], inside = "}", false
    end
    if digit then
      out[#out + 1] = s:sub(at, start - 1)
      if not inside then out[#out + 1], inside = open, true end
      out[#out + 1], at = digit, after
    end
  end
  if inside then out[#out + 1] = "}" end
  out[#out + 1] = s:sub(at)
  return table.concat(out)
end

-- Without characters beyond ASCII that have a spelling in LaTeX.
local function plain(s)
  if not s:find("[\x80-\xFF]") then return s end
  s = runs(runs(s, symbols.raised, "^{"), symbols.lowered, "_{")
  return (s:gsub(UTF8, symbols.characters))
end

-- Dollars in pairs are delimiters of mathematics; others are money.
local function without_delimiters(s)
  if s:find("\\", 1, true) then
    s = s:gsub("\\[()%[%]]", " "):gsub("\\%$", "\1"):gsub("\\!", "")
  end
  if select(2, s:gsub("%$", "")) % 2 == 0 then s = s:gsub("%$", " ") end
  return (s:gsub("\1", "$"))
end

-- Bold, italic and code of Markdown around the whole.
local function without_marks(s)
  for _, mark in ipairs { "%*%*", "__", "%*", "`" } do
    s = s:match("^%s*" .. mark .. "(.-)" .. mark .. "[.%s]*$") or s
  end
  return s
end

-- ---- numbers --------------------------------------------------------------------------

local separators = { "{,}", ",", "\\,", "\\ ", "\\;", "\\:", "~", " ", "'", "_", "." }

-- Groups of three digits behind 1 to 3 digits; returns all digits and the position after them.
local function grouped(s, at, separator, digits)
  local after, count = at, 0
  while s:sub(after, after + #separator - 1) == separator do
    local group = s:match("^%d%d%d%f[%D]", after + #separator)
    if not group then break end
    digits, count = digits .. group, count + 1
    after = after + #separator + 3
  end
  if count == 0 or separator == "." and count < 2 then return nil end
  return digits, after
end

-- India's groups, 12,34,567: two digits each, and three at the end.
local function indian(s, at)
  local text, after = s:match("^(%d%d?,%d%d,[%d,]*%d%d%d)()%f[^%d,]", at)
  if not text then return nil end
  local middle = text:match("^%d%d?,(.*),%d%d%d$")
  if not middle or (middle .. ","):gsub("%d%d,", "") ~= "" then return nil end
  return text:gsub(",", ""), after
end

-- Returns the digits of a whole number, the position after them and whether commas were in it.
local function whole_number(s, at, commas)
  local digits, after = s:match("^(%d+)()", at)
  if #digits > 3 or digits == "0" then return digits, after, false end
  if commas then
    local all, stop = indian(s, at)
    if all then return all, stop, true end
  end
  for _, separator in ipairs(separators) do
    local all, stop = nil, nil
    if separator ~= "," or commas then all, stop = grouped(s, after, separator, digits) end
    if all and not ((separator == " " or separator:find("^\\")) and s:find("^%s*/", stop)) then
      return all, stop, separator == ","
    end
  end
  return digits, after, false
end

-- The shortest period that the digits before an ellipsis repeat to their end, and what precedes
-- the first of its repetitions.
local function period_of(part)
  local n = #part
  for size = 1, n // 2 do
    local tail = part:sub(n - size + 1)
    if part:sub(n - 2 * size + 1, n - size) == tail then
      local first = n - size
      while first >= size and part:sub(first - size + 1, first) == tail do first = first - size end
      return part:sub(1, first), tail
    end
  end
  fail("digits without a period")
end

-- The period behind a decimal point: \overline{3}, (3) or an ellipsis.  Returns the digits before
-- it, the period or nil, and the position after it.
local function repeating(s, at, part)
  for _, form in ipairs { "^\\overline%s*{?(%d+)}?()", "^\\bar%s*{?(%d+)}?()",
    "^\\dot%s*{?(%d)}?()", "^%((%d+)%)()" } do
    local period, after = s:match(form, at)
    if period then return part, period, after end
  end
  local after = s:match("^%.%.%.+()", at) or s:match("^\\[lc]?dots%s*()", at)
  if not after then return part, nil, at end
  local before, period = period_of(part)
  return before, period, after
end

local function read_number(s, at, commas)
  local start, whole, merged = at, "0", false
  if s:find("^%d", at) then whole, at, merged = whole_number(s, at, commas) end
  local part, after = s:match("^%.(%d*)()", at)
  if part and part == "" and not s:find("^\\overline", after) and not s:find("^%(%d+%)", after)
    and not s:find("^\\bar", after) and not s:find("^\\dot%f[%A]", after) then
    part = nil
  end
  if not part then
    part, after = s:match("^{,}(%d+)()", at)
  end
  local period
  if part then
    part, period, at = repeating(s, after, part)
  end
  local exponent, stop = s:match("^[eE]([-+]?%d+)()", at)
  if exponent then at = stop end
  return { t = "num", v = s:sub(start, at - 1), merged = merged,
    number = { whole = whole, part = part or "", period = period, exponent = exponent } }, at
end

-- ---- the rest -------------------------------------------------------------------------

-- The position of the brace that closes the one at `open`.
local function closing(s, open)
  local depth = 0
  for at, brace in s:gmatch("()([{}])", open) do
    depth = depth + (brace == "{" and 1 or -1)
    if depth == 0 then return at end
  end
  fail("an open brace")
end

local Lexer = {}
Lexer.__index = Lexer

function Lexer:add(t, v, more)
  local token = more or {}
  token.t, token.v, token.spaced, token.text = t, v, self.spaced, self.nested > 0
  self.list[#self.list + 1], self.spaced = token, false
end

-- The content of \text{...} as tokens of their own.
function Lexer:read_text(at)
  local open = self.s:match("^%s*{()", at)
  if not open then return at end
  local close = closing(self.s, open - 1)
  if self.nested >= MAX_NESTED then fail("text within text") end
  local whole, before = self.s, self.depth
  self.s, self.nested, self.spaced = whole:sub(open, close - 1), self.nested + 1, true
  self:read()
  self.s, self.nested, self.depth, self.spaced = whole, self.nested - 1, before, true
  return close + 1
end

-- \overline{AB}, \vec v, \mathbb{R}: one letter with a name of its own.
function Lexer:read_accent(name, at)
  local argument, after = self.s:match("^%s*{([^{}]*)}()", at)
  if not argument then argument, after = self.s:match("^%s*(%a)()", at) end
  if not argument then fail(name) end
  self:add("letter", name .. ":" .. argument:gsub("%s", ""))
  return after
end

function Lexer:read_environment(kind, at)
  local name, after = self.s:match("^%s*{(%a+)%*?}()", at)
  if not name then fail("an environment without a name") end
  self:add(kind, name)
  local columns = kind == "begin" and name == "array" and self.s:match("^%s*{[^{}]*}()", after)
  return columns or after
end

-- A bracket or an operator that a command names.
function Lexer:operator(v)
  if v == "(" or v == "[" or v == "{{" then self.depth = self.depth + 1 end
  if v == ")" or v == "]" or v == "}}" then self.depth = self.depth - 1 end
  self:add("op", v)
end

local operators = { ["in"] = true, pm = true, mp = true } -- those that are spelled by letters

function Lexer:read_command(at)
  local name, after = self.s:match("^\\(%a+)()", at)
  if not name then name, after = self.s:match("^\\(.)()", at) end
  if not name then fail("a backslash") end
  if name == "begin" or name == "end" then return self:read_environment(name, after) end
  if symbols.texts[name] then return self:read_text(after) end
  if symbols.accents[name] then return self:read_accent(name, after) end
  local bar = (name == "left" or name == "right") and self.s:match("^%s*|()", after)
  if bar then
    self:add("op", name == "left" and "|(" or ")|")
    return bar
  end
  if (name == "left" or name == "right") and self.s:match("^%s*%.", after) then
    return self.s:match("^%s*%.()", after)
  end
  if symbols.looks[name] then
    self.spaced = true
    return after
  end
  name = symbols.same[name] or symbols.constants[name] or name
  if name == "\\" then self:add("op", "\\\\")
  elseif symbols.currencies[name] then self:add("money", symbols.currencies[name])
  elseif name == "or" or name == "and" then self:add("op", ",", { word = name })
  elseif name:find("^%a%a+$") and not operators[name] then
    local letter = symbols.letters[name] and not symbols.constants[name]
    self:add(letter and "letter" or "cmd", name)
  elseif #name == 1 and name:find("%a") then self:add("letter", name)
  elseif name == "%" then self:add("cmd", "percent")
  else self:operator(name) end
  return after
end

local prefixes = { US = true, A = true, C = true, HK = true, NZ = true, S = true }

function Lexer:read_letters(at)
  local run, after = self.s:match("^(%a+)()", at)
  local lower = run:lower()
  if prefixes[run] and self.s:find("^%$", after) then return after end -- US$5
  if lower == "and" or lower == "or" then self:add("op", ",", { word = lower })
  elseif symbols.percent[lower] or lower == "per" and self.s:find("^%s+cent%f[%A]", after) then
    self:add("cmd", "percent")
    after = lower == "per" and self.s:match("^%s+cent()", after) or after
  elseif symbols.constants[run] or lower == "infinity" then
    self:add("cmd", symbols.constants[lower])
  elseif symbols.functions[run] then self:add("cmd", symbols.same[run] or run)
  else self:add("name", run) end
  return after
end

local doubles = { ["**"] = "^", ["<="] = "<=", [">="] = ">=", ["!="] = "!=", ["=="] = "=" }

function Lexer:read_operator(at)
  local two = doubles[self.s:sub(at, at + 1)]
  if two and (two ~= "!=" or self.spaced) then -- 5!=120 is a factorial
    self:operator(two)
    return at + 2
  end
  local char = self.s:sub(at, at)
  if char == "%" then self:add("cmd", "percent")
  elseif char == "$" then self:add("money", "dollar")
  elseif char == ";" then self:add("op", ",", { word = ";" })
  else self:operator(char) end
  return at + 1
end

function Lexer:read()
  local at = 1
  while at <= #self.s do
    local char = self.s:sub(at, at)
    if char:find("[%s~]") then
      self.spaced, at = true, at + 1
    elseif char:find("%d") or char == "." and self.s:find("^%d", at + 1) then
      local token
      token, at = read_number(self.s, at, self.commas and self.depth == 0)
      self.merged = self.merged or token.merged
      self:add("num", token.v, token)
    elseif char:find("%a") then at = self:read_letters(at)
    elseif char == "\\" then at = self:read_command(at)
    elseif char:find("[%c\x80-\xFF]") then fail("a character")
    else at = self:read_operator(at) end
  end
end

--- The tokens of an answer, and whether a comma in a number could be one between numbers; raises
--- an error if it holds what no rule reads.
---@param s string
---@param commas boolean commas between groups of three digits belong to the number
function lex.tokens(s, commas)
  local lexer = setmetatable({ s = without_delimiters(without_marks(plain(s))), list = {},
    depth = 0, nested = 0, spaced = false, commas = commas, merged = false }, Lexer)
  lexer:read()
  return lexer.list, lexer.merged
end

return lex
