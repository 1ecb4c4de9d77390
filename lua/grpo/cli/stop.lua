local core = require "grpo.core"
local flags = require "grpo.cli.flags"
local history = require "grpo.runs.history"
local rundir = require "grpo.runs.directory"

local command = {
  usage = "stop [--now] [--wait SECONDS] [--dir RUNS] RUN",
  words = 1,
  summary = "end a run that is going on, after a checkpoint",
  flags = { now = "flag", wait = "value", dir = "value" },
  help = [[
Asks RUN (its directory, or its name in runs/) to end as Ctrl-C does: the micro-batch that is going on is the last, a
checkpoint is written, and 'grpo run --resume=RUN' goes on from there.  Waits until it has ended.

  --now           at once, without a checkpoint; a resume goes on from the last one
  --wait SECONDS  wait so long at most (default: 600; 0: do not wait)
  --dir RUNS      where the run directories are (default: runs)

Exit status: 0 it has ended (or --wait 0), 1 it has not, 2 it is not running here.]],
}

local INTERVAL = 0.05

local function refuse(format, ...)
  error(core.error("EARG", ("stop: " .. format):format(...)), 0)
end

-- Until the run has ended or the time is over; its state.
local function wait(dir, seconds)
  local deadline = core.clock() + seconds
  local state = rundir.describe(dir).state
  while state == "running" and core.clock() < deadline and not core.signal_take() do
    core.process.sleep(INTERVAL)
    state = rundir.describe(dir).state
  end
  return state
end

function command.run(o)
  if not o.words[1] then refuse("which run? usage: grpo %s", command.usage) end
  local seconds = flags.number(o, "wait", 600)
  local run = history.open(o.words[1], o.flags.dir)
  if run.state ~= "running" then refuse("%s: is not running (%s)", run.dir, tostring(run.state)) end
  if run.host ~= core.hostname() then
    refuse("%s: runs on %s, this is %s; stop it there", run.dir, tostring(run.host), core.hostname())
  end
  local ok, message = core.process.kill(run.pid, o.flags.now and "KILL" or "TERM")
  if not ok then error(core.error("EIO", ("stop: %s: %s"):format(run.dir, message)), 0) end
  if seconds == 0 then return 0 end
  core.signals_install()
  local state = wait(run.dir, seconds)
  if state == "running" then
    core.err(("grpo: stop: %s: has not ended yet; it will\n"):format(run.dir))
    return 1
  end
  core.out(("%s %s\n"):format(run.dir, state))
  return 0
end

return command
