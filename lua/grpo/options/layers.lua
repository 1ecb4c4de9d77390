-- Layers of options laid over one another, lowest to highest:
--   defaults < the `extends` file < the script < the stage < the command line.
--
-- A layer is { name = for messages, where = the script's line or nil, within = the beginning of the
-- paths of its options there ("stages[1]."), or nil, value = a table of options }.

local chat_templates = require "grpo.models.chat_templates"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local option_rows = require "grpo.options.option_rows"
local option_rules = require "grpo.options.option_rules"
local option_tree = require "grpo.options.option_tree"
local origins = require "grpo.options.origins"
local sorted_pairs = require "grpo.base.sorted"
local unknown = require "grpo.options.unknown"

local get = option_tree.get
local layers = {}

local COMMAND_LINE = { name = "command line" }

-- Raises at the line of the layer that sets the option.
function layers.complain(layer, path, format, ...)
  local where = layer.where and origins.line(layer.where, (layer.within or "") .. path)
  error(errors.new("EARG", ("%s: %s"):format(path, format:format(...)), where or layer.name), 0)
end

local complain = layers.complain

-- Raises about a resolved option: at the command line if that has set it, or else as complain().
-- from: what resolve() returns.
function layers.complain_of(layer, from, path, format, ...)
  local at = path
  while at and not from[at] do at = at:match("^(.*)%.") end
  complain(at and from[at] == "command line" and COMMAND_LINE or layer, path, format, ...)
end

-- The value that an option gets from what a layer says.
local function read_value(layer, path, row, v)
  local value, message = option_tree.value(row, v)
  if message then complain(layer, path, "%s", message) end
  return value
end

-- The place of the first of these options in the script, or the name of the layer.
local function first_place(layer, found)
  local first, least
  for _, one in ipairs(layer.where and found or {}) do
    local line = origins.line(layer.where, (layer.within or "") .. one.path)
    local number = tonumber(line:match(":(%d+)$")) or math.huge
    if not least or number < least then first, least = line, number end
  end
  return first or layer.name
end

local syntax_of = { yaml = "yaml", yml = "yaml", json = "json" } -- by the end of a file's name

-- Raises about options that are not there.  all: the whole table that holds them.
local function complain_unknown(layer, found, all)
  local syntax = layer == COMMAND_LINE and "words" or syntax_of[(layer.where or layer.name)
    :match("%.(%a+)$")] or "lua"
  local text, block
  if #found > 1 then
    text, block = unknown.block(found, all, syntax)
  else
    text = unknown.text(found[1], all, syntax == "words")
  end
  error(errors.with_block(errors.new("EARG", text, first_place(layer, found)), block), 0)
end

-- ---- laying one table over another ------------------------------------------------

-- Writes a value into `result` at a path and remembers where it came from.
local function put(result, from, path, value, origin)
  local t = result
  local head, last = path:match("^(.*)%.([^.]+)$")
  for part in (head or ""):gmatch("[^.]+") do
    if type(t[part]) ~= "table" then t[part] = {} end
    t = t[part]
  end
  t[last or path] = value
  from[path] = origin
end

