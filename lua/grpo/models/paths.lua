-- Resolves a path to a model: a model directory, a run or checkpoint, an adapter with its base, or
-- a .gguf file.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local nearest = require "grpo.options".nearest
local rundir = require "grpo.runs.directory"

local fs = core.fs
local model_paths = {}

-- Returns the table in a JSON file, {} if the file is missing or holds something else.
function model_paths.read_json(path)
  local ok, value = pcall(core.json_decode, fs.read(path) or "")
  return ok and type(value) == "table" and value or {}
end

local function is_absolute(path)
  return path:sub(1, 1) == "/"
end

-- Returns the path of an adapter's base model: base_model_name_or_path relative to the adapter's
-- folder, else relative to the current directory.
local function base_of(dir)
  local config = core.json_decode(fs.read(dir .. "/adapter_config.json") or "",
    dir .. "/adapter_config.json")
  local name = type(config) == "table" and config.base_model_name_or_path
  if type(name) ~= "string" or name == "" then
    errors.raise("EFORMAT", "%s/adapter_config.json: base_model_name_or_path: is missing; say "
      .. "which model the adapter belongs to", dir)
  end
  local beside = dir .. "/" .. name
  if not is_absolute(name) and fs.exists(beside) then return beside end
  if fs.exists(name) then return name end
  errors.raise("ENOENT",
    "%s/adapter_config.json: the base model %s is not there (looked for it %s); put it there, "
    .. "name another (--base DIR, where a command takes it), or change base_model_name_or_path",
    dir, name,
    is_absolute(name) and "at that path" or ("in %s and in the current directory"):format(dir))
end

-- Returns runs/PATH if that is a run and PATH does not exist, else PATH: runs may be named without
-- their folder.
local function of_run(path)
  if type(path) ~= "string" or path:find("/", 1, true) or fs.exists(path) then return path end
  return fs.exists("runs/" .. path .. "/run.json") and "runs/" .. path or path
end

-- Raises if a run of a similar name exists; the caller knows that `path` does not.
local function missing(path)
  local runs = {}
  for _, name in ipairs(fs.list("runs") or {}) do
    if name:sub(1, 1) ~= "." then runs[#runs + 1] = "runs/" .. name end
  end
  local near = nearest(path:find("/", 1, true) and path or "runs/" .. path, runs)
  if near then
    errors.raise("ENOENT", "%s: no such model directory, did you mean '%s'?", path, near)
  end
end

-- Tells whether `path` is a PEFT folder and not a complete model.
function model_paths.is_adapter(path)
  return fs.exists(path .. "/adapter_config.json") and not fs.exists(path .. "/config.json")
end

-- Returns the directory of a run's newest checkpoint.
local function newest_of(run)
  local newest, message, code = core.checkpoint_newest(run)
  return newest or errors.raise(code, "%s", message)
end

-- Tells whether a path to a model or a run leads to an adapter.
function model_paths.leads_to_adapter(path)
  path = of_run(path)
  local newest = fs.exists(path .. "/run.json") and core.checkpoint_newest(path)
  return model_paths.is_adapter(newest or path)
end

-- Resolves a path (a run may be given by its name in runs/) to { path = the directory or file to
-- load, adapter = its directory or nil, run = the run's directory or nil }.  base: a model to use
-- instead of the one that the adapter names.
function model_paths.find(path, base)
  path = of_run(path)
  if not fs.exists(path) then missing(path) end
  local place = { path = path }
  if fs.exists(path .. "/run.json") then
    place.run, place.path = path, newest_of(path)
  end
  if model_paths.is_adapter(place.path) then
    place.adapter, place.path = place.path, base or base_of(place.path)
  elseif base then
    errors.raise("EARG", "%s: is a complete model, not an adapter; leave out the base", path)
  end
  return place
end

-- Has one of these tables of options a value for this one?
local function any_has(list, name)
  for _, options in ipairs(list) do
    local option = type(options) == "table" and options[name]
    if type(option) == "table" and option.value ~= nil then return true end
  end
  return false
end

-- Returns a sentence saying that tools or an environment answered the model during its run, which
-- they do not elsewhere, or that this is not known; nil if there were none.
function model_paths.alone(path)
  path = of_run(path)
  local run = fs.exists(path .. "/trainer.json") and path .. "/../.." or path
  if not fs.exists(run .. "/run.json") then return nil end
  local ok, config = pcall(rundir.read_listed, run, "config")
  if not ok then return tostring(config) end
  local list, met = { config and config.options or {} }, {}
  for _, stage in ipairs(config and config.stages or {}) do
    list[#list + 1] = stage.options or {}
  end
  for _, name in ipairs { "tools", "environment" } do
    if any_has(list, name) then met[#met + 1] = name end
  end
  return met[1] and ("the run answered this model by its %s; here nothing does, and calls stay "
    .. "text"):format(table.concat(met, " and "))
end

return model_paths
