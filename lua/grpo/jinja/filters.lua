-- The filters, which follow `|` in a template: those of any value, of numbers and of lists.
-- text_filters.lua has those of texts.

local arithmetic = require "grpo.jinja.arithmetic"
local bind = require "grpo.jinja.bind"
local json = require "grpo.jinja.json"
local letters = require "grpo.jinja.letters"
local methods = require "grpo.jinja.methods"
local tests = require "grpo.jinja.tests"
local values = require "grpo.jinja.values"

local int, optional = bind.int, bind.optional
local fail, kind, truthy = values.fail, values.kind, values.truthy

local filters = {}
local known = require "grpo.jinja.text_filters"
tests.exists("filter", known)

local function filter(spec, call) bind.define(known, spec, call) end

function filters.apply(ctx, name, v, args, named)
  local call = known[name]
  if not call then fail(ctx, "there is no filter '%s'", tostring(name):sub(1, 40)) end
  return call(ctx, v, args, named)
end

-- ---- numbers

-- Returns what an int in a text means, in a base of 2 to 36 (0: by its prefix), or nil.
local function int_of_text(ctx, text, base)
  local sign, digits = text:lower():match "^%s*([+-]?)(%w[%w_]*)%s*$"
  if not digits or digits:find "__" or digits:sub(-1) == "_" then return nil end
  local prefix = ({ ["0x"] = 16, ["0o"] = 8, ["0b"] = 2 })[digits:sub(1, 2)]
  if prefix and (base == prefix or base == 0) and #digits > 2 then
    base, digits = prefix, digits:sub(3)
  elseif base == 0 and digits:find "^0+[^0_]" then
    return nil
  end
  base, digits = base == 0 and 10 or base, digits:gsub("_", "")
  if base < 2 or base > 36 then return nil end
  local x = tonumber(digits, base)
  digits = digits:gsub("^0+", "")
  if x and #digits * math.log(base, 2) > 63 then fail(ctx, "int: the number is out of range") end
  return x and (sign == "-" and -x or x)
end

local function float_of_text(text)
  local bare = text:lower():match "^%s*(.-)%s*$"
  local sign, word = bare:match "^([+-]?)(%a+)$"
  if word == "inf" or word == "infinity" then return sign == "-" and -math.huge or math.huge end
  if word == "nan" then return 0.0 / 0.0 end
  if bare:find "[xX]" or bare:find "__" or bare:find "_$" or bare:find "^_" then return nil end
  local x = tonumber((bare:gsub("^%+", ""):gsub("(%d)_(%d)", "%1%2")))
  return x and x + 0.0
end

local function float_of(v)
  if type(v) == "string" then return #v < 400 and float_of_text(v) or nil end
  local x = values.plain_number(v)
  return x and x + 0.0
end

-- Fails for what int() and float() of Python fail for: the default is for texts and other types.
local function defined(ctx, v)
  if kind(v) == "undefined" then fail(ctx, "'%s' is undefined", v.name) end
  return v
end

filter("int default? base?", function(ctx, v, default, base)
  if default == nil then default = 0 end
  if type(defined(ctx, v)) == "string" then
    local x = #v < 400 and int_of_text(ctx, v, int(ctx, base, "int", 10))
    if x then return x end
  end
  local x = values.plain_number(v)
  if math.type(x) == "integer" then return x end
  x = x or float_of(v)
  if x == math.huge or x == -math.huge then
    return type(v) == "string" and default or fail(ctx, "int: the number is infinite")
  end
  if not x or x ~= x then return default end
  return values.whole(ctx, x)
end)

filter("float default?", function(ctx, v, default)
  return float_of(defined(ctx, v)) or (default == nil and 0.0 or default)
end)

filter("abs", function(ctx, v)
  local x = values.plain_number(v) or fail(ctx, "abs: want a number, got a %s", values.type_name(v))
  return math.abs(x)
end)

-- Rounds half to even, as Python does.
local function rounded(ctx, x, digits)
  if digits > 99 then return x end
  if digits >= 0 then
    return math.type(x) == "integer" and x or tonumber(("%." .. digits .. "f"):format(x)) + 0.0
  end
  if digits < -300 then return x * 0 end
  local scale = 10.0 ^ -digits
  local made = tonumber(("%.0f"):format(x / scale)) * scale
  return math.type(x) == "integer" and values.whole(ctx, made) or made
end

