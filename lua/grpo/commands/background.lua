-- `grpo run --detach`: the run continues in a process of its own, and the command ends when the
-- run has begun.

local core = require "grpo.core"

local background = {}

-- Must be called before any work.  In the new process it returns a function for announce.  In the
-- old one it returns nil and the exit status, when the run has begun or failed to begin.
function background.begin()
  local child, continue, code = core.process.detach()
  if child == nil then error(core.error(code, "--detach: " .. continue), 0) end
  if child then return continue end
  local line, status = continue()
  if line == "" or not line then return nil, math.type(status) == "integer" and status or 1 end
  core.out(line)
  return nil, 0
end

-- Tells the waiting process that the run has its directory; output goes to output.log from now on.
function background.announce(ready, o, directory)
  local fields = { run = directory.dir, state = "running", pid = core.getpid() }
  local line = o.flags.json and core.json_encode(fields) or directory.dir
  local ok, message, code = ready(directory.dir .. "/output.log", line .. "\n")
  if not ok then error(core.error(code, message), 0) end
end

return background
