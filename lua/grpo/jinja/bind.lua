-- Binds the arguments of a call to the parameters of a function, as Python does.

local values = require "grpo.jinja.values"

local fail = values.fail

local bind = {}

-- Reads "name first second? /": a parameter with "?" may be missing; those before "/" cannot be
-- given by name.
local function read(spec)
  local row = { params = {}, at = {}, required = 0 }
  local rest
  row.name, rest = spec:match "^(%S+)%s*(.*)$"
  for word in rest:gmatch "%S+" do
    if word == "/" then
      row.at = {}
    else
      local name, optional = word:match "^([%w_]+)(%??)$"
      row.params[#row.params + 1] = name
      row.at[name] = #row.params
      if optional == "" then row.required = #row.params end
    end
  end
  return row
end

-- Returns the values of row's parameters, nil for those that are missing.
local function bound(ctx, row, args, named)
  local n, given = #row.params, #args
  if given > n then
    fail(ctx, "%s: %d arguments are too many, it takes at most %d", row.name, given, n)
  end
  local got = table.move(args, 1, given, 1, {})
  for _, name in ipairs(named) do
    local i = row.at[name] or fail(ctx, "%s has no argument '%s'", row.name, name)
    if got[i] ~= nil then fail(ctx, "%s: '%s' is given twice", row.name, name) end
    got[i] = named[name]
  end
  for i = 1, row.required do
    if got[i] == nil then fail(ctx, "%s: want the argument '%s'", row.name, row.params[i]) end
  end
  return table.unpack(got, 1, n)
end

-- Sets into[name] to function(ctx, object, args, named), which calls call(ctx, object, ...).
function bind.define(into, spec, call)
  local row = read(spec)
  into[row.name] = function(ctx, object, args, named)
    return call(ctx, object, bound(ctx, row, args, named))
  end
end

-- Returns a callable value, which calls call(ctx, ...).
function bind.callable(spec, call)
  local row = read(spec)
  return values.callable(row.name, function(ctx, args, named)
    return call(ctx, bound(ctx, row, args, named))
  end)
end

-- Returns a value, or nil for none: most of Python's parameters take None as "not given".
function bind.optional(v)
  if v ~= nil and values.kind(v) == "none" then return nil end
  return v
end

-- Returns a whole number; `name` says of what.
function bind.int(ctx, v, name, default)
  if v == nil then return default end
  local x = values.plain_number(v)
  if math.type(x) ~= "integer" then
    fail(ctx, "%s: want a whole number, got a %s", name, values.type_name(v))
  end
  return x
end

function bind.str(ctx, v, name)
  if type(v) ~= "string" then
    fail(ctx, "%s: want a string, got a %s", name, values.type_name(v))
  end
  return v
end

return bind
