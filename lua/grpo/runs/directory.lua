-- A run's directory: runs/NAME-NNN/, never reused, with append-only logs; everything else is
-- written atomically.
--
-- Files: run.json (state), config.json, env.json, inputs.json, source/, metrics.jsonl,
-- completions.jsonl, eval.jsonl, checkpoints/, latest, best, run.log (events), output.log (the text
-- of the screen), those of script_logs.lua, and those of extensions (the rows `log_sinks`).

local core = require "grpo.core"
local sorted_pairs = require "grpo.base.sorted"
local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"
local places = require "grpo.data.places"
local inputs = require "grpo.runs.inputs"
local lines = require "grpo.runs.lines"
local row_log = require "grpo.runs.row_log"
local schema = require "grpo.loop.schema"
local script_logs = require "grpo.loop.script_logs"
local sums = require "grpo.loop.sums"
local loaded_sources = require "grpo.options.scripts.loaded_sources"
local modules = require "grpo.options.scripts.modules"
local script_files = require "grpo.options.scripts.script_files"

local fs = core.fs

local logs = row_log.names
local Run = {}
Run.__index = Run

local rundir = {}

local must = errors.must

local function write_json(path, value)
  must(fs.write(path, core.json_encode(value, { indent = 2 }) .. "\n"))
end

-- Reads NAME.json of a run.  An unreadable or damaged file is an error; for a missing one it
-- returns nil, a message and a code.
function rundir.read(dir, name)
  return schema.read(("%s/%s.json"):format(dir, name), schema.shapes[name])
end

-- Reads a file as rundir.read does, and looks at the sum of it that run.json has.
function rundir.read_listed(dir, name)
  local info = rundir.read(dir, "run")
  local damage = info and info.sums and sums.damage(info.sums, dir, name .. ".json")
  if damage then errors.raise_plain("EFORMAT", "%s", damage) end
  return rundir.read(dir, name)
end

-- Reads run.json and looks at the sums of all files that it names.
function rundir.verified(dir)
  local info, message, code = rundir.read(dir, "run")
  if info then
    sums.verify(dir, info)
    local damage = script_logs.damage(dir)[1]
    if damage then errors.raise_plain("EFORMAT", "%s", damage) end
  end
  return info, message, code
end

-- ---- its place -----------------------------------------------------------------

-- Is the directory at the run's path the one that this process holds locked?
function Run:is_in_place()
  return self.lock:is_at(self.dir .. "/.lock") == true
end

-- Raises if it is not: it was moved while the run trained, and nothing may be written to another
-- one.  Called before a file of a run that trains gets its name.
function Run:check_place()
  local here, message, code = self.lock:is_at(self.dir .. "/.lock")
  if here == nil then errors.raise_plain(code, "%s", message) end
  if here then return end
  errors.raise_plain("EIO", "%s: the run ends, because its directory, or the .lock that it began "
    .. "with, is not there any more; nothing more is written to this place; resume the run from "
    .. "where its directory is now", self.dir)
end

-- ---- making one ----------------------------------------------------------------

local function next_number(root, name)
  local highest = 0
  for _, entry in ipairs(fs.list(root) or {}) do
    local base, number = entry:match("^(.*)%-(%d+)$")
    if base == name then highest = math.max(highest, tonumber(number)) end
  end
  return highest + 1
end

local function saved_name(source, name)
  return ("%s/modules/%s.lua"):format(source, (name:gsub("%.", "/")))
end

-- Returns the name of the saved file within `dir`.
local function save_module(dir, source, name, path)
  local target = saved_name(source, name)
  must(fs.mkdirs(dir .. "/" .. target:match("^(.*)/")))
  must(fs.write(dir .. "/" .. target, loaded_sources.of(path).text or ""))
  return target
end

-- Writes the script and every module and file that it loaded, as they were then, into the directory
-- `source` of `dir`: main.lua, modules/, files/.
local function save_sources(dir, source, script)
  local to = dir .. "/" .. source
  must(fs.mkdirs(to .. "/modules"))
  must(fs.write(to .. "/main.lua", loaded_sources.of(script).text or ""))
  for name, path in sorted_pairs(modules.loaded()) do save_module(dir, source, name, path) end
  script_files.save(dir, source .. "/files")
end

-- The sums of `names`, files and directories, are written down.
function Run:add_sums(names)
  for _, name in ipairs(names) do sums.add(self.info.sums, self.dir, name) end
  self:set_state(self.info.state)
