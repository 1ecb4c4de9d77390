-- The tests, which follow `is` in a template: tests[name](ctx, value, args).

local arithmetic = require "grpo.jinja.arithmetic"
local methods = require "grpo.jinja.methods"
local values = require "grpo.jinja.values"

local kind = values.kind

local tests = {}

function tests.defined(_, v) return kind(v) ~= "undefined" end
function tests.undefined(_, v) return kind(v) == "undefined" end
function tests.none(_, v) return kind(v) == "none" end
function tests.string(_, v) return type(v) == "string" end
function tests.mapping(_, v) return kind(v) == "dict" end
function tests.boolean(_, v) return type(v) == "boolean" end
tests["true"] = function(_, v) return v == true end
tests["false"] = function(_, v) return v == false end
function tests.number(_, v) return values.plain_number(v) ~= nil end
function tests.integer(_, v) return math.type(v) == "integer" end
function tests.float(_, v) return math.type(v) == "float" end
function tests.callable(_, v) return kind(v) == "callable" end

local many = { string = true, list = true, tuple = true, dict = true, undefined = true }
function tests.iterable(_, v) return many[kind(v)] == true end
tests.sequence = tests.iterable

function tests.sameas(ctx, v, other)
  values.charge_key(ctx, v)
  return rawequal(v, other)
end
function tests.odd(ctx, v) return arithmetic["%"](ctx, v, 2) == 1 end
function tests.even(ctx, v) return arithmetic["%"](ctx, v, 2) == 0 end
function tests.divisibleby(ctx, v, n) return arithmetic["%"](ctx, v, n) == 0 end
tests["in"] = arithmetic.contains
function tests.lower(ctx, v) return type(v) == "string" and methods.find(v, "islower")(ctx, v) end
function tests.upper(ctx, v) return type(v) == "string" and methods.find(v, "isupper")(ctx, v) end

for sign, names in pairs { ["=="] = { "eq", "equalto", "==" }, ["!="] = { "ne", "!=" },
  ["<"] = { "lt", "lessthan", "<" }, ["<="] = { "le", "<=" }, [">"] = { "gt", "greaterthan", ">" },
  [">="] = { "ge", ">=" } } do
  for _, name in ipairs(names) do
    tests[name] = function(ctx, a, b) return arithmetic.compare(ctx, sign, a, b) end
  end
end

local two_sided = { sameas = true, divisibleby = true, ["in"] = true, eq = true, equalto = true,
  ne = true, lt = true, lessthan = true, le = true, gt = true, greaterthan = true, ge = true,
  ["=="] = true, ["!="] = true, ["<"] = true, ["<="] = true, [">"] = true, [">="] = true }

local known = {}
for name, test in pairs(tests) do known[name] = test end

function tests.apply(ctx, name, v, args)
  local test = known[name]
  if not test then values.fail(ctx, "there is no test '%s'", tostring(name):sub(1, 40)) end
  if two_sided[name] and args[1] == nil then
    values.fail(ctx, "the test '%s' wants an argument", name)
  end
  return test(ctx, v, args[1])
end

return tests
