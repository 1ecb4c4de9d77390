-- The files that a name, a pattern or a list of them stands for, and the text that a file holds.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"
local files_read = require "grpo.base.files_read"
local foreign = require "grpo.data.data_files.foreign"
local globs = require "grpo.data.data_files.globs"

local contents = {}

local function add(list, path, where)
  if type(path) ~= "string" then
    errors.raise("EARG", "%s: path is %s, want a string", where, type(path))
  end
  if not globs.is_pattern(path) or core.fs.exists(path) then
    list[#list + 1] = path
    return
  end
  local found = globs.find(path)
  if #found == 0 then errors.raise("ENOENT", "%s: no file matches '%s'", where, path) end
  table.move(found, 1, #found, #list + 1, list)
end

-- names: a path, a pattern, or a list of these; where: the call, for messages.
function contents.files(names, where)
  local list = {}
  if type(names) ~= "table" then
    add(list, names, where)
    return list
  end
  for _, name in ipairs(names) do add(list, name, where) end
  if #list == 0 then errors.raise("EARG", "%s: the list of files is empty", where) end
  return list
end

-- Returns the text of a file, decompressed and without a byte order mark.
function contents.text(path)
  local text, message, code = core.fs.read(path)
  if not text then errors.raise(code or "ENOENT", "%s", message) end
  files_read.add(path)
  for _, row in ipairs(extensions.rows "decompressors") do text = row.decompress(text, path) end
  return text:sub(1, 3) == "\xEF\xBB\xBF" and text:sub(4) or text
end

-- Returns how many line ends are in a text.
function contents.breaks(text)
  local _, all = text:gsub("[\r\n]", "")
  local _, of_two = text:gsub("\r\n", "")
  return all - of_two
end

-- Returns the text of a file of rows; one in another format is refused by name.
function contents.rows_text(path, wanted)
  local text = contents.text(path)
  local kind, way_out = foreign.of(text, path)
  if kind then
    errors.raise("EFORMAT", "%s: it is %s, not %s; %s", path, kind, wanted, way_out)
  end
  return text
end

return contents
