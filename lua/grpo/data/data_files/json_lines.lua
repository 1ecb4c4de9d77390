-- JSON lines: one object a line.

local core = require "grpo.core"
local contents = require "grpo.data.data_files.contents"
local errors = require "grpo.base.errors"

local json_lines = { name = "JSON lines" }

-- Raises the error of a line that is not an object.
local function refuse(path, line, got)
  errors.raise("EFORMAT", "%s:%d: want a JSON object, got %s%s", path, line, got,
    got == "a list" and "; a file that is one JSON array is read by grpo.data.json" or "")
end

-- Decodes one line.
local function object(s, path, line)
  if s:find("^%s*%[") then refuse(path, line, "a list") end
  local ok, row = pcall(core.json_decode_row, s, "JSON")
  if not ok then
    local column, why = tostring(row):match("JSON:%d+:(%d+): (.*)$")
    errors.raise("EFORMAT", "%s:%d: not a JSON object: %s", path, line,
      column and ("at column %s: %s"):format(column, why) or (tostring(row):gsub("^.-: ", "")))
  end
  if type(row) ~= "table" then
    refuse(path, line, row == core.json_null and "null" or "a " .. type(row))
  end
  return row
end

-- Appends the rows of a text; `most`: how many rows there may be then.
function json_lines.append(rows, text, path, most)
  local at, line = 1, 0
  while at <= #text and #rows < most do
    local stop = text:find("\n", at, true) or #text + 1
    local s = text:sub(at, stop - 1)
    line, at = line + 1, stop + 1
    if s:find("%S") then rows[#rows + 1] = object(s, path, line) end
  end
end

-- Appends the rows of a file.
function json_lines.read(rows, path, most)
  json_lines.append(rows, contents.rows_text(path, json_lines.name), path, most)
end

return json_lines
