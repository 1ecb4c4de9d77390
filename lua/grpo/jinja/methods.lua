-- Attributes, items, slices, and the methods of strings, numbers, lists and dicts.

local bind = require "grpo.jinja.bind"
local core = require "grpo.core"
local format = require "grpo.jinja.format"
local letters = require "grpo.jinja.letters"
local spaces = require "grpo.jinja.spaces"
local values = require "grpo.jinja.values"

local define, int, optional, str = bind.define, bind.int, bind.optional, bind.str
local fail, kind = values.fail, values.kind

local methods = {}
local strings, lists, tuples, dicts, numbers = {}, {}, {}, {}, {}
local of_kind = { string = strings, number = numbers, boolean = numbers, list = lists,
  tuple = tuples, range = tuples, dict = dicts }

local number_fields = {
  real = function(x) return x end,
  imag = function(x) return x * 0 end,
  numerator = function(x) return math.type(x) == "integer" and x or nil end,
  denominator = function(x) return math.type(x) == "integer" and 1 or nil end,
}

-- Methods that would change a value cannot be reached, as in Jinja's sandbox.
local function names_in(names)
  local out = {}
  for name in names:gmatch "%a+" do out[name] = true end
  return out
end
local changing = { list = names_in "append clear pop reverse insert sort extend remove",
  dict = names_in "clear pop popitem setdefault update" }

-- Returns the method as function(ctx, object, args, named), or nil.
function methods.find(object, name)
  local known = of_kind[kind(object)]
  return known and known[name]
end

-- Returns an attribute other than a dict's items, or nil.
local function own(object, name)
  local k = kind(object)
  local v
  if k == "number" or k == "boolean" then
    local field = number_fields[name]
    v = field and field(values.plain_number(object))
  elseif k == "namespace" then
    v = object.map[name]
  elseif type(object) == "table" and object.fields then
    v = object.fields[name]
  end
  if v ~= nil then return v end
  local method = methods.find(object, name)
  if method then
    return values.callable(name, function(c, args, named) return method(c, object, args, named) end)
  end
  if changing[k] and changing[k][name] then return values.undefined(name) end
end

-- Returns object.name; if it is not there, undefined, or what is in a dict by that name.
function methods.attribute(ctx, object, name, no_items)
  local k = kind(object)
  if k == "undefined" then fail(ctx, "'%s' is undefined", object.name) end
  local v = own(object, name)
  if v == nil and k == "dict" and not no_items then v = object.map[name] end
  if v == nil then return values.undefined(name) end
  return v
end

local sliced = { string = true, list = true, tuple = true, range = true }

function methods.item(ctx, object, key)
  local k = kind(object)
  local v
  if k == "undefined" then fail(ctx, "'%s' is undefined", object.name) end
  if k == "dict" then
    local x = values.key(ctx, key)
    if x ~= nil then v = object.map[x] end
  elseif sliced[k] and math.type(values.plain_number(key)) == "integer" then
    local at, items, n = values.plain_number(key), object, object.n
    if k == "string" then items, n = values.characters(ctx, object) end
    v = items[at < 0 and n + at + 1 or at + 1]
  end
  if v == nil and type(key) == "string" then v = own(object, key) end
  if v ~= nil then return v end
  return values.undefined(type(key) == "string" and key or "item " .. values.repr(ctx, key))
end

local function bound(ctx, v, default, n, low, high)
  if kind(v) == "none" then return default end
  local x = int(ctx, v, "a slice")
  if x < 0 then x = x + n end
  return math.max(low, math.min(high, x))
end

function methods.slice(ctx, object, from, to, step)
  local k = kind(object)
  if k == "undefined" then fail(ctx, "'%s' is undefined", object.name) end
  if not sliced[k] then fail(ctx, "a %s cannot be sliced", values.type_name(object)) end
  local items, n = values.items(ctx, object)
  step = int(ctx, optional(step), "a slice", 1)
  if step == 0 then fail(ctx, "a slice's step is 0") end
  step = math.max(-n - 1, math.min(n + 1, step))
  local forward = step > 0
  from = bound(ctx, from, forward and 0 or n - 1, n, forward and 0 or -1, forward and n or n - 1)
  to = bound(ctx, to, forward and n or -1, n, forward and 0 or -1, forward and n or n - 1)
  if k == "range" then
    local first = object.from
    return values.range(ctx, first + from * object.step, first + to * object.step,
      step * object.step)
  end
  values.charge(ctx, n)
  local out, m = {}, 0
  for i = from, to + (forward and -1 or 1), step do
    m = m + 1
    out[m] = items[i + 1]
  end
  if k == "string" then return table.concat(out) end
  return (k == "list" and values.list or values.tuple)(out, m)
