-- CSV (RFC 4180), and the same with tabs.  The first record names the columns; values are strings.

local contents = require "grpo.data_files.contents"
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

-- Returns the fields of the record that begins at `at`, and where the next record begins.
-- s: { text, path, line, comma, ends = a pattern of what ends a field without quotes }
local function record(s, at)
  local text, fields = s.text, {}
  while true do
    local field
    if text:sub(at, at) == '"' then
      field, at = quoted(text, at, ("%s:%d"):format(s.path, s.line))
    else
      local stop = text:find(s.ends, at) or #text + 1
      field, at = text:sub(at, stop - 1), stop
    end
    fields[#fields + 1] = field
    local c = text:sub(at, at)
    if c == s.comma then
      at = at + 1
    else
      if c == "\r" then at = at + 1 end
      if c ~= "" and text:sub(at, at) ~= "\n" and c ~= "\r" then
        errors.raise("EFORMAT", "%s:%d: text after a closing quote", s.path, s.line)
      end
      return fields, at + 1
    end
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

local function read(s, rows, most)
  local at, names = 1, nil
  while at <= #s.text and #rows < most do
    local fields, next_at = record(s, at)
    if not names then
      names = check_header(fields, s)
    elseif #fields ~= 1 or fields[1] ~= "" or #names == 1 then
      rows[#rows + 1] = row_of(names, fields, s)
    end
    local _, breaks = s.text:sub(at, next_at - 1):gsub("\n", "")
    s.line, at = s.line + math.max(breaks, 1), next_at
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
