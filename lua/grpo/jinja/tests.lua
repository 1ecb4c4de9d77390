-- The tests, which follow `is` in a template.

local arithmetic = require "grpo.jinja.arithmetic"
local bind = require "grpo.jinja.bind"
local methods = require "grpo.jinja.methods"
local values = require "grpo.jinja.values"

local kind = values.kind

local tests = { known = {} }

local function test(spec, call) bind.define(tests.known, spec, call) end

test("defined", function(_, v) return kind(v) ~= "undefined" end)
test("undefined", function(_, v) return kind(v) == "undefined" end)
test("none", function(_, v) return kind(v) == "none" end)
test("string", function(_, v) return type(v) == "string" end)
test("mapping", function(_, v) return kind(v) == "dict" end)
test("boolean", function(_, v) return type(v) == "boolean" end)
test("true", function(_, v) return v == true end)
test("false", function(_, v) return v == false end)
test("number", function(_, v) return values.plain_number(v) ~= nil end)
test("integer", function(_, v) return math.type(v) == "integer" end)
test("float", function(_, v) return math.type(v) == "float" end)
test("escaped", function() return false end)
test("iterable", function(_, v) return values.is_iterable(v) end)

local sequences = { string = true, list = true, tuple = true, range = true, dict = true,
  undefined = true }
test("sequence", function(_, v) return sequences[kind(v)] == true end)
test("callable", function(_, v)
  return type(v) == "table" and (v.call ~= nil or kind(v) == "undefined" or kind(v) == "loop")
end)

test("sameas other", function(ctx, v, other)
  values.charge_key(ctx, v)
  return rawequal(v, other) and math.type(v) == math.type(other)
end)
test("odd", function(ctx, v) return arithmetic["%"](ctx, v, 2) == 1 end)
test("even", function(ctx, v) return arithmetic["%"](ctx, v, 2) == 0 end)
test("divisibleby num", function(ctx, v, n) return arithmetic["%"](ctx, v, n) == 0 end)
test("in seq", function(ctx, v, seq) return arithmetic.contains(ctx, v, seq) end)
for name, method in pairs { lower = "islower", upper = "isupper" } do
  test(name, function(ctx, v)
    local text = values.text(ctx, v)
    return methods.find(text, method)(ctx, text, {}, {})
  end)
end

for sign, names in pairs { ["=="] = "== eq equalto", ["!="] = "!= ne", ["<"] = "< lt lessthan",
    ["<="] = "<= le", [">"] = "> gt greaterthan", [">="] = ">= ge" } do
  for name in names:gmatch "%S+" do
    test(name .. " other", function(ctx, a, b) return arithmetic.compare(ctx, sign, a, b) end)
  end
end

-- Makes the test whether there is a filter, or a test, of a name.
function tests.exists(name, known)
  test(name, function(ctx, v)
    if values.key(ctx, v) == nil then values.fail(ctx, "%s: want a name", name) end
    return type(v) == "string" and known[v] ~= nil
  end)
end
tests.exists("test", tests.known)

function tests.apply(ctx, name, v, args, named)
  local known = tests.known[name]
  if not known then values.fail(ctx, "there is no test '%s'", tostring(name):sub(1, 40)) end
  return known(ctx, v, args, named)
end

return tests
