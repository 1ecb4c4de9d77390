-- Writes values into a text: Python's `text % values`, text.format(...) and format specifications.
--
-- A layout holds what a specification says: { align, fill, sign, alternate, no_minus, width, group,
-- precision, type }.

local values = require "grpo.jinja.values"

local fail, kind = values.fail, values.kind

local format = {}

local one = "^[%z\1-\127\194-\244][\128-\191]*"

-- Returns text without the characters past the first n.
local function cut(ctx, text, n)
  if not n or #text <= n then return text end
  local items, count = values.characters(ctx, text)
  return table.concat(items, "", 1, math.min(n, count))
end

-- Puts `text` behind sign and prefix into the width of a layout.
local function place(ctx, o, prefix, text)
  local width = o.width or 0
  values.charge_text(ctx, width)
  local pad = width - #prefix - (utf8.len(text) or #text)
  if pad <= 0 then return prefix .. text end
  local fill = o.fill or " "
  if o.align == "=" then return prefix .. fill:rep(pad) .. text end
  local left = o.align == ">" and pad or o.align == "^" and pad // 2 or 0
  return fill:rep(left) .. prefix .. text .. fill:rep(pad - left)
end

local function grouped(digits, by, mark)
  local first = #digits % by
  local out = digits:sub(1, first)
  for at = first + 1, #digits, by do
    out = out .. (out == "" and "" or mark) .. digits:sub(at, at + by - 1)
  end
  return out
end

local bases = { b = 2, o = 8, x = 16, X = 16 }

