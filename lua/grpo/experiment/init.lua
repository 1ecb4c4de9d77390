-- grpo.experiment { ... }: check every option, fill in the defaults, remember where each value came from.
--
-- The options themselves are rows of the engine's options table (core.options()).
-- Values are laid over one another, lowest to highest:
--   defaults < the `extends` file < the script < the command line.
-- A stage is one more layer, above the script's own fields.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local option_rules = require "grpo.experiment.option_rules"
local chat_templates = require "grpo.models.chat_templates"
local scoring = require "grpo.train.scoring"
local sorted_pairs = require "grpo.base.sorted"
local steps = require "grpo.train.steps"
local suggest = require "grpo.options".nearest

-- Set by the program: overrides, a list of { path=, value=, text= }; script_name; script_path; host_rewards, entries
-- of the program around the run.
local experiment = { overrides = {}, host_rewards = {} }

-- [config] = { where=, origins= }: for messages about a resolved option
local sources = setmetatable({}, { __mode = "k" })

local Experiment = { __name = "grpo.Experiment" }
Experiment.__index = Experiment
Experiment.__tostring = function(e) return "experiment " .. e.config.name end

-- ---- the tree of options -----------------------------------------------------

local tree

local function option_tree()
  if tree then return tree end
  tree = { children = {} }
  for _, row in ipairs(core.options()) do
    local node = tree
    for part in row.path:gmatch("[^.]+") do
      node.children = node.children or {}
      node.children[part] = node.children[part] or {}
      node = node.children[part]
    end
    node.row = row
  end
  return tree
end

local function child(node, key)
  return node.children and node.children[key]
end

