-- The value of a number or a schedule at a step: a schedule is called under limits.schedule, and
-- its result is checked.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local number_text = require "grpo.base.number_text"
local origins = require "grpo.options.origins"

-- Returns the value and, where the schedule has a second result that is a number, that.
-- name: the option's path, for limits and messages; p: the argument of schedules.
return function(config, name, v, p)
  if type(v) ~= "function" then return v end
  local ok, result, kept = core.limited(config.limits.schedule, name, v, p)
  if not ok then error(errors.naming(name, result), 0) end
  if type(result) ~= "number" or result ~= result or math.abs(result) == math.huge then
    errors.raise_at(origins.position(config, name), "EARG",
      "%s: the schedule returned %s for p.step = %d, want a finite number", name,
      number_text(result), p.step)
  end
  return result, type(kept) == "number" and kept or nil
end
