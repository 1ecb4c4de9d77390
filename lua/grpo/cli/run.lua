local core = require "grpo.core"
local background = require "grpo.cli.background"
local checkpoint = require "grpo.runs.checkpoint"
local flags = require "grpo.cli.flags"
local model_paths = require "grpo.models.paths"
local rundir = require "grpo.runs.directory"
local script = require "grpo.scripts.script"

local run = {
  name = "run",
  summary = "train a model as an experiment script describes",
  arguments = { flags.with(flags.script, { unless = "resume" }), flags.override },
  flags = {
    { name = "resume", type = "run", optional = true,
      doc = "resume RUN from its own saved sources; without RUN, resume the newest unfinished run "
        .. "of SCRIPT" },
    { name = "force",
      doc = "resume even if the script or its inputs changed; if SCRIPT is given, use its current "
        .. "version instead of the saved copy" },
    { name = "steps", type = "integer", min = 1,
      doc = "stop after N optimizer steps, counted from the beginning of the run" },
    flags.arg, flags.threads, flags.dir,
    { name = "detach",
      doc = "run in the background, also after this terminal is closed: 'grpo logs -f RUN' shows "
        .. "its output, 'grpo attach RUN' opens a prompt in it, 'grpo stop RUN' ends it" },
    { name = "quiet", doc = "show no progress on the screen" },
    flags.json,
  },
  about = { "Runs the experiment that SCRIPT returns, and prints the run directory." },
  notes = {
    "Ctrl-C stops the run after a checkpoint; a second Ctrl-C ends it at once. SIGUSR1 writes a "
      .. "checkpoint.",
    "Exit status: 0 done, 1 failed after training began, 2 a wrong script, option or flag, 3 a "
      .. "file is missing or corrupt, 4 training diverged, 5 out of memory or disk, 130 or 143 "
      .. "stopped by a signal after a checkpoint.",
    "Examples:",
    { { "grpo run my.lua train.lr=1e-5 sampling.group_size=16" },
      { "grpo run --resume=runs/my-001" },
      { "grpo run my.lua --detach" } },
  },
}

local function plain(v)
  if type(v) == "function" then
    local info = debug.getinfo(v, "S")
    return ("function (%s:%d)"):format(info.short_src, info.linedefined)
  end
  if type(v) ~= "table" then return type(v) == "userdata" and tostring(v) or v end
  if getmetatable(v) and getmetatable(v).__name then return tostring(v) end
  local copy = {}
  for k, x in pairs(v) do copy[type(k) == "number" and k or tostring(k)] = plain(x) end
  return copy
end

-- Every resolved option with where its value came from.
local function described(e)
  local function one(config, origins)
    local list = {}
    for path, origin in pairs(origins) do
      local v = config
      for part in path:gmatch("[^.]+") do v = type(v) == "table" and v[part] or nil end
      list[path] = { value = plain(v), origin = origin }
    end
    return list
  end
  local stages = {}
  for i, stage in ipairs(e.stages) do stages[i] = { kind = stage.kind, options = one(stage.config, stage.origins) } end
  local lora = e.config.model.lora
  local notes = lora and lora.dropout > 0 and { "the check that the ratio is 1 at the first update is off: with "
    .. "model.lora.dropout the training forward is not the sampling one" } or nil
  return { options = one(e.config, e.origins), stages = stages, notes = notes }
end

local function inputs_of(e)
  local inputs = {}
  for path in pairs(require("grpo.data").inputs) do inputs[path] = true end
  local place = e.config.model.path and model_paths.find(e.config.model.path)
  for _, path in ipairs { place and place.path, place and place.adapter } do
    if not core.fs.isdir(path) then inputs[path] = true end
    for _, name in ipairs(core.fs.list(path) or {}) do
      if name:find("%.json$") or name:find("%.safetensors$") then inputs[path .. "/" .. name] = true end
    end
  end
  return inputs
end

local function environment(e)
  local env = { threads = core.threads(), seed = e.config.seed }
  for k, v in pairs(core.version()) do env[k] = v end
  return env
end

-- The newest run of this script that is not finished.
local function unfinished(root, path)
  for _, one in ipairs(rundir.list(root)) do
    if one.script == path and one.state ~= "finished" and one.state ~= "running" then return one.dir end
  end
  error(core.error("ENOENT", ("--resume: no unfinished run of %s in %s"):format(path, root)), 0)
end

