-- Resolves a path to a model: a model directory, a run or checkpoint, an adapter with its base, a
-- .gguf file, or a name (data/places.lua).

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local places = require "grpo.data.places"
local nearest = require "grpo.options".nearest

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
-- folder, else relative to the current directory, else a snapshot; and then its "NAME@COMMIT".
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
  if places.is_name(name) then
    local revision = config.revision
    local full = type(revision) == "string" and name .. "@" .. revision or name
    local ok, place, commit = pcall(places.place, full, true)
    if commit then return place, name .. "@" .. commit end
    if not ok and fs.isdir(places.repository(name)) then -- of which something is missing
      errors.raise(place.code or "ENOENT", "%s/adapter_config.json: the base model %s",
        dir, tostring(place))
    end
    errors.raise("ENOENT", "%s/adapter_config.json: the base model %s is not there (looked for it "
      .. "in %s, in the current directory and in %s); bring it with 'grpo pull %s', name another "
      .. "(--base DIR, where a command takes it), or change base_model_name_or_path",
      dir, name, dir, places.repository(name), full)
  end
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

-- Returns where a name's files lie and "NAME@VERSION", else `path`.  For a name that is not
-- there, a run of a similar name is suggested first.
local function of_name(path, whole)
  if type(path) ~= "string" or fs.exists(path) then return path end
  if not places.is_name(path) and not places.name_in(path) then return path end
  local ok, place, commit = pcall(places.place, path, whole)
  if ok then return place, commit and path:match("^[^@]*") .. "@" .. commit end
  model_paths.suggest_run(path)
  error(place, 0)
end

-- Raises if a run of a similar name exists; the caller knows that `path` does not.
function model_paths.suggest_run(path)
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
  path = of_name(of_run(path))
  local newest = fs.exists(path .. "/run.json") and core.checkpoint_newest(path)
  return model_paths.is_adapter(newest or path)
end

-- Resolves a path (a run may be given by its name in runs/) to { path = the directory or file to
-- load, adapter = its directory or nil, run = the run's directory or nil, name = "NAME@COMMIT" of
-- the complete model if a name stood for it }.  base: a model to use instead of the
-- one that the adapter names.
function model_paths.find(path, base)
  local place = {}
  path, place.name = of_name(of_run(path), true)
  if not fs.exists(path) then model_paths.suggest_run(path) end
  place.path = path
  if fs.exists(path .. "/run.json") then
    place.run, place.path = path, newest_of(path)
  end
  if model_paths.is_adapter(place.path) then
    place.adapter = place.path
    if base then
      place.path, place.name = of_name(base, true)
    else
      place.path, place.name = base_of(place.path)
    end
  elseif base then
    errors.raise("EARG", "%s: is a complete model, not an adapter; leave out the base", path)
  end
  return place
end

-- Returns the directory of the run that a path names or, as a checkpoint, belongs to; or nil.
function model_paths.run_of(path)
  path = of_run(path)
  if fs.exists(path .. "/run.json") then return path end
  local above = path .. "/../.."
  return fs.exists(path .. "/trainer.json") and fs.exists(above .. "/run.json") and above or nil
end

return model_paths
