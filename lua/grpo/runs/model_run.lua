-- The record of a run about the model that it trained: its options, its tools.

local model_paths = require "grpo.models.paths"
local rundir = require "grpo.runs.directory"

local model_run = {}

-- Returns the value of an option in the last stage of a run, which may be nil.
function model_run.option(run, path)
  local config = run and rundir.read(run, "config")
  local stages = config and config.stages or {}
  local option = stages[#stages] and stages[#stages].options and stages[#stages].options[path]
  return option and option.value
end

-- The chat template of a run, or else the tokenizer's own; nil if there is none, or if the run was
-- trained without one.  A second result is a sentence about one that cannot be used.
function model_run.template(tokenizer, run)
  local given, odd = model_run.option(run, "model.chat_template"), nil
  if type(given) == "string" and given:find("{[{%%#]") then
    tokenizer.chat_template = given
  elseif type(given) == "string" then
    odd = "the run's chat template is a function of its script, which is not called here; the "
      .. "tokenizer's own is used"
  end
  return given ~= false and tokenizer.chat_template or nil, odd
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
function model_run.alone(path)
  local run = model_paths.run_of(path)
  if not run then return nil end
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

return model_run
