-- The files of a run that differ from what was loaded from them.
--
-- Watched are its script, the modules that it or one of its functions required, and the files that
-- it loaded by their names; while a change of them could not be loaded, also what that attempt
-- loaded besides, its tests, and the places where it found no module.

local core = require "grpo.core"
local loaded_sources = require "grpo.options.scripts.loaded_sources"
local modules = require "grpo.options.scripts.modules"
local script_files = require "grpo.options.scripts.script_files"

local fs = core.fs
local changed_files = {}

local Files = {}
Files.__index = Files

-- script: its path on disk, or false where it is not there: then only `known` counts, the modules
-- by name.
function changed_files.new(script)
  local files = setmetatable({ script = script, known = modules.loaded() }, Files)
  files:remember()
  return files
end

local function sorted(set)
  local list = {}
  for path in pairs(set) do list[#list + 1] = path end
  table.sort(list)
  return list
end

-- The paths that are in one list or the other, sorted.
function changed_files.join(a, b)
  local set = {}
  for _, list in ipairs { a, b } do
    for _, path in ipairs(list) do set[path] = true end
  end
  return sorted(set)
end

local function loaded(files)
  local set = files.script and { [files.script] = true } or {}
  for _, path in pairs(files.script and modules.loaded() or {}) do set[path] = true end
  for _, path in ipairs(files.script and script_files.names() or {}) do set[path] = true end
  return set
end

-- Remembers the files that are loaded now as those that run.
function Files:remember()
  self.running, self.seen, self.missing, self.failed = {}, {}, {}, false
  for path in pairs(loaded(self)) do
    local file = loaded_sources.of(path)
    self.running[path], self.seen[path] = file, file
  end
end

-- A module that a function has required since.
function Files:add(name, path)
  self.known[name] = path
  if not self.script then return end
  local file = loaded_sources.of(path)
  self.running[path], self.seen[path] = file, file
end

-- An empty file is one that an editor is about to write.
local function look(path)
  local size = fs.size(path)
  local file = size and size > 0 and loaded_sources.look_at(path)
  return file and file.text and file
end

-- The first file that there is for a module; nothing is opened but that.
local function found(name, search)
  for template in search:gmatch("[^;]+") do
    local path = template:gsub("%?", (name:gsub("%.", "/"):gsub("%%", "%%%%")))
    local file = look(path)
    if file then return path, file end
  end
end

-- Returns the paths of files whose text has changed since the last look.  After an attempt that
-- failed, a file that was only saved again counts too: the mistake may have been in another file.
function Files:changed()
  local set = {}
  for path, old in pairs(self.seen) do
    local new = (fs.mtime(path) ~= old.mtime or fs.size(path) ~= old.size) and look(path)
    if new then
      if self.failed or new.text ~= old.text then set[path] = true end
      self.seen[path] = new
    end
  end
  for name, search in pairs(self.missing) do
    local path, file = found(name, search)
    if path then
      set[path], self.seen[path], self.missing[name] = true, file, nil
    end
  end
  return sorted(set)
end

-- Returns the paths of files whose text, at the last look, differed from the text that runs.
function Files:stale()
  local set = {}
  for path, file in pairs(self.running) do
    if self.seen[path].text ~= file.text then set[path] = true end
  end
  return sorted(set)
end

-- `stale`, and what has been loaded beside it and did not run before.
function Files:news(stale)
  local list = {}
  for path in pairs(loaded(self)) do
    local old = self.running[path]
    if not old or old.text ~= loaded_sources.of(path).text then list[#list + 1] = path end
  end
  return changed_files.join(stale, list)
end

-- An attempt has failed: what it met may be the reason.
function Files:fail()
  local met, missing = loaded_sources.met()
  self.failed = true
  for path, file in pairs(met) do self.seen[path] = self.seen[path] or file end
  for name, search in pairs(missing) do
    if package.loaded[name] == nil then self.missing[name] = search end
  end
end

-- All is as it runs again.
function Files:calm()
  self.failed, self.missing = false, {}
  for path in pairs(self.seen) do
    if not self.running[path] then self.seen[path] = nil end
  end
end

return changed_files
