-- JSON as templates see it: read with the order of keys kept, written as Python's json.dumps does.

local values = require "grpo.jinja.values"

local json = {}

-- ---- writing -------------------------------------------------------------------------------------------

local short = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t", ["\b"] = "\\b",
  ["\f"] = "\\f" }

local function ascii(c)
  local code = utf8.codepoint(c)
  if code < 0x10000 then return ("\\u%04x"):format(code) end
  code = code - 0x10000
  return ("\\u%04x\\u%04x"):format(0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))
end

local function string_text(s, o)
  s = s:gsub('[%z\1-\31"\\]', function(c) return short[c] or ("\\u%04x"):format(c:byte()) end)
  if o.ascii and utf8.len(s) then s = s:gsub("[\194-\244][\128-\191]*", ascii) end
  return '"' .. s .. '"'
end

local function number_text(x)
  if x ~= x then return "NaN" end
  if x == math.huge or x == -math.huge then return x > 0 and "Infinity" or "-Infinity" end
  return values.number_text(x)
end

local put

local function key_text(ctx, key, o)
  if type(key) ~= "string" then key = number_text(key) end
  values.charge(ctx, 1 + #key // 32)
  return string_text(key, o)
end

local function put_all(ctx, v, o, out, depth)
  local keys = v.kind == "dict" and v.keys
  if keys and o.sorted then
    keys = values.sort(ctx, table.move(keys, 1, #keys, 1, {}), #keys, function(a, b) return values.less(ctx, a, b) end)
  end
  local n = keys and #keys or v.n
  local line = o.indent and "\n" .. o.indent:rep(depth) or ""
  out[#out + 1] = keys and "{" or "["
  for i = 1, n do
    if i > 1 then out[#out + 1] = o.comma end
    out[#out + 1] = line
    values.charge_text(ctx, #line)
    if keys then
      out[#out + 1] = (key_text(ctx, keys[i], o))
      out[#out + 1] = o.colon
      put(ctx, v.map[keys[i]], o, out, depth)
    else
      put(ctx, v[i], o, out, depth)
    end
  end
  if n > 0 and o.indent then out[#out + 1] = "\n" .. o.indent:rep(depth - 1) end
  out[#out + 1] = keys and "}" or "]"
end

function put(ctx, v, o, out, depth)
  values.charge(ctx, 1)
  if depth > 150 then values.fail(ctx, "tojson: nested too deep") end
  local k = values.kind(v)
  if k == "string" then
    values.charge_text(ctx, #v)
    out[#out + 1] = string_text(v, o)
  elseif k == "number" then
    out[#out + 1] = number_text(v)
  elseif k == "boolean" then
    out[#out + 1] = v and "true" or "false"
  elseif k == "none" then
    out[#out + 1] = "null"
  elseif k == "dict" or k == "list" or k == "tuple" then
    put_all(ctx, v, o, out, depth + 1)
  elseif k == "undefined" then
    values.fail(ctx, "tojson: '%s' is undefined", v.name)
  else
    values.fail(ctx, "tojson: cannot write a %s", values.type_name(v))
  end
end

-- o: { comma, colon, indent = a line's indentation or nil, ascii, sorted }
function json.write(ctx, v, o)
  local out = {}
  put(ctx, v, o, out, 0)
  local text = table.concat(out)
  values.charge_text(ctx, #text)
  return text
end

-- ---- reading ---------------------------------------------------------------------------------------------

local names = { ["true"] = true, ["false"] = false, null = values.none }
local unescaped = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function complain(at, what) error(("JSON, byte %d: %s"):format(at, what), 0) end

local function skip(s, at) return s:match("^[ \t\r\n]*()", at) end

local function code_at(s, at)
  return tonumber(s:match("^\\u(%x%x%x%x)", at) or "", 16)
end

local function read_string(s, at)
  local out, from = {}, at + 1
  while true do
    local stop = s:find('["\\]', from)
    if not stop then complain(at, "a string is not closed") end
    out[#out + 1] = s:sub(from, stop - 1)
    if s:byte(stop) == 34 then return table.concat(out), stop + 1 end
    local c = s:sub(stop + 1, stop + 1)
    if c == "u" then
      local code = code_at(s, stop) or complain(stop, "a bad escape")
      from = stop + 6
      local low = code >= 0xD800 and code < 0xDC00 and code_at(s, from)
      if low and low >= 0xDC00 and low < 0xE000 then
        code, from = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00), from + 6
      end
      out[#out + 1] = (code >= 0xD800 and code < 0xE000) and "\u{FFFD}" or utf8.char(code)
    else
      out[#out + 1], from = unescaped[c] or complain(stop, "a bad escape"), stop + 2
    end
  end
end

local read

local function read_list(s, at, depth)
  local items, n = {}, 0
  at = skip(s, at + 1)
  if s:sub(at, at) == "]" then return values.list(items, 0), at + 1 end
  while true do
    n = n + 1
    items[n], at = read(s, at, depth)
    at = skip(s, at)
    local c = s:sub(at, at)
    if c == "]" then return values.list(items, n), at + 1 end
    if c ~= "," then complain(at, "want ',' or ']'") end
    at = at + 1
  end
end

local function read_dict(s, at, depth)
  local dict = values.dict()
  local key, value
  at = skip(s, at + 1)
  if s:sub(at, at) == "}" then return dict, at + 1 end
  while true do
    at = skip(s, at)
    if s:sub(at, at) ~= '"' then complain(at, "want a key") end
    key, at = read_string(s, at)
    at = skip(s, at)
    if s:sub(at, at) ~= ":" then complain(at, "want ':'") end
    value, at = read(s, at + 1, depth)
    values.put(dict, key, value)
    at = skip(s, at)
    local c = s:sub(at, at)
    if c == "}" then return dict, at + 1 end
    if c ~= "," then complain(at, "want ',' or '}'") end
    at = at + 1
  end
end

function read(s, at, depth)
  if depth > 100 then complain(at, "nested deeper than 100") end
  at = skip(s, at)
  local c = s:sub(at, at)
  if c == '"' then return read_string(s, at) end
  if c == "[" then return read_list(s, at, depth + 1) end
  if c == "{" then return read_dict(s, at, depth + 1) end
  local name = s:match("^%a+", at)
  if name and names[name] ~= nil then return names[name], at + #name end
  local number = s:match("^%-?%d+%.?%d*[eE]?[+-]?%d*", at)
  local value = number and tonumber(number)
  if not value then complain(at, "want a value") end
  return value, at + #number
end

-- A value for a template; raises with the place.
function json.read(text)
  local value, at = read(text, 1, 0)
  at = skip(text, at)
  if at <= #text then complain(at, "text after the value") end
  return value
end

return json
