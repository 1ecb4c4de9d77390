-- Runs the runs of a sweep side by side, each as a `grpo run` of its own, until all have ended.
--
-- Each process is told how many threads it may use, so that together they use the cores once.  A
-- signal is passed on: the runs write their checkpoints, and nothing new begins.

local core = require "grpo.core"
local display = require "grpo.base.display"
local grid = require "grpo.sweep.grid"
local rundir = require "grpo.runs.directory"

local fs = core.fs

local Scheduler = {}
Scheduler.__index = Scheduler

local scheduler = {}

local INTERVAL = 0.1 -- seconds between two looks at the processes

-- o: { sweep =, runs = the runs of this call, script =, args =, jobs = how many at once, cores
-- =, memory = bytes for each run or nil, retry = continue runs that failed, screen =, ended(run) =
-- called when a run has ended }
function scheduler.new(o)
  return setmetatable({ o = o, waiting = {}, running = {}, threads = 0 }, Scheduler)
end

-- ---- one process -------------------------------------------------------------------------------

local function output_of(self, run)
  return ("%s/.%s.log"):format(self.o.sweep.dir, run.name)
end

local function words_of(self, run, state, threads)
  local o = self.o
  local words = { core.binary(), "run" }
  local function add(...)
    for _, word in ipairs { ... } do words[#words + 1] = word end
  end
  if state == "new" then
    add(o.script, table.unpack(grid.words(run.options)))
    for key, value in require "grpo.base.sorted"(o.args) do add("--arg", key .. "=" .. value) end
    add("--dir", o.sweep.dir, "--as", run.name)
  else
    add("--resume=" .. o.sweep:dir_of(run))
  end
  add("--quiet", "--threads", ("%d"):format(threads))
  if o.memory then add("--memory", ("%.4fM"):format(o.memory / 2^20)) end
  return words
end

-- The cores that a run gets which begins now: an equal part of those that are free.
function Scheduler:share()
  local others = math.min(self.o.jobs - #self.running, #self.waiting + 1)
  return math.max(1, (self.o.cores - self.threads) // math.max(1, others))
end

function Scheduler:begin(run, state)
  local threads, dir = self:share(), self.o.sweep:dir_of(run)
  fs.remove_tree(output_of(self, run))
  local child, message, code = core.process.start(words_of(self, run, state, threads),
    output_of(self, run), self.o.sweep.dir .. "/.runs")
  if not child then error(core.error(code, message), 0) end
  local job = { run = run, child = child, threads = threads, name = run.name, dir = dir,
    began = core.clock() }
  function job.steps()
    local ok, info = pcall(rundir.read, dir, "run")
    return ok and info and info.steps or nil
  end
  self.running[#self.running + 1] = job
  self.threads = self.threads + threads
  if not self.o.screen.live then
    self.o.screen:info(("%s: %s with %d thread%s"):format(run.name,
      state == "new" and "begins" or "continues", threads, threads == 1 and "" or "s"))
  end
end

-- ---- its end -----------------------------------------------------------------------------------

-- The last line that a process which failed has printed.
local function reason_of(self, run, status)
  local last
  for line in (fs.read(output_of(self, run)) or ""):gmatch("[^\n]+") do
    last = line:match("^grpo: (.*)$") or last
  end
  if last then return display.clean(last) end
  if status > 128 then return ("ended by signal %d"):format(status - 128) end
  return ("ended with status %d"):format(status)
end

local function finish(self, job, status)
  local run, o = job.run, self.o
  local state = o.sweep:state(run)
  run.reason = nil
  if state ~= "done" and not (state == "unfinished" and self.stopped) then
    local stopped = state == "unfinished" and status ~= 137 and status > 128
    state = stopped and "unfinished" or "failed"
    run.reason = not stopped and reason_of(self, run, status) or nil
  end
  run.state = state
  if state ~= "failed" then fs.remove_tree(output_of(self, run)) end
  o.ended(run)
  local seconds = display.seconds_text(math.floor(core.clock() - job.began))
  if state == "done" then
    o.screen:info(("%s: finished after %s%s"):format(run.name, seconds, o.result(run)))
  elseif state == "failed" then
    o.screen:line(("%s: failed: %s"):format(run.name, run.reason))
  else
    o.screen:info(("%s: stopped after a checkpoint"):format(run.name))
  end
end

function Scheduler:poll()
  for i = #self.running, 1, -1 do
    local job = self.running[i]
    local status = job.child:poll()
    if status then
      table.remove(self.running, i)
      self.threads = self.threads - job.threads
      finish(self, job, status)
    end
  end
end

-- ---- all of them -------------------------------------------------------------------------------

-- Sets the state of a run of the sweep when this call begins; returns whether it is to be run.
local function is_due(self, run)
  local state = self.o.sweep:state(run)
  if state == "failed" and self.o.retry then state = "unfinished" end
  run.state = state
  return state == "new" or state == "unfinished" or state == "running"
end

function Scheduler:signal(name)
  for _, job in ipairs(self.running) do job.child:signal(name) end
end

-- Begins runs while there is room.  A run that another process trains waits until that has ended.
function Scheduler:fill()
  local i = 1
  while i <= #self.waiting and #self.running < self.o.jobs do
    local run = self.waiting[i]
    if is_due(self, run) and run.state ~= "running" then
      table.remove(self.waiting, i)
      self:begin(run, run.state)
    elseif run.state == "running" then
      i = i + 1
    else
      table.remove(self.waiting, i) -- the other process has brought it to its end
      self.o.ended(run)
    end
  end
end

function Scheduler:count(total)
  local done, failed = 0, 0
  for _, run in ipairs(self.o.runs) do
    if run.state == "done" then done = done + 1 elseif run.state == "failed" then
      failed = failed + 1
    end
  end
  return ("sweep: %d of %d done%s, %d running%s"):format(done, total,
    failed > 0 and (", %d failed"):format(failed) or "", #self.running,
    self.stopped and ", ending after checkpoints" or "")
end

-- Returns the name of the signal that ended the sweep, or nil when all runs have ended.
function Scheduler:run()
  local o = self.o
  for _, run in ipairs(o.runs) do
    if is_due(self, run) then self.waiting[#self.waiting + 1] = run else o.ended(run) end
  end
  local told
  while #self.running > 0 or #self.waiting > 0 and not self.stopped do
    self:poll()
    if not self.stopped then self:fill() end
    if not told and #self.running == 0 and #self.waiting > 0 then
      told = true
      o.screen:info(("%s: another process trains it; waiting for its end"):format(
        self.waiting[1].name))
    end
    o.screen:draw(self.running, self:count(#o.runs))
    if #self.running > 0 or #self.waiting > 0 then core.process.sleep(INTERVAL) end
    local signal = core.signal_take()
    if signal and signal ~= "USR1" then
      self.stopped = signal
      o.screen:info(("%s: %d run%s end after a checkpoint; a second signal ends them at once")
        :format(signal, #self.running, #self.running == 1 and "" or "s"))
      self:signal("TERM")
    end
  end
  o.screen:erase()
  return self.stopped
end

return scheduler
