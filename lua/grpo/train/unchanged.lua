-- A hook may not change what the step and the logs read after it.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local unchanged = {}

-- Scoring sets these beside the fields that core.keep_completion knows.
local set_by_scoring = { "errors", "extra", "token_rewards" }

local function complain(hook, what, ...)
  errors.raise_plain("ESCRIPT", "hooks.%s: it changed " .. what, hook, ...)
end

local function copy(t)
  local fields = {}
  for name, value in pairs(t) do fields[name] = value end
  return fields
end

local function same(a, b) return a == b or a ~= a and b ~= b end

-- ---- a batch ------------------------------------------------------------------------------------

-- The field of a completion that is not what it was; nil if there is none.  free: its reward may be
-- another one.
local function changed_field(c, was, free)
  local reward = rawget(c, "reward")
  if free then rawset(c, "reward", was[1][core.completion_fields.reward]) end
  local changed = core.restore_completion(c, was[1])
  if free then c.reward = reward end
  for _, name in ipairs(set_by_scoring) do
    if c[name] ~= was[name] then changed = "c." .. name end
  end
  return changed
end

-- Returns a function that raises if the batch has changed since, but for fields of other names and,
-- in on_rollout, rewards.
function unchanged.batch(hook, batch)
  local fields, kept, free = copy(batch), {}, hook == "on_rollout"
  local list = table.move(batch.completions, 1, #batch.completions, 1, {})
  for i, c in ipairs(list) do
    kept[i] = { core.keep_completion(c) }
    for _, name in ipairs(set_by_scoring) do kept[i][name] = c[name] end
  end
  return function()
    for name, value in pairs(fields) do
      if batch[name] ~= value then complain(hook, "batch.%s, which the step needs", name) end
    end
    for i = 1, math.max(#list, #batch.completions) do
      local c = list[i]
      if batch.completions[i] ~= c then
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

-- ---- numbers ------------------------------------------------------------------------------------

-- Returns a function that raises if the metrics of a step, or the report of an evaluation, have
-- changed since, but for numbers that are new.
function unchanged.numbers(hook, what, numbers)
  local fields = copy(numbers)
  return function()
    for name, value in pairs(fields) do
      if not same(numbers[name], value) then
        complain(hook, "%s %s; numbers of your own go to tr:log(name, value)", what, name)
      end
    end
    for name, value in pairs(numbers) do
      if fields[name] == nil and (type(name) ~= "string" or type(value) ~= "number") then
        complain(hook, "%s: %s is new and no number with a name; use tr:log(name, value)", what,
          tostring(name))
      end
    end
  end
end

return unchanged
