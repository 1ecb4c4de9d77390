-- The values of templates with Python's semantics: truth, equality, order, text.
--
-- Numbers, strings and booleans are Lua's own.  Every other value is a table whose metatable is
-- values.meta, with a field `kind`:
--   none, undefined (name), list, tuple and range (n, [1..n]), dict and namespace (keys = list of
--   keys in order, map: values.key(key) -> value), dict_keys, dict_values, dict_items (n, [1..n]),
--   generator (make), callable (call, name), object, loop.
-- `fields` holds further attributes of a value, by their names.  Lists and dicts never change once
-- a template can see them.

local core = require "grpo.core"

local values = {}

local meta = {}
values.meta = meta

local function new(t) return setmetatable(t, meta) end
values.new = new

values.none = new { kind = "none" }

function values.undefined(name) return new { kind = "undefined", name = name } end
function values.list(items, n) items.kind, items.n = "list", n or #items return new(items) end
function values.tuple(items, n) items.kind, items.n = "tuple", n or #items return new(items) end
function values.dict(keys, map) return new { kind = "dict", keys = keys or {}, map = map or {} } end
function values.callable(name, call) return new { kind = "callable", name = name, call = call } end

-- A sequence that can be read once; make(ctx) -> items, n is called when it is.
function values.generator(make) return new { kind = "generator", make = make } end


local lua_kinds = { string = "string", boolean = "boolean", number = "number" }

-- Returns "string", "boolean", "number", or the kind of table.
local function kind(v)
  return lua_kinds[type(v)] or v.kind
end
values.kind = kind

function values.is_list(v)
  local k = kind(v)
  return k == "list" or k == "tuple"
end

local python_names = { string = "str", boolean = "bool", none = "NoneType", undefined = "Undefined",
  namespace = "Namespace", callable = "function", loop = "LoopContext" }

-- Returns Python's name of the type, for messages.
function values.type_name(v)
  if type(v) == "number" then return math.type(v) == "integer" and "int" or "float" end
  local k = kind(v)
  return python_names[k] or k
end

-- ---- limits and errors ---------------------------------------------------------------------

-- Raises an error at the line that ctx is in.
function values.fail(ctx, format, ...)
  error({ template = true, line = ctx.line,
    message = select("#", ...) > 0 and format:format(...) or format }, 0)
end
local fail = values.fail

-- Subtracts n steps from the run's budget and fails when it is used up, so that every run ends.
function values.charge(ctx, n)
  local left = ctx.steps - n
  ctx.steps = left
  if left < 0 then
    fail(ctx, "the template takes too many steps (limit %d); is there an endless loop?", ctx.limit)
  end
end
local charge = values.charge

