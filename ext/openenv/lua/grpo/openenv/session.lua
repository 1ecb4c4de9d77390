-- A session of an OpenEnv server: one connection, which has an environment of its own there.

local core = require "grpo.core"
local messages = require "grpo.openenv.messages"

local Session = {}
Session.__index = Session

function Session.new(place, timeout)
  return setmetatable({ socket = core.websocket(place), timeout = timeout }, Session)
end

-- Sends a request and returns its answer as messages.read does; nil, the problem and a code, after
-- which the session may be of no use.
function Session:ask(kind, data)
  if not self.socket then return nil, "the session is over" end
  if next(data) == nil then data = core.json_object {} end
  local till = core.clock() + self.timeout
  self.socket:send(core.json_encode { type = kind, data = data })
  local text, problem = self.socket:wait(math.max(0.0, till - core.clock()))
  if core.signal_waits() then error("interrupted by a signal", 0) end
  if problem then return nil, problem end
  if not text then return nil, ("it has not answered within %g seconds"):format(self.timeout) end
  return messages.read(text)
end

function Session:close()
  if not self.socket then return end
  self.socket:send '{"type": "close"}'
  self.socket:close()
  self.socket = nil
end

return Session