local function in_base(n, base)
  if base == 10 then return values.number_text(n) end
  local digits = {}
  repeat
    digits[#digits + 1] = ("0123456789abcdef"):sub(n % base + 1, n % base + 1)
    n = n // base
  until n == 0
  return table.concat(digits):reverse()
end

local function whole_digits(o, n)
  local base = bases[o.type] or 10
  local digits = in_base(n, base)
  if o.precision then digits = ("0"):rep(o.precision - #digits) .. digits end
  if o.group then digits = grouped(digits, base == 10 and 3 or 4, o.group) end
  if o.alternate and base ~= 10 then digits = "0" .. o.type:lower() .. digits end
  if o.type == "X" then digits = digits:upper() end
  return digits
end

-- Returns a float as str() does with `digits` digits: never without a point or an exponent.
local function general(x, digits)
  local text = ("%%.%dg"):format(digits):format(x)
  if text:find "[.e]" then return text end
  if #text < digits then return text .. ".0" end
  text = ("%%.%de"):format(math.max(0, digits - 1)):format(x)
  return (text:gsub("%.?0*e", "e"))
end

local function float_digits(ctx, o, x)
  if x ~= x or x == math.huge then return x ~= x and "nan" or "inf" end
  local letter, percent = o.type, ""
  if letter == "%" then letter, percent, x = "f", "%", x * 100 end
  if (o.precision or 0) > 99 then fail(ctx, "a format's precision is at most 99") end
  local text
  if not letter and o.precision then
    text = general(x, math.max(1, o.precision))
  elseif not letter then
    text = values.number_text(x)
  else
    if letter == "n" then letter = "g" end
    text = ("%%%s.%d%s"):format(o.alternate and "#" or "", o.precision or 6, letter):format(x)
  end
  if o.group then
    local head, tail = text:match "^(%d+)(.*)$"
    text = grouped(head, 3, o.group) .. tail
  end
  return text .. percent
end

local function number(ctx, o, v)
  local x = values.plain_number(v)
  local negative = x < 0 or x == 0 and math.type(x) == "float" and 1 / x < 0
  local digits
  if math.type(x) == "integer" and not (o.type and o.type:find "[eEfFgG%%]") then
    digits = whole_digits(o, x == math.mininteger and x or math.abs(x)):gsub("^%-", "")
  else
    digits = float_digits(ctx, o, math.abs(x + 0.0))
    if o.type and o.type:find "[EFG]" then digits = digits:upper() end
  end
  if o.no_minus and not digits:find "[1-9]" then negative = false end
  local sign = negative and "-" or o.sign ~= "-" and o.sign or ""
  o.align = o.align or ">"
  local base = digits:match "^0[box]"
  if base and o.alternate and o.align == "=" then
    return place(ctx, o, sign .. digits:sub(1, 2), digits:sub(3))
  end
  return place(ctx, o, sign, digits)
end

local function character(ctx, v)
  v = values.plain_number(v) or v
  if math.type(v) == "integer" and v >= 0 and v < 0x110000 then return utf8.char(v) end
  if type(v) == "string" and utf8.len(v) == 1 then return v end
  return fail(ctx, "format: %%c wants one character")
end

-- ---- format specifications ----------------------------------------------------------------------

local function layout(ctx, spec)
  local o, at = {}, 1
  local first = spec:match(one) or ""
  if spec:find("^[<>=^]", #first + 1) then
    o.fill, o.align, at = first, spec:sub(#first + 1, #first + 1), #first + 2
  elseif spec:find "^[<>=^]" then
    o.align, at = first, 2
  end
  local sign, no_minus, alternate, zero, width, group, precision, letter =
    spec:match("^([-+ ]?)(z?)(#?)(0?)(%d*)([,_]?)(%.?%d*)([%a%%]?)$", at)
  if not sign or precision == "." or #width > 9 or #precision > 9 then
    fail(ctx, "format: '%s' cannot be read", spec:sub(1, 40))
  end
  o.sign, o.alternate = sign ~= "" and sign, alternate ~= ""
  o.no_minus = no_minus ~= ""
  if zero ~= "" and not o.fill then o.fill, o.zero = "0", true end
  o.width, o.group = tonumber(width), group ~= "" and group or nil
  o.precision = tonumber(precision:sub(2))
  o.type = letter ~= "" and letter or nil
  return o
end

-- Formats a value as Python's format(v, spec).
function format.value(ctx, v, spec)
  if spec == "" then return values.text(ctx, v) end
  local o = layout(ctx, spec)
  if type(v) == "string" then
    if (o.type or "s") ~= "s" or o.no_minus or o.sign or o.alternate or o.group
        or o.align == "=" then
      fail(ctx, "format: '%s' does not fit a str", spec)
    end
    return place(ctx, o, "", cut(ctx, v, o.precision))
  end
  local x = values.plain_number(v)
  local known = "[eEfFgGn%%]"
  if math.type(x) == "integer" and not (o.precision or o.no_minus) then
    known = "[bcdeEfFgGnoxX%%]"
  end
  if not x or not (o.type or math.type(x) == "float" and "g" or "d"):find(known) then
    fail(ctx, "format: '%s' does not fit a %s", spec, values.type_name(v))
  end
  if o.zero and not o.align then o.align = "=" end
  if o.type == "c" then return place(ctx, o, "", character(ctx, x)) end
  if o.type == "n" or o.type == "d" then o.type = math.type(x) == "float" and "g" or nil end
  return number(ctx, o, v)
end

-- ---- text.format(...) ---------------------------------------------------------------------------

-- Returns repr(v) in ASCII.
local function ascii(ctx, v)
  return (values.repr(ctx, v):gsub("[\194-\244][\128-\191]+", function(c)
    local ok, code = pcall(utf8.codepoint, c)
    if not ok then return c end
    return (code < 0x100 and "\\x%02x" or code < 0x10000 and "\\u%04x" or "\\U%08x"):format(code)
  end))
end

local conversions = { r = values.repr, s = values.text, a = ascii }

local function argument(ctx, state, name)
  local way = name == "" and "auto" or name:find "^%d+$" and "numbered"
  if not way then
    local v = state.named(name)
    if v == nil then fail(ctx, "format: there is no argument '%s'", name:sub(1, 40)) end
    return v
  end
  if state.way and state.way ~= way then
    fail(ctx, "format: numbered places stand beside places without a number")
  end
  state.way = way
  if way == "auto" then state.next = state.next + 1 end
  local v = state.args[way == "auto" and state.next or tonumber(name) + 1]
  if v == nil then fail(ctx, "format: there are %d arguments, too few", #state.args) end
  return v
end

local function field_value(ctx, state, field)
  local name, rest = field:match "^([^.%[]*)(.*)$"
  local v = argument(ctx, state, name)
  while rest ~= "" do
    local attribute, behind = rest:match "^%.([^.%[]+)()"
    local item, after = rest:match "^%[([^%]]+)%]()"
    if attribute then
      v = state.lookup.attribute(ctx, v, attribute)
    elseif item then
      v = state.lookup.item(ctx, v, item:find "^%d+$" and math.tointeger(tonumber(item)) or item)
    else
      fail(ctx, "format: '{%s}' cannot be read", field:sub(1, 40))
    end
    rest = rest:sub(behind or after)
  end
  return v
end

local filled

local function replacement(ctx, state, inner, depth)
  local field, conversion, spec = inner:match "^([^!:]*)!(%a):?(.*)$"
  if not field then field, spec = inner:match "^([^:!]*):?(.*)$" end
  if not field then fail(ctx, "format: '{%s}' cannot be read", inner:sub(1, 40)) end
  local v = field_value(ctx, state, field)
  if conversion then
    local convert = conversions[conversion]
      or fail(ctx, "format: there is no conversion '!%s'", conversion)
    v = convert(ctx, v)
  end
  if spec:find("[{}]") then spec = filled(ctx, state, spec, depth + 1) end
  return format.value(ctx, v, spec)
end

-- Replaces the places in braces; a specification may have places itself.
function filled(ctx, state, text, depth)
  if depth > 2 then fail(ctx, "format: places are nested too deep") end
  local out, size, at = {}, 0, 1
  local function add(piece)
    size = size + #piece
    values.charge_text(ctx, size > ctx.max_text and size or #piece)
    out[#out + 1] = piece
  end
  while true do
    local brace = text:find("[{}]", at)
    add(text:sub(at, (brace or 0) - 1))
    if not brace then return table.concat(out) end
    local two = text:sub(brace, brace + 1)
    if two == "{{" or two == "}}" then
      add(two:sub(1, 1))
      at = brace + 2
    else
      local whole = text:match("^%b{}", brace)
      if not whole then fail(ctx, "format: a brace has no other") end
      add(replacement(ctx, state, whole:sub(2, -2), depth))
      at = brace + #whole
    end
  end
end

-- text.format(...): named(name) returns a named argument; lookup has attribute(ctx, v, name) and
-- item(ctx, v, key).
function format.braces(ctx, text, args, named, lookup)
  return filled(ctx, { args = args, named = named, lookup = lookup, next = 0 }, text, 1)
end

-- ---- text % values ------------------------------------------------------------------------------

local mappings = { list = true, dict = true, range = true, undefined = true }

-- The values of one `%`: take(key) returns the next one, or the one of a key.
local function source(ctx, right)
  local items = kind(right) == "tuple" and right or { right, n = 1 }
  local at = 0
  local function take(key)
    if key then
      if kind(right) ~= "dict" then fail(ctx, "format: %%(%s) wants a mapping", key) end
      local v = right.map[key]
      if v == nil then fail(ctx, "format: there is no key '%s'", key) end
      at = items.n
      return v
    end
    at = at + 1
    if at > items.n then fail(ctx, "format: not enough arguments") end
    return items[at]
  end
  return take, function() return at >= items.n or mappings[kind(right)] == true end
end

local function percent_number(ctx, o, v)
  local x = values.plain_number(v)
  if not x then fail(ctx, "format: %%%s cannot write a %s", o.type, values.type_name(v)) end
  if o.type:find "[diuoxX]" then
    if math.type(x) == "float" then
      local whole = o.type:find "[diu]" and math.tointeger(x >= 0 and x // 1 or -(-x // 1))
      x = whole or fail(ctx, "format: %%%s cannot write this number", o.type)
    end
    if o.type:find "[diu]" then o.type = "d" end
  else
    x = x + 0.0
  end
  return number(ctx, o, x)
end

local function converted(ctx, o, v)
  local convert = conversions[o.type]
  if convert or o.type == "c" then
    if o.align == "=" then o.align, o.fill = ">", " " end
    local text = o.type == "c" and character(ctx, v) or convert(ctx, v)
    return place(ctx, o, "", cut(ctx, text, o.precision))
  end
  return percent_number(ctx, o, v)
end

local function amount(ctx, text, take)
  if text ~= "*" then return tonumber(text) end
  local v = take()
  if math.type(v) ~= "integer" then fail(ctx, "format: * wants a whole number") end
  return v
end

-- Reads the place behind a `%`.  Returns its layout, the position behind it, and a key.
local function percent_layout(ctx, text, at, take)
  local key, behind = text:match("^%(([^()]*)%)()", at)
  local flags, width, precision, letter, stop =
    text:match("^([-+ #0]*)([%d*]*)(%.?[%d*]*)[hlL]?(.[\128-\191]*)()", behind or at)
  if not letter or #width > 9 or #precision > 9 then fail(ctx, "format: a %% is not complete") end
  local o = { type = letter, alternate = flags:find "#" and true,
    sign = flags:find "%+" and "+" or flags:find " " and " " }
  o.align = flags:find "%-" and "<" or flags:find "0" and "=" or ">"
  o.fill = o.align == "=" and "0" or " "
  if letter == "%" and stop == at + 1 then return o, stop end
  if not letter:find "^[sradiuoxXeEfFgGc]$" then fail(ctx, "format: there is no %%%s", letter) end
  o.width = amount(ctx, width, take)
  o.precision = precision ~= "" and (amount(ctx, precision:sub(2), take) or 0) or nil
  if o.width and o.width < 0 then o.width, o.align, o.fill = -o.width, "<", " " end
  return o, stop, key
end

function format.percent(ctx, text, right)
  local take, used = source(ctx, right)
  local out, size, at = {}, #text, 1
  values.charge_text(ctx, size)
  while true do
    local sign = text:find("%", at, true)
    out[#out + 1] = text:sub(at, (sign or 0) - 1)
    if not sign then break end
    local o, stop, key = percent_layout(ctx, text, sign + 1, take)
    local piece = o.type == "%" and "%" or converted(ctx, o, take(key))
    size = size + #piece
    values.charge_text(ctx, size > ctx.max_text and size or #piece)
    out[#out + 1], at = piece, stop
  end
  if not used() then fail(ctx, "format: not all arguments are used") end
  return table.concat(out)
end

return format
