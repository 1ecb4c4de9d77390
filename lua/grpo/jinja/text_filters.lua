-- The filters of texts: filters[name](ctx, value, args, named).

local bind = require "grpo.jinja.bind"
local core = require "grpo.core"
local format = require "grpo.jinja.format"
local letters = require "grpo.jinja.letters"
local methods = require "grpo.jinja.methods"
local values = require "grpo.jinja.values"

local int, optional, str = bind.int, bind.optional, bind.str
local fail, kind, truthy = values.fail, values.kind, values.truthy

local filters = {}

local function filter(spec, call) bind.define(filters, spec, call) end

local function yes(v, default)
  if v == nil then return default end
  return truthy(v)
end

filter("trim chars?", function(ctx, v, chars)
  chars = optional(chars)
  return methods.strip(ctx, values.text(ctx, v), chars and str(ctx, chars, "trim"), true, true)
end)

for _, name in ipairs { "upper", "lower", "capitalize" } do
  filter(name, function(ctx, v)
    local s = values.text(ctx, v)
    values.charge(ctx, #s)
    return letters[name](s)
  end)
end

-- Begins every word with a capital; unlike str.title, only spaces, hyphens and brackets end a word.
filter("title", function(ctx, v)
  local s = values.text(ctx, v)
  values.charge(ctx, 2 * #s)
  return (s:gsub("[^-%s({%[<]+", function(w)
    local first = w:match "^[%z\1-\127\194-\244][\128-\191]*" or ""
    return letters.upper(first) .. letters.lower(w:sub(#first + 1))
  end))
end)

filter("string", values.text)
filter("safe", values.text)

filter("replace old new count?", function(ctx, v, old, new, count)
  return methods.replace(ctx, values.text(ctx, v), values.text(ctx, old), values.text(ctx, new),
    int(ctx, optional(count), "replace", -1))
end)

local html = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ["'"] = "&#39;", ['"'] = "&#34;" }

local function escaped(ctx, v)
  local s = values.text(ctx, v)
  values.charge_text(ctx, 5 * #s)
  return (s:gsub("[&<>'\"]", html))
end

for _, name in ipairs { "escape", "e", "forceescape" } do filter(name, escaped) end

filter("indent width? first? blank?", function(ctx, v, width, first, blank)
  local pad = width
  if type(width) ~= "string" then
    width = math.max(0, int(ctx, width, "indent", 4))
    values.charge_text(ctx, width)
    pad = (" "):rep(width)
  end
  local lines = methods.lines(ctx, str(ctx, v, "indent") .. "\n")
  values.charge_text(ctx, #v + #lines * (#pad + 1.0))
  for i = 2, #lines do
    if lines[i] ~= "" or yes(blank, false) then lines[i] = pad .. lines[i] end
  end
  return (yes(first, false) and pad or "") .. table.concat(lines, "\n")
end)

local word
filter("wordcount", function(ctx, v)
  local s = values.text(ctx, v)
  values.charge(ctx, 2 * #s)
  word = word or core.regex("[\\p{L}\\p{N}_]++")
  return word:count(s)
end)

function filters.format(ctx, v, args, named)
  local right = values.tuple(args)
  if #named > 0 then
    if #args > 0 then fail(ctx, "format: want arguments by position or by name, not both") end
    right = values.dict()
    for _, name in ipairs(named) do values.set(ctx, right, name, named[name]) end
  end
  return format.percent(ctx, values.text(ctx, v), right)
end

filter("center width?", function(ctx, v, width)
  if width == nil then width = 80 end
  return methods.pad(ctx, values.text(ctx, v), width, nil, methods.center)
end)

local function characters(ctx, s) return table.pack(values.characters(ctx, s)) end

filter("truncate length? killwords? end? leeway?", function(ctx, v, length, kill, ending, leeway)
  length, leeway = int(ctx, length, "truncate", 255), int(ctx, optional(leeway), "truncate", 5)
  ending = ending == nil and "..." or str(ctx, ending, "truncate")
  local room = length - characters(ctx, ending)[2]
  if room < 0 or leeway < 0 then fail(ctx, "truncate: the length or the leeway is too small") end
  local items, n = values.items(ctx, v)
  if kind(v) == "generator" then fail(ctx, "truncate: want a string, got a generator") end
  if n <= length + leeway then return v end
  local cut = table.concat(items, "", 1, #str(ctx, v, "truncate") > 0 and room or 0)
  if not yes(kill, false) then cut = cut:match "^(.*) [^ ]*$" or cut end
  return cut .. ending
end)

-- ---- wrapping

-- Splits a line into words and the spaces between them; a hyphen between letters ends a word.
local function pieces(line, hyphens)
  local out = {}
  for space, text in line:gmatch "(%s*)(%S*)" do
    if space ~= "" then out[#out + 1] = space end
    local from = 1
    while hyphens do
      local stop = text:match("[%a\128-\255][%a\128-\255]%-()[%a\128-\255][%a\128-\255]", from)
      if not stop then break end
      out[#out + 1], from = text:sub(from, stop - 1), stop
    end
    if from <= #text then out[#out + 1] = text:sub(from) end
  end
  return out
end

local function size_of(s) return utf8.len(s) or #s end

-- Splits a piece that is longer than a line; returns what fits in `room`, and the rest.
local function broken(piece, room, hyphens)
  local at = utf8.offset(piece, room + 1) or room + 1
  local hyphen = hyphens and piece:sub(1, at - 1):match "^.*[^-].-()%-[^-]*$"
  if hyphen then at = hyphen + 1 end
  return piece:sub(1, at - 1), piece:sub(at)
end

-- Returns the lines that text of one line is wrapped into.
local function wrapped(line, o)
  local lines, row, size = {}, {}, 0
  local function finish()
    if row[#row] and row[#row]:find "^%s" then row[#row] = nil end
    if #row > 0 then lines[#lines + 1] = table.concat(row) end
    row, size = {}, 0
  end
  for _, piece in ipairs(pieces(line, o.hyphens)) do
    while piece ~= "" do
      local long = size_of(piece)
      if #row == 0 and #lines > 0 and piece:find "^%s" then break end
      if size + long <= o.width then
        row[#row + 1], size, piece = piece, size + long, ""
      elseif long > o.width and o.break_long then
        row[#row + 1], piece = broken(piece, math.max(1, o.width - size), o.hyphens)
        finish()
      elseif long > o.width and #row == 0 then
        row[1], piece = piece, ""
        finish()
      else
        finish()
      end
    end
  end
  finish()
  return lines
end

filter("wordwrap width? break_long_words? wrapstring? break_on_hyphens?",
  function(ctx, v, width, break_long, mark, hyphens)
    local o = { width = int(ctx, width, "wordwrap", 79), break_long = yes(break_long, true),
      hyphens = yes(hyphens, true) }
    mark = optional(mark) == nil and "\n" or str(ctx, mark, "wordwrap")
    local out = {}
    values.charge(ctx, 4 * #str(ctx, v, "wordwrap"))
    for i, line in ipairs(methods.lines(ctx, v)) do
      if o.width < 1 then fail(ctx, "wordwrap: the width must be at least 1") end
      out[i] = table.concat(wrapped(line, o), mark)
    end
    values.charge_text(ctx, #v + #v * (#mark + 0.0))
    return table.concat(out, mark)
  end)

-- ---- numbers, markup and addresses

filter("filesizeformat binary?", function(ctx, v, binary)
  local bytes = filters.float(ctx, v, { values.none }, {})
  if type(bytes) ~= "number" then
    fail(ctx, "filesizeformat: want a number, got a %s", values.type_name(v))
  end
  local two = yes(binary, false)
  local base = two and 1024 or 1000
  if bytes == 1 then return "1 Byte" end
  if bytes < base then return ("%d Bytes"):format(bytes >= 0 and bytes // 1 or -(-bytes // 1)) end
  local unit, letter = base, nil
  for c in ("kMGTPEZY"):gmatch "." do
    unit, letter = unit * base + 0.0, c
    if bytes < unit then break end
  end
  return ("%.1f %s"):format(base * bytes / unit, two and letter:upper() .. "iB" or letter .. "B")
end)

local entities = { amp = "&", lt = "<", gt = ">", quot = '"', nbsp = "\u{A0}" }

filter("striptags", function(ctx, v)
  local s = values.text(ctx, v)
  values.charge_text(ctx, 4 * #s)
  s = s:gsub("<!%-%-.-%-%->", ""):gsub("<[^>]*>", "")
  local words = methods.find(s, "split")(ctx, s, {}, {})
  s = table.concat(words, " ")
  return (s:gsub("&(#?)(x?)(%w+);", function(number, hex, name)
    if number == "" then return entities[hex .. name] end
    local code = tonumber(name, hex == "x" and 16 or 10)
    return code and code < 0x110000 and utf8.char(code) or nil
  end))
end)

local function quoted(ctx, v, keep)
  local s = values.text(ctx, v)
  values.charge_text(ctx, 3 * #s)
  return (s:gsub(keep, function(c) return ("%%%02X"):format(c:byte()) end))
end

filter("urlencode", function(ctx, v)
  if type(v) == "string" or not values.is_iterable(v) then
    return quoted(ctx, v, "[^%w_.~/-]")
  end
  local items, n = values.items(ctx, kind(v) == "dict" and values.view(ctx, "dict_items", v) or v)
  local parts = {}
  for i = 1, n do
    local pair, m = values.items(ctx, items[i])
    if m ~= 2 then fail(ctx, "urlencode: want pairs") end
    local name, value = quoted(ctx, pair[1], "[^%w_.~ -]"), quoted(ctx, pair[2], "[^%w_.~ -]")
    parts[i] = (name .. "=" .. value):gsub(" ", "+")
  end
  return table.concat(parts, "&")
end)

filter("xmlattr autospace?", function(ctx, v, space)
  if kind(v) ~= "dict" then fail(ctx, "xmlattr: want a mapping, got a %s", values.type_name(v)) end
  local parts = {}
  for _, key in ipairs(v.keys) do
    local value = values.value_at(ctx, v, key)
    if kind(value) ~= "none" and kind(value) ~= "undefined" then
      if str(ctx, key, "xmlattr"):find "[%s/>=]" then
        fail(ctx, "xmlattr: '%s' cannot be the name of an attribute", key:sub(1, 40))
      end
      parts[#parts + 1] = ('%s="%s"'):format(escaped(ctx, key), escaped(ctx, value))
    end
  end
  local text = table.concat(parts, " ")
  return yes(space, true) and text ~= "" and " " .. text or text
end)

-- Writes a value as repr does, with sorted keys; Python breaks longer ones into lines.
local function sorted_repr(ctx, v)
  if kind(v) == "dict" then
    local keys = values.sort(ctx, table.move(v.keys, 1, #v.keys, 1, {}), #v.keys,
      function(a, b) return type(a) == type(b) and values.less(ctx, a, b) end)
    v = values.dict(keys, v.map)
    for i, key in ipairs(keys) do
      keys[i] = values.repr(ctx, key) .. ": " .. sorted_repr(ctx, values.value_at(ctx, v, key))
    end
    return "{" .. table.concat(keys, ", ") .. "}"
  elseif kind(v) == "list" then
    local parts = {}
    for i = 1, v.n do parts[i] = sorted_repr(ctx, v[i]) end
    return "[" .. table.concat(parts, ", ") .. "]"
  end
  return values.repr(ctx, v)
end

filter("pprint", function(ctx, v)
  local text = sorted_repr(ctx, v)
  if size_of(text) > 80 then fail(ctx, "pprint: more than a line of 80 is not supported") end
  return text
end)

for _, name in ipairs { "random", "urlize" } do
  filters[name] = function(ctx) fail(ctx, "the filter '%s' is not supported", name) end
end

return filters
