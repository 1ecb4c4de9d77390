-- JSON for templates: reading keeps the order of keys, writing gives the text of Python's
-- json.dumps.

local core = require "grpo.core"
local values = require "grpo.jinja.values"

local json = {}

-- ---- writing ------------------------------------------------------------------------------------

local short = { ['"'] = '\\"', ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r", ["\t"] = "\\t",
  ["\b"] = "\\b", ["\f"] = "\\f" }

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
  local k = values.kind(key)
  if k == "number" then
    key = number_text(key)
  elseif k == "boolean" then
    key = tostring(key)
  elseif k == "none" then
    key = "null"
  elseif k ~= "string" then
    values.fail(ctx, "tojson: a %s cannot be a key", values.type_name(key))
  end
  values.charge(ctx, 1 + #key // 32)
  return string_text(key, o)
end

local function put_all(ctx, v, o, out, depth)
  local keys = v.kind == "dict" and v.keys
  if keys and o.sorted then
    keys = values.sort(ctx, table.move(keys, 1, #keys, 1, {}), #keys,
      function(a, b) return values.less(ctx, a, b) end)
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
      put(ctx, values.value_at(ctx, v, keys[i]), o, out, depth)
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

-- Returns a value as JSON.  o: { comma, colon, indent = a line's indentation or nil, ascii, sorted
-- }
function json.write(ctx, v, o)
  local out = {}
  put(ctx, v, o, out, 0)
  local text = table.concat(out)
  values.charge_text(ctx, #text)
  return text
end

-- ---- reading ------------------------------------------------------------------------------------

local makers = { null = values.none, list = values.list, dict = values.dict }

-- Reads JSON as a value for a template; errors name line and column.
function json.read(text) return core.json_ordered(text, "JSON", makers) end

return json
