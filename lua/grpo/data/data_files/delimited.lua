-- CSV (RFC 4180), and the same with tabs.  The first record names the columns; values are strings.
-- A line ends with \n, \r\n or \r, in one file too; a line without any character is left out.

local contents = require "grpo.data.data_files.contents"
local errors = require "grpo.base.errors"

local delimited = {}

-- Returns the field in quotes that begins at `at`, and where the text goes on behind it.
local function quoted(text, at, place)
  local parts, from = {}, at + 1
  while true do
    local quote = text:find('"', from, true)
    if not quote then errors.raise("EFORMAT", "%s: a quoted field is never closed", place) end
    parts[#parts + 1] = text:sub(from, quote - 1)
    if text:sub(quote + 1, quote + 1) ~= '"' then return table.concat(parts), quote + 1 end
    parts[#parts + 1] = '"'
    from = quote + 2
  end
end

-- Where the line behind its end at `at` begins, or nil if something else is there.
local function after_end(text, at)
  local c = text:sub(at, at)
  if c == "\r" and text:sub(at + 1, at + 1) == "\n" then return at + 2 end
  if c == "\r" or c == "\n" or c == "" then return at + 1 end
  return nil
end

-- Returns the fields of the record that begins at `at`, where the next record begins, and the line
-- that it begins on.
-- s: { text, path, line, comma, ends = a pattern of what ends a field without quotes }
local function record(s, at)
  local text, fields, line = s.text, {}, s.line
  while true do
    local field
    if text:sub(at, at) == '"' then
      field, at = quoted(text, at, ("%s:%d"):format(s.path, line))
      line = line + contents.breaks(field)
    else
      local stop = text:find(s.ends, at) or #text + 1
      field, at = text:sub(at, stop - 1), stop
    end
    fields[#fields + 1] = field
    if text:sub(at, at) ~= s.comma then
      local next_at = after_end(text, at)
      if not next_at then
        errors.raise("EFORMAT", "%s:%d: text after a closing quote", s.path, line)
      end
      return fields, next_at, line + 1
    end
    at = at + 1
  end
end

local function check_header(names, s)
  local seen = {}
  for _, name in ipairs(names) do
    if seen[name] then
      errors.raise("EFORMAT", "%s:%d: two columns are named '%s'", s.path, s.line, name)
    end
    seen[name] = true
  end
  return names
end

local function row_of(names, fields, s)
  if #fields ~= #names then
    errors.raise("EFORMAT", "%s:%d: %d fields, but the header names %d", s.path, s.line, #fields,
      #names)
  end
  local row = {}
  for i, name in ipairs(names) do row[name] = fields[i] end
  return row
end

local function check_encoding(s, from, to)
  local valid, at = utf8.len(s.text, from, to)
  if valid then return end
  errors.raise("EFORMAT", "%s:%d: not UTF-8; if it is Latin-1, convert the file: iconv -f LATIN1 "
    .. "-t UTF-8 FILE > ROWS", s.path, s.line + contents.breaks(s.text:sub(from, at - 1)))
end

local function read(s, rows, most)
  local at, names = 1, nil
  while at <= #s.text and #rows < most do
    local line_end = after_end(s.text, at)
    if line_end then
      s.line, at = s.line + 1, line_end
    else
      local fields, next_at, next_line = record(s, at)
      check_encoding(s, at, math.min(next_at, #s.text + 1) - 1)
      if names then
        rows[#rows + 1] = row_of(names, fields, s)
      else
        names = check_header(fields, s)
      end
      s.line, at = next_line, next_at
    end
  end
end

-- Returns a reader of files whose fields are separated by `comma`.
function delimited.reader(name, comma)
  return {
    name = name,
    read = function(rows, path, most)
      read({ text = contents.rows_text(path, name), path = path, line = 1, comma = comma,
        ends = "[" .. comma .. "\r\n]" }, rows, most)
    end,
  }
end

return delimited
