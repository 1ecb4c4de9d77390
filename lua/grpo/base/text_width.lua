-- The width of a text in columns of a terminal; cutting and padding it to a width.

local text_width = {}

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
function text_width.columns(text)
  local n = 0
  for _, _, wide in characters((text:gsub("\27%[[%d;]*m", ""))) do n = n + wide end
  return n
end

-- Cuts a text without colours to at most n columns; "..." replaces the rest.
function text_width.cut(text, n)
  if #text <= n or text_width.columns(text) <= n then return text end
  if n < 4 then return ("."):rep(math.max(n, 0)) end
  local used, last = 0, 0
  for _, stop, wide in characters(text) do
    if used + wide > n - 3 then break end
    used, last = used + wide, stop
  end
  return text:sub(1, last) .. "..."
end

-- Pads a text to exactly n columns; `right` aligns it on the right.
function text_width.pad(text, n, right)
  local space = (" "):rep(n - text_width.columns(text))
  return right and space .. text or text .. space
end

return text_width
