-- Signals that end a run, and errors that know where they were raised.

local core = require "grpo.core"
local ranks = require "grpo.base.ranks"

local interrupt = {}

-- Raised through a step that a signal abandons; the state is that of the step before.
interrupt.RAISED = setmetatable({}, { __tostring = function() return "interrupted" end })

-- Only runs with a directory take signals.  SIGUSR1 asks for a checkpoint; others are remembered in
-- tr.interrupted and raised.
function interrupt.check(tr)
  local signal
  if ranks.size() > 1 then
    signal = ranks.signal()
  else
    signal = tr.directory and core.signal_take()
  end
  if not signal then return end
  if signal == "USR1" then
    tr.save_now = true
    return
  end
  tr.interrupted = signal
  error(interrupt.RAISED, 0)
end

-- Did a signal cause this error?  A rollout that it cut short ends with an error of its own.
function interrupt.caused(tr, err)
  if err == interrupt.RAISED then return true end
  if type(err) ~= "table" or err.code ~= "ELIMIT" or core.signal_count() == 0 then return false end
  tr.interrupted = core.signal_take()
  return tr.interrupted ~= nil
end

-- A message handler: errors keep the traceback of the place where they were raised.
function interrupt.traced(err)
  if type(err) == "table" and err ~= interrupt.RAISED and not err.traceback then
    err.traceback = debug.traceback("", 2)
  end
  return err
end

return interrupt
