-- JSON: one array of objects, or an object with such an array in the field that is named.  Files
-- named .json often hold JSON lines, which are read too.

local core = require "grpo.core"
local contents = require "grpo.data.data_files.contents"
local errors = require "grpo.base.errors"
local json_lines = require "grpo.data.data_files.json_lines"
local sorted_pairs = require "grpo.base.sorted"

local json_array = { name = "JSON" }

local function decode(text, path)
  local ok, value = pcall(core.json_decode_row, text, path)
  if ok then return value end
  return errors.raise("EFORMAT", "%s", (tostring(value):gsub("^.-(" .. path:gsub("%p", "%%%0")
    .. ":)", "%1", 1)))
end

-- The names of an object's fields that hold lists, as a hint.
local function lists_of(value)
  local names = {}
  for name, v in sorted_pairs(value) do
    if type(v) == "table" and #v > 0 then names[#names + 1] = "'" .. tostring(name) .. "'" end
  end
  return #names > 0 and (" (%s)"):format(table.concat(names, ", ", 1, math.min(#names, 5))) or ""
end

-- An empty list is not an empty object, of which only the encoder knows.
local function is_list(row)
  return #row > 0 or next(row) == nil and core.json_encode(row) == "[]"
end

local function kind_of(value)
  if type(value) == "table" then return "a list" end
  return value == core.json_null and "null" or "a " .. type(value)
end

local function check_rows(list, path)
  for i, row in ipairs(list) do
    if type(row) ~= "table" or is_list(row) then
      errors.raise("EFORMAT", "%s: entry %d of the array is %s, want an object", path, i,
        kind_of(row))
    end
  end
end

local function of_field(value, path, field)
  local list = type(value) == "table" and value[field]
  if type(list) ~= "table" or (#list == 0 and next(list) ~= nil) then
    errors.raise("EFORMAT", "%s: field = '%s', but it has no list of that name%s", path, field,
      type(value) == "table" and lists_of(value) or "")
  end
  return list
end

local function array_of(text, path, field)
  local value = decode(text, path)
  if field then return of_field(value, path, field) end
  if type(value) ~= "table" or text:find("^%s*{") then
    errors.raise("EFORMAT", "%s: want an array of objects, got %s", path,
      type(value) == "table" and ("one object; if a field of it holds the rows, say which: "
      .. "field = \"...\"%s"):format(lists_of(value)) or kind_of(value))
  end
  return value
end

-- Are these JSON lines?  Then the first line is an object, and something follows it.
local function is_lines(text)
  local first, after = text:match("^%s*({[^\n]*)\n()")
  return first and text:find("%S", after) and pcall(core.json_decode_row, first, "line")
end

-- Appends the rows of a file; opts.field: the field that holds them.
function json_array.read(rows, path, most, opts)
  local text = contents.rows_text(path, json_array.name)
  if not opts.field and is_lines(text) then return json_lines.append(rows, text, path, most) end
  local list = array_of(text, path, opts.field)
  check_rows(list, path)
  for i = 1, math.min(#list, most - #rows) do rows[#rows + 1] = list[i] end
end

return json_array
