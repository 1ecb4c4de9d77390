-- A server that is a program: messages are lines of its standard input and output.

local core = require "grpo.core"
local messages = require "grpo.mcp.messages"

local MOST_OTHERS = 1000 -- other messages in a row: it writes without an end

local Stdio = {}
Stdio.__index = Stdio

function Stdio.new(o)
  local words = type(o.command) == "string" and { "sh", "-c", o.command } or o.command
  return setmetatable({ words = words, source = table.concat(words, " ") }, Stdio)
end

function Stdio:is_open() return self.program ~= nil end

function Stdio:open() self.program = core.line_program(self.words) end

function Stdio:close()
  if self.program then self.program:close() end
  self.program = nil
end

function Stdio:send(message) self.program:send(core.json_encode(message)) end

-- Sends a request and returns its answer; nil and what is wrong if none comes, after which the
-- server is of no use.  other(message): takes every other message.
function Stdio:request(message, seconds, other)
  local till = core.clock() + seconds
  self:send(message)
  for _ = 1, MOST_OTHERS do
    local line, problem = self.program:step(math.max(0.0, till - core.clock()))
    if core.signal_waits() then error("interrupted by a signal", 0) end
    if problem then return nil, problem end
    if not line then return nil, ("it has not answered within %g seconds"):format(seconds) end
    local got
    if line:find("%S") then
      got, problem = messages.read(line)
      if not got then return nil, problem end
      if got.id == message.id and got.method == nil then return got end
      other(got)
    end
  end
  return nil, "it writes on and on, and does not answer"
end

-- A message that wants no answer; it goes out with what is asked next.
function Stdio:tell(message) self:send(message) end

return Stdio
