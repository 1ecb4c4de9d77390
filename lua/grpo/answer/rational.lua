-- rational.lua - exact fractions of whole numbers with any number of digits, up to MAX_DIGITS.
--
-- A whole number is a list of limbs of seven digits, the least significant first; zero is an
-- empty list.  A fraction is { negative =, n =, d = } and is not in lowest terms.  Work is counted:
-- whoever compares two answers sets `budget`, and what exceeds it raises rational.TOO_LONG.

local rational = { TOO_LONG = "not read: too long", budget = 0 }

local BASE, WIDTH = 10000000, 7
local MAX_DIGITS = 1500
local MAX_LIMBS = MAX_DIGITS // WIDTH

--- Counts `steps` of work.
function rational.spend(steps)
  rational.budget = rational.budget - steps
  if rational.budget < 0 then error(rational.TOO_LONG, 0) end
end

-- ---- whole numbers --------------------------------------------------------------------

local function trimmed(limbs)
  local top = #limbs
  while limbs[top] == 0 do
    limbs[top] = nil
    top = top - 1
  end
  return limbs
end

local function from_digits(s)
  local limbs = {}
  for stop = #s, 1, -WIDTH do
    limbs[#limbs + 1] = math.tointeger(tonumber(s:sub(math.max(1, stop - WIDTH + 1), stop)))
  end
  return trimmed(limbs)
end

local function multiply(a, b)
  rational.spend(#a * #b + 4)
  local product = {}
  for k = 1, #a + #b do product[k] = 0 end
  for i = 1, #a do
    local carry, x = 0, a[i]
    for j = 1, #b do
      local sum = product[i + j - 1] + x * b[j] + carry
      product[i + j - 1], carry = sum % BASE, sum // BASE
    end
    product[i + #b] = carry
  end
  return trimmed(product)
end

local function compare(a, b)
  if #a ~= #b then return #a < #b and -1 or 1 end
  for i = #a, 1, -1 do
    if a[i] ~= b[i] then return a[i] < b[i] and -1 or 1 end
  end
  return 0
end

-- a + sign * b, where a >= b if the sign is -1.
local function combine(a, b, sign)
  rational.spend(#a + #b)
  local sum, carry = {}, 0
  for i = 1, math.max(#a, #b) do
    local digit = (a[i] or 0) + sign * (b[i] or 0) + carry
    sum[i], carry = digit % BASE, digit // BASE
  end
  if carry > 0 then sum[#sum + 1] = carry end
  return trimmed(sum)
end

-- The leading digits as a float, and the number of limbs that were left out.
local function leading(limbs)
  local top = #limbs
  local first = math.max(1, top - 3)
  local value = 0.0
  for i = top, first, -1 do value = value * BASE + limbs[i] end
  return value, first - 1
end

-- ---- fractions ------------------------------------------------------------------------

local ONE = { 1 }

local function new(negative, n, d)
  if #n > MAX_LIMBS or #d > MAX_LIMBS then return nil end
  return { negative = negative and #n > 0, n = n, d = d }
end

--- The fraction of two texts of decimal digits; nil if it is too long or the denominator is 0.
---@return table|nil
function rational.new(n, d)
  local lower = d and from_digits(d) or ONE
  if #lower == 0 then return nil end
  return new(false, from_digits(n), lower)
end

function rational.is_zero(a) return #a.n == 0 end

function rational.is_whole(a) return #a.d == 1 and a.d[1] == 1 end

--- Whether the denominator, as it was written, is a power of ten: 0.25, 7.
function rational.is_decimal(a)
  for i = 1, #a.d - 1 do
    if a.d[i] ~= 0 then return false end
  end
  return ("%d"):format(a.d[#a.d]):find("^10*$") ~= nil
end

function rational.negate(a) return new(not a.negative, a.n, a.d) end

--- The product, or nil if it is too long.
function rational.multiply(a, b)
  return new(a.negative ~= b.negative, multiply(a.n, b.n), multiply(a.d, b.d))
end

--- The quotient, or nil if it is too long or b is 0.
function rational.divide(a, b)
  if #b.n == 0 then return nil end
  return rational.multiply(a, { negative = b.negative, n = b.d, d = b.n })
end

--- The sum, or nil if it is too long.
function rational.add(a, b)
  local x, y, d = a.n, b.n, a.d
  if compare(a.d, b.d) ~= 0 then
    x, y, d = multiply(a.n, b.d), multiply(b.n, a.d), multiply(a.d, b.d)
  end
  if a.negative == b.negative then return new(a.negative, combine(x, y, 1), d) end
  if compare(x, y) >= 0 then return new(a.negative, combine(x, y, -1), d) end
  return new(b.negative, combine(y, x, -1), d)
end

function rational.equal(a, b)
  if a.negative ~= b.negative then return false end
  return compare(multiply(a.n, b.d), multiply(b.n, a.d)) == 0
end

--- a to the power k, a whole number of at least 0; nil if it is too long.
function rational.power(a, k)
  if k * math.max(#a.n - 1, #a.d - 1) > MAX_LIMBS or k > 4 * MAX_DIGITS then return nil end
  local result = new(false, ONE, ONE)
  while k > 0 do
    if k % 2 == 1 then result = result and rational.multiply(result, a) end
    k = k // 2
    if k > 0 then a = a and rational.multiply(a, a) end
    if not result or not a then return nil end
  end
  return result
end

--- The value as a float, which may be infinite.
function rational.float(a)
  if #a.n == 0 then return 0.0 end
  local x, dropped = leading(a.n)
  local y, below = leading(a.d)
  local value = x / y
  if dropped ~= below then value = value * (1e7 ^ (dropped - below)) end
  return a.negative and -value or value
end

--- A whole number as a Lua integer, if it has at most seven digits and its denominator is 1 or
--- divides it; else nil.
function rational.small(a)
  if #a.n == 0 then return 0 end
  if #a.n > 2 or #a.d > 2 then return nil end
  local n, d = a.n[1] + (a.n[2] or 0) * BASE, a.d[1] + (a.d[2] or 0) * BASE
  if n % d ~= 0 or n // d >= BASE then return nil end
  return a.negative and -(n // d) or n // d
end

function rational.integer(k)
  local r = rational.new(("%d"):format(math.abs(k)))
  return k < 0 and rational.negate(r) or r
end

return rational