filter("round precision? method?", function(ctx, v, precision, method)
  local x = values.plain_number(v)
    or fail(ctx, "round: want a number, got a %s", values.type_name(v))
  local digits = int(ctx, precision, "round", 0)
  if method == nil or method == "common" then return rounded(ctx, x, digits) end
  local turn = ({ ceil = math.ceil, floor = math.floor })[method]
  if not turn then fail(ctx, "round: the method must be common, ceil or floor") end
  local scale = 10 ^ digits
  return turn(x * scale) / scale
end)

-- ---- any value

filter("default default_value? boolean?", function(_, v, default, boolean)
  if kind(v) ~= "undefined" and not (boolean ~= nil and truthy(boolean) and not truthy(v)) then
    return v
  end
  if default == nil then return "" end
  return default
end)
known.d = known.default

filter("length", function(ctx, v)
  if kind(v) == "generator" then fail(ctx, "a generator has no length; put |list before it") end
  return select(2, values.items(ctx, v))
end)
known.count = known.length

local function indentation(ctx, indent)
  if indent == nil then return nil end
  if type(indent) ~= "string" then
    indent = int(ctx, indent, "tojson")
    indent = (" "):rep(math.min(101, indent))
  end
  if #indent > 100 then fail(ctx, "tojson: indent is at most 100") end
  return indent
end

filter("tojson ensure_ascii? indent? separators? sort_keys?",
  function(ctx, v, ascii, indent, separators, sorted)
    local o = { ascii = ascii ~= nil and truthy(ascii), indent = indentation(ctx, optional(indent)),
      sorted = sorted ~= nil and truthy(sorted), colon = ": " }
    o.comma = o.indent and "," or ", "
    separators = optional(separators)
    if separators ~= nil then
      if not values.is_list(separators) or type(separators[1]) ~= "string"
          or type(separators[2]) ~= "string" or separators.n ~= 2 then
        fail(ctx, "tojson: separators wants two strings")
      end
      o.comma, o.colon = separators[1], separators[2]
      if #o.comma > 100 or #o.colon > 100 then
        fail(ctx, "tojson: separators have at most 100 bytes")
      end
    end
    return json.write(ctx, v, o)
  end)

-- ---- lists

local function list_copy(ctx, v)
  local items, n = values.items(ctx, v)
  values.charge(ctx, n)
  return table.move(items, 1, n, 1, {}), n
end

filter("list", function(ctx, v) return values.list(list_copy(ctx, v)) end)

filter("first", function(ctx, v)
  local items, n = values.items(ctx, v)
  if n == 0 then return values.undefined "the first of no items" end
  if kind(v) == "generator" then -- the second item is the next
    v.make = function() return table.move(items, 2, n, 1, {}), n - 1 end
  end
  return items[1]
end)

filter("last", function(ctx, v)
  if kind(v) == "generator" then fail(ctx, "last: want a list, got a generator") end
  local items, n = values.items(ctx, v)
  if n == 0 then return values.undefined "the last of no items" end
  return items[n]
end)

filter("reverse", function(ctx, v)
  local items, n = list_copy(ctx, v)
  for i = 1, n // 2 do items[i], items[n + 1 - i] = items[n + 1 - i], items[i] end
  if type(v) == "string" then return table.concat(items) end
  if kind(v) == "generator" then return values.list(items, n) end
  return values.generator(function() return items, n end)
end)

