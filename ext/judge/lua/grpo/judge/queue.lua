-- Questions that are under way side by side, each asked again after a failure, later each time.

local core = require "grpo.core"

local LONGEST_WAIT = 60.0 -- seconds between two attempts

local Queue = {}
Queue.__index = Queue

-- n questions, at most o.in_flight of them at once.
function Queue.new(n, o)
  local self = setmetatable({ o = o, results = {}, left = n, attempts = {}, due = {},
    waiting = {} }, Queue)
  for i = 1, n do self.attempts[i], self.due[i], self.waiting[i] = 0, 0.0, i end
  return self
end

-- The number of a question whose time has come; nil: none.
function Queue:next()
  local now = core.clock()
  for k, i in ipairs(self.waiting) do
    if self.due[i] <= now then
      table.remove(self.waiting, k)
      self.attempts[i] = self.attempts[i] + 1
      return i
    end
  end
end

-- Seconds to wait for answers to `busy` questions, at most `most`: until the time of the next one
-- comes, if there is room for it.
function Queue:pause(most, busy)
  local now = core.clock()
  for _, i in ipairs(busy < self.o.in_flight and self.waiting or {}) do
    most = math.min(most, math.max(0.0, self.due[i] - now))
  end
  return most
end

-- Waits for the next question's time, which does not count for the limited call around.
function Queue:rest()
  core.process.sleep(self:pause(0.1, 0))
end

function Queue:done(i, result)
  self.results[i], self.left = result, self.left - 1
end

-- Question i has failed; hopeless: asking again would not help.
function Queue:failed(i, problem, hopeless)
  if hopeless or self.attempts[i] > self.o.retries then
    return self:done(i, { problem = problem })
  end
  local wait = math.min(LONGEST_WAIT, self.o.backoff * 2 ^ (self.attempts[i] - 1))
  self.due[i] = core.clock() + wait
  self.waiting[#self.waiting + 1] = i
end

-- The run is to stop, so nothing more is waited for.
function Queue.check_signal()
  if core.signal_waits() then error("judge: interrupted by a signal", 0) end
end

return Queue
