-- factors.lua - the lower half of the grammar of answers: numbers, names, brackets, functions,
-- powers.  grammar.lua adds products, sums and what is made of them to the same parser.

local rational = require "grpo.answer.rational"
local symbols = require "grpo.answer.symbols"

local MAX_DEPTH = 60
local MAX_EXPONENT = 1000 -- of ten, in a spelling such as 1e3
local MAX_LETTERS = 4     -- in a run that is a product; longer ones are words

local function fail(what) error("not read: " .. what, 0) end

---@class grpo.answer.Parser
local Parser = {}
Parser.__index = Parser

-- ---- tokens ---------------------------------------------------------------------------

function Parser:peek(ahead) return self.tokens[self.at + (ahead or 0)] end

function Parser:is(t, v, ahead)
  local token = self.tokens[self.at + (ahead or 0)]
  return token ~= nil and token.t == t and (v == nil or token.v == v)
end

function Parser:accept(t, v)
  if not self:is(t, v) then return nil end
  self.at = self.at + 1
  return self.tokens[self.at - 1]
end

function Parser:expect(v)
  if not self:accept("op", v) then fail("no " .. v) end
end

function Parser:deeper()
  self.depth = self.depth + 1
  if self.depth > MAX_DEPTH then fail("nested too deep") end
end

-- ---- numbers and names ----------------------------------------------------------------

local function power_of_ten(k) return "1" .. ("0"):rep(k) end