-- Returns the value at a path such as "function.name"; nil as a path is the value itself.
local function attribute_of(ctx, v, path, default)
  if path == nil then return v end
  if math.type(path) == "integer" then path = tostring(path) end
  if type(path) ~= "string" then fail(ctx, "an attribute's name must be a string") end
  values.charge(ctx, 1 + #path)
  for name in path:gmatch "[^.]+" do
    v = methods.item(ctx, v, name:find "^%d+$" and math.tointeger(tonumber(name)) or name)
    if default ~= nil and kind(v) == "undefined" then v = default end
  end
  return v
end

filter("attr name", function(ctx, v, name)
  return methods.attribute(ctx, v, bind.str(ctx, name, "attr"), true)
end)

filter("join d? attribute?", function(ctx, v, separator, path)
  separator, path = separator == nil and "" or values.text(ctx, separator), optional(path)
  local items, n = values.items(ctx, v)
  local parts, size = {}, 0
  for i = 1, n do
    parts[i] = values.text(ctx, attribute_of(ctx, items[i], path))
    size = size + #parts[i] + #separator
  end
  values.charge_text(ctx, size)
  return table.concat(parts, separator, 1, n)
end)

-- Returns the items of what filters read that take anything without items for an empty list.
local function items_if_any(ctx, v)
  if not truthy(v) then return {}, 0 end
  return values.items(ctx, v)
end

-- Returns the function of each item that map's arguments describe.
local function mapping(ctx, args, named)
  if #args == 0 and named.attribute ~= nil then
    for _, name in ipairs(named) do
      if name ~= "attribute" and name ~= "default" then
        fail(ctx, "map has no argument '%s'", name)
      end
    end
    local default = optional(named.default)
    return function(item) return attribute_of(ctx, item, named.attribute, default) end
  end
  if type(args[1]) ~= "string" then fail(ctx, "map: want a filter's name or attribute=") end
  local rest = table.move(args, 2, #args, 1, {})
  return function(item) return filters.apply(ctx, args[1], item, rest, named) end
end

function known.map(ctx, v, args, named)
  return values.generator(function()
    local out, items, n = {}, items_if_any(ctx, v)
    local call = n > 0 and mapping(ctx, args, named)
    for i = 1, n do
      values.charge(ctx, 1)
      out[i] = call(items[i])
    end
    return out, n
  end)
end

-- Makes select, reject, selectattr or rejectattr.
local function selecting(wanted, by_attribute)
  return function(ctx, v, args, named)
    local path = by_attribute and args[1] or nil
    local first = by_attribute and 2 or 1
    local rest = table.move(args, first + 1, math.max(#args, first), 1, {})
    return values.generator(function()
      local out, m, items, n = {}, 0, items_if_any(ctx, v)
      if n > 0 and by_attribute and path == nil then fail(ctx, "want an attribute's name") end
      for i = 1, n do
        values.charge(ctx, 1)
        local tested = attribute_of(ctx, items[i], path)
        local good
        if args[first] == nil then
          good = truthy(tested)
        else
          good = tests.apply(ctx, args[first], tested, rest, named)
        end
        if good == wanted then m, out[m + 1] = m + 1, items[i] end
      end
      return out, m
    end)
  end
end
known.select, known.reject = selecting(true, false), selecting(false, false)
known.selectattr, known.rejectattr = selecting(true, true), selecting(false, true)

local function folded(ctx, v, sensitive)
  if type(v) ~= "string" or sensitive ~= nil and truthy(sensitive) then return v end
  values.charge(ctx, #v)
  return letters.lower(v)
end

-- Sorts items by key(item), which is computed once for each.
local function sorted_by(ctx, items, n, reverse, key)
  local rows = {}
  for i = 1, n do rows[i] = { key(items[i]), items[i] } end
  reverse = reverse ~= nil and truthy(reverse)
  rows = values.sort(ctx, rows, n, function(a, b)
    if reverse then a, b = b, a end
    return values.less(ctx, a[1], b[1])
  end)
  local out = {}
  for i = 1, n do out[i] = rows[i][2] end
  return values.list(out, n)
end

-- Returns the keys that "a,b.c" asks of an item, as a tuple.
local function keys_of(ctx, item, paths, sensitive)
  local keys = {}
  for i, path in ipairs(paths) do
    keys[i] = folded(ctx, attribute_of(ctx, item, path ~= "" and path or nil), sensitive)
  end
  return values.tuple(keys)
end

filter("sort reverse? case_sensitive? attribute?", function(ctx, v, reverse, sensitive, path)
  local paths = {}
  path = optional(path)
  if path == nil then path = "" end
  if type(path) ~= "string" then paths = { path } else
    for name in (path .. ","):gmatch "([^,]*)," do paths[#paths + 1] = name end
  end
  local items, n = list_copy(ctx, v)
  return sorted_by(ctx, items, n, reverse,
    function(item) return keys_of(ctx, item, paths, sensitive) end)
end)

filter("dictsort case_sensitive? by? reverse?", function(ctx, v, sensitive, by, reverse)
  if kind(v) ~= "dict" then fail(ctx, "dictsort: want a mapping, got a %s", values.type_name(v)) end
  local place = ({ key = 1, value = 2 })[by == nil and "key" or by]
    or fail(ctx, "dictsort: by must be 'key' or 'value'")
  local items = values.view(ctx, "dict_items", v)
  return sorted_by(ctx, items, items.n, reverse,
    function(pair) return folded(ctx, pair[place], sensitive) end)
end)

filter("items", function(ctx, v)
  return values.generator(function()
    if kind(v) == "undefined" then return {}, 0 end
    if kind(v) ~= "dict" then fail(ctx, "items: want a mapping, got a %s", values.type_name(v)) end
    return values.items(ctx, values.view(ctx, "dict_items", v))
  end)
end)

filter("groupby attribute default? case_sensitive?", function(ctx, v, path, default, sensitive)
  local items, n = list_copy(ctx, v)
  default = optional(default)
  local function key(item) return attribute_of(ctx, item, path, default) end
  local function fold(item) return folded(ctx, key(item), sensitive) end
  local sorted = sorted_by(ctx, items, n, nil, fold)
  local groups, last = {}, nil
  for i = 1, n do
    local item = sorted[i]
    local now = fold(item)
    local group = groups[#groups]
    if not group or not values.equal(ctx, last, now) then
      group = values.tuple { key(item), values.list({}, 0) }
      group.fields = { grouper = group[1], list = group[2] }
      groups[#groups + 1], last = group, now
    end
    local list = group[2]
    list.n = list.n + 1
    list[list.n] = item
  end
  return values.list(groups)
end)

filter("unique case_sensitive? attribute?", function(ctx, v, sensitive, path)
  local items, n = values.items(ctx, v)
  path = optional(path)
  return values.generator(function()
    local out, m, seen = {}, 0, {}
    for i = 1, n do
      values.charge(ctx, 1)
      local key = values.key(ctx, folded(ctx, attribute_of(ctx, items[i], path), sensitive))
      if key == nil then
        fail(ctx, "unique: a %s cannot be compared", values.type_name(items[i]))
      end
      if not seen[key] then
        seen[key] = true
        m, out[m + 1] = m + 1, items[i]
      end
    end
    return out, m
  end)
end)

filter("sum attribute? start?", function(ctx, v, path, start)
  local total = start == nil and 0 or start
  path = optional(path)
  if type(total) == "string" then fail(ctx, "sum: texts are not summed; use |join") end
  local items, n = values.items(ctx, v)
  for i = 1, n do total = arithmetic["+"](ctx, total, attribute_of(ctx, items[i], path)) end
  return total
end)

for name, greatest in pairs { min = false, max = true } do
  filter(name .. " case_sensitive? attribute?", function(ctx, v, sensitive, path)
    local items, n = values.items(ctx, v)
    path = optional(path)
    if n == 0 then return values.undefined "the extreme of no items" end
    local best, at
    for i = 1, n do
      local key = folded(ctx, attribute_of(ctx, items[i], path), sensitive)
      local a, b = key, best
      if greatest then a, b = best, key end
      if i == 1 or values.less(ctx, a, b) then best, at = key, i end
    end
    return items[at]
  end)
end

-- Adds `fill` to a row until it has `size` items.
local function fill_up(ctx, row, m, size, fill)
  if fill == nil then return m end
  size = int(ctx, size, "batch")
  values.charge(ctx, math.max(0, size - m))
  for at = m + 1, size do row[at] = fill end
  return math.max(m, size)
end

filter("batch linecount fill_with?", function(ctx, v, size, fill)
  fill = optional(fill)
  local items, n = values.items(ctx, v)
  return values.generator(function()
    local rows, row, m = {}, {}, 0
    values.charge(ctx, n)
    for i = 1, n do
      if m == values.plain_number(size) then
        rows[#rows + 1], row, m = values.list(row, m), {}, 0
      end
      m = m + 1
      row[m] = items[i]
    end
    if m > 0 then rows[#rows + 1] = values.list(row, fill_up(ctx, row, m, size, fill)) end
    return rows, #rows
  end)
end)

filter("slice slices fill_with?", function(ctx, v, slices, fill)
  local items, n = values.items(ctx, v)
  fill = optional(fill)
  return values.generator(function()
    slices = int(ctx, slices, "slice")
    if slices == 0 then fail(ctx, "slice: division by zero") end
    values.charge(ctx, n + math.max(0, slices))
    local rows, from = {}, 1
    for at = 1, slices do
      local m = n // slices + (at <= n % slices and 1 or 0)
      local row = table.move(items, from, from + m - 1, 1, {})
      from = from + m
      if fill ~= nil and at > n % slices then m, row[m + 1] = m + 1, fill end
      rows[at] = values.list(row, m)
    end
    return rows, #rows
  end)
end)

return filters
