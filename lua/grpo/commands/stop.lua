local core = require "grpo.core"
local errors = require "grpo.base.errors"
local flags = require "grpo.commands.flags"
local history = require "grpo.runs.history"
local rundir = require "grpo.runs.directory"

local command = {
  name = "stop",
  summary = "stop a run after a checkpoint",
  arguments = { flags.run },
  flags = {
    { name = "now", doc = "end the run at once, without a checkpoint; a resume continues from the "
      .. "last one" },
    { name = "wait", type = "number", value = "SECONDS", min = 0, default = 600,
      doc = "wait at most SECONDS for the run to end; 0 does not wait" },
    flags.dir,
  },
  about = {
    "Asks RUN to stop, as Ctrl-C does, and waits until it has ended. Sampling stops after the "
      .. "current token, but an update is finished first. Then the run writes a checkpoint. "
      .. "'grpo run --resume=RUN' continues from there.",
  },
  notes = {
    "Exit status: 0 the run has ended (or --wait 0), 1 it has not ended yet, 2 it is not running "
      .. "on this machine.",
  },
}

local INTERVAL = 0.05
local ATTEMPTS = 40

local fail = errors.of "stop"

-- Signals the run's process, which is the one that has the run's lock open: the number in run.json
-- may by now be another process's.  A run that is being resumed has the lock a moment before its
-- number is in run.json.
local function signal(dir, name)
  local lock, pid = dir .. "/.lock", nil
  for _ = 1, ATTEMPTS do
    pid = rundir.describe(dir).pid
    local ok, message, code = nil, nil, "ENOENT"
    if pid and pid > 1 then ok, message, code = core.process.kill(pid, name, lock) end
    if ok then return end
    if code ~= "ENOENT" then fail(code, "%s: %s", dir, message) end
    core.process.sleep(INTERVAL)
    if rundir.describe(dir).state ~= "running" then return end
  end
  fail("EARG", "%s: run.json names process %s, but another one has the run's lock, so no process "
    .. "was signalled; see which one has %s open", dir, tostring(pid), lock)
end

-- Waits until the run has ended or the time is over; returns its state.
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
  local seconds = o.flags.wait
  local run = history.open(o.words[1], o.flags.dir)
  if run.state ~= "running" then
    fail("EARG", "%s is not running (%s)", run.dir, tostring(run.state))
  end
  if run.host ~= core.hostname() then
    fail("EARG", "%s runs on %s, but this is %s; stop it there", run.dir, tostring(run.host),
      core.hostname())
  end
  signal(run.dir, o.flags.now and "KILL" or "TERM")
  if seconds == 0 then return 0 end
  core.signals_install()
  local state = wait(run.dir, seconds)
  if state == "running" then
    core.err(("grpo: stop: %s has not ended yet, but it was asked to\n"):format(run.dir))
    return 1
  end
  core.out(("%s %s\n"):format(run.dir, state))
  return 0
end

return command