end

-- ---- strings: ends ------------------------------------------------------------------------------

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
  define(strings, name .. " chars? /", function(ctx, s, chars)
    chars = optional(chars)
    return methods.strip(ctx, s, chars and str(ctx, chars, name), ends[1], ends[2])
  end)
end

-- Returns the part of s between two positions, as Python counts them, and how many characters are
-- before it; nil if it begins behind the end of s.
local function part(ctx, s, from, to)
  from, to = optional(from), optional(to)
  if not from and not to then return s, 0 end
  local items, n = values.characters(ctx, s)
  from, to = int(ctx, from, "a position", 0), int(ctx, to, "a position", n)
  if from < 0 then from = math.max(0, from + n) end
  if to < 0 then to = to + n end
  to = math.max(0, math.min(n, to))
  if from > n or from > to then return nil end
  return table.concat(items, "", from + 1, to), from
end

local function affix(name, fits)
  define(strings, name .. " affix start? end? /", function(ctx, s, options, from, to)
    if kind(options) ~= "tuple" then options = values.tuple { options } end
    s = part(ctx, s, from, to)
    for i = 1, options.n do
      local affixed = str(ctx, options[i], name)
      values.charge_key(ctx, affixed)
      if s and #affixed <= #s and fits(s, affixed) then return true end
    end
    return false
  end)
