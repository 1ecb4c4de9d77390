-- Lua files with the text that was loaded: an edit on disk changes neither what runs nor what a run
-- saves.

local core = require "grpo.core"

local fs = core.fs
local loaded_sources = {}
local loaded = {} -- { [path] = result of look_at }
local missing = {} -- { [name] = package.path }: modules of which there was no file

-- The times come first: what is written between is seen at the next look.
function loaded_sources.look_at(path)
  local mtime, size = fs.mtime(path), fs.size(path)
  return { mtime = mtime, size = size, text = fs.read(path) }
end

-- The text that is about to be loaded; nil, message, code.
function loaded_sources.take(path)
  local file = loaded_sources.look_at(path)
  if not file.text then return fs.read(path) end
  loaded[path] = file
  return file.text
end

-- The file as it was loaded; as it is, when it was not.
function loaded_sources.of(path)
  return loaded[path] or loaded_sources.look_at(path)
end

-- Begins again for another script.
function loaded_sources.forget()
  loaded, missing = {}, {}
end

-- Two tables: the files that were loaded since, and the modules of which there was no file.
function loaded_sources.met()
  return loaded, missing
end

-- The text of a file as a function, as loadfile makes one of it; nil, message.
function loaded_sources.compile(path, text, ...)
  text = text:gsub("^\xEF\xBB\xBF", ""):gsub("^#[^\n]*", "")
  return load(text, "@" .. path, "t", ...)
end

-- The text of a module as a function, likewise.  A ready reward as it comes with grpo is a part of
-- the program, and runs in its environment (src/script/environment.h); an edited one is the user's.
function loaded_sources.module(name, path, text)
  if core.embedded(name:gsub("%.", "/") .. ".lua") ~= text then
    return loaded_sources.compile(path, text)
  end
  return loaded_sources.compile(path, text, _ENV)
end

-- One of package.searchers: as Lua's own for files, but what is loaded is what is remembered.  Ours
-- are not the user's.
function loaded_sources.search(name)
  local ours = name:find("^grpo%f[.\0]")
  local path = not ours and package.searchpath(name, package.path)
  local text = path and loaded_sources.take(path)
  if not text then
    missing[name] = not ours and package.path or nil
    return nil
  end
  local chunk, problem = loaded_sources.module(name, path, text)
  if not chunk then
    problem = require("grpo.base.other_programs").explained(problem, text)
    error(core.error("EARG", problem), 0)
  end
  return chunk, path
end

return loaded_sources
