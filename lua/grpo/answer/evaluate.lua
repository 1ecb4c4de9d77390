-- evaluate.lua - the value of an expression at a point.
--
-- A value is an exact fraction (rational.lua) as long as that is possible, an infinity
-- { inf = 1 or -1 }, or a complex number in doubles, { re =, im =, size = }: `size` is the largest
-- magnitude that took part, by which its rounding error is judged.  nil: there is no value.

local rational = require "grpo.answer.rational"

local evaluate = {}

local NODE_STEPS = 10         -- of work that the value of one node counts for
local MAX_FACTORIAL = 500     -- 500! has 1,135 digits
local MAX_REPEATED = 64       -- exponents of complex numbers that are multiplied out
local TINY = 1e-13            -- relative rounding error of a value in doubles
evaluate.TINY = TINY

local function is_exact(v) return v.n ~= nil end

local function magnitude(v) return math.sqrt(v.re * v.re + v.im * v.im) end

-- A value in doubles; nil if it is not finite.
local function complex(re, im, size)
  if re ~= re or im ~= im or math.abs(re) == math.huge or math.abs(im) == math.huge then
    return nil
  end
  local v = { re = re, im = im }
  v.size = math.max(size or 0, magnitude(v))
  return v.size < math.huge and v or nil
end

local function inexact(v)
  if v.inf then return nil end
  return is_exact(v) and complex(rational.float(v), 0) or not is_exact(v) and v or nil
end

-- Applies `exactly` to exact values if the result is not too long, else `in_doubles`.
local function either(a, b, exactly, in_doubles)
  if is_exact(a) and is_exact(b) then
    local value = exactly(a, b)
    if value then return value end
  end
  local x, y = inexact(a), inexact(b)
  if not x or not y then return nil end
  return in_doubles(x, y)
end

local function add(a, b)
  return either(a, b, rational.add, function(x, y)
    return complex(x.re + y.re, x.im + y.im, x.size + y.size)
  end)
end

local function multiply(a, b)
  return either(a, b, rational.multiply, function(x, y)
    return complex(x.re * y.re - x.im * y.im, x.re * y.im + x.im * y.re, x.size * y.size)
  end)
end

local function is_zero(v)
  if is_exact(v) then return rational.is_zero(v) end
  return not v.inf and magnitude(v) <= TINY * v.size
end

local function divide(a, b)
  if is_zero(b) then return nil end
  return either(a, b, rational.divide, function(x, y)
    local d = y.re * y.re + y.im * y.im
    return complex((x.re * y.re + x.im * y.im) / d, (x.im * y.re - x.re * y.im) / d,
      x.size * y.size / d)
  end)
end

local function negate(a)
  if a.inf then return { inf = -a.inf } end
  if is_exact(a) then
    local value = rational.negate(a)
    value.rounded = a.rounded
    return value
  end
  return { re = -a.re, im = -a.im, size = a.size }
end

evaluate.multiply, evaluate.negate, evaluate.is_zero = multiply, negate, is_zero

--- 1, 0 or -1 for a real number, 0 for others.
function evaluate.sign(v)
  if is_exact(v) then return is_zero(v) and 0 or v.negative and -1 or 1 end
  if is_zero(v) or math.abs(v.im) > TINY * v.size then return 0 end
  return v.re < 0 and -1 or 1
end

-- ---- functions of one complex number --------------------------------------------------

local function logarithm(x)
  local m = magnitude(x)
  if m <= TINY * x.size then return nil end
  return complex(math.log(m), math.atan(x.im, x.re), x.size / m)
end

local function exponential(x)
  local m = math.exp(x.re)
  return complex(m * math.cos(x.im), m * math.sin(x.im), m * math.max(1, x.size))
end

local function square_root(x)
  local m = magnitude(x)
  local re, im = math.sqrt(math.max((m + x.re) / 2, 0)), math.sqrt(math.max((m - x.re) / 2, 0))
  return complex(re, x.im < 0 and -im or im, m > 0 and math.sqrt(m) * x.size / m or x.size)
end

local function real(v) return math.abs(v.im) <= TINY * v.size and v.re or nil end

-- A function of real numbers; `slope` bounds how much it enlarges an error.
local function of_real(fn, slope)
  return function(x)
    local r = real(x)
    local value = r and fn(r)
    return value and complex(value, 0, slope and slope(x, value) or math.max(1, x.size))
  end