-- The value of digits with a part behind the point, a period and a power of ten.
local function value_of(number)
  local exponent = tonumber(number.exponent or "0")
  if math.abs(exponent) > MAX_EXPONENT then fail("an exponent") end
  local digits, scale = number.whole .. number.part, power_of_ten(#number.part)
  local value = rational.new(digits, scale)
  if number.period then -- 0.1(6) is 0.1 + 6/90
    local nines = ("9"):rep(#number.period) .. ("0"):rep(#number.part)
    local rest = rational.new(number.period, nines)
    value = value and rest and rational.add(value, rest)
  end
  if exponent ~= 0 then
    local ten = rational.new(power_of_ten(math.abs(exponent)))
    value = value and ten and (exponent > 0 and rational.multiply or rational.divide)(value, ten)
  end
  return value or fail("too many digits")
end

local function num_node(number)
  local value = value_of(number)
  local significant = #(number.whole .. number.part):gsub("^0+", "")
  local rounded = (number.part ~= "" or number.exponent) and not number.period and significant >= 15
  return { "num", value, literal = true, rounded = rounded or nil }
end

local function integer_node(k) return { "num", rational.integer(k) } end

local function letter_node(name)
  if name == "e" or name == "i" then return { name } end
  return { "var", name }
end

-- Splits the first character off a token: \frac12, \sqrt2x.
function Parser:first_character()
  local token = self:peek()
  local text = token.v
  if token.t == "num" and not text:find("^%d+$") then fail("an argument") end
  if #text == 1 then
    self.at = self.at + 1
  else
    local rest = text:sub(2)
    self.tokens[self.at] = { t = token.t, v = rest, text = token.text,
      number = { whole = rest, part = "" } }
  end
  local first = text:sub(1, 1)
  if token.t == "name" then return letter_node(first) end
  return { "num", rational.new(first), literal = true }
end

-- An argument of \frac and its like: {...}, one digit, one letter, one command.
function Parser:argument()
  if self:is("op", "{") then return self:braces() end
  if self:is("num") or self:is("name") then return self:first_character() end
  if self:is("letter") or self:is("cmd") then return self:primary() end
  fail("no argument")
end

function Parser:braces()
  self:expect "{"
  local node = self:list()
  self:expect "}"
  return node
end

-- ---- subscripts and primes ------------------------------------------------------------

-- The text of a subscript: the spellings of its tokens.
function Parser:subscript()
  local token = self:peek()
  if not token then fail("no subscript") end
  if not self:accept("op", "{") then
    self.at = self.at + 1
    if token.t == "op" then fail("a subscript") end
    return token.v
  end
  local parts = {}
  while not self:is("op", "}") do
    token = self:peek()
    if not token or self:is("op", "{") then fail("a subscript") end
    parts[#parts + 1], self.at = token.v, self.at + 1
  end
  self.at = self.at + 1
  return table.concat(parts)
end

function Parser:decorated(name)
  while true do
    if self:accept("op", "_") then name = name .. "_" .. self:subscript()
    elseif self:accept("op", "'") then name = name .. "'"
    else return name end
  end
end

-- ---- brackets -------------------------------------------------------------------------

local closers = { ["("] = "[)%]]", ["["] = "[)%]]" }

local real_line = { "group", "(", ")", { { "neg", { "inf" } }, { "inf" } } }

local function items_of(node) return node[1] == "list" and node[2] or { node } end

-- ( ... ) and [ ... ]: one expression, a tuple or an interval.
function Parser:group()
  self:deeper()
  local open = self:accept("op").v
  local bars = self.bars
  self.bars = 0
  local items = items_of(self:list())
  self.bars = bars
  local close = self:accept("op")
  if not close or not close.v:find("^" .. closers[open] .. "$") then fail("brackets") end
  self.depth = self.depth - 1
  if #items > 1 then return { "group", open, close.v, items } end
  if (open == "(") ~= (close.v == ")") then fail("brackets") end
  items[1].bracketed = true
  return items[1]
end

function Parser:set()
  self:deeper()
  self:expect "{{"
  local items = {}
  if not self:is("op", "}}") then items = items_of(self:list()) end
  self:expect "}}"
  self.depth = self.depth - 1
  return { "set", items }
end

function Parser:angle()
  self:expect "<<"
  local items = items_of(self:list())
  self:expect ">>"
  return { "group", "<", ">", items }
end

function Parser:absolute(close)
  self:deeper()
  self.at = self.at + 1
  local bars = self.bars
  self.bars = close == "|" and 1 or 0
  local inner = self:sum()
  self.bars = bars
  self:expect(close)
  self.depth = self.depth - 1
  return { "fn", "abs", inner }
end

-- ---- environments and functions -------------------------------------------------------

local matrices = { pmatrix = "matrix", bmatrix = "matrix", Bmatrix = "matrix", matrix = "matrix",
  smallmatrix = "matrix", array = "matrix", vmatrix = "det", Vmatrix = "norm" }

function Parser:environment()
  local name = self:accept("begin").v
  local kind = matrices[name]
  if not kind then fail("an environment") end
  self:deeper()
  local rows = { { self:sum() } }
  while not self:is("end") do
    if self:accept("op", "&") then table.insert(rows[#rows], self:sum())
    else
      self:expect "\\\\"
      if not self:is("end") then rows[#rows + 1] = { self:sum() } end
    end
  end
  if self:accept("end").v ~= name then fail("an environment") end
  self.depth = self.depth - 1
  for _, row in ipairs(rows) do
    if #row ~= #rows[1] then fail("rows of different lengths") end
  end
  return { "matrix", kind, rows }
end

-- The argument of a function: a group, or the factors up to an operator or the next function.
function Parser:function_argument()
  if self:is("op", "(") or self:is("op", "{") then
    local node = self:is("op", "(") and self:group() or self:braces()
    if self:is("op", "^") then fail("a power behind an argument") end
    return node
  end
  local node = self:factor()
  while self:starts_factor() and not self:starts_function() do
    node = { "*", node, self:factor() }
  end
  if self:is("op", "/") then fail("a quotient behind a function") end
  return node
end

local inverses = { sin = "asin", cos = "acos", tan = "atan" }

function Parser:applied(name)
  self:deeper()
  local exponent
  if self:accept("op", "^") then exponent = self:exponent() end
  local node
  if name == "log" or name == "lg" then
    local base = integer_node(10)
    if name == "log" and self:accept("op", "_") then base = self:argument_or_number() end
    node = { "log", base, self:function_argument() }
  else
    local minus = exponent and exponent[1] == "neg"
    if minus then -- \sin^{-1}
      name, exponent = inverses[name] or fail("an exponent of a function"), nil
    end
    node = { "fn", name, self:function_argument() }
  end
  self.depth = self.depth - 1
  return exponent and { "^", node, exponent } or node
end

-- The base in \log_2 32: a number as a whole, as in \log_10 5 of plain text.
function Parser:argument_or_number()
  local token = self:accept("num")
  return token and num_node(token.number) or self:argument()
end

local commands = {}

function commands.frac(p)
  local upper = p:argument()
  return { "/", upper, p:argument(), fraction = true }
end

function commands.binom(p)
  local upper = p:argument()
  return { "binom", upper, p:argument() }
end

function commands.sqrt(p)
  local degree
  if p:accept("op", "[") then
    degree = p:sum()
    p:expect "]"
  end
  local inner = p:is("op", "(") and p:group() or p:argument()
  return degree and { "root", degree, inner } or { "fn", "sqrt", inner }
end

-- The sign of a root without a bar over its argument.
function commands.surd(p)
  if p:is("num") then return { "fn", "sqrt", num_node(p:accept("num").number) } end
  return commands.sqrt(p)
end

function commands.pi() return { "pi" } end
function commands.inf() return { "inf" } end
function commands.emptyset() return { "set", {} } end

for command, name in pairs { lfloor = "floor", lceil = "ceil" } do
  commands[command] = function(p)
    local inner = p:sum()
    if not p:accept("cmd", "r" .. name) then fail(name) end
    return { "fn", name, inner }
  end
end

function Parser:command()
  local name = self:accept("cmd").v
  if commands[name] then
    self:deeper()
    local node = commands[name](self)
    self.depth = self.depth - 1
    return node
  end
  if not symbols.functions[name] then fail("\\" .. name) end
  return self:applied(name)
end

function Parser:starts_function()
  local token = self:peek()
  return token and token.t == "cmd" and symbols.functions[token.v] and token.v ~= "sqrt"
    and token.v ~= "abs"
end

-- ---- factors --------------------------------------------------------------------------

-- A run of letters is the product of them.  Returns the last, which an exponent belongs to, and
-- the product of the others or nil.
function Parser:letters(token)
  if #token.v > (token.text and 1 or MAX_LETTERS) then fail("a word") end
  local before
  for i = 1, #token.v - 1 do
    local letter = letter_node(token.v:sub(i, i))
    before = before and { "*", before, letter } or letter
  end
  return letter_node(self:decorated(token.v:sub(-1))), before
end

function Parser:money()
  local name = self:accept("money").v
  local minus = self:accept("op", "-")
  if not self:is("num") then fail("a currency") end
  local node = self:factor()
  return { "unit", minus and { "neg", node } or node, name }
end

function Parser:number()
  local token = self:accept("num")
  local node = num_node(token.number)
  if self:accept("op", "_") then return { "unit", node, "base:" .. self:subscript() } end
  if not token.v:find("^%d+$") and not token.merged then return node end
  return self:mixed(node, token) or node
end

local function is_digits(token) return token and token.t == "num" and token.v:find("^%d+$") end

local function is_whole(node) return node[1] == "num" and rational.is_whole(node[2]) end

-- Behind a whole number: \frac{1}{2}, or a space and 1/2.
function Parser:mixed(whole)
  if self:is("cmd", "frac") then
    local start = self.at
    self.at = start + 1
    local part = commands.frac(self)
    if is_whole(part[2]) and is_whole(part[3]) then
      return { "+", whole, part, mixed = true }
    end
    return { "*", whole, part }
  end
  local upper, lower = self:peek(), self:peek(2)
  if is_digits(upper) and upper.spaced and self:is("op", "/", 1) and is_digits(lower) then
    self.at = self.at + 3
    local part = { "/", num_node(upper.number), num_node(lower.number) }
    return { "+", whole, part, mixed = true }
  end
end

-- Returns a factor without exponent and, for several letters, the product of the first ones.
function Parser:primary()
  local token = self:peek()
  if not token then fail("an end") end
  if token.t == "num" then return self:number() end
  if token.t == "money" then return self:money() end
  if token.t == "cmd" then return self:command() end
  if token.t == "begin" then return self:environment() end
  if token.t == "name" then return self:letters(self:accept("name")) end
  if token.t == "letter" then
    self.at = self.at + 1
    if token.v == "mathbb:R" or token.v == "Bbb:R" then return real_line end
    return letter_node(self:decorated(token.v))
  end
  return self:bracketed(token.v)
end

function Parser:bracketed(v)
  if v == "(" or v == "[" then return self:group() end
  if v == "{{" then return self:set() end
  if v == "<<" then return self:angle() end
  if v == "|" then return self:absolute "|" end
  if v == "|(" then return self:absolute ")|" end
  if v ~= "{" then fail(v) end
  self:deeper()
  local node = self:braces()
  self.depth = self.depth - 1
  return node
end

-- An exponent without braces: one number, one letter, one command or one group.
function Parser:bare_exponent()
  local minus = self:accept("op", "-")
  if not minus then self:accept("op", "+") end
  local number = self:accept("num")
  local node
  if number then
    node = num_node(number.number)
  elseif self:is("name") and #self:peek().v > 1 then fail("an exponent of several letters")
  else
    node = (self:primary())
  end
  if self:accept("op", "^") then node = { "^", node, self:exponent() } end
  return minus and { "neg", node } or node
end

function Parser:exponent()
  self:deeper()
  local node = self:is("op", "{") and self:braces() or self:bare_exponent()
  self.depth = self.depth - 1
  return node
end

-- ^\circ and ^{\circ}.
function Parser:degree()
  if self:accept("cmd", "degree") then return true end
  if not self:is("op", "^") then return false end
  local braces = self:is("op", "{", 1) and 1 or 0
  local token = self:peek(1 + braces)
  if not token or (token.v ~= "circ" and token.v ~= "degree") then return false end
  self.at = self.at + 2 + braces
  if braces == 1 then self:expect "}" end
  return true
end

function Parser:power()
  local base, before = self:primary()
  if self:is("op", "!") then base = self:factorial(base) end
  if self:degree() then
    base = { "deg", base }
  elseif self:accept("op", "^") then
    if base.mixed or base[1] == "matrix" then fail("an exponent") end
    base = { "^", base, self:exponent() }
    if self:is("op", "!") then fail("a factorial of a power") end
  end
  while self:accept("cmd", "percent") do base = { "pct", base } end
  return before and { "*", before, base } or base
end

function Parser:factorial(base)
  while self:accept("op", "!") do
    local double = self:accept("op", "!")
    base = { double and "fact2" or "fact", base }
  end
  return base
end

Parser.factor = Parser.power

return Parser
