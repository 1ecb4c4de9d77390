-- grpo.experiment { ... }: check every option, fill in the defaults, remember where each value
-- came from.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local layers = require "grpo.options.layers"
local option_rules = require "grpo.options.option_rules"
local option_tree = require "grpo.options.option_tree"
local origins = require "grpo.options.origins"
local reward_entries = require "grpo.options.reward_entries"
local script_files = require "grpo.options.scripts.script_files"
local settings = require "grpo.options.settings"
local steps = require "grpo.options.stage_kinds"
local text_formats = require "grpo.base.text_formats"

local experiment = {}

local Experiment = { __name = "grpo.Experiment" }
Experiment.__index = Experiment
Experiment.__tostring = function(e) return "experiment " .. e.config.name end

-- The line of `return grpo.experiment { ... }` in the script: a tail call, which leaves no frame to
-- ask.
local function constructor_line(script)
  local text, n = script and core.fs.read(script), 0
  for s in ((text or "") .. "\n"):gmatch("([^\n]*)\n") do
    n = n + 1
    if s:find("^%s*return%s.*experiment%s*[({]") then return script .. ":" .. n end
  end
  return script and script .. ":1"
end

-- An error of the engine about an option ("train.loss: ...") gets the script's line, unless it has
-- one.
function experiment.locate(config, err)
  if type(err) ~= "table" or type(err.message) ~= "string" then return end
  if err.message:find("%.lua:%d+: ") then return end
  local path = err.message:match("^([%l_]+%.[%l_.]+): ")
  local section = path and option_tree.child(option_tree.root(), path:match("^[^.]+"))
  local where = section and origins.position(config, path)
  if where then err.message = where .. ": " .. err.message end
end

-- ---- layers and stages -------------------------------------------------------------------

local function read_extends(path, where)
  if type(path) ~= "string" then
    layers.complain({ where = where }, "extends", "got %s, want a string", option_tree.shown(path))
  end
  local problem = text_formats.problem(path)
  if problem then layers.complain({ where = where }, "extends", "%s", problem) end
  local text, message = script_files.read(path)
  if not text then
    error(errors.new("ENOENT", "extends: " .. message, where), 0)
  end
  local layer = { name = path }
  local value = settings.fields(text, path, settings.kind(path))
  if value.extends ~= nil then
    layers.complain(layer, "extends", "a file that is extended cannot extend another")
  end
  return value
end

local function without(t, key)
  local copy = {}
  for k, v in pairs(t) do
    if k ~= key then copy[k] = v end
  end
  return copy
end

-- The layers of the experiment itself, lowest first, and its list of stages.
local function layers_of(fields, where, overrides)
  local list, extends, stages = {}, fields.extends, fields.stages
  local given = {}
  for _, override in ipairs(overrides) do given[override.path] = override.value end
  if given.extends ~= nil then extends = given.extends end
  if extends and extends ~= core.json_null then
    local value = read_extends(extends, where)
    if stages == nil then stages = value.stages end
    list[1] = { name = "extends " .. extends, value = without(value, "stages") }
  end
  list[#list + 1] = { name = "script", where = where, value = without(fields, "stages") }
  if given.stages ~= nil then stages = given.stages end
  if stages == nil or stages == core.json_null then stages = { { kind = "grpo" } } end
  if type(stages) ~= "table" or #stages == 0 then
    layers.complain({ where = where }, "stages",
      "want a list of { kind = \"sft\"|\"grpo\", ... } with at least one")
  end
  return list, stages
end

-- The reward entries of a script and of its host.  Without any the environment's own reward is the
-- one, or that of the programs that a kind of stage waits for.
local function entries_of(config, where, of_host, waits)
  local rewards = config.rewards
  if rewards == nil and (config.environment or waits) then
    rewards = { environment = reward_entries.of_environment }
  end
  local own = reward_entries.list(rewards, origins.line(where, "rewards"))
  return reward_entries.with_host(own, of_host)
end

local function refuse_empty(config, field)
  local dataset = config.data[field]
  if dataset and #dataset == 0 then
    errors.raise_at(origins.position(config, "data." .. field), "ENOENT",
      "data.%s: the dataset is empty: %s", field, tostring(dataset))
  end
end

-- Stage number `index` of experiment e as { kind=, config=, origins= }; list: the layers of the
-- experiment.
local function new_stage(e, stage, index, list)
  local where, path = e.where, ("stages[%d]"):format(index)
  local layer = { where = where, name = "experiment" }
  local function refuse(...) layers.complain(layer, ...) end
  if type(stage) ~= "table" then refuse(path, "got %s, want a table", option_tree.shown(stage)) end
  option_rules.check_stage(stage, path, refuse)
  local stacked = table.move(list, 1, #list, 1, {})
  local defaults = steps[stage.kind].defaults
  if defaults then table.insert(stacked, 1, { name = "default", value = defaults }) end
  stacked[#stacked + 1] = { name = "stage " .. index, where = where, within = path .. ".",
    value = without(stage, "kind") }
  local config, from = layers.resolve(stacked, e.context.overrides, index)
  origins.remember(config, where, from)
  config.name = e.config.name
  config.reward_entries = entries_of(config, where, e.context.rewards,
    steps[stage.kind].waits)
  config.reads_text = steps[stage.kind].reads_text and not config.data.target
  config.prompt_of = steps[stage.kind].prompt_of
  option_rules.check(stage.kind, config, function(option) return from[option] end,
    function(...) layers.complain_of(layer, from, ...) end)
  refuse_empty(config, "train")
  refuse_empty(config, "eval")
  return { kind = stage.kind, config = config, origins = from }
end

-- The constructor behind grpo.experiment.  context: what the script was given
-- (options/scripts/context.lua).  Raises at the script's line; returns an Experiment:
--   .config, .origins   resolved options and where each came from
--   .stages             list of { kind=, config=, origins= }, at least one
function experiment.new(fields, context)
  local where = context.where or errors.where() or constructor_line(context.path)
  if type(fields) ~= "table" then
    error(errors.new("EARG", "grpo.experiment: got " .. type(fields) .. ", want a table", where), 0)
  end
  local list, stages = layers_of(fields, where, context.overrides)
  layers.check_stages(context.overrides, stages)
  local e = setmetatable({ where = where, stages = {}, context = context }, Experiment)
  e.config, e.origins = layers.resolve(list, context.overrides)
  e.config.name = e.config.name or context.name or "experiment"
  e.config.reward_entries = entries_of(e.config, where, context.rewards)
  for i, stage in ipairs(stages) do e.stages[i] = new_stage(e, stage, i, list) end
  return e
end

function experiment.is(v)
  return getmetatable(v) == Experiment
end

return experiment