end

local function reciprocal(fn)
  return function(r)
    local v = fn(r)
    return math.abs(v) > TINY and 1 / v or nil
  end
end

local function steep(x, value) return (1 + value * value) * math.max(1, x.size) end

local function tangent(r) return math.abs(math.cos(r)) > TINY and math.tan(r) or nil end

local function within_one(fn)
  return function(r)
    if math.abs(r) > 1 + TINY then return nil end
    return fn(math.max(-1, math.min(1, r)))
  end
end

local function hyperbolic(sign)
  return function(x)
    local a, b = exponential(x), exponential { re = -x.re, im = -x.im, size = x.size }
    return a and b and complex((a.re + sign * b.re) / 2, (a.im + sign * b.im) / 2, a.size + b.size)
  end
end

local functions = {
  sqrt = square_root, ln = logarithm, exp = exponential,
  sin = of_real(math.sin), cos = of_real(math.cos), tan = of_real(tangent, steep),
  cot = of_real(function(r)
    return math.abs(math.sin(r)) > TINY and math.cos(r) / math.sin(r) or nil
  end, steep),
  sec = of_real(reciprocal(math.cos), steep), csc = of_real(reciprocal(math.sin), steep),
  asin = of_real(within_one(math.asin)), acos = of_real(within_one(math.acos)),
  atan = of_real(math.atan), sinh = hyperbolic(-1), cosh = hyperbolic(1),
}

function functions.tanh(x)
  local a, b = functions.sinh(x), functions.cosh(x)
  return a and b and divide(a, b)
end

local trigonometric = { sin = true, cos = true, tan = true, cot = true, sec = true, csc = true }

-- |x|, floor and ceiling keep exact values exact.
local kept = {}

function kept.abs(v)
  if v.inf then return { inf = 1 } end
  if is_exact(v) then return v.negative and rational.negate(v) or v end
  return complex(magnitude(v), 0, v.size)
end

local function rounded(fn)
  return function(v)
    local x = inexact(v)
    local r = x and real(x)
    if not r or math.abs(r) > 1e15 then return nil end
    local nearest = math.floor(r + 0.5)
    if not is_exact(v) and math.abs(r - nearest) <= TINY * x.size then r = nearest end
    return rational.integer(math.tointeger(fn(r)))
  end
end

kept.floor, kept.ceil = rounded(math.floor), rounded(math.ceil)

-- ---- powers and roots -----------------------------------------------------------------

local function exact_power(a, k)
  if k >= 0 then return rational.power(a, k) end
  local value = rational.power(a, -k)
  return value and rational.divide(rational.integer(1), value)
end

local function repeated(x, k)
  local result = complex(1, 0)
  for _ = 1, math.abs(k) do
    result = result and multiply(result, x)
  end
  return result and k < 0 and divide(rational.integer(1), result) or result
end

local function inexact_power(x, y)
  local base, exponent = real(x), real(y)
  if base and exponent and (base > 0 or exponent % 1 == 0) then
    local value = base ^ exponent
    return complex(value, 0,
      math.abs(value) * math.max(1, math.abs(exponent) * x.size / math.abs(base), y.size))
  end
  local log = logarithm(x)
  local product = log and multiply(log, y)
  return product and exponential(product)
end

local function power(a, b)
  if a.inf or b.inf then return nil end
  local k = is_exact(b) and rational.small(b)
  if is_zero(a) then
    return k and k > 0 and rational.integer(0) or nil
  end
  if k and is_exact(a) then
    local value = exact_power(a, k)
    if value then return value end
  elseif k and math.abs(k) <= MAX_REPEATED then
    return repeated(a, k)
  end
  local x, y = inexact(a), inexact(b)
  return x and y and inexact_power(x, y)
end

-- The real root where there is one, else the principal one.
local function root(degree, v)
  local k = is_exact(degree) and rational.small(degree)
  local x = inexact(v)
  if not k or k < 2 or not x then return nil end
  if is_zero(v) then return rational.integer(0) end
  local r = real(x)
  if r and r < 0 and k % 2 == 1 then
    local value = root(degree, negate(v))
    return value and negate(value)
  end
  return inexact_power(x, complex(1 / k, 0))
end