end

-- Adds a module that was loaded later to the others of `source` within the run.
function Run:save_module(source, name, path)
  self:check_place()
  self:add_sums { save_module(self.dir, source, name, path) }
end

-- A module of `source` has its sum, also if the process that saved it died before it wrote the sum.
function Run:sum_module(source, name)
  local target = saved_name(source, name)
  if not self.info.sums[target] and fs.exists(self.dir .. "/" .. target) then
    self:add_sums { target }
  end
end

-- Adds the files that the script loaded to those of the beginning: an option of a resume may have
-- named another.
function Run:save_files()
  self:check_place()
  local copies = script_files.save(self.dir, "source/files")
  local new = {}
  for _, copy in ipairs(copies) do
    if not self.info.sums[copy] then new[#new + 1] = copy end
  end
  if #new > 0 then self:add_sums(new) end
end

-- Removes a directory of saved sources.
function Run:remove_sources(name)
  self:check_place()
  -- a kill between the two leaves files without sums, which the next resume removes
  if sums.remove(self.info.sums, name) then self:set_state(self.info.state) end
  must(fs.remove_tree(self.dir .. "/" .. name))
end

-- Saves the script and its modules as they were loaded last beside those of the beginning; returns
-- the place within the run.
function Run:save_reload(script)
  self:check_place()
  local n = 1
  while fs.exists(("%s/source/reload-%03d"):format(self.dir, n)) do n = n + 1 end
  local source = ("source/reload-%03d"):format(n)
  save_sources(self.dir, source, script)
  self:add_sums { source }
  return source
end

local function fill(run, name, info)
  local dir = run.dir
  must(fs.mkdirs(dir .. "/checkpoints"))
  save_sources(dir, "source", info.script)
  if info.text then must(fs.write(dir .. "/source/main.lua", info.text)) end
  write_json(dir .. "/config.json", info.config)
  write_json(dir .. "/env.json", info.env)
  write_json(dir .. "/inputs.json", inputs.list(info.inputs))
  run.info = { format = 1, version = core.version().version, name = name, script = info.script,
    args = info.args,
    overrides = info.overrides, compute = info.compute, numbers = info.numbers,
    hub = next(places.used) and places.used or nil, started = core.wall(), pid = core.getpid(),
    host = core.hostname(), directory = fs.realpath("."), sums = {},
    rows = info.rows, steps = info.steps, host_rewards = info.host_rewards }
  for _, written in ipairs { "config.json", "env.json", "inputs.json", "source" } do
    sums.add(run.info.sums, dir, written)
  end
  run:open_logs()
  run:set_state("running")
end

-- Removes directories in which processes built runs until they died: a living process holds its own
-- locked.  Returns the names in `root` that stay.  The caller holds the lock of `root`.
local function remove_abandoned(root)
  local taken = {}
  for _, entry in ipairs(must(fs.list(root))) do
    local place = entry:find("^%.new%-%d+$") and root .. "/" .. entry
    local lock = place and not fs.readlink(place) and fs.lock(place .. "/.lock")
    if lock then
      lock:close()
      fs.remove_tree(place)
    else
      taken[entry] = true
    end
  end
  return taken
end

-- Makes a directory in which a run is built, under a name that is not a run's.
local function building_place(run, root)
  local _ <close> = must(fs.lock(root .. "/.lock", true))
  local taken, n = remove_abandoned(root), 1
  while taken[(".new-%d"):format(n)] do n = n + 1 end
  run.dir = ("%s/.new-%d"):format(root, n)
  must(fs.mkdirs(run.dir))
  run.lock = must(fs.lock(run.dir .. "/.lock"))
end

-- Raises if a new run cannot be the directory `as` of `root`.
function rundir.check_new(root, as)
  if as:find("/", 1, true) or as:find("^%.") or as:find("%c") then
    errors.raise_plain("EARG", "--as %q: it is the name of one directory below %s, so it holds no "
      .. "'/' and does not begin with a dot", as, root)
  end
  local dir = ("%s/%s"):format(root, as)
  if fs.exists(dir) or fs.readlink(dir) then
    errors.raise_plain("EARG", "%s: it is there already, and a run's directory is never reused; "
      .. "give another name, or continue that run with --resume=%s", dir, dir)
  end
end

-- Gives the run its place: `as`, or the next number of its name.
local function take_place(run, root, name, as)
  local _ <close> = must(fs.lock(root .. "/.lock", true)) -- another run may be taking its own
  if as then rundir.check_new(root, as) end
  local dir = ("%s/%s"):format(root, as or ("%s-%03d"):format(name, next_number(root, name)))
  must(fs.rename(run.dir, dir))
  run.dir = dir
end

-- info: { name=, as= (the directory's name, if it gets no number), script=, text= (of a script
-- without a file), args=, overrides=, compute=, steps=, config=, env=, inputs= }  The run is
-- complete when it gets its place: a process that is killed before that, or a full disk, leaves no
-- run.
function rundir.create(root, info)
  must(fs.mkdirs(root))
  -- A name that begins with a dot is not a run's, and one that begins with a minus would be a flag.
  local name = (info.name:gsub("[^%w._-]", "-"):gsub("^[.-]+", ""))
  if name == "" then name = "run" end
  local run = setmetatable({}, Run)
  building_place(run, root)
  local ok, err = pcall(fill, run, name, info)
  if ok then ok, err = pcall(take_place, run, root, name, info.as) end
  if ok then return run end
  run:close()
  fs.remove_tree(run.dir)
  error(err, 0)
end

-- Files and links that are replaced while a run trains.
local replaced = { "run.json", "events.jsonl", "log_sizes.json", "latest", "best" }

-- Removes what a killed process left of files that it was about to replace.  Other programs may be
-- writing into the run's directory, but only its own process into `source`.
local function remove_temporaries(dir)
  for _, name in ipairs(replaced) do must(fs.remove_temporaries(dir, name)) end
  local function clear(folder)
    if fs.readlink(folder) or not fs.isdir(folder) then return end
    must(fs.remove_temporaries(folder))
    for _, name in ipairs(must(fs.list(folder))) do clear(folder .. "/" .. name) end
  end
  clear(dir .. "/source")
end

-- A damaged file ends a resume.  With force that is remembered and said when the logs are open.
function Run:damaged(force, message, consequence)
  if not force then
    errors.raise_plain("EFORMAT", "%s, or resume with --force, which %s", message, consequence)
  end
  self.remarks[#self.remarks + 1] = ("%s; --force %s"):format(message, consequence)
end

local function open_info(run, force)
  local ok, info, message, code = errors.try(rundir.read, run.dir, "run")
  if not ok then
    local path = run.dir .. "/run.json"
    local forced = schema.read(path, schema.shapes.run, true)
    run:damaged(force, tostring(info), "takes it as it is")
    info = forced
  end
  if info then
    info.crc32c, info.sums = nil, info.sums or {} -- it gets another one
    return info
  end
  return errors.raise_plain(code, "%s: not a run directory: %s", run.dir, message)
end

-- Reads the end of a file.  Returns its last row that is not damaged, and "row".  Otherwise it
-- returns nil and a word: "empty" says that an empty line comes last, "none" that the file has no
-- row, and "unknown" that the part which was read has none.
local function last_line(path)
  if not fs.exists(path) then return nil, "none" end
  local file <close> = fs.check_input(path) and io.open(path, "rb") or nil
  if not file then return nil, "unknown" end
  local size = file:seek("end")
  if size == 0 then return nil, "none" end
  file:seek("set", math.max(0, size - (1 << 18)))
  local list = lines.whole(file:read("a") or "")
  for i = #list, 1, -1 do
    if list[i] == "" then return nil, "empty" end
    local ok, row = errors.try(core.json_decode, list[i])
    local step = ok and type(row) == "table" and math.tointeger(row.step)
    if step and sums.state(list[i]) ~= "damaged" then return row, "row" end
  end
  return nil, size < 1 << 18 and "none" or "unknown"
end

-- The number of the last row of a log, 0: it has none; nil if it is not known.
local function last_number(dir, log)
  local row, found = last_line(row_log.path(dir, log))
  if row then return math.tointeger(row.log_line) end
  return found == "none" and 0 or nil
end

-- Looks at the files that a resume depends on.
local function check_files(run, force)
  local list, dir = run.info.sums, run.dir
  for name in sorted_pairs(list) do
    local message = sums.damage(list, dir, name)
    if message then
      local gone = not fs.exists(dir .. "/" .. name)
      if gone and name:find("^source/") then errors.raise_plain("EFORMAT", "%s", message) end
      run:damaged(force, message, gone and "continues without it" or "takes it as it is")
      list[name] = nil
      if fs.exists(dir .. "/" .. name) then sums.add(list, dir, name) end
    end
  end
  for _, log in ipairs(logs) do
    local problem = row_log.cut_short(dir, log, run.info, last_number(dir, log))
    if problem then
      run:damaged(force, problem .. "; restore it from a copy", "continues without its rows")
    end
  end
  local ok, problem = errors.try(script_logs.damage, dir)
  if ok then
    for _, message in ipairs(problem) do run:damaged(force, message, "takes it as it is") end
    return
  end
  local aside = dir .. "/log_sizes.json.damaged"
  run:damaged(force, tostring(problem),
    ("moves it to %s and does not cut the files of tr:append"):format(aside))
  must(fs.rename(dir .. "/log_sizes.json", aside))
end

-- Removes what processes left beside the run.  A failure, or another run that is just being made
-- there, leaves that to the next run.
local function tidy_root(root)
  local lock = fs.exists(root .. "/.lock") and fs.lock(root .. "/.lock")
  if not lock then return end
  pcall(remove_abandoned, root)
  lock:close()
end

-- Opens a run to resume it.  The lock tells whether another process still trains it.  force: with
-- files that are damaged.
function rundir.open(dir, force)
  local run = setmetatable({ dir = dir, remarks = {} }, Run)
  local info = open_info(run, force)
  run.info = info
  local lock, why, code_of = fs.lock(dir .. "/.lock")
  if lock == nil then errors.raise_plain(code_of, "%s: cannot be gone on with: %s", dir, why) end
  if not lock then
    errors.raise_plain("EARG", "%s: is running (process %s)", dir, tostring(info.pid))
  end
  run.lock = lock
  local ok, problem = pcall(check_files, run, force)
  if not ok then
    lock:close()
    error(problem, 0)
  end
  remove_temporaries(dir)
  tidy_root(dir:match("^(.*)/") or ".")
  info.run_log, info.log_lines = nil, nil -- more is to come
  info.pid, info.host = core.getpid(), core.hostname()
  return run
end

-- ---- logs ------------------------------------------------------------------------

-- Removes the rows that a resumed run will write again.  last_step: that of the checkpoint from
-- which it resumes, -1 without one.  evaluations: how many of that step it knows of.
function Run:cut_logs(last_step, evaluations)
  self.last_kept = last_step
  for _, name in ipairs(logs) do
    local log = self.log[name]
    local whole, repeated = log:cut(last_step, name == "eval" and evaluations or nil)
    if name == "eval" then self.repeated = repeated end
    if name == "metrics" and whole and last_step > 0 and log.step ~= last_step then
      self:remark(("metrics.jsonl %s, but the checkpoint is of step %d: rows are missing, and stay "
        .. "so unless the file is restored from a copy"):format(log.step
        and ("ends at step %d"):format(log.step) or "has no row", last_step))
    end
  end
end

function Run:open_logs()
  self.log = {}
  for _, name in ipairs(logs) do self.log[name] = row_log.open(self, name) end
  self.text_log = must(fs.append(self.dir .. "/run.log"))
  self.output = must(fs.append(self.dir .. "/output.log"))
  self.script_logs, self.sinks = {}, {}
end

function Run:append(name, row)
  self.log[name]:append(row)
end

-- A note that is also shown.
function Run:remark(text)
  core.notice("note: " .. text)
  self:note(text)
end

-- Makes the rows durable that a checkpoint, or the end of the run, is about to count on.
function Run:sync_logs()
  for _, name in ipairs(logs) do must(self.log[name]:sync()) end
  for _, writer in sorted_pairs(self.script_logs) do must(writer:sync()) end
end

function Run:note(text)
  self.text_log:put(("%s %s\n"):format(os.date("!%Y-%m-%dT%H:%M:%SZ", math.floor(core.wall())),
    text))
end

-- Saves a line as it was shown; `grpo logs` shows it again.
function Run:shown(text)
  self.output:put(text .. "\n")
end

-- Gives numbers of a step to the logs of extensions, the rows `log_sinks`, that the options `log`
-- ask for.  A log is opened when it gets its first numbers.
function Run:scalars(step, numbers, log)
  for _, row in ipairs(extensions.rows "log_sinks") do
    if log[row.name] then
      self.sinks[row.name] = self.sinks[row.name] or row.open(self)
      self.sinks[row.name]:scalars(step, numbers)
    end
  end
end

-- The numbers of an evaluation.  The logs have those already of one that a resumed run repeats at
-- the step where it begins, and the stage of the step.
function Run:evaluation_scalars(step, row, log)
  if step == self.last_kept and self.repeated > 0 then
    self.repeated = self.repeated - 1
    return
  end
  local numbers = {}
  for name, value in pairs(row) do numbers[name] = name ~= "stage" and value or nil end
  self:scalars(step, numbers, log)
end

function Run:event_text(step, name, s)
  for _, sink in sorted_pairs(self.sinks) do sink:text(step, name, s) end
end

-- ---- state -----------------------------------------------------------------------

-- state: "running", "finished", "stopped", "interrupted", "diverged", "error"
function Run:set_state(state, more)
  self:check_place()
  self.info.state = state
  self.info.heartbeat = core.wall()
  for k, v in pairs(more or {}) do self.info[k] = v end
  must(fs.write(self.dir .. "/run.json", sums.pages(self.info)))
end

-- How many rows each log has had; nil for one whose last row could not be read.
function Run:log_lines()
  local count = {}
  for _, name in ipairs(logs) do count[name] = self.log[name].number end
  return count
end

-- The sum of run.log as it is at the end of a run.
function Run:sum_of_notes()
  local sum, size = fs.checksum(self.dir .. "/run.log")
  return sum and { size = size, crc32c = ("%08x"):format(sum) } or nil
end

-- Writes at most once per second.
function Run:heartbeat(step, steps)
  local now = core.wall()
  if math.abs(now - (self.info.heartbeat or 0)) < 1 then return end -- the clock may go back
  self:set_state("running", { step = step, steps = steps })
end

function Run:close()
  for _, writer in pairs(self.log or {}) do writer:close() end
  for _, writer in pairs(self.script_logs or {}) do writer:close() end
  if self.text_log then self.text_log:close() end
  if self.output then self.output:close() end
  for _, sink in pairs(self.sinks or {}) do sink:close() end
  if self.lock then self.lock:close() end
end

-- ---- looking at runs ----------------------------------------------------------------

-- The step of the last row of a file; nil if there is none.
local function step_at_end(path)
  local row = last_line(path)
  return row and math.tointeger(row.step)
end

-- Returns whether a process trains the run; nil if that cannot be found out.  Asks the lock, or
-- without permission to read it looks for the process that run.json names.
local function is_trained(dir, info)
  local held, _, code = fs.is_locked(dir .. "/.lock")
  if held ~= nil then return held end
  if code == "ENOENT" then return false end
  if info.host ~= core.hostname() or not info.pid or not fs.exists("/proc/self") then return nil end
  local stat = fs.read(("/proc/%d/stat"):format(info.pid))
  return stat ~= nil and not stat:find("%) [ZX]") -- one that has ended may wait for its parent
end

-- { name=, dir=, state=, step=, steps=, started= } of one directory; only state "damaged"
-- when its run.json cannot be read, nil when it has none.
function rundir.describe(dir)
  local ok, info = errors.try(rundir.read, dir, "run")
  if not ok then return { name = dir:match("[^/]+$"), dir = dir, state = "damaged" } end
  if not info then return nil end
  local state, step = info.state, info.step
  if state == "running" then
    local trained = is_trained(dir, info)
    if trained == nil then state = "unknown" end
    if trained == false then
      state = "crashed"
      step = step_at_end(row_log.path(dir, "metrics")) or step -- run.json may be a second older
    end
  end
  return { name = dir:match("[^/]+$"), dir = dir, state = state, step = step,
    steps = info.steps,
    started = info.started, script = info.script, summary = info.summary, pid = info.pid,
    host = info.host }
end

-- Returns all runs below root, newest first.
function rundir.list(root)
  local list = {}
  for _, name in ipairs(fs.list(root) or {}) do
    local one = name:sub(1, 1) ~= "." and rundir.describe(root .. "/" .. name)
    if one then list[#list + 1] = one end
  end
  table.sort(list, function(a, b)
    if (a.started or 0) ~= (b.started or 0) then return (a.started or 0) > (b.started or 0) end
    return a.name > b.name
  end)
  return list
end

return rundir
