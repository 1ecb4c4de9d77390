-- grammar.lua - an answer as a tree.
--
-- A node is { kind, ... }.  Expressions:
--   num rational [literal]; var name; pi, e, i, inf; + a b; * a b; / a b; ^ a b; neg a; pm a
--   fn name a; root degree a; log base a; fact a; fact2 a; binom a b; pct a; deg a
-- What is not one number or one formula:
--   unit a name; list items; set items; group open close items; cup, cap, setminus items;
--   matrix name rows; ratio items; rel ops items named; word text; choice letter rest
-- `named` of a relation is the name on its left where that is only a name: x, f(x), \text{Area}.
--
-- Whatever has two readings is refused: 1/2x, 2 3, \ln 3/2.

local Parser = require "grpo.answer.factors"
local rational = require "grpo.answer.rational"
local symbols = require "grpo.answer.symbols"

local grammar = {}

local MAX_ITEMS, MAX_PLUS_MINUS = 64, 3

local function fail(what) error("not read: " .. what, 0) end

-- ---- units ----------------------------------------------------------------------------

-- The number that million or dozens stands for, in digits, or nil.
local function multiplier(word) return symbols.multipliers[(word:lower():gsub("s$", ""))] end

-- Whether the letters of a token behind a number are a unit and not variables.
local function is_unit(token, after_number)
  if token.t == "money" then return true end
  if token.t ~= "name" then return false end
  local v = token.v
  if multiplier(v) or symbols.not_units[v:lower()] then return false end
  if #v == 1 then
    return symbols.short_units[v] == true and (token.text or token.spaced and after_number)
  end
  if token.text or token.spaced and symbols.unit_prefixes[v] then return true end
  if symbols.units[v] or symbols.units[v:lower()] then
    return token.spaced or #v > 2 or symbols.joined_units[v] == true
  end
  if #v > 3 then return token.spaced end
  return token.spaced and #v == 3 and v:find("[aeiou]") ~= nil and v ~= "abc"
end

local function unit_name(token)
  if token.t == "money" then return token.v end
  return symbols.units[token.v] or symbols.units[token.v:lower()] or token.v:lower()
end

-- The whole number that the exponent of a unit is, or nil.
local function whole_exponent(node)
  local minus = node[1] == "neg"
  if minus then node = node[2] end
  local k = node[1] == "num" and rational.is_whole(node[2]) and rational.small(node[2])
  return k and (minus and -k or k) or nil
end

