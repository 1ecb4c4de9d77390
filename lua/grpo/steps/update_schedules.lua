-- Schedules over updates or tokens, between the optimizer updates of one step.

local schedule = require "grpo.schedule"
local schedule_value = require "grpo.options.schedule_value"

local update_schedules = {}

-- chosen: { lr =, kl =, p = } of the step's first update.  kl: the number or schedule that stands
-- at kl_path; nil: there is none.  Returns what the engine calls before each further update: it
-- sets the three, and returns lr and kl.  nil if nothing changes between updates.
function update_schedules.between(stage, chosen, kl_path, kl)
  local config, p = stage.config, chosen.p
  local lr = config.train.lr
  local of_lr, of_kl = schedule.is_per_update(lr), schedule.is_per_update(kl)
  -- a loss written in Lua reads t.p
  if not of_lr and not of_kl and type(config.train.loss) ~= "function" then return nil end
  return function()
    p.update, p.update_tokens = stage:counted_updates()
    if of_lr then chosen.lr = schedule_value(config, "train.lr", lr, p) end
    if of_kl then chosen.kl = schedule_value(config, kl_path, kl, p) end
    return chosen.lr, chosen.kl
  end
end

return update_schedules
