-- A hook may not change what the step and the logs read after it.  What it left behind is looked at
-- without metamethods, because the limits of the hook apply to them no more.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local sorted_pairs = require "grpo.base.sorted"

local unchanged = {}

-- Scoring sets these beside the fields that core.keep_completion knows.
local set_by_scoring = { "errors", "extra", "token_rewards" }

local function complain(hook, what, ...)
  errors.raise_plain("ESCRIPT", "hooks.%s: it changed " .. what, hook, ...)
end

-- Without metatables.
local function copy(t)
  local fields = {}
  for name, value in next, t do fields[name] = value end
  return fields
end

local function same(a, b)
  return rawequal(a, b) or type(a) == "number" and type(b) == "number" and a ~= a and b ~= b
end

local function name_of(key)
  return type(key) == "string" and key or type(key) == "number" and tostring(key)
    or "a key that is a " .. type(key)
end

-- ---- a batch ------------------------------------------------------------------------------------

-- The field of a completion that is not what it was; nil if there is none.  free: its reward may be
-- another one.
local function changed_field(c, was, free)
  local reward = rawget(c, "reward")
  if free then rawset(c, "reward", was[1][core.completion_fields.reward]) end
  local changed = core.restore_completion(c, was[1])
  if free then c.reward = reward end
  for _, name in ipairs(set_by_scoring) do
    if not rawequal(rawget(c, name), was[name]) then changed = "c." .. name end
  end
  return changed
end

-- Returns a function that raises if the batch has changed since, except in fields of other names
-- and, in on_rollout, in rewards.
function unchanged.batch(hook, batch)
  local fields, kept, free = copy(batch), {}, hook == "on_rollout"
  local list = table.move(batch.completions, 1, #batch.completions, 1, {})
  for i, c in ipairs(list) do
    kept[i] = { core.keep_completion(c) }
    for _, name in ipairs(set_by_scoring) do kept[i][name] = c[name] end
  end
  return function()
    if getmetatable(batch) ~= nil then complain(hook, "the metatable of batch") end
    for name, value in pairs(fields) do
      if not rawequal(batch[name], value) then
        complain(hook, "batch.%s, which the step needs", name)
      end
    end
    for name in pairs(batch) do
      if fields[name] == nil then
        complain(hook, "batch: %s is new, and nobody reads it; add fields to completions, or keep "
          .. "them in tr.state", name_of(name))
      end
    end
    local completions = batch.completions
    if getmetatable(completions) ~= nil then
      complain(hook, "the metatable of batch.completions")
    end
    for i = 1, math.max(#list, #completions) do
      local c = list[i]
      if not rawequal(completions[i], c) then
        complain(hook, "batch.completions[%d]%s", i,
          free and "; to leave a completion out, set its c.reward to nil" or "")
      end
      local changed = changed_field(c, kept[i], free)
      if changed then
        complain(hook, "%s of batch.completions[%d]; it may %sadd fields of other names", changed,
          i, free and "change c.reward, and " or "")
      end
    end
  end
end

-- ---- the trainer --------------------------------------------------------------------------------

-- Fields of a trainer that stay the same object.  Of the others only the type stays, and those in
-- `comes_and_goes` may be taken away.
local same_object = { "directory", "noted", "recorder", "services", "tables", "view", "watch" }
local comes_and_goes = { busy = true, evaluated = true, in_hook = true, interrupted = true,
  paused = true, save_now = true, stop_reason = true }

-- Returns a function that makes these fields again what they were, and returns the name of one that
-- was not: "tr.settings".
function unchanged.trainer(tr)
  local fields, meta = {}, getmetatable(tr)
  for name, value in next, tr do
    if type(name) == "string" then fields[name] = value end
  end
  return function()
    local found
    local function restore(name)
      rawset(tr, name, fields[name])
      found = found or "tr." .. name
    end
    if not rawequal(getmetatable(tr), meta) then
      setmetatable(tr, meta)
      found = "the metatable of tr"
    end
    for _, name in ipairs(same_object) do
      if not rawequal(rawget(tr, name), fields[name]) then restore(name) end
    end
    for name, was in sorted_pairs(fields) do
      if not comes_and_goes[name] and type(rawget(tr, name)) ~= type(was) then restore(name) end
    end
    local spec = tr.experiment.stages[math.max(1, tr.stage_index)]
    if not spec or not rawequal(tr.settings, spec.config) then
      restore("settings")
      restore("stage_index")
    end
    return found
  end
end

-- ---- numbers ------------------------------------------------------------------------------------

-- Returns a function that raises if the metrics of a step, or the report of an evaluation, have
-- changed since; numbers may have been added.
function unchanged.numbers(hook, what, numbers)
  local fields, meta = copy(numbers), getmetatable(numbers)
  return function()
    if not rawequal(getmetatable(numbers), meta) then
      complain(hook, "the metatable of %s table", what)
    end
    for name, value in pairs(fields) do
      if not same(numbers[name], value) then
        complain(hook, "%s %s; numbers of your own go to tr:log(name, value)", what, name)
      end
    end
    for name, value in pairs(numbers) do
      if fields[name] == nil and (type(name) ~= "string" or type(value) ~= "number") then
        complain(hook, "%s: %s is new and no number with a name; use tr:log(name, value)", what,
          name_of(name))
      end
    end
  end
end

return unchanged