end
affix("startswith", function(s, p) return s:sub(1, #p) == p end)
affix("endswith", function(s, p) return p == "" or s:sub(-#p) == p end)

define(strings, "removeprefix prefix /", function(ctx, s, p)
  values.charge_text(ctx, #s)
  return s:sub(1, #str(ctx, p, "removeprefix")) == p and s:sub(#p + 1) or s
end)

define(strings, "removesuffix suffix /", function(ctx, s, p)
  values.charge_text(ctx, #s)
  return str(ctx, p, "removesuffix") ~= "" and s:sub(-#p) == p and s:sub(1, -#p - 1) or s
end)

-- Puts s into a width; share(pad, width) is how much of what is missing stands before it.
function methods.pad(ctx, s, width, fill, share)
  width, fill = int(ctx, width, "a width"), fill == nil and " " or str(ctx, fill, "a fill")
  if utf8.len(fill) ~= 1 then fail(ctx, "the fill must be one character") end
  values.charge_text(ctx, math.max(0, width) * #fill)
  local pad = math.max(0, width - select(2, values.characters(ctx, s)))
  local left = share(pad, width)
  return fill:rep(left) .. s .. fill:rep(pad - left)
end

function methods.center(pad, width) return pad // 2 + (pad & width & 1) end

for name, share in pairs { center = methods.center, ljust = function() return 0 end,
    rjust = function(pad) return pad end } do
  define(strings, name .. " width fill? /", function(ctx, s, width, fill)
    return methods.pad(ctx, s, width, fill, share)
  end)
end

define(strings, "zfill width /", function(ctx, s, width)
  local sign = s:match "^[-+]" or ""
  return sign .. methods.pad(ctx, s:sub(#sign + 1), int(ctx, width, "zfill") - #sign, "0",
    function(pad) return pad end)
end)

-- ---- strings: pieces ----------------------------------------------------------------------------

local function split_spaces(ctx, s, limit)
  local out, at = {}, spaces.skip(s, 1)
  while at <= #s do
    values.charge(ctx, 1)
    if #out == limit then
      out[#out + 1] = s:sub(at)
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

define(strings, "split sep? maxsplit?", function(ctx, s, sep, limit)
  sep, limit = optional(sep), int(ctx, limit, "split", -1)
  if not sep then
    values.charge(ctx, #s)
    return values.list(split_spaces(ctx, s, limit))
  end
  local cuts = places(ctx, s, str(ctx, sep, "split"))
  return cut_at(s, sep, cuts, 1, limit < 0 and #cuts or math.min(#cuts, limit))
end)

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

define(strings, "rsplit sep? maxsplit?", function(ctx, s, sep, limit)
  sep, limit = optional(sep), int(ctx, limit, "rsplit", -1)
  if not sep then
    values.charge(ctx, #s)
    return values.list(limit < 0 and split_spaces(ctx, s, -1) or rsplit_spaces(ctx, s, limit))
  end
  local cuts = from_right(ctx, s, str(ctx, sep, "rsplit"))
  return cut_at(s, sep, cuts, limit < 0 and 1 or math.max(1, #cuts - limit + 1), #cuts)
end)

-- Cuts s in three at the first or the last place of sep.
local function partition(name, last)
  define(strings, name .. " sep /", function(ctx, s, sep)
    local cuts = (last and from_right or places)(ctx, s, str(ctx, sep, name))
    local at = cuts[last and #cuts or 1]
    if not at then return values.tuple(last and { "", "", s } or { s, "", "" }) end
    return values.tuple { s:sub(1, at - 1), sep, s:sub(at + #sep) }
  end)
end
partition("partition", false)
partition("rpartition", true)

-- Returns the lines of s, with their ends if `keep`.
function methods.lines(ctx, s, keep)
  values.charge(ctx, #s)
  local out, at, from = {}, 1, 1
  while true do
    local stop = s:find("[\n-\r\28-\30\194\226]", at)
    if not stop then break end
    local ending = s:match("^\r\n", stop) or s:match("^[\n-\r\28-\30]", stop)
      or s:match("^\u{85}", stop) or s:match("^\226\128[\168\169]", stop)
    at = stop + #(ending or " ")
    if ending then
      out[#out + 1] = s:sub(from, keep and at - 1 or stop - 1)
      from = at
    end
  end
  if from <= #s then out[#out + 1] = s:sub(from) end
  return out
end

define(strings, "splitlines keepends?", function(ctx, s, keep)
  return values.list(methods.lines(ctx, s, keep ~= nil and values.truthy(keep)))
end)

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

define(strings, "replace old new count? /", function(ctx, s, old, new, count)
  return methods.replace(ctx, s, str(ctx, old, "replace"), str(ctx, new, "replace"),
    int(ctx, count, "replace", -1))
end)

define(strings, "join iterable /", function(ctx, s, list)
  local items, n = values.items(ctx, list)
  local size = 0
  for i = 1, n do size = size + #str(ctx, items[i], "join") + #s end
  values.charge_text(ctx, size)
  return table.concat(items, s, 1, n)
end)

define(strings, "expandtabs tabsize?", function(ctx, s, size)
  size = int(ctx, size, "expandtabs", 8)
  local items, n = values.characters(ctx, s)
  local out, column = {}, 0
  values.charge_text(ctx, #s + select(2, s:gsub("\t", "")) * math.max(0, size + 0.0))
  for i = 1, n do
    local c = items[i]
    if c == "\t" then c = size > 0 and (" "):rep(size - column % size) or "" end
    column = c:find "[\r\n]" and 0 or column + (utf8.len(c) or 1)
    out[i] = c
  end
  return table.concat(out)
end)

define(strings, "translate table /", function(ctx, s, with)
  if kind(with) ~= "dict" then fail(ctx, "translate: want a mapping") end
  local items, n = values.characters(ctx, s)
  local out = {}
  for i = 1, n do
    local c = items[i]
    local to = utf8.len(c) and with.map[utf8.codepoint(c)]
    if math.type(to) == "integer" then to = utf8.char(to) end
    out[i] = not to and c or type(to) == "string" and to or ""
  end
  return table.concat(out)
end)

-- ---- strings: what is where ---------------------------------------------------------------------

local function offset(ctx, s, at)
  values.charge_text(ctx, at)
  return utf8.len(s:sub(1, at - 1)) or at - 1
end

-- Makes find or index, or those from the right: they say where `sub` is, in characters.
local function finder(name, last, must)
  define(strings, name .. " sub start? end? /", function(ctx, s, what, from, to)
    local text, before = part(ctx, s, from, to)
    local at
    if text and str(ctx, what, name) == "" then
      at = last and #text + 1 or 1
    elseif text and last then
      local cuts = from_right(ctx, text, what)
      at = cuts[#cuts]
    elseif text then
      at = values.search(ctx, text, what, 1)
    end
    if at then return before + offset(ctx, text, at) end
    if must then fail(ctx, "%s: the text is not found", name) end
    return -1
  end)
end
finder("find", false, false)
finder("rfind", true, false)
finder("index", false, true)
finder("rindex", true, true)

define(strings, "count sub start? end? /", function(ctx, s, what, from, to)
  local text = part(ctx, s, from, to)
  if not text then return 0 end
  if str(ctx, what, "count") == "" then return select(2, values.characters(ctx, text)) + 1 end
  return #places(ctx, text, what)
end)

for _, name in ipairs { "upper", "lower", "title", "capitalize", "casefold", "swapcase" } do
  define(strings, name, function(ctx, s)
    values.charge(ctx, #s)
    return letters[name](s)
  end)
end

-- The tests of a string's characters, as patterns of PCRE2.
local classes = {
  isalpha = "\\p{L}++", isalnum = "[\\p{L}\\p{N}]++", isdecimal = "\\p{Nd}++",
  isdigit = "[\\p{Nd}\u{B2}\u{B3}\u{B9}\u{2070}-\u{2079}\u{2080}-\u{2089}\u{2460}-\u{2468}]++",
  isnumeric = "\\p{N}++", isascii = "[\\x00-\\x7F]*+",
  isprintable = "[\\p{L}\\p{M}\\p{N}\\p{P}\\p{S} ]*+",
  isidentifier = "[\\p{L}\\p{Nl}_][\\p{L}\\p{Nl}\\p{Mn}\\p{Mc}\\p{Nd}\\p{Pc}]*+",
}
for name, pattern in pairs(classes) do
  local class
  define(strings, name, function(ctx, s)
    values.charge_text(ctx, 8 * #s)
    class = class or core.regex("^" .. pattern .. "\\z")
    return class:test(s)
  end)
end

define(strings, "isspace", function(ctx, s)
  values.charge_text(ctx, 8 * #s)
  return s ~= "" and spaces.blank(s)
end)

-- Is there a letter of this case, and none of another?
local function all_cased(name, want, other)
  local class
  define(strings, name, function(ctx, s)
    values.charge_text(ctx, 8 * #s)
    class = class or { core.regex(want), core.regex(other) }
    return class[1]:test(s) and not class[2]:test(s)
  end)
end
all_cased("isupper", "[\\p{Lu}\u{2160}-\u{216F}]", "[\\p{Ll}\\p{Lt}]")
all_cased("islower", "[\\p{Ll}\u{AA}\u{BA}\u{2170}-\u{217F}]", "[\\p{Lu}\\p{Lt}]")

define(strings, "istitle", function(ctx, s)
  values.charge(ctx, #s)
  return letters.istitle(s)
end)

function strings.format(ctx, s, args, named)
  return format.braces(ctx, s, args, function(name) return named[name] end, methods)
end

define(strings, "format_map mapping /", function(ctx, s, map)
  return format.braces(ctx, s, {}, function(name)
    local v = methods.item(ctx, map, name)
    return kind(v) ~= "undefined" and v or nil
  end, methods)
end)

-- ---- numbers, lists and dicts -------------------------------------------------------------------

define(numbers, "conjugate", function(_, x) return values.plain_number(x) end)
define(numbers, "is_integer", function(ctx, x)
  if math.type(x) ~= "float" then fail(ctx, "an int has no method 'is_integer'") end
  return x % 1 == 0
end)
define(numbers, "bit_length", function(ctx, x)
  local n, bits = math.abs(int(ctx, x, "bit_length")), 0
  while n > 0 do n, bits = n >> 1, bits + 1 end
  return bits
end)
define(numbers, "bit_count", function(ctx, x)
  local n, bits = math.abs(int(ctx, x, "bit_count")), 0
  while n > 0 do n, bits = n >> 1, bits + (n & 1) end
  return bits
end)

local function index(ctx, list, value, from, to)
  from, to = int(ctx, from, "index", 0), int(ctx, to, "index", list.n)
  if from < 0 then from = math.max(0, from + list.n) end
  if to < 0 then to = to + list.n end
  for i = from + 1, math.min(to, list.n) do
    if values.equal(ctx, list[i], value) then return i - 1 end
  end
  return fail(ctx, "index: the value is not in the list")
end

local function count(ctx, list, value)
  local n = 0
  for i = 1, list.n do
    if values.equal(ctx, list[i], value) then n = n + 1 end
  end
  return n
end

for _, kind_methods in ipairs { lists, tuples } do
  define(kind_methods, "index value start? stop? /", index)
  define(kind_methods, "count value /", count)
end

define(lists, "copy", function(ctx, list)
  values.charge(ctx, list.n)
  return values.list(table.move(list, 1, list.n, 1, {}), list.n)
end)

for _, name in ipairs { "items", "keys", "values" } do
  define(dicts, name, function(ctx, dict) return values.view(ctx, "dict_" .. name, dict) end)
end

define(dicts, "copy", function(_, dict) return dict end)

define(dicts, "get key default? /", function(ctx, dict, key, default)
  local x = values.key(ctx, key)
  if x == nil then fail(ctx, "get: a %s cannot be a key", values.type_name(key)) end
  local v = dict.map[x]
  if v == nil then v = default end
  if v == nil then return values.none end
  return v
end)

define(dicts, "fromkeys keys value? /", function(ctx, _, keys, value)
  local items, n = values.items(ctx, keys)
  local dict = values.dict()
  values.charge(ctx, n)
  if value == nil then value = values.none end
  for i = 1, n do values.set(ctx, dict, items[i], value) end
  return dict
end)
methods.fromkeys = dicts.fromkeys

return methods