local function child_names(node)
  local names = {}
  for name in pairs(node.children or {}) do names[#names + 1] = name end
  table.sort(names)
  return names
end

experiment.tree = option_tree

-- ---- where a field stands in the user's script --------------------------------

local function field_line(where, key)
  local file, line = (where or ""):match("^(.*):(%d+)$")
  local text = file and core.fs.read(file)
  if not text then return where end
  local n, first = 0, tonumber(line)
  for s in (text .. "\n"):gmatch("([^\n]*)\n") do
    n = n + 1
    if n >= first and s:find("%f[%w_]" .. key:gsub("%W", "%%%0") .. "%f[^%w_]%s*=") then
      return file .. ":" .. n
    end
  end
  return where
end

-- The line of `return grpo.experiment { ... }`: a tail call, which leaves no frame to ask.
local function constructor_line()
  local path = experiment.script_path
  local text, n = path and core.fs.read(path), 0
  for s in ((text or "") .. "\n"):gmatch("([^\n]*)\n") do
    n = n + 1
    if s:find("^%s*return%s.*experiment%s*[({]") then return path .. ":" .. n end
  end
  return path and path .. ":1"
end

local function complain(layer, path, format, ...)
  local key = path:match("[^.]+$") or path
  local where = layer.where and field_line(layer.where, key)
  error(errors.new("EARG", ("%s: %s"):format(path, format:format(...)), where or layer.name), 0)
end

-- ---- checking one value ---------------------------------------------------------

local accepts = {
  int = function(v) return math.tointeger(v) ~= nil and type(v) == "number" end,
  number = function(v) return type(v) == "number" and v - v == 0 end, -- finite
  boolean = function(v) return type(v) == "boolean" end,
  string = function(v) return type(v) == "string" end,
  enum = function(v, row)
    for _, choice in ipairs(row.choices or {}) do
      if v == choice then return true end
    end
    return false
  end,
  schedule = function(v) return type(v) == "number" and v - v == 0 or type(v) == "function" end,
  ["function"] = function(v) return type(v) == "function" end,
  table = function(v) return type(v) == "table" end,
  list = function(v) return type(v) == "table" end,
  dataset = function(v) return require("grpo.data").is_dataset(v) end,
  any = function() return true end,
}

local wanted_text = {
  int = "a whole number", number = "a number", boolean = "true or false", string = "a string",
  schedule = "a number or a function(p)", ["function"] = "a function", table = "a table", list = "a list",
  dataset = "a dataset (grpo.data.jsonl, .csv, .text, .list or .generate)",
}

local function range_text(row)
  if row.min and row.max then return (", %s to %s"):format(row.min, row.max) end
  if row.min then return (", %s or more"):format(row.min) end
  if row.max then return (", %s or less"):format(row.max) end
  return ""
end

local function wanted(row)
  local texts = {}
  for kind in row.type:gmatch("[^|]+") do
    if kind == "enum" then
      texts[#texts + 1] = "one of " .. table.concat(row.choices, ", ")
    else
      texts[#texts + 1] = wanted_text[kind]
    end
  end
  return table.concat(texts, " or ") .. range_text(row)
end

local function shown(v)
  if type(v) == "string" then return ("'%s'"):format(#v > 40 and v:sub(1, 40) .. "..." or v) end
  if type(v) == "number" or type(v) == "boolean" then return tostring(v) end
  return "a " .. type(v)
end

-- What is wrong with a value of that option; nil when nothing is.
local function problem(row, v)
  local fits = false
  for kind in row.type:gmatch("[^|]+") do
    if accepts[kind](v, row) then fits = true break end
  end
  if not fits then
    local hint = ""
    if row.choices and type(v) == "string" then
      local near = suggest(v, row.choices)
      hint = near and (", did you mean '%s'?"):format(near) or ""
    end
    return ("got %s, want %s%s"):format(shown(v), wanted(row), hint)
  end
  if type(v) == "number" and ((row.min and v < row.min) or (row.max and v > row.max)) then
    return ("got %s, want %s"):format(shown(v), wanted(row))
  end
end
experiment.problem, experiment.wanted = problem, wanted

local function check_value(layer, path, row, v)
  local message = problem(row, v)
  if message then complain(layer, path, "%s", message) end
end

-- ---- laying one table over another ------------------------------------------------

-- Writes value into result at path; remembers its origin.
local function put(result, origins, path, value, origin)
  local t = result
  local head, last = path:match("^(.*)%.([^.]+)$")
  for part in (head or ""):gmatch("[^.]+") do
    if type(t[part]) ~= "table" then t[part] = {} end
    t = t[part]
  end
  t[last or path] = value
  origins[path] = origin
end

-- The option whose last name is `name`, if there is exactly one: "train.lr" for "lr"; nil for a name in a section.
function experiment.whole_name(name)
  local found
  for _, row in ipairs(core.options()) do
    if row.path ~= name and row.path:match("[^.]+$") == name then
      if found then return nil end
      found = row.path
    end
  end
  return found
end

-- Options whose table is the user's own data (rewards, hooks, ...) have no children and are taken whole.
local function lay(result, origins, layer, node, value, prefix)
  local names = {}
  for key in pairs(value) do
    if type(key) ~= "string" then
      complain(layer, prefix == "" and "experiment" or prefix, "has a field without a name: %s%s", tostring(key),
        prefix == "reward" and ", did you mean 'rewards'?" or "")
    end
    names[#names + 1] = key
  end
  table.sort(names)
  for _, key in ipairs(names) do
    local v, path = value[key], prefix == "" and key or prefix .. "." .. key
    local next_node = child(node, key)
    if not next_node then
      local near = experiment.whole_name(path) or suggest(key, child_names(node))
      complain(layer, path, "unknown option%s", near and (", did you mean '%s'?"):format(near) or "")
    end
    local table_section = next_node.children and type(v) == "table" and not accepts.dataset(v)
    if table_section then
      if next_node.row then put(result, origins, path, {}, layer.name) end
      lay(result, origins, layer, next_node, v, path)
    elseif next_node.row then
      check_value(layer, path, next_node.row, v)
      put(result, origins, path, v, layer.name)
    else
      complain(layer, path, "got %s, want a table", shown(v))
    end
  end
end

local function get(t, path)
  for part in path:gmatch("[^.]+") do
    if type(t) ~= "table" then return nil end
    t = t[part]
  end
  return t
end

-- Defaults that a loss name sets; what the script sets wins.
local function fill_loss_defaults(result, origins)
  local train = result.train or {}
  local named = core.loss_defaults()[train.loss or "grpo"]
  if not named then return end
  local clip_is_set = train.clip ~= nil -- then clip_high follows it
  for path, value in sorted_pairs(named) do
    local follows = path == "train.clip_high" and clip_is_set
    if get(result, path) == nil and not follows then
      put(result, origins, path, value, "default of loss " .. train.loss)
    end
  end
end

-- A section that is absent by default (lora, sampler_correction) stays absent: its fields have no say.
local function optional_parent_absent(result, path)
  local node, at = option_tree(), ""
  for part in path:gmatch("[^.]+") do
    node = child(node, part)
    at = at == "" and part or at .. "." .. part
    if at ~= path and node.row and node.row.default == nil and get(result, at) == nil then return true end
  end
  return false
end

local function fill_defaults(result, origins)
  fill_loss_defaults(result, origins)
  for _, row in ipairs(core.options()) do
    if row.default ~= nil and get(result, row.path) == nil and not optional_parent_absent(result, row.path) then
      local value = row.default
      if type(value) == "table" then value = table.move(value, 1, #value, 1, {}) end
      put(result, origins, row.path, value, "default")
    end
  end
  for name, node in pairs(option_tree().children) do
    if node.children and not node.row then result[name] = result[name] or {} end
  end
end

-- Where a resolved option was set, for messages: "script.lua:14" or "command line".
function experiment.position(config, path)
  local source = sources[config]
  if not source then return nil end
  local origin = source.origins[path]
  if origin == "command line" then return origin end
  return field_line(source.where, path:match("[^.]+$"))
end

-- Has nobody set a resolved option?
function experiment.is_default(config, path)
  local source = sources[config]
  return source ~= nil and source.origins[path] == "default"
end

-- An error of the engine about an option ("train.loss: ...") gets the script's line, unless it has one.
function experiment.locate(config, err)
  if type(err) ~= "table" or type(err.message) ~= "string" then return end
  if err.message:find("%.lua:%d+: ") then return end
  local path = err.message:match("^([%l_]+%.[%l_.]+): ")
  local where = path and child(option_tree(), path:match("^[^.]+")) and experiment.position(config, path)
  if where then err.message = where .. ": " .. err.message end
end

-- ---- resolving -------------------------------------------------------------------------

local function read_extends(path, where)
  if type(path) ~= "string" then
    complain({ where = where }, "extends", "got %s, want %s", shown(path), wanted_text.string)
  end
  local text, message = core.fs.read(path)
  text = text or core.embedded(path)
  if not text then
    error(errors.new("ENOENT", ("extends: %s: %s"):format(path, message), where), 0)
  end
  local value = core.json_decode(text, path)
  if type(value) ~= "table" then complain({ name = path }, "extends", "want a JSON object, got %s", shown(value)) end
  if value.extends ~= nil then complain({ name = path }, "extends", "a file that is extended cannot extend another") end
  return value
end

local function without(t, key)
  local copy = {}
  for k, v in pairs(t) do
    if k ~= key then copy[k] = v end
  end
  return copy
end

-- The row of an option that a command line names.
local function override_row(o, path)
  local node = option_tree()
  for part in path:gmatch("[^.]+") do
    local parent = node
    node = child(parent, part)
    if not node then
      local near = experiment.whole_name(path) or suggest(part, child_names(parent))
      local hint = near and (", did you mean '%s'?"):format(near) or ""
      complain({ name = "command line" }, o.path, "unknown option%s", hint)
    end
  end
  if not node.row then complain({ name = "command line" }, o.path, "is a section, give one of its fields") end
  return node.row
end

local function lay_overrides(result, origins, stage_index)
  for _, o in ipairs(experiment.overrides) do
    local index, rest = o.path:match("^stages%.(%d+)%.(.*)$")
    local path = index and rest or o.path
    if index and option_rules.is_of_the_run(path) then
      complain({ name = "command line" }, o.path, "belongs to the whole run; write %s", path)
    end
    if not index or tonumber(index) == stage_index then
      local row = override_row(o, path)
      if o.value == core.json_null then
        put(result, origins, path, nil, "command line")
      else
        check_value({ name = "command line" }, o.path, row, o.value)
        put(result, origins, path, o.value, "command line")
      end
    end
  end
end

-- layers: list of { name=, where=, value= }, lowest first.  stage_index: nil for the experiment itself.
local function resolve(layers, stage_index)
  local result, origins = {}, {}
  for _, layer in ipairs(layers) do
    lay(result, origins, layer, option_tree(), layer.value, "")
  end
  lay_overrides(result, origins, stage_index)
  fill_defaults(result, origins)
  result.model.chat_template = chat_templates.find(result.model.chat_template) or result.model.chat_template
  return result, origins
end

-- Without rewards an environment's own is the one.
local function rewards_list(config, where)
  local rewards = config.rewards
  if rewards == nil and config.environment then rewards = { environment = scoring.of_environment } end
  local list = scoring.entries(rewards, field_line(where, "rewards"))
  return scoring.with_host(list, experiment.host_rewards)
end

-- One entry of `stages`, as { kind=, config=, origins= }; layers: those of the experiment.
local function new_stage(stage, index, layers, where, name)
  local layer, path = { where = where, name = "experiment" }, ("stages[%d]"):format(index)
  local function refuse(...) complain(layer, ...) end
  if type(stage) ~= "table" then refuse(path, "got %s, want a table", shown(stage)) end
  option_rules.check_stage(stage, path, refuse)
  local stacked = table.move(layers, 1, #layers, 1, {})
  stacked[#stacked + 1] = { name = "stage " .. index, where = where, value = without(stage, "kind") }
  local config, origins = resolve(stacked, index)
  sources[config] = { where = where, origins = origins }
  config.name = name
  config.reward_entries = rewards_list(config, where)
  config.reads_text = steps[stage.kind].reads_text and not config.data.target
  option_rules.check(stage.kind, config, function(option) return origins[option] end, refuse)
  for _, field in ipairs { "train", "eval" } do
    local dataset = config.data[field]
    if dataset and #dataset == 0 then
      error(errors.new("ENOENT", ("data.%s: the dataset is empty: %s"):format(field, dataset),
        experiment.position(config, "data." .. field)), 0)
    end
  end
  return { kind = stage.kind, config = config, origins = origins }
end

-- The layers of the experiment itself, lowest first, and its list of stages.
local function layers_of(fields, where)
  local layers, extends, stages = {}, fields.extends, fields.stages
  local given = {}
  for _, o in ipairs(experiment.overrides) do given[o.path] = o.value end
  if given.extends ~= nil then extends = given.extends end
  if extends and extends ~= core.json_null then
    local value = read_extends(extends, where)
    if stages == nil then stages = value.stages end
    layers[1] = { name = "extends " .. extends, value = without(value, "stages") }
  end
  layers[#layers + 1] = { name = "script", where = where, value = without(fields, "stages") }
  if given.stages ~= nil then stages = given.stages end
  if stages == nil or stages == core.json_null then stages = { { kind = "grpo" } } end
  if type(stages) ~= "table" or #stages == 0 then
    complain({ where = where }, "stages", "want a list of { kind = \"sft\"|\"grpo\", ... } with at least one")
  end
  return layers, stages
end

-- The public constructor.  Raises at the script's line; returns an Experiment:
--   .config, .origins   resolved options and where each came from
--   .stages             list of { kind=, config=, origins= }, at least one
function experiment.new(fields)
  local where = errors.where() or constructor_line()
  if type(fields) ~= "table" then
    error(errors.new("EARG", "grpo.experiment: got " .. type(fields) .. ", want a table", where), 0)
  end
  local layers, stages = layers_of(fields, where)
  local e = setmetatable({ where = where, stages = {} }, Experiment)
  e.config, e.origins = resolve(layers)
  e.config.name = e.config.name or experiment.script_name or "experiment"
  e.config.reward_entries = rewards_list(e.config, where)
  for i, stage in ipairs(stages) do e.stages[i] = new_stage(stage, i, layers, where, e.config.name) end
  return e
end

function experiment.is(v)
  return getmetatable(v) == Experiment
end

-- "key=value" from a command line: JSON if it reads as JSON, else a string.
function experiment.parse_override(word)
  local path, text = word:match("^([%w_.]+)=(.*)$")
  if not path then return nil end
  if ("." .. path .. "."):find("..", 1, true) then
    local message = ("%s: not the name of an option; write section.option=value"):format(path)
    error(errors.new("EARG", message, "command line"), 0)
  end
  local ok, value = pcall(core.json_decode, text)
  if not ok then value = text end
  return { path = path, value = value, text = text }
end

return experiment
