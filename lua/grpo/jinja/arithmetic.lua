-- Python's operators: arithmetic[sign](ctx, left, right).

local format = require "grpo.jinja.format"
local values = require "grpo.jinja.values"

local fail, kind, plain_number = values.fail, values.kind, values.plain_number

local arithmetic = {}

local function wrong(ctx, sign, a, b)
  for _, v in ipairs { a, b } do
    if kind(v) == "undefined" then fail(ctx, "'%s' is undefined", v.name) end
  end
  return fail(ctx, "%s does not work between a %s and a %s", sign, values.type_name(a),
    values.type_name(b))
end

-- Whole numbers have 64 bits here; a result that needs more is an error, not a wrong number.
local function checked(ctx, whole, float)
  if math.type(whole) == "integer" and math.abs(float) > 9.2e18 then
    fail(ctx, "a whole number is out of range")
  end
  return whole
end

local function joined(ctx, a, b)
  values.charge(ctx, a.n + b.n)
  local items = table.move(a, 1, a.n, 1, {})
  table.move(b, 1, b.n, a.n + 1, items)
  return (a.kind == "list" and values.list or values.tuple)(items, a.n + b.n)
end

arithmetic["+"] = function(ctx, a, b)
  if type(a) == "string" and type(b) == "string" then
    values.charge_text(ctx, #a + #b)
    return a .. b
  end
  local x, y = plain_number(a), plain_number(b)
  if x and y then return checked(ctx, x + y, x + 0.0 + y) end
  if values.is_list(a) and kind(a) == kind(b) then return joined(ctx, a, b) end
  return wrong(ctx, "+", a, b)
end

arithmetic["-"] = function(ctx, a, b)
  local x, y = plain_number(a), plain_number(b)
  if not (x and y) then return wrong(ctx, "-", a, b) end
  return checked(ctx, x - y, x - (y + 0.0))
end

local function repeated(ctx, v, times)
  if times < 0 then times = 0 end
  if type(v) == "string" then
    values.charge_text(ctx, #v * (times + 0.0))
    return v:rep(times)
  end
  values.charge(ctx, v.n * (times + 0.0))
  local items = {}
  for i = 0, times - 1 do table.move(v, 1, v.n, i * v.n + 1, items) end
  return (v.kind == "list" and values.list or values.tuple)(items, v.n * times)
end

arithmetic["*"] = function(ctx, a, b)
  local x, y = plain_number(a), plain_number(b)
  if x and y then return checked(ctx, x * y, (x + 0.0) * y) end
  if x and not y then a, b, y = b, a, x end
  if math.type(y) == "integer" and (type(a) == "string" or values.is_list(a)) then
    return repeated(ctx, a, y)
  end
  return wrong(ctx, "*", a, b)
end

local function divisible(ctx, sign, a, b)
  local x, y = plain_number(a), plain_number(b)
  if not (x and y) then return wrong(ctx, sign, a, b) end
  if y == 0 then fail(ctx, "division by zero") end
  return x, y
end

arithmetic["/"] = function(ctx, a, b)
  local x, y = divisible(ctx, "/", a, b)
  return x / y
end

arithmetic["//"] = function(ctx, a, b)
  local x, y = divisible(ctx, "//", a, b)
  return x // y
end

arithmetic["%"] = function(ctx, a, b)
  if type(a) == "string" then
    return format.percent(ctx, a, b)
  end
  local x, y = divisible(ctx, "%", a, b)
  return x % y
end

arithmetic["**"] = function(ctx, a, b)
  local x, y = plain_number(a), plain_number(b)
  if not (x and y) then return wrong(ctx, "**", a, b) end
  if math.type(x) ~= "integer" or math.type(y) ~= "integer" or y < 0 then
    if x == 0 and y < 0 then fail(ctx, "division by zero") end
    local z = x ^ y
    if z ~= z and x == x and y == y then fail(ctx, "a power is a complex number") end
    if math.abs(z) == math.huge and math.abs(x) < math.huge and math.abs(y) < math.huge then
      fail(ctx, "a power is out of range")
    end
    return z
  end
  checked(ctx, 0, x ^ y)
  local whole, base = 1, x
  while y > 0 do
    if y & 1 == 1 then whole = whole * base end
    base, y = base * base, y >> 1
  end
  return whole
end

function arithmetic.negate(ctx, v)
  local x = plain_number(v)
  if not x then return wrong(ctx, "-", 0, v) end
  return -x
end

-- ---- comparing ----------------------------------------------------------------------------------

local function contains(ctx, v, container)
  local k = kind(container)
  if k == "string" then
    if type(v) ~= "string" then
      fail(ctx, "'in' a string wants a string, got a %s", values.type_name(v))
    end
    return values.search(ctx, container, v, 1) ~= nil
  end
  if k == "dict" then
    local key = values.key(ctx, v)
    if key == nil and v == v then fail(ctx, "a %s cannot be a key", values.type_name(v)) end
    return key ~= nil and container.map[key] ~= nil
  end
  local items, n = values.items(ctx, container)
  for i = 1, n do
    if values.equal(ctx, items[i], v) then return true end
  end
  return false
end
arithmetic.contains = contains

local less = values.less

local function not_after(ctx, a, b)
  if plain_number(a) and plain_number(b) then return plain_number(a) <= plain_number(b) end
  return not less(ctx, b, a)
end

local comparisons = {
  ["=="] = values.equal,
  ["!="] = function(ctx, a, b) return not values.equal(ctx, a, b) end,
  ["<"] = less,
  [">"] = function(ctx, a, b) return less(ctx, b, a) end,
  ["<="] = not_after,
  [">="] = function(ctx, a, b) return not_after(ctx, b, a) end,
  ["in"] = contains,
  ["not in"] = function(ctx, a, b) return not contains(ctx, a, b) end,
}

function arithmetic.compare(ctx, sign, a, b) return comparisons[sign](ctx, a, b) end

return arithmetic
