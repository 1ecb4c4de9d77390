-- Rewards that a settings file names: "gsm8k.correct" is the function `correct` of the module
-- rewards.gsm8k, or of a module gsm8k beside the file.
--
--   { ["gsm8k.correct"] = 2.0, ["gsm8k.layout"] = "linear:from=1,to=0" }           weights
--   { short = { group_fn = "length.relative", options = { ... }, weight = 0.5 } }  entries
--
-- With `options` the function is called with them first, and what it returns is the reward.

local core = require "grpo.core"
local options = require "grpo.options"
local reward_factory = require "grpo.options.reward_factory"
local sorted_pairs = require "grpo.base.sorted"

local rewards = {}

local kinds = { "fn", "group_fn", "token_fn" }
local entry_fields = { "fn", "group_fn", "token_fn", "weight", "options" }

-- A name leads to what belongs to grpo's users, and not to Lua's own libraries.
local libraries = { "_G", "coroutine", "debug", "grpo", "io", "math", "os", "package", "string",
  "table", "utf8" }

-- A module, or nil if there is none of that name.
local function module_of(name)
  local ok, result = pcall(require, name)
  if ok then return type(result) == "table" and result or nil end
  if tostring(result):find(("module '%s' not found"):format(name), 1, true) then return nil end
  error(result, 0)
end

local function functions_of(module)
  local names = {}
  for name, value in sorted_pairs(module) do
    if type(name) == "string" and type(value) == "function" then names[#names + 1] = name end
  end
  return names
end

-- The function that a name means.  path: the option, for messages.
function rewards.named(name, path, complain)
  local words = type(name) == "string" and name:find("^[%a_][%w_.]*$") and name or ""
  local from, field = words:match("^([%w_][%w_.]*)%.([%w_]+)$")
  if not from or from:find("..", 1, true) then
    complain(path, "want the name of a reward, such as \"gsm8k.correct\"")
  end
  local own = options.among(from:match("^[^.]+"), libraries)
  local module = module_of("rewards." .. from) or not own and module_of(from)
  if not module then
    complain(path, "there is no module rewards.%s, nor %s beside the file", from, from)
  end
  local f = rawget(module, field)
  if type(f) ~= "function" then
    complain(path, "%s has no function '%s', %s", from, field,
      options.advice(field, functions_of(module)))
  end
  return f
end

-- Options as Lua functions take them: fields "1", "2", ... are positions.
local function arguments(list)
  local copy = {}
  for key, value in pairs(list) do
    copy[type(key) == "string" and math.tointeger(tonumber(key)) or key] = value
  end
  return copy
end

-- Complains of a function that would make a reward from options, and has none.
local function refuse_factory(f, name, path, complain)
  local problem = f and reward_factory.problem_in_settings(f, name)
  if problem then complain(path, "%s", problem) end
end

local function entry_of(value, path, complain)
  options.check_names(value, entry_fields, path, complain)
  local entry = { weight = value.weight }
  for _, kind in ipairs(kinds) do
    if value[kind] ~= nil then
      local f = rewards.named(value[kind], path .. "." .. kind, complain)
      refuse_factory(value.options == nil and f, value[kind], path .. "." .. kind, complain)
      if value.options ~= nil then
        if type(value.options) ~= "table" then complain(path .. ".options", "want an object") end
        local ok, made = pcall(f, arguments(value.options))
        if not ok then
          complain(path .. ".options", "%s", (tostring(made):gsub("^[^\n]-:%d+: ", "")))
        end
        f = made
      end
      entry[kind] = f
    end
  end
  return entry
end

-- The option `rewards` of a settings file as the option of a script.
function rewards.of(map, path, complain)
  if type(map) ~= "table" or #map > 0 then
    complain(path, "want an object of weights and entries by name")
  end
  local made, from = {}, {}
  for name, value in sorted_pairs(map) do
    local here, key = ("%s.%s"):format(path, name), name
    if value ~= core.json_null then
      local entry
      if type(value) == "table" then
        entry = entry_of(value, here, complain)
      else
        entry = { fn = rewards.named(name, here, complain), weight = value }
        refuse_factory(entry.fn, name, here, complain)
        key = name:match("[^.]+$")
      end
      if made[key] then
        complain(here, "%s is named '%s' too; write { name = { \"fn\": \"%s\" } }", from[key], key,
          name)
      end
      made[key], from[key] = entry, name
    end
  end
  return made
end

return rewards