-- Charges for making or reading a string of n bytes; called before.
function values.charge_text(ctx, n)
  if n > ctx.max_text then
    fail(ctx, "a text of %.0f bytes is too long, the limit is %d", n, ctx.max_text)
  end
  charge(ctx, n // 32)
end

-- Charges for comparing or looking up a string; a short one costs only the step itself.
function values.charge_key(ctx, key)
  if type(key) == "string" and #key > 256 then charge(ctx, #key // 32) end
end

-- Returns the most a search may cost: at each of n bytes a comparison with up to m others, many of
-- which are compared at once.
local function search_cost(n, m) return 1 + n // 32 + math.max(0, n - m) * m // 32768 end

-- Returns the first position of `what` in s from `at`, or nil.  The cost of a full search is
-- charged first; the cost of the part that was not searched is returned to the budget.
function values.search(ctx, s, what, at)
  local cost = search_cost(#s - at + 1, #what)
  charge(ctx, cost)
  local found = s:find(what, at, true)
  if found then ctx.steps = ctx.steps + cost - search_cost(found - at + #what, #what) end
  return found
end

-- ---- keys of dicts -----------------------------------------------------------------------------

local tuples = setmetatable({}, { __mode = "v" }) -- text of a tuple's keys -> what stands for it

local function tuple_key(ctx, v)
  local parts = {}
  for i = 1, v.n do
    local key = values.key(ctx, v[i])
    if key == nil then return nil end
    parts[i] = ("%s:%s"):format(type(key), tostring(key))
    parts[i] = #parts[i] .. parts[i]
  end
  local text = table.concat(parts)
  charge(ctx, #text // 32)
  tuples[text] = tuples[text] or { text = text }
  return tuples[text]
end

-- Returns what stands for a value in the map of a dict; nil if it cannot be a key, like a list.
function values.key(ctx, v)
  if type(v) == "string" then
    values.charge_key(ctx, v)
    return v
  end
  if type(v) ~= "table" then return v == true and 1 or v == false and 0 or v == v and v or nil end
  if v.kind == "tuple" then return tuple_key(ctx, v) end
  if v.kind == "undefined" then return python_names end -- all are equal
  if v.kind ~= "list" and v.kind ~= "dict" then return v end
end

function values.set(ctx, dict, key, value)
  local k = values.key(ctx, key)
  if k == nil then fail(ctx, "a %s cannot be a key", values.type_name(key)) end
  if dict.map[k] == nil then dict.keys[#dict.keys + 1] = key end
  dict.map[k] = value
end

-- Sets the value of a key that is a string or a number, which costs no step.
function values.put(dict, key, value)
  if dict.map[key] == nil then dict.keys[#dict.keys + 1] = key end
  dict.map[key] = value
end

-- Returns the value of a dict's key, which is one of its keys.
local function value_at(ctx, dict, key)
  if type(key) == "string" then return dict.map[key] end
  return dict.map[values.key(ctx, key)]
end
values.value_at = value_at

-- ---- truth, equality, order -----------------------------------------------------------------

function values.truthy(v)
  local t = type(v)
  if t == "boolean" then return v end
  if t == "string" then return v ~= "" end
  if t == "number" then return v ~= 0 end
  local k = v.kind
  if k == "none" or k == "undefined" then return false end
  if k == "dict" then return #v.keys > 0 end
  return v.n ~= 0 or k == "loop"
end

-- Returns a value as a number, or nil; in Python True is 1 and False is 0.
local function plain_number(v)
  if v == true then return 1 elseif v == false then return 0 end
  return type(v) == "number" and v or nil
end
values.plain_number = plain_number

-- Returns the whole number that a float is or is cut to.
function values.whole(ctx, x)
  return math.tointeger(x >= 0 and math.floor(x) or math.ceil(x))
    or fail(ctx, "a whole number is out of range")
end

local equal

local function equal_lists(ctx, a, b, depth)
  if a.n ~= b.n then return false end
  for i = 1, a.n do
    if not equal(ctx, a[i], b[i], depth) then return false end
  end
  return true
end

local function equal_dicts(ctx, a, b, depth)
  if #a.keys ~= #b.keys then return false end
  for _, key in ipairs(a.keys) do
    local other = value_at(ctx, b, key)
    if other == nil or not equal(ctx, value_at(ctx, a, key), other, depth) then return false end
  end
  return true
end

function equal(ctx, a, b, depth)
  charge(ctx, 1)
  depth = (depth or 0) + 1
  if depth > 150 then fail(ctx, "values are nested too deep to compare") end
  if type(a) == "boolean" or type(b) == "boolean" then
    local x, y = plain_number(a), plain_number(b)
    return x ~= nil and x == y
  end
  if type(a) == "string" and type(b) == "string" and #a == #b then values.charge_key(ctx, a) end
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  if a == b then return true end
  if a.kind ~= b.kind then return false end
  if a.n and a.kind ~= "dict_values" then return equal_lists(ctx, a, b, depth) end
  if a.kind == "dict" then return equal_dicts(ctx, a, b, depth) end
  return a.kind == "undefined"
end
values.equal = equal

-- Orders strings by their bytes, which in UTF-8 is the order of code points; Lua's < depends on the
-- locale.
local function text_less(ctx, a, b)
  values.charge_text(ctx, math.min(#a, #b))
  if not a:find "[\128-\255]" and not b:find "[\128-\255]"
      and os.setlocale(nil, "collate") == "C" then
    return a < b
  end
  for i = 1, math.min(#a, #b), 64 do
    local x, y = { a:byte(i, i + 63) }, { b:byte(i, i + 63) }
    for j = 1, math.min(#x, #y) do
      if x[j] ~= y[j] then return x[j] < y[j] end
    end
  end
  return #a < #b
end

local function less(ctx, a, b, depth)
  charge(ctx, 1)
  local x, y = plain_number(a), plain_number(b)
  if x and y then return x < y end
  if type(a) == "string" and type(b) == "string" then return text_less(ctx, a, b) end
  for _, v in ipairs { a, b } do
    if kind(v) == "undefined" then fail(ctx, "'%s' is undefined", v.name) end
  end
  depth = (depth or 0) + 1
  if type(a) == "table" and kind(a) == kind(b) and values.is_list(a) and depth < 100 then
    for i = 1, math.min(a.n, b.n) do
      if not equal(ctx, a[i], b[i]) then return less(ctx, a[i], b[i], depth) end
    end
    return a.n < b.n
  end
  return fail(ctx, "a %s and a %s have no order", values.type_name(a), values.type_name(b))
end
values.less = less

-- Sorts items[1..n] stably; unlike table.sort it does not raise if `before` is inconsistent.
function values.sort(ctx, items, n, before)
  local from, to = items, {}
  local width = 1
  while width < n do
    charge(ctx, n)
    for low = 1, n, 2 * width do
      local i, mid = low, math.min(low + width, n + 1)
      local j, high = mid, math.min(low + 2 * width, n + 1)
      for k = low, high - 1 do
        if i < mid and (j >= high or not before(from[j], from[i])) then
          to[k], i = from[i], i + 1
        else
          to[k], j = from[j], j + 1
        end
      end
    end
    from, to = to, from
    width = 2 * width
  end
  return from
end

-- ---- text ---------------------------------------------------------------------------------

-- Returns the shortest decimal that reads back as x, in Python's notation.
local function float_text(x)
  if x ~= x then return "nan" end
  if x == math.huge or x == -math.huge then return x > 0 and "inf" or "-inf" end
  local digits
  for precision = 0, 16 do
    digits = ("%." .. precision .. "e"):format(x)
    if tonumber(digits) == x then break end
  end
  local sign, mantissa, exponent = digits:match "^(%-?)([%d.]+)e([+-]%d+)$"
  mantissa, exponent = mantissa:gsub("%.", ""), tonumber(exponent) // 1 | 0
  if exponent < -4 or exponent >= 16 then
    local rest = mantissa:sub(2)
    return ("%s%s%se%s%02d"):format(sign, mantissa:sub(1, 1), rest ~= "" and "." .. rest or "",
      exponent < 0 and "-" or "+", math.abs(exponent))
  end
  if exponent < 0 then return sign .. "0." .. ("0"):rep(-exponent - 1) .. mantissa end
  if #mantissa < exponent + 2 then mantissa = mantissa .. ("0"):rep(exponent + 2 - #mantissa) end
  return sign .. mantissa:sub(1, exponent + 1) .. "." .. mantissa:sub(exponent + 2)
end

function values.number_text(x)
  if math.type(x) == "integer" then return ("%d"):format(x) end
  return float_text(x)
end

local escapes = { ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\\"] = "\\\\" }

-- Characters beyond ASCII that Python's repr escapes, because they do not print: controls, formats,
-- separators, private use.  (It escapes numbers without a character too.)
local hidden = { { 0x80, 0xA0 }, { 0xAD, 0xAD }, { 0x600, 0x605 }, { 0x61C, 0x61C },
  { 0x6DD, 0x6DD }, { 0x70F, 0x70F }, { 0x890, 0x891 }, { 0x8E2, 0x8E2 }, { 0x1680, 0x1680 },
  { 0x180E, 0x180E }, { 0x2000, 0x200F }, { 0x2028, 0x202F }, { 0x205F, 0x206F },
  { 0x3000, 0x3000 }, { 0xE000, 0xF8FF }, { 0xFEFF, 0xFEFF }, { 0xFFF9, 0xFFFB },
  { 0x110BD, 0x110BD }, { 0x110CD, 0x110CD }, { 0x13430, 0x1343F }, { 0x1BCA0, 0x1BCA3 },
  { 0x1D173, 0x1D17A }, { 0xE0001, 0xE0001 }, { 0xE0020, 0xE007F }, { 0xF0000, 0x10FFFF } }

local function escaped(c)
  local code = utf8.codepoint(c)
  for _, range in ipairs(hidden) do
    if code < range[1] then return c end
    if code <= range[2] then
      return (code < 0x100 and "\\x%02x" or code < 0x10000 and "\\u%04x" or "\\U%08x"):format(code)
    end
  end
  return c
end

local function quoted(s)
  local quote = s:find("'", 1, true) and not s:find('"', 1, true) and '"' or "'"
  s = s:gsub("[%c\\]", function(c) return escapes[c] or ("\\x%02x"):format(c:byte()) end)
  if s:find("[\x80-\xFF]") and utf8.len(s) then s = s:gsub("[\xC2-\xF4][\x80-\xBF]+", escaped) end
  if quote == "'" then s = s:gsub("'", "\\'") end
  return quote .. s .. quote
end

local repr

local function repr_list(ctx, v, depth)
  local parts = {}
  for i = 1, v.n do parts[i] = repr(ctx, v[i], depth) end
  return "[" .. table.concat(parts, ", ") .. "]"
end

local function repr_dict(ctx, v, depth)
  local parts = {}
  for i, key in ipairs(v.keys) do
    parts[i] = repr(ctx, key, depth) .. ": " .. repr(ctx, value_at(ctx, v, key), depth)
  end
  return "{" .. table.concat(parts, ", ") .. "}"
end

local function repr_view(ctx, v, depth)
  return ("%s(%s)"):format(v.kind, repr_list(ctx, v, depth))
end

-- How values other than texts, numbers and booleans print.
local reprs = {
  none = function() return "None" end,
  undefined = function() return "Undefined" end,
  list = repr_list,
  tuple = function(ctx, v, depth)
    return "(" .. repr_list(ctx, v, depth):sub(2, -2) .. (v.n == 1 and ",)" or ")")
  end,
  range = function(_, v)
    local step = v.step == 1 and "" or (", %d"):format(v.step)
    return ("range(%d, %d%s)"):format(v.from, v.to, step)
  end,
  dict = repr_dict,
  dict_keys = repr_view,
  dict_values = repr_view,
  dict_items = repr_view,
  namespace = function(ctx, v, depth) return "<Namespace " .. repr_dict(ctx, v, depth) .. ">" end,
  loop = function(_, v) return ("<LoopContext %d/%d>"):format(v.at, v.n) end,
  callable = function(_, v)
    return v.macro and ("<Macro '%s'>"):format(v.name) or "<function>"
  end,
}

function repr(ctx, v, depth)
  charge(ctx, 1)
  depth = (depth or 0) + 1
  if depth > 150 then fail(ctx, "a value is nested too deep to be written") end
  local k = kind(v)
  if k == "string" then
    values.charge_text(ctx, #v)
    return quoted(v)
  end
  if k == "boolean" then return v and "True" or "False" end
  if k == "number" then return values.number_text(v) end
  local text = reprs[k] and reprs[k](ctx, v, depth) or "<" .. k .. ">"
  values.charge_text(ctx, #text)
  return text
end
values.repr = repr

-- Returns the text that {{ v }} writes.
function values.text(ctx, v)
  if type(v) == "string" then return v end
  if kind(v) == "undefined" then return "" end
  return repr(ctx, v)
end

-- ---- iterating ------------------------------------------------------------------------------

-- Returns the characters of a string: code points, or bytes where it is not UTF-8; and their
-- number.
function values.characters(ctx, s)
  charge(ctx, #s)
  local items, n, at = {}, 0, 1
  if utf8.len(s) then
    for c in s:gmatch(utf8.charpattern) do n = n + 1 items[n] = c end
    return items, n
  end
  while at <= #s do
    local c = s:match("^[\194-\244][\128-\191]+", at)
    if not c or not utf8.len(c) then c = s:sub(at, at) end
    n, at = n + 1, at + #c
    items[n] = c
  end
  return items, n
end

-- Returns items, n of anything that can be looped over.
function values.items(ctx, v)
  local k = kind(v)
  if k == "dict" then return v.keys, #v.keys end
  if k == "undefined" then return {}, 0 end
  if k == "string" then return values.characters(ctx, v) end
  if k == "generator" then
    local make = v.make
    v.make = nil
    if make then return make(ctx) end
    return {}, 0
  end
  if k ~= "loop" and type(v) == "table" and v.n then return v, v.n end
  return fail(ctx, "a %s cannot be looped over", values.type_name(v))
end

local many = { string = true, dict = true, undefined = true, generator = true, loop = true }

function values.is_iterable(v)
  return many[kind(v)] or type(v) == "table" and v.n ~= nil
end

-- Makes what dict.keys(), dict.values() and dict.items() return, by the name of its kind.
function values.view(ctx, name, dict)
  local n = #dict.keys
  charge(ctx, n)
  local view = new { kind = name, n = n }
  for i, key in ipairs(dict.keys) do
    view[i] = key
    if name ~= "dict_keys" then view[i] = value_at(ctx, dict, key) end
    if name == "dict_items" then view[i] = values.tuple({ key, view[i] }, 2) end
  end
  return view
end

-- Makes the numbers from `from` to before `to`.
function values.range(ctx, from, to, step)
  if step == 0 then fail(ctx, "range: the step is 0") end
  local count = math.max(0, math.ceil((to + 0.0 - from) / step))
  if count > 100000 then
    fail(ctx, "range: %.0f numbers are too many, the limit is 100000", count)
  end
  charge(ctx, count)
  local range = new { kind = "range", n = count, from = from, to = to, step = step }
  for i = 1, count do range[i] = from + (i - 1) * step end
  return range
end

-- ---- Lua values in and out --------------------------------------------------------------------

local front = { "role", "content", "type", "id", "function", "name", "description", "parameters",
  "arguments",
  "properties", "required" }
local rank = {}
for i, name in ipairs(front) do rank[name] = i end

-- Returns the usual keys of messages and tools in their usual order, then the others sorted.
local function sorted_keys(t)
  local keys = {}
  for key in next, t do keys[#keys + 1] = key end
  table.sort(keys, function(a, b)
    local ra, rb = rank[a] or 99, rank[b] or 99
    if ra ~= rb then return ra < rb end
    if type(a) ~= type(b) then return type(a) < type(b) end
    return a < b
  end)
  return keys
end

-- Returns the keys of a table in the order that its file had, if it came from one; those that it
-- got later, and those of other tables, come in the usual order.
local function ordered_keys(t)
  local usual, order = sorted_keys(t), core.key_order(t)
  if not order then return usual end
  local keys, taken = {}, {}
  for _, list in ipairs { order, usual } do
    for _, key in ipairs(list) do
      if not taken[key] and rawget(t, key) ~= nil then
        keys[#keys + 1], taken[key] = key, true
      end
    end
  end
  return keys
end

local from_lua

local function from_table(t, state, depth)
  if getmetatable(t) == meta then return t end
  local done = state[t]
  if done == false then error("a value contains itself", 0) end
  if done then return done end
  if depth > 100 then error("a value is nested deeper than 100", 0) end
  state[t] = false
  local m = getmetatable(t)
  local n = rawlen(t)
  if n > 0 or (next(t) == nil
      and not (type(m) == "table" and rawget(m, "__name") == "grpo.JsonObject")) then
    local items = {}
    for i = 1, n do items[i] = from_lua(rawget(t, i), state, depth + 1) end
    done = values.list(items, n)
  else
    done = values.dict()
    for key in next, t do
      if type(key) ~= "string" and type(key) ~= "number" then
        error("a mapping has a " .. type(key) .. " as key, want strings", 0)
      end
    end
    for _, key in ipairs(ordered_keys(t)) do
      values.put(done, key, from_lua(rawget(t, key), state, depth + 1))
    end
  end
  state[t] = done
  return done
end

function from_lua(v, state, depth)
  local t = type(v)
  if lua_kinds[t] then return v end
  if v == nil or v == core.json_null or v == core.none then return values.none end
  if t == "table" then return from_table(v, state or {}, depth or 1) end
  return error("a template cannot use a " .. t, 0)
end
values.from_lua = from_lua

return values
