-- A run that a host drives step by step, as a page in a browser does from its worker.
--
-- The loop of the run is a coroutine.  It gives control back where a run that listens for `grpo
-- attach` serves its sessions: between two steps.  So the run itself is the one of `grpo run`, and
-- its directory too.  ext/web/README.md says what goes in and out.  No function here raises for
-- what a script or a file does: -1 is returned, and an event of type "error" says why.

local attached = require "grpo.commands.repl.attached"
local core = require "grpo.core"
local follow = require "grpo.runs.follow"
local host_run = require "grpo.commands.host_run"
local interrupt = require "grpo.base.interrupt"
local last_source = require "grpo.loop.events".last_source
local rundir = require "grpo.runs.directory"
local start = require "grpo.runs.start"
local web_events = require "grpo.web.events"

local web = {}

local events = web_events.new()
local run -- { tr =, loop = the coroutine, session = that of web.line } of the run; nil: none

-- ---- between two steps ---------------------------------------------------------------------

local Server = {}
Server.__index = Server

-- Gives control back to the host.  An edit that comes meanwhile counts for the step that follows.
function Server:serve()
  local tr = self.tr
  repeat
    coroutine.yield()
    tr.watch:look()
  until not tr.paused or tr.stop_reason
end

function Server.close() end

local function serve(tr)
  return setmetatable({ tr = tr }, Server)
end

-- ---- beginning -----------------------------------------------------------------------------

-- Tells the host which script a run that it resumes trains with.  The script is laid where the run
-- had it, if nothing is there, so that an edit of it is seen.
local function tell_script(dir)
  local info = rundir.read(dir, "run")
  if not info then return end
  local text = core.fs.read(("%s/%s/main.lua"):format(dir, last_source { dir = dir }))
  if text and not core.fs.exists(info.script) then
    core.fs.mkdirs(info.script:match("^(.*)/[^/]*$") or ".")
    core.fs.write(info.script, text)
  end
  events:add("script", { path = info.script, text = text })
end

-- Tells the host the numbers of the run at `dir`, up to the step at which it continues.
local function tell_past(dir)
  local function nothing() end
  follow.new(dir, "metrics"):read(function(row) events:step(row) end, nothing)
  follow.new(dir, "eval"):read(function(row) events:evaluation(row) end, nothing)
end

local function begin(request)
  host_run.tame { log = function(text) events:line("print", text) end }
  local resume, force = request.resume, request.force
  if resume and not force then tell_script(resume) end
  local tr, directory = start.trainer { script = (force or not resume) and request.script or nil,
    words = true, overrides = request.options, root = request.root or "runs", attach = serve,
    resume = resume, force = force, view = function() return web_events.view(events) end }
  events:add("run", { dir = directory.dir, name = directory.info.name,
    step = tr and tr.step_count or directory.info.step, finished = not tr,
    total = tr and tr:total_steps() or directory.info.steps })
  if resume then tell_past(directory.dir) end
  if not tr then return 0 end
  run = { tr = tr, loop = coroutine.create(function() return tr:run() end) }
  return 1
end

-- Calls f, and tells of what it raises.
local function guarded(f, ...)
  local ok, result = xpcall(f, interrupt.traced, ...)
  if ok then return result end
  events:raised(result)
  return -1
end

-- text: JSON { script =, options = list of option=value, resume = a run's directory, force = resume
-- with the script as it is now, root = the directory of runs }.  Returns 1, 0 if the run to resume
-- has ended already, or -1.
function web.start(text)
  return guarded(function()
    web.close()
    return begin(core.json_decode(text))
  end)
end

-- ---- the loop ------------------------------------------------------------------------------

local function tell_pause(tr)
  local paused = tr.paused and true or false
  if paused == run.told_paused then return end
  run.told_paused = paused
  events:add("pause", { paused = paused, step = tr.step_count })
end

-- Trains to the end of the next step; the first call evaluates.  Returns 1 if the run continues, 0
-- if it has ended, -1 if it failed.
function web.advance()
  if not run or coroutine.status(run.loop) == "dead" then return 0 end
  local ok, why = coroutine.resume(run.loop)
  if not ok then
    events:raised(why)
    return -1
  end
  if coroutine.status(run.loop) ~= "dead" then
    run.begun = true
    tell_pause(run.tr)
    return 1
  end
  events:add("end", { why = why, step = run.tr.step_count, reason = run.tr.stop_reason })
  return 0
end

-- Writes a checkpoint between two steps.  Returns 1, 0 where nothing is to be written, or -1.
function web.save()
  if not run or not run.begun or coroutine.status(run.loop) == "dead" then return 0 end
  return guarded(function()
    run.tr:save()
    return 1
  end)
end

-- The next call of advance ends the run, after a checkpoint.
function web.stop()
  if not run then return 0 end
  run.tr:stop("the page")
  return 1
end

-- Returns what has happened since the last call, as a list in JSON.
function web.events()
  return events:take()
end

-- ---- the prompt ----------------------------------------------------------------------------

-- The rows of .help; here nobody leaves the prompt.
local function rows()
  return table.move(attached.rows, 1, #attached.rows - 1, 1, {})
end

-- Runs a text at the prompt of the run, whose first line may be "#WIDTH", the columns that there
-- are.  Returns JSON { out =, err =, more = true if the text is incomplete, failed = true,
-- paused = }.
function web.line(text)
  if not run then
    return core.json_encode { err = "no run is there; begin one\n", failed = true }
  end
  local width, rest = text:match("^#(%d+)\n(.*)$")
  run.session = run.session or attached.new(run.tr, rows())
  local answer = run.session:answer(rest or text, {
    width = math.max(20, math.min(tonumber(width) or 80, 1000)), colour = false, utf8 = true })
  answer.paused = run.tr.paused and true or false
  return core.json_encode(answer)
end

-- Forgets the run.
function web.close()
  if run then coroutine.close(run.loop) end
  run = nil
end

return web
