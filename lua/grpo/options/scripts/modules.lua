-- The modules of a script: where they are found, which are loaded, and how to run something without
-- them.
--
-- The modules of a run's script may come from the directory in which the run saved them.  Modules
-- named grpo... are the program's own: they are never taken from there.

local context = require "grpo.options.scripts.context"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local loaded_sources = require "grpo.options.scripts.loaded_sources"

local modules = {}

local directory -- of saved modules, which come before all others; nil: none
local saved = {} -- names of modules that were loaded from it

local function is_own(name)
  return name:find("^grpo%f[.\0]") ~= nil
end

-- One of package.searchers: looks in `directory` first, then where Lua looks.
local function search(name)
  local path = directory and not is_own(name) and package.searchpath(name, directory .. "/?.lua")
  if not path then return loaded_sources.search(name) end
  local text, message, code = core.fs.read(path)
  if not text then errors.raise_plain(code, "module '%s': %s", name, message) end
  -- The saved text runs under the path of the file on disk: the module may look for files beside
  -- that one, and if that one changes later, it is reloaded.
  local on_disk = package.searchpath(name, package.path)
  if on_disk then loaded_sources.take(on_disk) end
  path = on_disk or path
  local chunk, problem = loaded_sources.module(name, path, text)
  if not chunk then error(core.error("EARG", problem), 0) end
  saved[name] = true
  return chunk, path
end

-- Makes modules in the directory `from` come before all others from now on, also for a function
-- that requires one later; nil: no directory does.
function modules.take_from(from)
  directory = from
  if package.searchers[2] ~= search then table.insert(package.searchers, 2, search) end
end

-- Was this module loaded from the sources that a run saved?
function modules.is_saved(name)
  return saved[name] ~= nil
end

local function unload(names, from)
  for name in pairs(names) do package.loaded[name], from[name] = nil, nil end
end

-- Forgets the saved modules: from now on all are found on disk.
function modules.forget_saved()
  directory = nil
  unload(saved, saved)
end

-- Returns the sorted paths of modules whose text on disk differs from the one saved in `from`.
function modules.changed(from)
  local list = {}
  local function look(folder, prefix)
    for _, file in ipairs(core.fs.list(from .. folder) or {}) do
      local name = file:match("^(.*)%.lua$")
      if name then
        local path = not is_own(prefix .. name)
          and package.searchpath(prefix .. name, package.path)
        local saved_text = path and core.fs.read(from .. folder .. "/" .. file)
        if saved_text and core.fs.read(path) ~= saved_text then list[#list + 1] = path end
      else
        look(folder .. "/" .. file, prefix .. file .. ".")
      end
    end
  end
  look("", "")
  table.sort(list)
  return list
end

-- Returns the modules that the script required and that are files: { [name] = path }.  It does not
-- search for those in `known`, because a search opens the file, which may have become a pipe.
function modules.loaded(known)
  local list = {}
  for name in pairs(package.loaded) do
    local path = type(name) == "string" and not (known and known[name]) and not is_own(name)
      and package.searchpath(name, package.path)
    if path then list[name] = path end
  end
  return list
end

local function no_exit()
  error("os.exit would end the run", 2)
end

-- Returns a function that gives the table back the fields that it has now.
local function restorer(t)
  local values = {}
  for name, value in next, t do values[name] = value end
  return function()
    for name in next, t do
      if values[name] == nil then rawset(t, name, nil) end
    end
    for name, value in pairs(values) do rawset(t, name, value) end
  end
end

-- Calls fn(old) as if the program had just begun: none of the modules `known` is loaded; `old` has
-- them by name.  Returns what pcall does, and a function that brings back modules, globals and
-- context as they were.
function modules.apart(known, fn)
  local names, old, marks = modules.loaded(known), {}, {}
  for name in pairs(known) do names[name] = true end
  for name in pairs(saved) do names[name] = true end -- they may be on disk no more
  for name in pairs(names) do old[name], marks[name] = package.loaded[name], saved[name] end
  unload(names, saved)
  local restore_globals = restorer(_G)
  local restore_context = context.restorer()
  local path, from, library = package.path, directory, rawget(_G, "os") or os
  local exit = library.exit
  local function undo()
    unload(modules.loaded(names), {})
    unload(saved, saved)
    for name in pairs(names) do package.loaded[name], saved[name] = old[name], marks[name] end
    restore_globals()
    restore_context()
    package.path, directory = path, from
  end
  directory, library.exit = nil, no_exit
  local ok, result = pcall(fn, old)
  library.exit = exit
  return ok, result, undo
end

return modules
