-- A run from its first step to its end: the loop, and what follows however it ends.

local core = require "grpo.core"
local experiment = require "grpo.options.experiment"
local interrupt = require "grpo.base.interrupt"
local loop = require "grpo.loop.loop"
local nonfinite = require "grpo.loop.nonfinite"
local ranks = require "grpo.base.ranks"

-- Why the loop has ended, and the error if it was one.
local function outcome(tr, ok, err)
  if ok then return tr.stop_reason and "stopped" or "finished" end
  if interrupt.caused(tr, err) then return "interrupted" end
  return type(err) == "table" and err.code == "EDIVERGED" and "diverged" or "error", err
end

local function call_on_error(tr, err)
  local handler = tr.settings.hooks and tr.settings.hooks.on_error
  if handler then core.limited(tr.settings.limits.hook, "hooks.on_error", handler, err, tr) end
end

-- Returns why it ended: "finished", "stopped", "interrupted".  Raises after "diverged" or "error":
-- hooks.on_error and on_end have been called then, and the state of the run is written.
return function(tr)
  if tr.services then tr.services:open() end
  local why, err = outcome(tr, xpcall(loop.run, interrupt.traced, tr))
  if tr.services then tr.services:end_of_steps() end
  if why == "stopped" or why == "interrupted" then
    tr:on_first_rank(function() return tr.directory and tr:save() end)
  end
  if err ~= nil then
    nonfinite.tell_course(tr, err) -- of an evaluation
    ranks.fail_alone(err)
    experiment.locate(tr.settings, err)
    call_on_error(tr, err)
  end
  local ok, hook_error = core.protected(function() tr:hook("on_end", why) end)
  if tr.services then tr.services:close() end
  tr.recorder:finish(why, err)
  if err ~= nil then error(err, 0) end
  if not ok and why == "finished" then error(hook_error, 0) end
  return why
end