local function sorted_names(layer, value, prefix)
  local names = {}
  for key in pairs(value) do
    if type(key) ~= "string" then
      complain(layer, prefix == "" and "experiment" or prefix, "has a field without a name: %s%s",
        tostring(key), prefix == "reward" and ", did you mean 'rewards'?" or "")
    end
    names[#names + 1] = key
  end
  table.sort(names)
  return names
end

-- The fields of two tables, either of which may be nil; those of the second win, and null there
-- takes one away.
local function merged(below, above)
  local all = {}
  for name, value in pairs(below or {}) do all[name] = value end
  for name, value in pairs(above) do
    if value == core.json_null then value = nil end
    all[name] = value
  end
  return all
end

-- Options whose table is the user's own data (rewards, hooks, ...) have no children and are taken
-- whole.
local function lay(result, from, layer, node, value, prefix)
  for _, key in ipairs(sorted_names(layer, value, prefix)) do
    local v, path = value[key], prefix == "" and key or prefix .. "." .. key
    local below = option_tree.child(node, key) -- unknown ones were refused before
    if below.children and type(v) == "table" and not option_tree.is_dataset(v) then
      if below.row then put(result, from, path, {}, layer.name) end
      lay(result, from, layer, below, v, path)
    elseif below.row then
      local read = read_value(layer, path, below.row, v)
      if below.row.open then read = merged(get(result, path), read) end
      put(result, from, path, read, layer.name)
    else
      complain(layer, path, "got %s, want a table", option_tree.shown(v))
    end
  end
end

-- ---- defaults ---------------------------------------------------------------------

-- Defaults that come with the name of a loss or of an optimizer; what the script sets wins.
local function fill_named(result, from, named, origin, follows)
  for path, value in sorted_pairs(named or {}) do
    if get(result, path) == nil and path ~= follows then put(result, from, path, value, origin) end
  end
end

local function fill_named_defaults(result, from)
  local train = result.train or {}
  local loss, optimizer = train.loss or "grpo", (train.optimizer or {}).name or "adamw"
  -- clip_high follows clip, where that is set
  fill_named(result, from, option_rows.loss_defaults[loss],
    "default of loss " .. tostring(loss), train.clip ~= nil and "train.clip_high")
  fill_named(result, from, option_rows.optimizer_defaults[optimizer],
    "default of optimizer " .. optimizer)
end

-- A section that is absent by default (lora, sampler_correction) stays absent, and so do its
-- fields.
local function optional_parent_absent(result, path)
  local node, at = option_tree.root(), ""
  for part in path:gmatch("[^.]+") do
    node = option_tree.child(node, part)
    at = at == "" and part or at .. "." .. part
    if at ~= path and node.row and node.row.default == nil and get(result, at) == nil then
      return true
    end
  end
  return false
end

local function fill_defaults(result, from)
  fill_named_defaults(result, from)
  for _, row in ipairs(option_rows.rows) do
    if row.default ~= nil and get(result, row.path) == nil
      and not optional_parent_absent(result, row.path) then
      local value = row.default
      if type(value) == "table" then value = table.move(value, 1, #value, 1, {}) end
      put(result, from, row.path, value, "default")
    end
  end
  for name, node in pairs(option_tree.root().children) do
    if node.children and not node.row then result[name] = result[name] or {} end
  end
end

-- ---- the command line ---------------------------------------------------------------

-- The options of a command line as a table.
local function as_table(overrides)
  local all = {}
  for _, override in ipairs(overrides) do
    put(all, {}, override.path:match("^stages%.%d+%.(.*)$") or override.path, override.value)
  end
  return all
end

-- The row of an option that a command line names.
local function override_row(path)
  local node = option_tree.root()
  for part in path:gmatch("[^.]+") do
    local below = option_tree.child(node, part)
    if not below then return node.row end -- of a table that is open
    node = below
  end
  if not node.row then
    complain(COMMAND_LINE, path, "is a section, give one of its fields")
  end
  return node.row
end

local function lay_overrides(result, from, overrides, stage_index)
  for _, override in ipairs(overrides) do
    local index, rest = override.path:match("^stages%.(%d+)%.(.*)$")
    local path = index and rest or override.path
    if index and option_rules.is_of_the_run(path) then
      complain(COMMAND_LINE, override.path, "belongs to the whole run; write %s", path)
    end
    local here = not index or tonumber(index) == stage_index
    if here then
      local row, value = override_row(path), override.value
      if row.open and path ~= row.path then
        local field = path:sub(#row.path + 2)
        path, value = row.path, merged(get(result, row.path), { [field] = value })
      end
      if value == core.json_null then
        value = nil
      else
        value = read_value(COMMAND_LINE, override.path, row, value)
      end
      put(result, from, path, value, "command line")
    end
  end
end

-- Complains of options of a stage that is not there.
function layers.check_stages(overrides, stages)
  for _, override in ipairs(overrides) do
    local index = tonumber(override.path:match("^stages%.(%d+)%."))
    if index and not stages[index] then
      complain(COMMAND_LINE, override.path, "there is no such stage; %s", #stages == 1
        and "the only one is stages.1" or ("they are stages.1 to stages.%d"):format(#stages))
    end
  end
end

-- "key=value" from a command line as { path=, value=, text= }: JSON if it reads as JSON, else a
-- string.
function layers.parse_override(word)
  local path, text = word:match("^([%w_.%[%]]+)=(.*)$")
  if not path then return nil end
  path = path:gsub("%[(%d+)%]", ".%1") -- stages[2].train.lr is stages.2.train.lr
  if ("." .. path .. "."):find("..", 1, true) then
    local message = ("%s: not the name of an option; write section.option=value"):format(path)
    error(errors.new("EARG", message, "command line"), 0)
  end
  local ok, value = errors.try(core.json_decode, text)
  if not ok then value = text end
  return { path = path, value = value, text = text }
end

local function refuse_unknown(layer, value)
  local found = unknown.names(value)
  if #found > 0 then complain_unknown(layer, found, value) end
end

-- list: layers, lowest first; overrides: of the command line; stage_index: nil for the experiment
-- itself.  Returns the resolved options, and { [path] = where it came from }.
function layers.resolve(list, overrides, stage_index)
  local result, from, words = {}, {}, as_table(overrides)
  for _, layer in ipairs(list) do refuse_unknown(layer, layer.value) end
  refuse_unknown(COMMAND_LINE, words)
  for _, layer in ipairs(list) do
    lay(result, from, layer, option_tree.root(), layer.value, "")
  end
  lay_overrides(result, from, overrides, stage_index)
  fill_defaults(result, from)
  result.model.chat_template = chat_templates.find(result.model.chat_template)
    or result.model.chat_template
  return result, from
end

return layers
