-- Layout of text at the prompt: its width, cutting, colours, tables of columns.
--
-- A look is { width = columns, colour = boolean, tokenizer = the session's or nil }.

local core = require "grpo.core"
local display = require "grpo.runs.display"

local paint = {}

-- Returns the look of standard output.
function paint.look()
  local plain = os.getenv("NO_COLOR") or os.getenv("TERM") == "dumb" or not core.isatty(1)
  return { width = core.term_width() or 80, colour = not plain }
end

local codes = { bold = "1", dim = "2", red = "31", green = "32", yellow = "33", magenta = "35",
  cyan = "36" }

function paint.colour(look, name, text)
  if not (look.colour and name) then return text end
  return ("\27[%sm%s\27[0m"):format(codes[name], text)
end

-- Returns a text on one line without terminal control sequences.
function paint.one_line(text)
  return (display.clean(text):gsub("%s*\n%s*", " / "):gsub("\t", " "))
end

-- Code points that take two columns, and those that take no column.
local function columns_of(code)
  if code >= 0x300 and code <= 0x36F or code >= 0x200B and code <= 0x200D
      or code >= 0xFE00 and code <= 0xFE0F then
    return 0
  end
  if code >= 0x1100 and code <= 0x115F or code >= 0x2E80 and code <= 0xA4CF
    or code >= 0xAC00 and code <= 0xD7A3
    or code >= 0xF900 and code <= 0xFAFF or code >= 0xFE30 and code <= 0xFE6F
    or code >= 0xFF00 and code <= 0xFF60
    or code >= 0xFFE0 and code <= 0xFFE6 or code >= 0x1F300 and code <= 0x1FAFF
      or code >= 0x20000 then
    return 2
  end
  return 1
end

-- Iterates over the characters of a text, which may be invalid UTF-8: first byte, last byte,
-- columns.
local function characters(text)
  local at = 1
  return function()
    if at > #text then return nil end
    local first = at
    local ch = text:match("^[\xC2-\xF4][\x80-\xBF]+", at)
    local ok, code = pcall(utf8.codepoint, text, at)
    if ch and ok then at = utf8.offset(text, 2, at) or #text + 1 else at, code = at + 1,
      text:byte(at) end
    return first, at - 1, columns_of(code)
  end
end

-- Returns the columns that a text without control characters takes; colours take no column.
function paint.columns(text)
  local n = 0
  for _, _, wide in characters((text:gsub("\27%[[%d;]*m", ""))) do n = n + wide end
  return n
end

-- Cuts a text without colours to at most n columns; "..." replaces the rest.
function paint.cut(text, n)
  if #text <= n or paint.columns(text) <= n then return text end
  if n < 4 then return ("."):rep(math.max(n, 0)) end
  local used, last = 0, 0
  for _, stop, wide in characters(text) do
    if used + wide > n - 3 then break end
    used, last = used + wide, stop
  end
  return text:sub(1, last) .. "..."
end

-- Pads a text to exactly n columns; `right` aligns it on the right.
function paint.pad(text, n, right)
  local space = (" "):rep(n - paint.columns(text))
  return right and space .. text or text .. space
end

-- Shows columns { head =, right = boolean, colour = function(row) or nil, [i] = text } as a table.
-- The last column gets the remaining width.
function paint.columns_text(look, list, indent)
  indent = indent or ""
  local widths, used, lines = {}, #indent, {}
  for k, column in ipairs(list) do
    local most = paint.columns(column.head)
    for i = 1, #column do most = math.max(most, paint.columns(column[i])) end
    if k == #list then most = math.max(12, math.min(most, look.width - used - 1)) end
    widths[k], used = most, used + most + 2
  end
  local function line(text_of, colour_of)
    local parts = {}
    for k, column in ipairs(list) do
      local text = paint.pad(paint.cut(text_of(column), widths[k]), widths[k], column.right)
      if k == #list and not column.right then text = text:gsub("%s+$", "") end
      parts[k] = paint.colour(look, colour_of(column), text)
    end
    lines[#lines + 1] = indent .. table.concat(parts, "  ")
  end
  line(function(column) return column.head end, function() return "dim" end)
  for i = 1, #list[1] do
    line(function(column) return column[i] end,
      function(column) return column.colour and column.colour(i) end)
  end
  return table.concat(lines, "\n")
end

-- Returns a number with 4 significant digits; whole numbers are not rounded.
function paint.number(v)
  if type(v) ~= "number" then return "-" end
  if math.type(v) == "integer" then return tostring(v) end
  if v == math.floor(v) and math.abs(v) < 1e6 then return ("%d"):format(v) end
  return v == v and ("%.4g"):format(v) or "nan"
end

return paint
