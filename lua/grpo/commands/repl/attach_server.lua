-- The run's side of `grpo attach`. Between two steps, on the trainer's own thread, it runs the
-- lines that came over the run's socket in a session that sees the trainer.
--
-- A message is one line with a JSON object:
--   the client sends   { id =, text =, look = { width =, colour =, utf8 = } }
--   the run answers    { id =, out =, err =, failed = true if the text failed,
--                        more = true if the text is incomplete }
--   the run greets     { hello = "sums-001", step =, steps =, state = "running" | "paused" }

local attached = require "grpo.commands.repl.attached"
local core = require "grpo.core"

-- Events that are served between two steps.  A session sends one line and waits for the answer, so
-- only a flood is put off; what it sent is served between the next steps.
local MOST_EVENTS, MOST_SECONDS = 16, 0.1

local Control = {}
Control.__index = Control

local attach_server = { rows = attached.rows }

-- Listens for sessions. Returns nil when that is not possible; training does not depend on it.
function attach_server.open(tr)
  local server, message = core.channel.listen(tr.directory.dir .. "/control.sock")
  if not server then
    tr.directory:note(("no sessions can be attached: %s"):format(message))
    return nil
  end
  return setmetatable({ tr = tr, server = server, sessions = {} }, Control)
end

function Control:close()
  self.server:close()
end

-- ---- sessions -------------------------------------------------------------------------------

function Control:send(client, message)
  self.server:send(client, core.json_encode(message))
end

local function opened(self, client)
  local tr = self.tr
  self.sessions[client] = attached.new(tr)
  tr.directory:note(("a session was attached at step %d"):format(tr.step_count))
  self:send(client, { hello = tr.directory.info.name, dir = tr.directory.dir, step = tr.step_count,
    steps = tr:total_steps(), state = tr.paused and "paused" or "running" })
end

local function requested(self, client, line)
  local ok, request = pcall(core.json_decode, line)
  if not ok or type(request) ~= "table" or type(request.text) ~= "string" then
    return self:send(client, { err = "not a request\n" })
  end
  local look = type(request.look) == "table" and request.look or {}
  local answer = self.sessions[client]:answer(request.text, {
    width = math.type(look.width) == "integer" and math.max(20, math.min(look.width, 1000)) or 80,
    colour = look.colour == true, utf8 = look.utf8 == true })
  answer.id, answer.step, answer.paused = request.id, self.tr.step_count, self.tr.paused
  self:send(client, answer)
end

local function gone(self, client)
  self.sessions[client] = nil
  self.tr.directory:note(("a session was detached at step %d"):format(self.tr.step_count))
end

-- Serves the events that have arrived, up to a limit; returns whether there were no more.
function Control:serve_some()
  local began = core.clock()
  for _ = 1, MOST_EVENTS do
    local kind, client, line = self.server:next()
    if kind == "opened" then
      opened(self, client)
    elseif kind == "text" then
      requested(self, client, line)
    elseif kind == "gone" then
      gone(self, client)
    else
      return true
    end
    if core.clock() - began > MOST_SECONDS then return false end
  end
  return false
end

-- Serves requests that have arrived and, while the run is paused, those that arrive meanwhile.
function Control:serve()
  local tr, was_paused = self.tr, false
  local all_served = self:serve_some()
  while tr.paused and not tr.stop_reason do
    if not was_paused then
      was_paused = true
      tr.directory:note(("paused at step %d"):format(tr.step_count))
      tr.view:line(("paused at step %d by an attached session"):format(tr.step_count))
    end
    if all_served then self.server:wait(0.2) end
    tr:check_interrupt()
    tr.directory:heartbeat(tr.step_count, tr:total_steps())
    all_served = self:serve_some()
  end
  if was_paused then tr.directory:note(("continued at step %d"):format(tr.step_count)) end
end

return attach_server
