-- The filters, which follow `|` in a template: known[name](ctx, value, args, named).

local arithmetic = require "grpo.jinja.arithmetic"
local json = require "grpo.jinja.json"
local letters = require "grpo.jinja.letters"
local methods = require "grpo.jinja.methods"
local tests = require "grpo.jinja.tests"
local values = require "grpo.jinja.values"

local fail, kind = values.fail, values.kind

local filters = {}
local known = {}

function filters.apply(ctx, name, v, args, named)
  local filter = known[name]
  if not filter then fail(ctx, "there is no filter '%s'", tostring(name):sub(1, 40)) end
  return filter(ctx, v, args, named)
end

local function given(args, named, i, name, default)
  local v = args[i]
  if v == nil then v = named[name] end
  if v == nil then return default end
  return v
end

local function none_to_nil(v)
  if v ~= nil and kind(v) == "none" then return nil end
  return v
end

-- ---- text

function known.trim(ctx, v, args, named)
  local set = none_to_nil(given(args, named, 1, "chars"))
  return methods.strip(ctx, values.text(ctx, v), set and values.text(ctx, set), true, true)
end

for _, name in ipairs { "upper", "lower", "capitalize", "title" } do
  known[name] = function(ctx, v)
    local s = values.text(ctx, v)
    values.charge(ctx, #s)
    return letters[name](s)
  end
end

function known.string(ctx, v) return values.text(ctx, v) end
known.safe = known.string

function known.replace(ctx, v, args, named)
  local old, new = given(args, named, 1, "old"), given(args, named, 2, "new")
  if old == nil or new == nil then fail(ctx, "replace: want the old and the new text") end
  local count = none_to_nil(given(args, named, 3, "count"))
  return methods.replace(ctx, values.text(ctx, v), values.text(ctx, old), values.text(ctx, new),
    methods.int_arg(ctx, count, "replace", -1))
end

local html = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["'"] = "&#39;", ['"'] = "&#34;" }
function known.escape(ctx, v)
  local s = values.text(ctx, v)
  values.charge_text(ctx, 5 * #s)
  return (s:gsub("[&<>'\"]", html))
end
known.e = known.escape

function known.indent(ctx, v, args, named)
  local width = given(args, named, 1, "width", 4)
  local pad = type(width) == "string" and width
  if not pad then
    width = math.max(0, methods.int_arg(ctx, width, "indent", 4))
    values.charge_text(ctx, width)
    pad = (" "):rep(width)
  end
  local first = values.truthy(given(args, named, 2, "first", false))
  local blank = values.truthy(given(args, named, 3, "blank", false))
  local s = values.text(ctx, v)
  local _, lines = s:gsub("\n", "")
  values.charge_text(ctx, #s + (lines + 1.0) * #pad)
  local n = 0
  return (s:gsub("[^\n]*", function(line)
    n = n + 1
    if n == 1 and not first or n > 1 and line == "" and not blank then return line end
    return pad .. line
  end))
end

function known.wordcount(ctx, v)
  local s = values.text(ctx, v)
  values.charge(ctx, #s)
  return select(2, s:gsub("[%w_\128-\255]+", ""))
end

-- Formats like Python's % operator on a string, for the conversions that are safe.
function values.format(ctx, format, args)
  local at, size = 0, #format
  values.charge_text(ctx, size)
  return (format:gsub("%%([-+ #0]*%d*%.?%d*)(.)", function(flags, c)
    if c == "%" then return "%" end
    at = at + 1
    local v = args[at]
    if v == nil then fail(ctx, "format: not enough arguments") end
    if c == "s" or c == "r" then
      v = c == "s" and values.text(ctx, v) or values.repr(ctx, v)
      size = size + #v
      values.charge_text(ctx, size > ctx.max_text and size or #v)
      if flags == "" then return v end
    elseif not c:find "[dixXofeEgG]" or not values.plain_number(v) then
      fail(ctx, "format: %%%s cannot write a %s", c, values.type_name(v))
    else
      v = values.plain_number(v)
      if c:find "[dixXo]" then v = math.tointeger(v >= 0 and v // 1 or -(-v // 1)) end
    end
    local ok, text = pcall(string.format, "%" .. flags .. c, v)
    if not ok then fail(ctx, "format: cannot write this as %%%s%s", flags, c) end
    return text
  end))
end

function known.format(ctx, v, args)
  return values.format(ctx, values.text(ctx, v), values.list(args))
end

-- ---- numbers

known["int"] = function(ctx, v, args, named)
  local default = given(args, named, 1, "default", 0)
  local x = values.plain_number(v)
  if type(v) == "string" and #v < 400 then
    local digits = v:gsub("_", ""):match "^%s*([+-]?%d+%.?%d*[eE]?[+-]?%d*)%s*$"
    x = digits and tonumber((digits:gsub("^%+", "")))
  end
  if not x or x ~= x then return default end
  local whole = math.tointeger(x) or math.tointeger(x >= 0 and math.floor(x) or math.ceil(x))
  if not whole then fail(ctx, "int: the number is out of range") end
  return whole
end

function known.float(_, v, args, named)
  local x = values.plain_number(v)
  if type(v) == "string" and #v < 400 and not v:find "[xX]" then x = tonumber(v) end
  return x and x + 0.0 or given(args, named, 1, "default", 0.0)
end

function known.abs(ctx, v)
  local x = values.plain_number(v) or fail(ctx, "abs: want a number, got a %s", values.type_name(v))
  return math.abs(x)
end

function known.round(ctx, v, args, named)
  local x = values.plain_number(v)
    or fail(ctx, "round: want a number, got a %s", values.type_name(v))
  local digits = methods.int_arg(ctx, given(args, named, 1, "precision"), "round", 0)
  local method = given(args, named, 2, "method", "common")
  if digits < 0 or digits > 15 then fail(ctx, "round: the precision must be 0 to 15") end
  local scale = 10.0 ^ digits
  if method == "ceil" then return math.ceil(x * scale) / scale end
  if method == "floor" then return math.floor(x * scale) / scale end
  if digits > 0 then return tonumber(("%." .. digits .. "f"):format(x)) + 0.0 end
  return tonumber(("%.0f"):format(x)) + 0.0
end

-- ---- any value

function known.default(_, v, args, named)
  local empty = values.truthy(given(args, named, 2, "boolean", false))
  if kind(v) == "undefined" or (empty and not values.truthy(v)) then
    return given(args, named, 1, "default_value", "")
  end
  return v
end
known.d = known.default

function known.length(ctx, v)
  local k = kind(v)
  if k == "loop" or k == "none" or k == "number" or k == "boolean" or k == "callable"
      or k == "namespace" then
    fail(ctx, "a %s has no length", values.type_name(v))
  end
  return select(2, values.items(ctx, v))
end
known.count = known.length

function known.tojson(ctx, v, args, named)
  local o = { comma = ", ", colon = ": ", ascii = false }
  local indent = none_to_nil(given({}, named, 1, "indent"))
  o.ascii = values.truthy(given({}, named, 1, "ensure_ascii", false))
  if args[1] ~= nil then
    if type(args[1]) == "boolean" then o.ascii = args[1] else indent = none_to_nil(args[1]) end
  end
  if args[2] ~= nil then indent = none_to_nil(args[2]) end
  if indent ~= nil then
    if type(indent) ~= "string" then
      indent = methods.int_arg(ctx, indent, "tojson", 0)
      if indent > 100 then fail(ctx, "tojson: indent is at most 100") end
      indent = (" "):rep(indent)
    elseif #indent > 100 then
      fail(ctx, "tojson: indent is at most 100")
    end
    o.indent, o.comma = indent, ","
  end
  local separators = none_to_nil(named.separators)
  if separators ~= nil then
    if not values.is_list(separators) or type(separators[1]) ~= "string"
        or type(separators[2]) ~= "string" then
      fail(ctx, "tojson: separators wants two strings")
    end
    o.comma, o.colon = separators[1], separators[2]
    if #o.comma > 100 or #o.colon > 100 then
      fail(ctx, "tojson: separators have at most 100 bytes")
    end
  end
  o.sorted = values.truthy(given({}, named, 1, "sort_keys", false))
  return json.write(ctx, v, o)
end

-- ---- lists

local function list_copy(ctx, v)
  local items, n = values.items(ctx, v)
  values.charge(ctx, n)
  return table.move(items, 1, n, 1, {}), n
end

function known.list(ctx, v) return values.list(list_copy(ctx, v)) end

function known.first(ctx, v)
  local items, n = values.items(ctx, v)
  if n == 0 then return values.undefined "the first of no items" end
  return items[1]
end

function known.last(ctx, v)
  local items, n = values.items(ctx, v)
  if n == 0 then return values.undefined "the last of no items" end
  return items[n]
end

function known.reverse(ctx, v)
  local items, n = list_copy(ctx, v)
  for i = 1, n // 2 do items[i], items[n + 1 - i] = items[n + 1 - i], items[i] end
  if type(v) == "string" then return table.concat(items) end
  return values.list(items, n)
end

-- Returns the value at a path such as "function.name".
local function attribute_of(ctx, v, path)
  if math.type(path) == "integer" then return methods.item(ctx, v, path) end
  if type(path) ~= "string" then fail(ctx, "an attribute's name must be a string") end
  values.charge(ctx, 1 + #path)
  for name in path:gmatch "[^.]+" do
    v = methods.item(ctx, v, math.tointeger(tonumber(name)) or name)
  end
  return v
end

function known.attr(ctx, v, args)
  return methods.attribute(ctx, v, methods.text_arg(ctx, args, 1, "attr"))
end

function known.join(ctx, v, args, named)
  local separator = values.text(ctx, given(args, named, 1, "d", ""))
  local path = none_to_nil(given(args, named, 2, "attribute"))
  local items, n = values.items(ctx, v)
  local parts, size = {}, 0
  for i = 1, n do
    local item = items[i]
    if path then item = attribute_of(ctx, item, path) end
    parts[i] = values.text(ctx, item)
    size = size + #parts[i] + #separator
  end
  values.charge_text(ctx, size)
  return table.concat(parts, separator, 1, n)
end

function known.map(ctx, v, args, named)
  local items, n = values.items(ctx, v)
  local out = {}
  local name = args[1]
  if not named.attribute and type(name) ~= "string" then
    fail(ctx, "map: want a filter's name or attribute=")
  end
  local rest = table.move(args, 2, math.max(#args, 1), 1, {})
  for i = 1, n do
    values.charge(ctx, 1)
    if named.attribute then
      out[i] = attribute_of(ctx, items[i], named.attribute)
      if kind(out[i]) == "undefined" and named.default ~= nil then out[i] = named.default end
    else
      out[i] = filters.apply(ctx, name, items[i], rest, named)
    end
  end
  return values.list(out, n)
end

-- Makes select, reject, selectattr or rejectattr.
local function selecting(wanted, by_attribute)
  return function(ctx, v, args)
    local items, n = values.items(ctx, v)
    local first = by_attribute and 2 or 1
    local name, argument = args[first], args[first + 1]
    if by_attribute and args[1] == nil then fail(ctx, "want an attribute's name") end
    local out, m = {}, 0
    for i = 1, n do
      values.charge(ctx, 1)
      local tested = items[i]
      if by_attribute then tested = attribute_of(ctx, tested, args[1]) end
      local good
      if name == nil then good = values.truthy(tested) else good = tests.apply(ctx, name, tested,
        { argument }) end
      if good == wanted then
        m = m + 1
        out[m] = items[i]
      end
    end
    return values.list(out, m)
  end
end
known.select, known.reject = selecting(true, false), selecting(false, false)
known.selectattr, known.rejectattr = selecting(true, true), selecting(false, true)

local function folded(ctx, v, sensitive)
  if type(v) ~= "string" or sensitive then return v end
  values.charge(ctx, #v)
  return letters.lower(v)
end

-- Sorts items by key(item), which is computed once for each.
local function sorted_by(ctx, items, n, reverse, key)
  local rows = {}
  for i = 1, n do rows[i] = { key(items[i]), items[i] } end
  rows = values.sort(ctx, rows, n, function(a, b)
    if reverse then a, b = b, a end
    return values.less(ctx, a[1], b[1])
  end)
  local out = {}
  for i = 1, n do out[i] = rows[i][2] end
  return values.list(out, n)
end

function known.sort(ctx, v, args, named)
  local reverse = values.truthy(given(args, named, 1, "reverse", false))
  local sensitive = values.truthy(given(args, named, 2, "case_sensitive", false))
  local path = none_to_nil(given(args, named, 3, "attribute"))
  local items, n = list_copy(ctx, v)
  return sorted_by(ctx, items, n, reverse, function(item)
    if path then item = attribute_of(ctx, item, path) end
    return folded(ctx, item, sensitive)
  end)
end

function known.dictsort(ctx, v, args, named)
  if kind(v) ~= "dict" then fail(ctx, "dictsort: want a mapping, got a %s", values.type_name(v)) end
  local sensitive = values.truthy(given(args, named, 1, "case_sensitive", false))
  local by = given(args, named, 2, "by", "key") == "value" and 2 or 1
  local reverse = values.truthy(given(args, named, 3, "reverse", false))
  local items = values.pairs_of(ctx, v)
  return sorted_by(ctx, items, items.n, reverse,
    function(pair) return folded(ctx, pair[by], sensitive) end)
end

function known.items(ctx, v)
  if kind(v) == "undefined" then return values.list({}, 0) end
  if kind(v) ~= "dict" then fail(ctx, "items: want a mapping, got a %s", values.type_name(v)) end
  return values.pairs_of(ctx, v)
end

function known.unique(ctx, v, args, named)
  local sensitive = values.truthy(given(args, named, 1, "case_sensitive", false))
  local items, n = values.items(ctx, v)
  local out, m, seen, tables = {}, 0, {}, {}
  for i = 1, n do
    values.charge(ctx, 1)
    local key = folded(ctx, items[i], sensitive)
    key = values.plain_number(key) or key
    values.charge_key(ctx, key)
    local old = seen[key]
    if type(key) == "table" then
      for _, other in ipairs(tables) do old = old or values.equal(ctx, other, key) end
      tables[#tables + 1] = key
    end
    if not old then
      m = m + 1
      seen[key], out[m] = true, items[i]
    end
  end
  return values.list(out, m)
end

function known.sum(ctx, v, args, named)
  local path = none_to_nil(given(args, named, 1, "attribute"))
  local total = given(args, named, 2, "start", 0)
  local items, n = values.items(ctx, v)
  for i = 1, n do
    local item = items[i]
    if path then item = attribute_of(ctx, item, path) end
    total = arithmetic["+"](ctx, total, item)
  end
  return total
end

local function extreme(greatest)
  return function(ctx, v, args, named)
    local sensitive = values.truthy(given(args, named, 1, "case_sensitive", false))
    local items, n = values.items(ctx, v)
    if n == 0 then return values.undefined "the extreme of no items" end
    local best = items[1]
    for i = 2, n do
      local a, b = folded(ctx, items[i], sensitive), folded(ctx, best, sensitive)
      if greatest then a, b = b, a end
      if values.less(ctx, a, b) then best = items[i] end
    end
    return best
  end
end
known.min, known.max = extreme(false), extreme(true)

function known.batch(ctx, v, args, named)
  local size = methods.int_arg(ctx, given(args, named, 1, "linecount"), "batch", 0)
  if size < 1 then fail(ctx, "batch: want a size of at least 1") end
  local items, n = list_copy(ctx, v)
  local out, fill = {}, given(args, named, 2, "fill_with")
  for at = 1, n, size do
    local row = table.move(items, at, math.min(n, at + size - 1), 1, {})
    local m = math.min(size, n - at + 1)
    if none_to_nil(fill) ~= nil and m < size then
      values.charge(ctx, size)
      while m < size do
        m = m + 1
        row[m] = fill
      end
    end
    out[#out + 1] = values.list(row, m)
  end
  return values.list(out)
end

return filters