-- The parts of a unit in the order of their names: m*s^-2.
local function unit_of(exponents)
  local parts = {}
  for name, k in pairs(exponents) do
    if k ~= 0 then parts[#parts + 1] = k == 1 and name or ("%s^%d"):format(name, k) end
  end
  table.sort(parts)
  local name = table.concat(parts, "*")
  return symbols.rates[name] or name
end

-- Words, slashes and exponents behind a number, up to its end.
function Parser:unit(node)
  local u = { exponents = {}, sign = 1, power = 1 }
  if node[1] == "unit" then node, u.exponents[node[3]] = node[2], 1 end -- $5 per hour
  while true do
    local token = self:peek()
    if not token then break end
    if token.t == "name" or token.t == "money" then
      self:unit_word(token, u)
    elseif token.t == "letter" and token.v == "circ" then self.at = self.at + 1
    elseif not self:unit_joint(token, u) then break end
  end
  return { "unit", node, unit_of(u.exponents) }
end

function Parser:unit_word(token, u)
  self.at = self.at + 1
  if symbols.unit_prefixes[token.v] then u.power = symbols.unit_prefixes[token.v]
  elseif token.v == "per" or token.v == "an" or token.v == "a" then u.sign = -1
  else
    u.last, u.step = unit_name(token), u.sign
    u.exponents[u.last] = (u.exponents[u.last] or 0) + u.sign * u.power
    u.sign, u.power = 1, 1
  end
end

function Parser:unit_joint(token, u)
  if token.t ~= "op" then return false end
  if token.v == "^" then
    self.at = self.at + 1
    local k = whole_exponent(self:exponent())
    if u.last and k then u.exponents[u.last] = u.exponents[u.last] + u.step * (k - 1) end
    return true
  end
  local after = self:peek(1)
  if (token.v == "/" or token.v == "*" or token.v == "." or token.v == "-") and after
    and after.t == "name" then
    if token.v == "/" then u.sign = -1 end
    self.at = self.at + 1
    return true
  end
  return token.v == "." and token.text and self:accept("op", ".") ~= nil
end

local ordinals = { th = "%d$", st = "1$", nd = "2$", rd = "3$" }

-- 1st, 22nd: the letters behind a number are part of its spelling.
function Parser:ordinal()
  local token, before = self:peek(), self:peek(-1)
  local digit = token and token.t == "name" and not token.spaced and ordinals[token.v]
  if not (digit and before.t == "num" and before.v:find(digit)) then return false end
  self.at = self.at + 1
  return true
end

-- ---- products and sums ----------------------------------------------------------------

local starts = { ["("] = true, ["["] = true, ["{"] = true, ["|("] = true, ["{{"] = true,
  ["<<"] = true }

local value_commands = { frac = true, binom = true, sqrt = true, surd = true, pi = true, inf = true,
  lfloor = true, lceil = true }

-- Whether a factor follows without an operator.
function Parser:starts_factor()
  local token = self:peek()
  if not token then return false end
  if token.t == "letter" or token.t == "begin" or token.t == "num" then return true end
  if token.t == "name" then return not (token.text and #token.v > 1) end
  if token.t == "cmd" then return value_commands[token.v] or symbols.functions[token.v] or false end
  if token.t == "op" and token.v == "|" then return self.bars == 0 end
  return token.t == "op" and starts[token.v] or false
end

-- The x of 1.5 x 10^3.
function Parser:is_times()
  if not (self:is("name", "x") or self:is("name", "X")) or not self:is("num", nil, 1) then
    return false
  end
  return self:peek().spaced and self:peek(1).spaced
    or self:peek(1).v == "10" and self:is("op", "^", 2)
end

local function matrix_times(scalar, matrix)
  if matrix[2] ~= "matrix" then fail("a determinant") end
  local rows = {}
  for r, row in ipairs(matrix[3]) do
    rows[r] = {}
    for c, entry in ipairs(row) do rows[r][c] = { "*", scalar, entry } end
  end
  return { "matrix", "matrix", rows }
end

local function product(a, b)
  if b[1] == "matrix" then return matrix_times(a, b) end
  if a[1] == "matrix" then fail("a product of a matrix") end
  return { "*", a, b }
end

-- Reads the factor behind an explicit sign; a sign of its own may stand before it.
function Parser:signed_factor()
  if self:accept("op", "-") then return { "neg", self:factor() } end
  return self:factor()
end

-- A denominator without brackets, behind which a factor would have two readings.
function Parser:quotient(node)
  local lower = self:signed_factor()
  if not (lower.bracketed or lower.fraction) and self:starts_factor()
    and not is_unit(self:peek(), true) then
    fail("a factor behind a quotient")
  end
  return { "/", node, lower }
end

function Parser:multiplier()
  local token = self:peek()
  local value = token and token.t == "name" and multiplier(token.v)
  if not value then return nil end
  self.at = self.at + 1
  return { "num", rational.new(value) }
end

function Parser:product()
  local node = self:factor()
  local number = node.literal or node.mixed
  while true do
    local times = self:multiplier()
    if times then node = { "*", node, times }
    elseif self:is_times() or self:is("op", "*") then
      self.at = self.at + 1
      node = product(node, self:signed_factor())
    elseif self:accept("op", "/") then node = self:quotient(node)
    elseif self:ordinal() then return node
    elseif self:peek() and is_unit(self:peek(), number) then return self:unit(node)
    elseif self:is("num") then fail("a number behind a factor")
    elseif self:starts_factor() then node = product(node, self:factor())
    else return node end
  end
end

-- A minus before an amount stays within it: -$5 is an amount.
local function negated(node)
  if node[1] == "unit" then return { "unit", negated(node[2]), node[3] } end
  if node[1] == "matrix" then return matrix_times({ "num", rational.integer(-1) }, node) end
  if node[1] == "pct" then return { "pct", negated(node[2]) } end
  return { "neg", node, literal = node.literal, rounded = node.rounded }
end

function Parser:plus_minus(node, kind)
  self.count = self.count + 1
  if self.count > MAX_PLUS_MINUS then fail("too many signs") end
  return { "pm", node, kind, self.count }
end

function Parser:term()
  if self:accept("op", "-") then return negated(self:product()) end
  if self:accept("op", "pm") then return self:plus_minus(self:product(), "pm") end
  if self:accept("op", "mp") then return self:plus_minus(self:product(), "mp") end
  self:accept("op", "+")
  return self:product()
end

local additive = { ["+"] = true, ["-"] = true, pm = true, mp = true }

function Parser:sum()
  self:deeper()
  local node = self:term()
  while self:is("op") and additive[self:peek().v] do
    local term = self:term()
    local unit = node[1] == "unit" and term[1] == "unit" and node[3] == term[3] and node[3]
    node = { "+", node, term }
    if unit then node = { "unit", node, unit } end
  end
  self.depth = self.depth - 1
  return node
end

-- ---- sets, relations, lists -----------------------------------------------------------

function Parser:ratio()
  local node = self:sum()
  if self:accept("cmd", "over") then return { "/", node, self:sum(), fraction = true } end
  if self:accept("cmd", "choose") then return { "binom", node, self:sum() } end
  if not self:is("op", ":") then return node end
  local items = { node }
  while self:accept("op", ":") do items[#items + 1] = self:sum() end
  return { "ratio", items }
end

function Parser:union()
  local node = self:ratio()
  local kind = self:peek() and self:peek().t == "cmd" and self:peek().v
  if kind ~= "cup" and kind ~= "cap" and kind ~= "setminus" then return node end
  local items = { node }
  while self:accept("cmd", kind) do items[#items + 1] = self:ratio() end
  return { kind, items }
end

local relations = { ["="] = true, ["<"] = true, [">"] = true, ["<="] = true, [">="] = true,
  ["!="] = true, ["~"] = true, ["in"] = true }

local in_names = { ["'"] = true, ["_"] = true, ["{"] = true, ["}"] = true, ["."] = true }
local in_brackets = { [","] = true, ["|"] = true, ["'"] = true, ["_"] = true }

-- The position behind the brackets of a name at `at`: (x, y), (A \cap B), (-1), |AB|; nil if they
-- hold more than names and numbers, or one thing that no name stands before.
function Parser:behind_brackets(at, close, bare)
  local first, several = at + 1, false
  if close == "|" and not tostring(self.tokens[first] and self.tokens[first].v):find("^%u") then
    return nil
  end
  for k = first, #self.tokens do
    local token = self.tokens[k]
    local op = token.t == "op" and token.v
    several = several or op == ","
    if op == close then return (several or not bare) and k + 1 or nil end
    if op and not in_brackets[op] and not (op == "-" and k == first)
      or token.t == "cmd" and token.v ~= "cap" and token.v ~= "cup" then return nil end
  end
end

-- The position behind ^{-1} of a function, or nil.
function Parser:behind_inverse(at)
  local spelling = ""
  for k = at, at + 5 do spelling = spelling .. (self.tokens[k] and self.tokens[k].v or "") end
  return spelling == "^{-1}(" and at + 5 or nil
end

-- The position behind one piece of a name, or nil: a letter, a subscript, brackets.
function Parser:behind_piece(at)
  local token = self.tokens[at]
  if token.t == "name" or token.t == "letter" or token.t == "num" and self:is_subscript(at) then
    return at + 1
  end
  if token.t ~= "op" then return nil end
  if token.v == "(" or token.v == "|" then
    local close = token.v == "(" and ")" or "|"
    local after = self:behind_brackets(at, close, at == self.at and close == ")")
    local next_token = after and self.tokens[after]
    return next_token and next_token.t == "op" and relations[next_token.v] and after or nil
  end
  if token.v == "^" then return self:behind_inverse(at) end
  return in_names[token.v] and at + 1 or nil
end

-- The spelling of a name at the left of a relation, and the position of the relation; nil if it is
-- more than a name: x, x_1, f(x), AB, \text{Area}.
function Parser:name_before_relation()
  local at = self.at
  while true do
    local token = self.tokens[at]
    if not token then return nil end
    if token.t == "op" and relations[token.v] then break end
    at = self:behind_piece(at)
    if not at then return nil end
  end
  if at == self.at then return nil end
  local parts = {}
  for k = self.at, at - 1 do parts[#parts + 1] = self.tokens[k].v end
  return table.concat(parts, " "), at
end

-- Whether a number belongs to a subscript: x_1, x_{12}.
function Parser:is_subscript(at)
  for back = at - 1, math.max(at - 4, 1), -1 do
    local token = self.tokens[back]
    if token.v == "_" and token.t == "op" then return true end
    if token.t == "op" and token.v ~= "{" then return false end
  end
  return false
end

function Parser:left_side(named, at)
  if not named then return self:union() end
  local start, depth, count = self.at, self.depth, self.count
  local ok, node = pcall(self.union, self)
  if not ok and not tostring(node):find("^not read: ") then error(node, 0) end
  if ok and self.at == at then return node end
  self.at, self.depth, self.count = at, depth, count
  return start and { "word", named }
end

function Parser:relation()
  if self:is("op", "=") or self:is("op", "~") then self.at = self.at + 1 end -- "= 5"
  local named, at = self:name_before_relation()
  local node = self:left_side(named, at)
  if not (self:is("op") and relations[self:peek().v]) then return node end
  local items, ops = { node }, {}
  while self:is("op") and relations[self:peek().v] do
    ops[#ops + 1] = self:accept("op").v
    items[#items + 1] = self:union()
  end
  return { "rel", ops, items, named = named }
end

local closing = { [")"] = true, ["]"] = true, ["}"] = true, ["}}"] = true }

-- Items between commas; a comma at the end counts for nothing.
function Parser:list()
  self:deeper()
  local items = { self:relation() }
  while self:accept("op", ",") do
    while self:accept("op", ",") do end
    local token = self:peek()
    if not token or token.t == "op" and closing[token.v] then break end
    items[#items + 1] = self:relation()
    if #items > MAX_ITEMS then fail("too many items") end
  end
  self.depth = self.depth - 1
  return #items == 1 and items[1] or { "list", items }
end

--- A parser of tokens, from one of them on; its list() reads an answer.
function grammar.new(tokens, from)
  return setmetatable({ tokens = tokens, at = from, depth = 0, bars = 0, count = 0 }, Parser)
end

return grammar
