-- calc.lua - grpo.calc evaluates arithmetic in text, without load().
--
--   expression = term { (+|-) term }        term  = factor { (*|/|%) factor }
--   factor     = (+|-) factor | power       power = atom [ ^ factor ]
--   atom       = number | ( expression )
-- The rules are Lua's: -2^2 is -4, 2^3^2 is 512 and % rounds towards minus infinity.
--
-- Values are exact fractions of 64-bit integers; an operation that would
-- overflow continues in floating point.  A text is at most 4,096 bytes long and
-- nests at most 100 deep, so a call always ends soon.

local MAX_BYTES, MAX_DEPTH = 4096, 100
local LIMIT = 2.0 ^ 62 -- integers below this in size add and multiply without overflow

-- ---- numbers: a fraction { n =, d = } in lowest terms with d > 0, or a float ----------------

local function float(x) return type(x) == "table" and x.n / x.d or x end

local function gcd(a, b)
  while b ~= 0 do a, b = b, a % b end
  return a
end

local function fraction(n, d)
  if d < 0 then n, d = -n, -d end
  local g = gcd(math.abs(n), d)
  return { n = n // g, d = d // g }
end

-- a * b and a + b on integers return nil if the result does not fit.
local function times(a, b)
  if math.abs(a * 1.0 * b) < LIMIT then return a * b end
end
local function plus(a, b)
  if a and b and math.abs(a * 1.0 + b) < LIMIT then return a + b end
end

local function exact(n, d)
  if n and d then return fraction(n, d) end
end

-- Applies `on_fractions` when both are exact and the result fits, else `on_floats`.
local function either(a, b, on_fractions, on_floats)
  if type(a) == "table" and type(b) == "table" then
    local result = on_fractions(a, b)
    if result then return result end
  end
  return on_floats(float(a), float(b))
end

local function add(a, b)
  return either(a, b, function(x, y)
    return exact(plus(times(x.n, y.d), times(y.n, x.d)), times(x.d, y.d))
  end, function(x, y) return x + y end)
end

local function mul(a, b)
  return either(a, b, function(x, y)
    return exact(times(x.n, y.n), times(x.d, y.d))
  end, function(x, y) return x * y end)
end

local function neg(a)
  return type(a) == "table" and { n = -a.n, d = a.d } or -a
end

local function is_zero(a) return float(a) == 0 end

local function inverse(a)
  return type(a) == "table" and fraction(a.d, a.n) or 1 / a
end

local function mod(a, b) -- a - b * floor(a / b)
  return either(a, b, function(x, y)
    local n, m, d = times(x.n, y.d), times(y.n, x.d), times(x.d, y.d)
    return n and m and d and fraction(n % m, d)
  end, function(x, y) return x % y end)
end

-- Powers with whole exponents are exact, by repeated multiplication, at most 128 times: beyond that
-- only powers of 0, 1 and -1 fit, and floats represent them exactly.
local function pow(a, b)
  if type(a) == "table" and type(b) == "table" and b.d == 1 and math.abs(b.n) <= 128 then
    local result = { n = 1, d = 1 }
    for _ = 1, math.abs(b.n) do result = mul(result, a) end
    return b.n < 0 and inverse(result) or result
  end
  return float(a) ^ float(b)
end

-- ---- the parser: recursive descent over one string ----------------------------------------

---@class grpo.calc.Parser
local Parser = {}
Parser.__index = Parser

-- A failure is raised as an error with this table, so that it cannot be mistaken for a bug.
local function refuse(message, ...)
  error({ calc = message:format(...) }, 0)
end

function Parser:peek()
  self.at = self.text:find("[^ \t\r\n]", self.at) or #self.text + 1
  return self.text:sub(self.at, self.at)
end

function Parser:accept(set)
  local c = self:peek()
  if c ~= "" and set:find(c, 1, true) then
    self.at = self.at + 1
    return c
  end
end

function Parser:unexpected()
  local c = self:peek()
  if c == "" then refuse("the expression ends too early") end
  refuse("unexpected '%s' at %d", c:find("%c") and "?" or c, self.at)
end

function Parser:number()
  local whole, part, stop = self.text:match("^(%d*)%.?(%d*)()", self.at)
  if whole == "" and part == "" then self:unexpected() end
  self.at = stop
  local digits = whole .. part
  if #digits <= 18 then return fraction(tonumber(digits), math.tointeger(10 ^ #part)) end
  return tonumber(whole .. "." .. part .. "0") + 0.0
end

function Parser:atom()
  if self:accept("(") then
    local value = self:expression()
    if not self:accept(")") then
      if self:peek() == "" then refuse("a ')' is missing") end
      self:unexpected()
    end
    return value
  end
  if not self:peek():find("^[%d.]") then self:unexpected() end
  return self:number()
end

function Parser:factor()
  self.depth = self.depth + 1
  if self.depth > MAX_DEPTH then refuse("nested more than %d deep", MAX_DEPTH) end
  local sign = self:accept("+-")
  local value
  if sign then
    value = self:factor()
    if sign == "-" then value = neg(value) end
  else
    value = self:atom()
    if self:accept("^") then
      local exponent = self:factor()
      if is_zero(value) and float(exponent) < 0 then refuse("division by zero") end
      value = pow(value, exponent)
    end
  end
  self.depth = self.depth - 1
  return value
end

function Parser:term()
  local value = self:factor()
  while true do
    local op = self:accept("*/%")
    if not op then return value end
    local right = self:factor()
    if op == "*" then
      value = mul(value, right)
    elseif is_zero(right) then
      refuse("division by zero")
    else
      value = op == "/" and mul(value, inverse(right)) or mod(value, right)
    end
  end
end

function Parser:expression()
  local value = self:term()
  while true do
    local op = self:accept("+-")
    if not op then return value end
    local right = self:term()
    value = add(value, op == "-" and neg(right) or right)
  end
end

local function evaluate(text)
  local parser = setmetatable({ text = text, at = 1, depth = 0 }, Parser)
  local value = parser:expression()
  if parser:peek() ~= "" then parser:unexpected() end
  if type(value) == "table" and value.d == 1 then return value.n end
  value = float(value)
  if value ~= value or value == math.huge or value == -math.huge then
    refuse("the result is not a finite number")
  end
  return value
end

--- Evaluates arithmetic: + - * / ^ %, parentheses, decimals.  Thousands commas are refused.
---@param expression string|number
---@return number|nil value an integer when the result is whole and fits, else a float
---@return string? message why there is no value
local function calc(expression)
  if type(expression) == "number" then expression = tostring(expression) end
  if type(expression) ~= "string" then
    return nil, ("calc: wants a string, got %s"):format(type(expression))
  end
  if #expression > MAX_BYTES then
    return nil, ("calc: the expression has %d bytes, at most %d are allowed")
      :format(#expression, MAX_BYTES)
  end
  local ok, result = pcall(evaluate, expression)
  if ok then return result end
  if type(result) == "table" and result.calc then return nil, "calc: " .. result.calc end
  error(result, 0)
end

return calc