-- ---- whole numbers --------------------------------------------------------------------

-- n (n - step) (n - 2 step) ..., for whole n.
local function factorial(v, step)
  local n = is_exact(v) and rational.is_whole(v) and rational.small(v)
  if not n or n < 0 or n > MAX_FACTORIAL then return nil end
  local value = rational.integer(1)
  for k = n, 2, -step do value = value and rational.multiply(value, rational.integer(k)) end
  return value
end

local function binomial(a, b)
  local n, k = is_exact(a) and rational.small(a), is_exact(b) and rational.small(b)
  if not n or not k or k < 0 or n < 0 or k > n or n > MAX_FACTORIAL then return nil end
  local value = rational.integer(1)
  for i = 1, k do
    value = value and rational.multiply(value, rational.integer(n - k + i))
    value = value and rational.divide(value, rational.integer(i))
  end
  return value
end

-- ---- the tree -------------------------------------------------------------------------

local value_of

local constants = {
  pi = function() return complex(math.pi, 0) end, e = function() return complex(math.exp(1), 0) end,
  i = function() return complex(0, 1) end, inf = function() return { inf = 1 } end,
}

local DEGREE = math.pi / 180

-- Applies a function to the values of a node's operands.
local function operands(fn)
  return function(node, point)
    local a = value_of(node[2], point)
    if not a then return nil end
    if not node[3] then return fn(a, point) end
    local b = value_of(node[3], point)
    return b and fn(a, b)
  end
end

local kinds = {
  ["+"] = operands(add), ["*"] = operands(multiply), ["/"] = operands(divide),
  ["^"] = operands(power), neg = operands(negate), root = operands(root),
  binom = operands(binomial),
  fact = operands(function(a) return factorial(a, 1) end),
  fact2 = operands(function(a) return factorial(a, 2) end),
  pct = operands(function(a) return divide(a, rational.integer(100)) end),
  deg = operands(function(a, point)
    return point.angle and multiply(a, complex(DEGREE, 0)) or a
  end),
}

function kinds.num(node)
  if not node.rounded then return node[2] end
  local v = node[2]
  return { negative = v.negative, n = v.n, d = v.d, rounded = true }
end

kinds["var"] = function(node, point) return point.variables[node[2]] end

function kinds.unit(node, point) return value_of(node[2], point) end

function kinds.pm(node, point)
  local a = value_of(node[2], point)
  local sign = point.signs and point.signs[node[4]]
  if not a or not sign then return nil end
  if node[3] == "mp" then sign = -sign end
  return sign < 0 and negate(a) or a
end

kinds["fn"] = function(node, point)
  local name, angle = node[2], point.angle
  if trigonometric[name] then point.angle = true end
  local a = value_of(node[3], point)
  point.angle = angle
  if not a then return nil end
  if kept[name] then return kept[name](a) end
  local x = inexact(a)
  return x and functions[name] and functions[name](x)
end

function kinds.log(node, point)
  local base, a = value_of(node[2], point), value_of(node[3], point)
  local x, y = base and inexact(base), a and inexact(a)
  local upper, lower = y and logarithm(y), x and logarithm(x)
  return upper and lower and divide(upper, lower)
end

-- The value at a point { variables =, signs = }, or nil.
function value_of(node, point)
  rational.spend(NODE_STEPS)
  local constant = constants[node[1]]
  if constant then return constant() end
  local kind = kinds[node[1]]
  return kind and kind(node, point)
end

evaluate.value = value_of

-- Whether two numbers are equal: exact ones if they are the same, others within rounding errors.
function evaluate.same(a, b)
  if a.inf or b.inf then return a.inf == b.inf end
  if is_exact(a) and is_exact(b) then
    if rational.equal(a, b) then return true end
    -- 0.3333333333333333 has all the digits that a double has of 1/3
    if (a.rounded or false) == (b.rounded or false) then return false end
    local other = a.rounded and b or a
    if rational.is_decimal(other) then return false end
    local x, y = rational.float(a), rational.float(b)
    return math.abs(x - y) <= 1e-15 * math.abs(x)
  end
  local x, y = inexact(a), inexact(b)
  if not x or not y then return false end
  local size = x.size + y.size
  return math.abs(x.re - y.re) <= TINY * size and math.abs(x.im - y.im) <= TINY * size
end

return evaluate
