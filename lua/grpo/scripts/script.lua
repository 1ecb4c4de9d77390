-- Loading an experiment script: its arguments, overrides, package.path and strict globals.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local experiment = require "grpo.experiment"
local options = require "grpo.options"
local install_dir = require "grpo.base.install_dir"
local sorted_pairs = require "grpo.base.sorted"
local loaded_sources = require "grpo.scripts.loaded_sources"

local script = {}

-- Undefined globals are errors, in the script and in what it requires; the globals of a host stay as they are.
function script.strict()
  if not core.is_guest() then core.strict(_G) end
end

-- Finds modules among those that a run has kept, in the directory script.modules, and then on disk; ours are never
-- taken from there.
local function search(name)
  local kept = script.modules and not name:find("^grpo%f[.\0]")
  local path = kept and package.searchpath(name, script.modules .. "/?.lua")
  if not path then return loaded_sources.search(name) end
  local text, message, code = core.fs.read(path)
  if not text then errors.raise_plain(code, "module '%s': %s", name, message) end
  local chunk, problem = loaded_sources.compile(path, text)
  if not chunk then error(core.error("EARG", problem), 0) end
  script.saved[name] = true
  return chunk, path
end

-- From now on modules in `directory` come before all others, also those that a function requires later; nil: no more.
function script.take_modules(directory)
  script.modules = directory
  if package.searchers[2] ~= search then table.insert(package.searchers, 2, search) end
end

script.saved = {} -- names of modules that are loaded from a run's saved sources

-- What is loaded next finds the modules on disk.
function script.forget_saved()
  script.modules = nil
  for name in pairs(script.saved) do package.loaded[name], script.saved[name] = nil, nil end
end

local function no_file(path)
  local folder, name = path:match("^(.*/)([^/]*)$")
  local scripts = {}
  for _, file in ipairs(core.fs.list(folder or ".") or {}) do
    if file:find("%.lua$") then scripts[#scripts + 1] = file end
  end
  name = name or path
  local near = core.fs.exists(path .. ".lua") and name .. ".lua" or options.nearest(name, scripts)
  errors.raise_plain("ENOENT", "%s: no such file%s", path,
    near and (", did you mean '%s%s'?"):format(folder or "", near) or "")
end

-- Arguments that were given and never asked for are likely misspelt.  Reading a field or all of them is asking.
local function watched(args)
  local asked = {}
  local view = setmetatable({}, {
    __index = function(_, name)
      asked[name] = true
      return args[name]
    end,
    __pairs = function()
      for name in pairs(args) do asked[name] = true end
      return pairs(args)
    end,
  })
  return view, asked
end

-- Modules are found beside the script, beside `home`, where it was before a run kept it, and last among the files that
-- come with grpo, because its examples share the problems of experiments/tasks.
local function search_beside(path, home)
  local front, last = "", nil
  for _, file in ipairs { path, home } do
    local directory = file:match("^(.*)/[^/]*$") or "."
    if directory ~= last then front = ("%s%s/?.lua;%s/?/init.lua;"):format(front, directory, directory) end
    last = directory
  end
  front = front .. "./?.lua;./lua/?.lua;"
  if package.path:sub(1, #front) == front then return end -- a reload
  local shipped = install_dir.directory()
  package.path = front .. package.path .. (shipped and (";%s/?.lua"):format(shipped) or "")
end

-- o: { args=, overrides= } of a command line; text: what is at path, where it is no file; modules: for take_modules;
-- home: the script's path before a run kept it; limits: of running it, none without.  Returns the Experiment.
function script.load(path, o)
  local grpo = require "grpo"
  local text, message, code = o.text
  loaded_sources.forget()
  if not text then text, message, code = loaded_sources.take(path) end
  if not text then
    if code == "ENOENT" and not core.fs.exists(path) then no_file(path) end
    errors.raise_plain(code or "ENOENT", "%s", message)
  end
  search_beside(path, o.home)
  local asked
  grpo.args, asked = watched(o.args or {})
  experiment.script_path = path
  experiment.script_name = (path:match("([^/]+)$"):gsub("%.lua$", ""))
  experiment.overrides = {}
  for _, word in ipairs(o.overrides or {}) do
    experiment.overrides[#experiment.overrides + 1] = experiment.parse_override(word)
  end
  local chunk, problem = load(text, "@" .. path, "t")
  if not chunk then error(core.error("EARG", problem), 0) end
  script.strict()
  if not core.is_guest() then math.randomseed(0) end -- rows made of random numbers are the same in every run
  script.take_modules(o.modules)
  local ok, result
  if o.limits then ok, result = core.limited(o.limits, path, chunk) else ok, result = core.protected(chunk) end
  if not ok then
    if type(result) ~= "table" or result.code == nil or result.code == "ESCRIPT" then
      local e = core.error("EARG", tostring(result))
      e.traceback = type(result) == "table" and result.traceback or nil
      error(e, 0)
    end
    error(result, 0)
  end
  if not experiment.is(result) then
    error(core.error("EARG", ("%s: returned %s; end the script with: return grpo.experiment { ... }"):format(path,
      result == nil and "nothing" or "a " .. type(result))), 0)
  end
  for name, value in sorted_pairs(o.words and o.args or {}) do
    if not asked[name] then
      core.err(("note: --arg %s=%s: %s does not ask for grpo.args.%s\n"):format(name, value, path, name))
    end
  end
  return result
end

-- The experiment of a run, from the sources that it saved; `more`: overrides after its own; `path`: another script.
-- It computes as the run did: "auto" may mean something else by now.
function script.of_run(dir, info, more, path)
  local overrides = table.move(info.overrides or {}, 1, #(info.overrides or {}), 1, {})
  for _, word in ipairs(more or {}) do overrides[#overrides + 1] = word end
  local e = script.load(path or dir .. "/source/main.lua", { args = info.args, overrides = overrides,
    modules = not path and dir .. "/source/modules" or nil, home = info.script })
  if e.config.compute == "auto" then e.config.compute = info.compute or "f32" end
  return e
end

return script
