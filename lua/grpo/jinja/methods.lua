-- Attributes, items, slices, and the methods of strings, lists and dicts.

local spaces = require "grpo.jinja.spaces"
local letters = require "grpo.jinja.letters"
local values = require "grpo.jinja.values"

local fail, kind = values.fail, values.kind

local methods = {}
local string_methods, list_methods, dict_methods = {}, {}, {}
local of_kind = { string = string_methods, list = list_methods, tuple = list_methods,
  dict = dict_methods }
local loop_fields

function methods.set_loop_fields(fields) loop_fields = fields end

-- Returns the method as function(ctx, object, args, named), or nil.
function methods.find(object, name)
  local known = of_kind[kind(object)]
  return known and known[name]
end

function methods.attribute(ctx, object, name)
  local k = kind(object)
  if k == "dict" then
    local v = object.map[name]
    if v ~= nil and not dict_methods[name] then return v end
  elseif k == "namespace" then
    local v = object.map[name]
    if v ~= nil then return v end
  elseif k == "loop" then
    local field = loop_fields[name]
    local v = field and field(object)
    if v ~= nil then return v end
  elseif k == "undefined" then
    fail(ctx, "'%s' is undefined", object.name)
  end
  local method = methods.find(object, name)
  if method then
    return values.callable(name, function(c, args, named) return method(c, object, args, named) end)
  end
  return values.undefined(name)
end

function methods.item(ctx, object, key)
  local k = kind(object)
  if k == "undefined" then fail(ctx, "'%s' is undefined", object.name) end
  if k == "dict" then
    local x = values.plain_number(key) or key
    values.charge_key(ctx, x)
    local v = (type(x) == "string" or x == x and type(x) == "number") and object.map[x]
    if v ~= nil and v ~= false or v == false and object.map[x] == false then return v end
  elseif math.type(key) == "integer" and (k == "list" or k == "tuple" or k == "string") then
    local items, n = object, object.n
    if k == "string" then items, n = values.characters(ctx, object) end
    local v = items[key < 0 and n + key + 1 or key + 1]
    if v ~= nil then return v end
    return values.undefined(("item %d"):format(key))
  end
  if type(key) == "string" then return methods.attribute(ctx, object, key) end
  return values.undefined("item " .. values.repr(ctx, key))
end

local function bound(ctx, v, default, n, low, high)
  if kind(v) == "none" then return default end
  if math.type(v) ~= "integer" then
    fail(ctx, "a slice wants whole numbers, got a %s", values.type_name(v))
  end
  if v < 0 then v = v + n end
  return math.max(low, math.min(high, v))
end

function methods.slice(ctx, object, from, to, step)
  local k = kind(object)
  if k == "undefined" then fail(ctx, "'%s' is undefined", object.name) end
  if k ~= "string" and k ~= "list" and k ~= "tuple" then
    fail(ctx, "a %s cannot be sliced", values.type_name(object))
  end
  local items, n = values.items(ctx, object)
  if kind(step) == "none" then step = 1 end
  if math.type(step) ~= "integer" or step == 0 then
    fail(ctx, "a slice's step must be a whole number, not 0")
  end
  step = math.max(-n - 1, math.min(n + 1, step))
  local forward = step > 0
  from = bound(ctx, from, forward and 0 or n - 1, n, forward and 0 or -1, forward and n or n - 1)
  to = bound(ctx, to, forward and n or -1, n, forward and 0 or -1, forward and n or n - 1)
  values.charge(ctx, n)
  local out, m = {}, 0
  for i = from, to + (forward and -1 or 1), step do
    m = m + 1
    out[m] = items[i + 1]
  end
  if k == "string" then return table.concat(out) end
  return (k == "list" and values.list or values.tuple)(out, m)
end

-- ---- strings ------------------------------------------------------------------------------------

local function text_arg(ctx, args, i, name, default)
  local v = args[i]
  if v == nil or (default ~= nil and kind(v) == "none") then
    if default == nil then fail(ctx, "%s: argument %d is missing", name, i) end
    return default
  end
  if type(v) ~= "string" then
    fail(ctx, "%s: argument %d must be a string, got a %s", name, i, values.type_name(v))
  end
  return v
end

local function int_arg(ctx, v, name, default)
  if v == nil then return default end
  if math.type(v) ~= "integer" then
    fail(ctx, "%s: want a whole number, got a %s", name, values.type_name(v))
  end
  return v
end
methods.int_arg, methods.text_arg = int_arg, text_arg

