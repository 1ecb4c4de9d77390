-- The schedules of a stage, evaluated over the whole stage before it begins: a value that its
-- option cannot have is found at once and not hours later.
--
-- A schedule that reads the metrics or the tokens of earlier steps depends on what nobody knows
-- yet, so its values are not judged here.

local errors = require "grpo.base.errors"
local number_text = require "grpo.base.number_text"
local option_rows = require "grpo.options.option_rows"
local option_tree = require "grpo.options.option_tree"
local origins = require "grpo.options.origins"
local planned_steps = require "grpo.loop.planned_steps"
local schedule_value = require "grpo.options.schedule_value"
local steps = require "grpo.options.stage_kinds"

local schedule_check = {}

local MOST = 1000 -- steps that are tried, evenly over the stage, the first and the last among them

local unknown = { metrics = true, tokens = true, update_tokens = true }

-- The argument p of a schedule at a step.  seen.unknown is set when it reads what is not known yet;
-- seen.warmup gets a sentence if it warms up for longer than there is time.
local function argument(step, count, per_step, seen)
  local p = { step = step, steps = count, fraction = step / count, update = step * per_step,
    updates = count * per_step }
  local later = { metrics = {}, tokens = 0, update_tokens = 0,
    too_long = function(text) seen.warmup = seen.warmup or text end }
  return setmetatable(p, {
    __index = function(_, key)
      if unknown[key] then seen.unknown = true end
      return later[key]
    end,
    __pairs = function()
      seen.unknown = true
      return next, p
    end,
  })
end

-- [path] = the bounds of options that may be schedules.
local function bounds_of(path)
  for _, row in ipairs(option_rows.rows) do
    if row.path == path then return row.min, row.max end
  end
end

-- Raises if the schedule at `path` fails, returns other values for the same step, or one out of
-- bounds.  Returns a sentence about its warm-up, or nil.
local function try(config, path, f, count, per_step)
  local low, high = bounds_of(path)
  local seen, points = {}, math.min(count, MOST)
  for i = 0, points - 1 do
    local step = points > 1 and i * (count - 1) // (points - 1) or 0
    local values = {}
    for k = 1, 2 do
      local ok, value = errors.try(schedule_value, config, path, f,
        argument(step, count, per_step, seen))
      if seen.unknown then return seen.warmup end
      if not ok then error(value, 0) end
      values[k] = value
    end
    local v = values[1]
    if v ~= values[2] then
      errors.raise_at(origins.position(config, path), "EARG", "%s: the schedule returned %s and "
        .. "then %s for p.step = %d; make it a function of p alone, so that a resume has the same "
        .. "values", path, number_text(v), number_text(values[2]), step)
    end
    if low and v < low or high and v > high then
      errors.raise_at(origins.position(config, path), "EARG", "%s: the schedule returns %s for "
        .. "p.step = %d and p.steps = %d, want %s", path, number_text(v), step, count,
        high and ("%s to %s"):format(low, high) or ("%s or more"):format(low))
    end
  end
  return seen.warmup
end

-- { path, value } of the stage's options that may be schedules.
local function options_of(kind, config)
  local list = { { "train.lr", config.train.lr } }
  for _, path in ipairs(steps[kind].schedules or {}) do
    list[#list + 1] = { path, option_tree.get(config, path) }
  end
  for _, entry in ipairs(steps[kind].samples and config.reward_entries or {}) do
    list[#list + 1] = { ("rewards.%s.weight"):format(entry.name), entry.weight }
  end
  return list
end

-- spec: { kind =, config = }.  Raises if a value of a schedule is not possible; returns sentences
-- about warm-ups that never end.
function schedule_check.stage(spec)
  local config, notes = spec.config, {}
  local count = planned_steps(config)
  for _, option in ipairs(options_of(spec.kind, config)) do
    local path, f = option[1], option[2]
    if type(f) == "function" and count > 0 then
      local note = try(config, path, f, count, steps.updates(spec.kind, config))
      if note then notes[#notes + 1] = ("%s: %s"):format(path, note) end
    end
  end
  return notes
end

return schedule_check
