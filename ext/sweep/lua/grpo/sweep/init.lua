-- A sweep: the directory that holds its runs, and what is written down about them.
--
-- sweep.json names the script, the files that it read, and every run with its options.  A run is
-- the directory of its name, made by `grpo run`.  Whoever works on a sweep holds the lock .sweep.
-- Each run that it starts shares the lock .runs as long as it lives, so the call after a kill can
-- wait for those that are still writing a checkpoint.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local grid = require "grpo.sweep.grid"
local rundir = require "grpo.runs.directory"
local schema = require "grpo.loop.schema"
local sums = require "grpo.loop.sums"

local fs, must = core.fs, errors.must
local fail = errors.of "sweep"

local Sweep = {}
Sweep.__index = Sweep

local sweep = {}

-- The sweep's word for a state in run.json; "unfinished" for those that are not here.
local meaning = { finished = "done", stopped = "done", diverged = "failed", error = "failed",
  damaged = "failed", running = "running" }

-- ---- the directory -----------------------------------------------------------------------------

local function check_names(path, info)
  for _, run in ipairs(info.runs) do
    if run.name:find("[/%c]") or run.name:find("^%.") or run.name == "" then
      errors.raise_plain("EFORMAT", "%s: %q is not the name of a run; the file is damaged", path,
        run.name)
    end
  end
end

-- Waits until the runs of a call that was killed have ended.  waiting() is called if they live;
-- true from it gives up.
local function wait_for_runs(dir, waiting)
  while true do
    local lock, message, code = fs.lock(dir .. "/.runs")
    if lock == nil then errors.raise_plain(code, "%s", message) end
    if lock then return lock:close() end
    if waiting() then fail("EARG", "%s: runs of an earlier call have not ended yet", dir) end
    core.process.sleep(0.1)
  end
end

-- Opens the sweep in `dir`, or makes it.  about: { script =, args =, files = { { path =, crc32c = }
-- } } as they are; waiting: see wait_for_runs.
function sweep.open(dir, about, waiting)
  must(fs.mkdirs(dir))
  local self = setmetatable({ dir = dir, waiting = waiting }, Sweep)
  local lock, message, code = fs.lock(dir .. "/.sweep")
  if lock == nil then errors.raise_plain(code, "%s", message) end
  if not lock then fail("EARG", "%s: another 'grpo sweep' is at work on it", dir) end
  self.lock = lock
  local path = dir .. "/sweep.json"
  local info = schema.read(path, schema.shapes.sweep)
  if info then check_names(path, info) end
  if not info and fs.exists(dir .. "/run.json") then
    fail("EARG", "%s: it is a run, not a sweep; give another --dir", dir)
  end
  self.info = info or { format = 1, script = about.script, args = about.args, files = about.files,
    runs = {} }
  self.is_new = info == nil
  wait_for_runs(dir, waiting)
  return self
end

function Sweep:write()
  must(fs.write(self.dir .. "/sweep.json", sums.pages(self.info)))
end

function Sweep:close()
  self.lock:close()
end

-- Returns sentences about what differs from the beginning of the sweep.
function Sweep:changes(about)
  local list, info = {}, self.info
  if info.script ~= about.script then
    list[1] = ("it is a sweep of %s, not of %s"):format(info.script, about.script)
  end
  local then_args, now_args = core.json_encode(info.args or {}), core.json_encode(about.args)
  if then_args ~= now_args then
    list[#list + 1] = ("its --arg were %s and are %s now"):format(then_args, now_args)
  end
  local sum_of = {}
  for _, file in ipairs(about.files) do sum_of[file.path] = file.crc32c end
  for _, file in ipairs(info.script == about.script and info.files or {}) do
    local sum = sum_of[file.path]
    if sum ~= file.crc32c then
      list[#list + 1] = ("%s %s"):format(file.path, sum and "has changed since it began"
        or "is not read any more")
    end
  end
  return list
end

-- Records the files as they are now as the files of the sweep.
function Sweep:take(about)
  self.info.script, self.info.args, self.info.files = about.script, about.args, about.files
end

-- ---- its runs ----------------------------------------------------------------------------------

-- Adds the runs with these options that are not there yet.  lists: of { path =, text = }.  Returns
-- the runs of the lists, in their order.
function Sweep:add(lists)
  local known, taken, chosen, everything = {}, {}, {}, {}
  for _, run in ipairs(self.info.runs) do
    known[grid.identity(run.options)], taken[run.name] = run, true
    everything[#everything + 1] = run.options
  end
  table.move(lists, 1, #lists, #everything + 1, everything)
  local varied = grid.varied(everything)
  for i, options in ipairs(lists) do
    local identity = grid.identity(options)
    local run = known[identity]
    if not run then
      run = { name = grid.name(options, varied, taken), options = options }
      known[identity], taken[run.name] = run, true
      self.info.runs[#self.info.runs + 1] = run
    end
    chosen[i] = run
  end
  return chosen
end

function Sweep:dir_of(run)
  return self.dir .. "/" .. run.name
end

-- "new" without a directory, "running" if a process trains it, "unfinished" if it can be continued,
-- "done" or "failed"; and what rundir.describe says.
function Sweep:state(run)
  local there = rundir.describe(self:dir_of(run))
  if not there then return "new" end
  return meaning[there.state] or "unfinished", there
end

return sweep