-- Returns s without the characters of `set` (false: white space) at its ends.
function methods.strip(ctx, s, set, left, right)
  values.charge_text(ctx, #s)
  if not set then
    local bare = left and spaces.lstrip(s) or s
    if right then bare = spaces.rstrip(bare) end
    values.charge(ctx, #s - #bare)
    return bare
  end
  local drop = {}
  for _, c in ipairs((values.characters(ctx, set))) do drop[c] = true end
  local items, n = values.characters(ctx, s)
  local first, last = 1, n
  while left and first <= last and drop[items[first]] do first = first + 1 end
  while right and last >= first and drop[items[last]] do last = last - 1 end
  return table.concat(items, "", first, last)
end

for name, ends in pairs { strip = { true, true }, lstrip = { true, false },
    rstrip = { false, true } } do
  string_methods[name] = function(ctx, s, args)
    return methods.strip(ctx, s, text_arg(ctx, args, 1, name, false), ends[1], ends[2])
  end
end

local function split_spaces(ctx, s, limit)
  local out, at = {}, spaces.skip(s, 1)
  while at <= #s do
    values.charge(ctx, 1)
    if #out == limit then
      out[#out + 1] = spaces.rstrip(s:sub(at))
      break
    end
    local stop = at
    while stop <= #s and spaces.size_at(s, stop) == 0 do stop = stop + 1 end
    out[#out + 1] = s:sub(at, stop - 1)
    at = spaces.skip(s, stop)
  end
  return out
end

-- Returns the positions of `sep` in s, from the left, without overlap.
local function places(ctx, s, sep)
  if sep == "" then fail(ctx, "split: the separator is empty") end
  local out, at = {}, 1
  while true do
    local found = values.search(ctx, s, sep, at)
    if not found then return out end
    out[#out + 1] = found
    at = found + #sep
  end
end

local function cut_at(s, sep, cuts, first, last)
  local out, at = {}, 1
  for i = first, last do
    out[#out + 1] = s:sub(at, cuts[i] - 1)
    at = cuts[i] + #sep
  end
  out[#out + 1] = s:sub(at)
  return values.list(out)
end

function string_methods.split(ctx, s, args, named)
  local sep = text_arg(ctx, { args[1] or named.sep }, 1, "split", false)
  local limit = int_arg(ctx, args[2] or named.maxsplit, "split", -1)
  if not sep then
    values.charge(ctx, #s)
    return values.list(split_spaces(ctx, s, limit))
  end
  local cuts = places(ctx, s, sep)
  return cut_at(s, sep, cuts, 1, limit < 0 and #cuts or math.min(#cuts, limit))
end

local function from_right(ctx, s, sep)
  if sep == "" then fail(ctx, "rsplit: the separator is empty") end
  values.charge_text(ctx, #s + #sep)
  local cuts = places(ctx, s:reverse(), sep:reverse())
  local out = {}
  for i, cut in ipairs(cuts) do out[#cuts + 1 - i] = #s - (cut + #sep - 1) + 1 end
  return out
end

-- Splits off at most `limit` words from the right; the first item is the rest of s.
local function rsplit_spaces(ctx, s, limit)
  local words = split_spaces(ctx, s, -1)
  local n = #words
  if n <= limit then return words end
  if limit == 0 then return { spaces.rstrip(s) } end
  local first, at = n - limit + 1, #s
  for i = n, first, -1 do -- find where the first word that is split off begins
    while s:sub(at - #words[i] + 1, at) ~= words[i] do at = at - 1 end
    at = at - #words[i]
  end
  local out = table.move(words, first, n, 2, {})
  out[1] = spaces.rstrip(s:sub(1, at))
  return out
end

function string_methods.rsplit(ctx, s, args, named)
  local sep = text_arg(ctx, { args[1] or named.sep }, 1, "rsplit", false)
  local limit = int_arg(ctx, args[2] or named.maxsplit, "rsplit", -1)
  if limit < 0 then return string_methods.split(ctx, s, args, named) end
  if not sep then
    values.charge(ctx, #s)
    return values.list(rsplit_spaces(ctx, s, limit))
  end
  local cuts = from_right(ctx, s, sep)
  return cut_at(s, sep, cuts, math.max(1, #cuts - limit + 1), #cuts)
end

function string_methods.splitlines(ctx, s)
  values.charge(ctx, #s)
  local out = {}
  s = s:gsub("\r\n?", "\n")
  for line in (s:sub(-1) == "\n" and s or s ~= "" and s .. "\n" or ""):gmatch "([^\n]*)\n" do
    out[#out + 1] = line
  end
  return values.list(out)
end

local function affix(name, fits)
  local function check(ctx, s, args, i)
    local part = text_arg(ctx, args, i, name)
    values.charge(ctx, 1)
    if #part > #s then return false end
    values.charge_key(ctx, part)
    return fits(s, part)
  end
  string_methods[name] = function(ctx, s, args)
    local options = args[1]
    if options ~= nil and kind(options) == "tuple" then
      for i = 1, options.n do
        if check(ctx, s, options, i) then return true end
      end
      return false
    end
    return check(ctx, s, args, 1)
  end
end
affix("startswith", function(s, p) return s:sub(1, #p) == p end)
affix("endswith", function(s, p) return p == "" or s:sub(-#p) == p end)

function methods.replace(ctx, s, old, new, limit)
  if limit < 0 then limit = math.maxinteger end
  local out, at, count = {}, 1, 0
  values.charge_text(ctx, #s)
  if old == "" then
    local items, n = values.characters(ctx, s)
    for i = 1, n + 1 do
      if count < limit then out[#out + 1], count = new, count + 1 end
      out[#out + 1] = items[i]
    end
  else
    while count < limit do
      local from = values.search(ctx, s, old, at)
      if not from then break end
      out[#out + 1], out[#out + 2] = s:sub(at, from - 1), new
      at, count = from + #old, count + 1
    end
    out[#out + 1] = s:sub(at)
  end
  values.charge_text(ctx, #s + count * (#new - #old + 0.0))
  values.charge(ctx, count)
  return table.concat(out)
end

function string_methods.replace(ctx, s, args, named)
  return methods.replace(ctx, s, text_arg(ctx, args, 1, "replace"),
    text_arg(ctx, args, 2, "replace"), int_arg(ctx, args[3] or named.count, "replace", -1))
end

for _, name in ipairs { "upper", "lower", "title", "capitalize" } do
  string_methods[name] = function(ctx, s)
    values.charge(ctx, #s)
    return letters[name](s)
  end
end

function string_methods.join(ctx, s, args)
  if args[1] == nil then fail(ctx, "join: argument 1 is missing") end
  local items, n = values.items(ctx, args[1])
  local size = 0
  for i = 1, n do
    if type(items[i]) ~= "string" then
      fail(ctx, "join: item %d is a %s, want a string", i - 1, values.type_name(items[i]))
    end
    size = size + #items[i] + #s
  end
  values.charge_text(ctx, size)
  return table.concat(items, s, 1, n)
end

local function offset(ctx, s, at)
  if not at then return -1 end
  values.charge_text(ctx, at)
  return utf8.len(s:sub(1, at - 1)) or at - 1
end

function string_methods.find(ctx, s, args)
  return offset(ctx, s, values.search(ctx, s, text_arg(ctx, args, 1, "find"), 1))
end

function string_methods.rfind(ctx, s, args)
  local what = text_arg(ctx, args, 1, "rfind")
  if what == "" then return select(2, values.characters(ctx, s)) end
  local cuts = from_right(ctx, s, what)
  return offset(ctx, s, cuts[#cuts])
end

function string_methods.count(ctx, s, args)
  local what = text_arg(ctx, args, 1, "count")
  if what == "" then return select(2, values.characters(ctx, s)) + 1 end
  return #places(ctx, s, what)
end

function string_methods.removeprefix(ctx, s, args)
  local p = text_arg(ctx, args, 1, "removeprefix")
  values.charge_text(ctx, #s)
  return s:sub(1, #p) == p and s:sub(#p + 1) or s
end

function string_methods.removesuffix(ctx, s, args)
  local p = text_arg(ctx, args, 1, "removesuffix")
  values.charge_text(ctx, #s)
  return p ~= "" and s:sub(-#p) == p and s:sub(1, -#p - 1) or s
end

for name, class in pairs { isdigit = "%d", isalpha = "[%a\128-\255]", isalnum = "[%w\128-\255]",
    isspace = "%s" } do
  local pattern = "^" .. class .. "+$"
  string_methods[name] = function(ctx, s)
    values.charge_text(ctx, 8 * #s)
    return s:find(pattern) ~= nil
  end
end
function string_methods.isupper(ctx, s)
  values.charge_text(ctx, 8 * #s)
  return s:find "%u" ~= nil and not s:find "%l"
end
function string_methods.islower(ctx, s)
  values.charge_text(ctx, 8 * #s)
  return s:find "%l" ~= nil and not s:find "%u"
end

-- ---- lists and dicts

function list_methods.index(ctx, list, args)
  for i = 1, list.n do
    if args[1] ~= nil and values.equal(ctx, list[i], args[1]) then return i - 1 end
  end
  return fail(ctx, "index: the value is not in the list")
end

function list_methods.count(ctx, list, args)
  local n = 0
  for i = 1, list.n do
    if args[1] ~= nil and values.equal(ctx, list[i], args[1]) then n = n + 1 end
  end
  return n
end

function dict_methods.items(ctx, dict) return values.pairs_of(ctx, dict) end

function dict_methods.keys(ctx, dict)
  values.charge(ctx, #dict.keys)
  return values.list(table.move(dict.keys, 1, #dict.keys, 1, {}))
end

function dict_methods.values(ctx, dict)
  values.charge(ctx, #dict.keys)
  local out = {}
  for i, key in ipairs(dict.keys) do out[i] = dict.map[key] end
  return values.list(out)
end

function dict_methods.get(ctx, dict, args)
  if args[1] == nil then fail(ctx, "get: want a key") end
  local key = values.plain_number(args[1]) or args[1]
  local v
  values.charge_key(ctx, key)
  if key == key then v = dict.map[key] end
  if v ~= nil then return v end
  if args[2] ~= nil then return args[2] end
  return values.none
end

return methods
