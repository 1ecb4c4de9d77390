-- The files that a script loads by their names: with `extends`, dofile and loadfile.
--
-- A run keeps a copy of them in source/files, beside its script and modules, and a resume takes
-- that copy.  What a script opens with io.open, io.lines or io.input while it is loaded may be
-- large, and becomes an input of the run.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local files_read = require "grpo.base.files_read"
local loaded_sources = require "grpo.options.scripts.loaded_sources"
local sorted_pairs = require "grpo.base.sorted"

local fs = core.fs
local script_files = {}

local directory -- of the copies that come before files on disk; nil: none
local texts = {} -- { [name] = text }: what was loaded
local from_disk = {} -- { [name] = true }: what the directory had no copy of
local noting = false -- is a script being loaded?

-- Returns the path within a directory of copies: "../a.lua" is "%up/a.lua", "/b.lua" "%root/b.lua".
local function place_of(name)
  local parts = { name:sub(1, 1) == "/" and "%root" or nil }
  for part in name:gmatch("[^/]+") do
    part = part:gsub("[%%%c]", function(c) return ("%%%02X"):format(c:byte()) end)
    if not utf8.len(part) then
      part = part:gsub("[\x80-\xFF]", function(c) return ("%%%02X"):format(c:byte()) end)
    end
    if part ~= "." then parts[#parts + 1] = part == ".." and "%up" or part end
  end
  return table.concat(parts, "/")
end

-- The name of which this is the place.
local function name_of(place)
  local name = place:gsub("^%%root/", "/"):gsub("%%up", "..")
  return (name:gsub("%%(%x%x)", function(code) return string.char(tonumber(code, 16)) end))
end

-- Returns the text of a file that the script loads; nil, message.
function script_files.read(name)
  local copy = directory and directory .. "/" .. place_of(name)
  local text, message
  if copy and fs.exists(copy) then
    text, message = fs.read(copy)
    -- the copy is used; but if the file on disk changes later, it is reloaded
    loaded_sources.take(name)
  else
    text, message = loaded_sources.take(name)
    if not text and name:find("^configs/") then text = core.embedded(name) end
    from_disk[name] = directory and text and true or nil
  end
  texts[name] = text
  return text, message
end

-- { [name] = text } of the files that were loaded.
function script_files.texts()
  return texts
end

-- Names of the files that were loaded, as a list.
function script_files.names()
  local names = {}
  for name in sorted_pairs(texts) do names[#names + 1] = name end
  return names
end

-- Writes copies of the loaded files into `target` of a run's directory, unless they are there.
-- Returns the names of the copies within `dir`.
function script_files.save(dir, target)
  local list = {}
  for name, text in sorted_pairs(texts) do
    local copy = ("%s/%s"):format(target, place_of(name))
    list[#list + 1] = copy
    if not fs.exists(dir .. "/" .. copy) then
      errors.must(fs.mkdirs((dir .. "/" .. copy):match("^(.*)/")))
      errors.must(fs.write(dir .. "/" .. copy, text))
    end
  end
  return list
end

-- Names of files that were read from disk, because the run that was loaded had no copy of them.
function script_files.not_copied()
  local names = {}
  for name in sorted_pairs(from_disk) do names[#names + 1] = name end
  return names
end

-- Returns the names of files on disk whose text differs from that of their copy in `from`.
function script_files.changed(from)
  local list = {}
  local function look(folder)
    for _, entry in ipairs(fs.list(from .. "/" .. folder) or {}) do
      local place = folder .. entry
      local copy, name = from .. "/" .. place, name_of(place)
      if fs.isdir(copy) then
        look(place .. "/")
      elseif fs.exists(name) and fs.read(name) ~= fs.read(copy) then
        list[#list + 1] = name
      end
    end
  end
  look("")
  return list
end

-- ---- while a script is loaded -----------------------------------------------------------------

-- A file of the system has no end, or other bytes each time.
local function is_of_system(path)
  local real = fs.realpath(path) or path
  return real:find("^/proc/") or real:find("^/dev/") or real:find("^/sys/")
end

local function note_data(path)
  if not noting or type(path) ~= "string" or fs.isdir(path) or not fs.check_input(path) then
    return
  end
  if not is_of_system(path) then files_read.add(path) end
end

-- Functions of Lua's library as a script has them while it is loaded.  lua: the library's own.
local function watched(lua)
  local files = {}

  function files.loadfile(name, mode, ...)
    local text = noting and type(name) == "string" and script_files.read(name)
    if not text then return lua.loadfile(name, mode, ...) end
    text = text:gsub("^\xEF\xBB\xBF", ""):gsub("^#[^\n]*", "")
    return load(text, "@" .. name, mode, ...)
  end

  function files.dofile(name)
    local chunk, message = files.loadfile(name)
    if not chunk then error(message, 0) end
    return chunk()
  end

  function files.open(path, mode)
    local file, message, code = lua.open(path, mode)
    if file and (mode == nil or mode:find("^rb?$")) then note_data(path) end
    return file, message, code
  end

  function files.lines(path, ...)
    if path ~= nil then note_data(path) end
    return lua.lines(path, ...)
  end

  function files.input(path)
    note_data(path)
    return lua.input(path)
  end

  return files
end

-- Begins again for another script.  from: the directory of a run's copies, which come before files
-- on disk; nil: none.
function script_files.begin(from)
  directory, texts, from_disk = from, {}, {}
end

local functions = { loadfile = "_G", dofile = "_G", open = "io", lines = "io", input = "io" }

-- Calls fn(...) while what it loads and opens is noted; returns and raises as fn.
function script_files.noted(fn, ...)
  local lua, homes = {}, {}
  for name, home in pairs(functions) do
    homes[name] = home == "_G" and _G or rawget(_G, home)
    lua[name] = type(homes[name]) == "table" and rawget(homes[name], name) or nil
  end
  local ours = watched(lua)
  for name, own in pairs(lua) do
    if type(own) == "function" then rawset(homes[name], name, ours[name]) end
  end
  noting = true
  local result = table.pack(pcall(fn, ...))
  noting = false
  for name, own in pairs(lua) do
    if rawget(homes[name], name) == ours[name] then rawset(homes[name], name, own) end
  end
  if not result[1] then error(result[2], 0) end
  return table.unpack(result, 2, result.n)
end

return script_files