local function open_for_resume(o, root)
  local dir, first = o.flags.resume, o.words[1]
  if dir ~= true and first and first:find("^[%w_.]+=") and not core.fs.exists(first) then -- an option, without a script
    table.insert(o.overrides, 1, table.remove(o.words, 1))
  end
  if dir == true then
    if not o.words[1] then error(core.error("EARG", "--resume: give a script, or --resume=RUN"), 0) end
    dir = unfinished(root, o.words[1])
  elseif not core.fs.exists(dir .. "/run.json") and core.fs.exists(root .. "/" .. dir .. "/run.json") then
    dir = root .. "/" .. dir
  end
  local directory = rundir.open(dir)
  local changed = directory:changed_inputs()
  local saved = core.fs.read(dir .. "/source/main.lua")
  if o.words[1] and core.fs.read(o.words[1]) ~= saved then
    changed[#changed + 1] = o.words[1] .. " differs from the run's saved source"
  end
  if #changed > 0 and not o.flags.force then
    error(core.error("EARG", ("%s: %s; --force goes on all the same"):format(dir, table.concat(changed, ", "))), 0)
  end
  return directory
end

-- In another mode it would be another run.
local function keep_compute(e, info, force)
  local was, now = info.compute or "f32", e.config.compute
  if now ~= was and not force then
    error(core.error("EARG", ("compute=%s: the run computes in %s; --force goes on all the same"):format(now, was)), 0)
  end
  info.compute = now
end

-- The experiment of a run that goes on and its directory, in which options.create(tr) is the first to write.
local function resume(o, root, options)
  local directory = open_for_resume(o, root)
  local info = directory.info
  if info.state == "finished" then return nil, directory end
  local forced = o.flags.force and o.words[1] or nil
  local e = script.of_run(directory.dir, info, o.overrides, forced)
  e.config.name = info.name
  keep_compute(e, info, o.flags.force)
  options.from = checkpoint.newest(directory.dir)
  options.create = function(tr)
    local at, saved = tr.step_count, tr.counters
    directory:cut_logs(saved and at or -1, saved and saved.evaluated ~= nil)
    directory:open_logs()
    directory:set_state("running")
    directory:note(("resumed at step %d"):format(at))
    if forced then require("grpo.runs.events").take_files(directory, at, saved and saved.stage or 1, forced) end
    return directory
  end
  return e, directory
end

local function begin(o, root, options)
  local e = script.load(o.words[1], o)
  options.create = function(tr)
    return rundir.create(root, { name = e.config.name, script = o.words[1], text = o.text, args = o.args,
      overrides = o.overrides, compute = tr.model.compute, config = described(e), env = environment(e),
      inputs = inputs_of(e) })
  end
  return e
end

local signal_status = { INT = 130, TERM = 143 }

-- The trainer of what the words ask for, its directory made; or nil and the directory of a run that is finished.
local function prepare(o, background_of)
  local root, limit, threads = o.flags.dir, o.flags.steps, o.flags.threads
  local options = {}
  local e, directory
  if o.flags.resume then e, directory = resume(o, root, options) else e = begin(o, root, options) end
  if not e then return nil, directory end
  local view = require("grpo.runs.display").new { quiet = o.flags.quiet, background = background_of }
  options.view = view
  if threads then
    e.config.threads = threads
    for _, stage in ipairs(e.stages) do stage.config.threads = threads end
  end
  local tr = require("grpo.train.trainer").new(e, options) -- most of our modules: the script's first line need not wait
  if not directory then require("grpo.train.preflight").run(tr) end
  directory = options.create(tr)
  tr.directory, tr.step_limit = directory, limit
  view:keep_in(directory)
  return tr, directory
end

local function result_line(o, directory, fields)
  fields.run = directory.dir
  core.out((o.flags.json and core.json_encode(fields) or directory.dir) .. "\n")
end

function run.run(o, cli)
  core.signals_install()
  local ready, status
  if o.flags.detach then
    ready, status = background.begin()
    if not ready then return status end
  end
  local tr, directory = prepare(o, ready ~= nil)
  if not tr then
    core.err(("grpo: %s is finished already\n"):format(directory.dir))
    result_line(o, directory, { state = "finished" })
    return 0
  end
  if ready then background.announce(ready, o, directory) end
  local ok, why = core.protected(tr.run, tr)
  if not ok then
    status = cli.report(why)
    return (status == 2 or status == 3) and 1 or status -- whoever's mistake: compute had begun
  end
  if not ready then result_line(o, directory, { state = why, step = tr.step_count }) end
  if why == "interrupted" then return signal_status[tr.interrupted] end
  return 0
end

run.described, run.begin, run.resume = described, begin, resume

return run
