local core = require "grpo.core"
local errors = require "grpo.base.errors"
local eval_names = require "grpo.options.eval_names"
local files_read = require "grpo.base.files_read"
local flags = require "grpo.commands.flags"
local grid = require "grpo.sweep.grid"
local loaded_sources = require "grpo.options.scripts.loaded_sources"
local options = require "grpo.options"
local results = require "grpo.sweep.results"
local scheduler = require "grpo.sweep.scheduler"
local screen = require "grpo.sweep.screen"
local script = require "grpo.loop.script"
local sweep = require "grpo.sweep"

local command = {
  name = "sweep",
  summary = "run an experiment with several values of options, side by side",
  arguments = {
    flags.script,
    flags.with(flags.override, { name = "key=value,...",
      doc = "an option of the experiment with the values to try, such as train.lr=1e-5,3e-5" }),
  },
  flags = {
    { name = "seeds", type = "integer", min = 1, default = 1,
      doc = "run each combination with N seeds, from the experiment's own seed upward" },
    { name = "jobs", type = "integer", min = 1,
      doc = "run at most N runs at once; without it as many as there are cores and memory for" },
    { name = "metric", type = "word", value = "NAME",
      doc = "compare the runs by this metric; without it by the held-out accuracy, or the loss if "
        .. "only that is measured" },
    { name = "retry", doc = "continue runs that failed or diverged, from their last checkpoint" },
    { name = "force", doc = "continue although the script or a file that it reads has changed "
      .. "since the sweep began; runs that have begun keep their saved copy" },
    flags.arg,
    flags.with(flags.memory, { doc = "let all runs together take at most SIZE, such as 500M or 8G; "
      .. "without it they may take what the machine has available" }),
    flags.threads,
    { name = "dir", type = "dir", value = "RUNS", doc = flags.dir.doc },
    { name = "quiet", doc = "show only the table and failures" },
    flags.json,
  },
  about = {
    "Runs SCRIPT once for each combination of the values and each seed, side by side, and prints a "
      .. "table: the final and the best value of the metric and the training reward (over the last "
      .. "tenth of the steps), each as the mean over the seeds with its 95 % t interval; one seed "
      .. "has no interval. Each run is a directory below RUNS, which is sweeps/NAME unless "
      .. "--dir says otherwise, with its options in its name, and has the same bits as 'grpo run' "
      .. "with these options alone. The runs share the N threads, by default all cores. The table "
      .. "is also written to RUNS/table.csv and RUNS/table.json.",
    "Values are parted by commas, except within brackets, braces and JSON strings: "
      .. "eval.pass_at=[1,4],[1,8] has two values, and 'model.path=\"a,b\"' has one. Options with "
      .. "one value hold for all runs, and so does --arg KEY=VALUE: its value is not parted.",
  },
  notes = {
    "The same command again continues what is unfinished, leaves out what is done, and adds what "
      .. "is new in the grid. Ctrl-C ends all runs after a checkpoint. If the sweep is killed, its "
      .. "runs end after a checkpoint too, and the next call waits for that. A run that fails does "
      .. "not end the others.",
    "Exit status: 0 all runs are done, 1 a run failed, diverged or was stopped, 2 a wrong script, "
      .. "option or flag, 3 a file is missing or corrupt, 5 out of memory or disk, 129, 130 or 143 "
      .. "stopped by a signal after checkpoints.",
    "Examples:",
    { { "grpo sweep my.lua train.lr=1e-5,3e-5,1e-4 --seeds 3" },
      { "grpo sweep my.lua train.lr=1e-5,3e-5 sampling.group_size=8,16 --jobs 2" } },
  },
}

local fail = errors.of "sweep"
local signal_status = { HUP = 129, INT = 130, TERM = 143 }

-- ---- what is to be run -------------------------------------------------------------------------

-- The sums of the files that the script has read, by path.
local function note_files(sums)
  for path, file in pairs((loaded_sources.met())) do
    if file.text then sums[path] = ("%08x"):format(core.fs.crc32c(file.text)) end
  end
  for path in pairs(files_read.paths) do
    local sum = not sums[path] and not core.fs.isdir(path) and core.fs.checksum(path)
    if sum then sums[path] = ("%08x"):format(sum) end
  end
end

local function list_of_files(sums)
  local list = {}
  for path, sum in require "grpo.base.sorted"(sums) do
    list[#list + 1] = { path = path, crc32c = sum }
  end
  return list
end

-- The name of the metric that the runs are compared by; nil if they evaluate nothing.
local function metric_of(o, e)
  local last, wanted = e.stages[#e.stages], o.flags.metric
  local names = last.config.data.eval and eval_names.any(last.kind, last.config)
    and eval_names.list(last.kind, last.config) or {}
  if wanted and wanted:find("^eval/") and not options.among(wanted, names) then
    fail("EARG", "--metric %s: the experiment's evaluations have no such number%s", wanted,
      #names > 0 and (options.hint(wanted, names) .. "; they have " .. table.concat(names, ", "))
      or ", because it has no data.eval")
  end
  if wanted then return wanted end
  for _, name in ipairs { "eval/accuracy", "eval/masked_loss", "eval/loss" } do
    if options.among(name, names) then return name end
  end
end

-- Loads the script with every combination, so that a mistake is found before anything runs.
-- Returns { lists = options of the runs, e = the first experiment, files =, need = the most bytes
-- that one of the runs takes }.
local function plan(o, view)
  local axes, seeds = grid.axes(o.overrides), nil
  for _, axis in ipairs(axes) do
    if axis.path == "seed" then seeds = axis end
  end
  if seeds and o.flags.seeds > 1 then
    fail("EARG", "seed=... and --seeds both say which seeds; leave one of them out")
  end
  local combinations, sums = grid.product(axes), {}
  local found = { lists = {}, need = 0 }
  local memory = require "grpo.sweep.memory"
  for i, list in ipairs(combinations) do
    if view.live then view:draw({}, ("sweep: checking %d of %d"):format(i, #combinations)) end
    local e = script.load(o.words[1], { args = o.args, overrides = grid.words(list),
      words = i == 1 })
    note_files(sums)
    found.e = found.e or e
    found.need = math.max(found.need, memory.of(e))
    for s = 0, o.flags.seeds - 1 do
      local with_seed = table.move(list, 1, #list, 1, {})
      if not seeds then
        with_seed[#with_seed + 1] = { path = "seed", text = ("%d"):format(e.config.seed + s) }
      end
      found.lists[#found.lists + 1] = with_seed
    end
    if core.signal_take() then fail("EARG", "stopped before anything began") end
  end
  memory.close()
  view:erase()
  found.files = list_of_files(sums)
  return found
end

-- How many runs may be at work at once.
local function jobs_of(o, found, cores, view)
  local wanted = math.min(o.flags.jobs or cores, #found.lists)
  local room = o.flags.memory or core.mem().available
  if room == 0 then return wanted end -- nobody knows
  local fit = math.max(1, room // math.max(1, found.need))
  if fit < wanted then
    view:info(("sweep: %d run%s at a time, because one may need %d MiB and %d are free"):format(fit,
      fit == 1 and "" or "s", found.need >> 20, room >> 20))
  end
  return math.min(fit, wanted)
end

-- ---- the directory -----------------------------------------------------------------------------

local function open(o, found, view)
  local dir = o.flags.dir or "sweeps/" .. (found.e.config.name:gsub("[^%w._-]", "-")
    :gsub("^%.", "-"))
  local about = { script = o.words[1], args = o.args, files = found.files }
  local told
  local it = sweep.open(dir, about, function()
    if not told then view:info(("sweep: %s: runs of an earlier call are ending"):format(dir)) end
    told = true
    return core.signal_take() ~= nil
  end)
  local changes = it:changes(about)
  if #changes > 0 and not o.flags.force then
    fail("EARG", "%s: %s, so its runs could not be compared with new ones; begin another sweep "
      .. "with --dir, or continue all the same with --force", dir, table.concat(changes, ", "))
  end
  if #changes > 0 then it:take(about) end
  return it
end

-- Takes what the run has reached into it, and writes the reason of a failure down.
local function look_at(it, run, metric)
  local state, there = it:state(run)
  run.state = run.state or state
  run.step = there and there.step
  if run.state ~= "done" then return end
  local ok, found = pcall(results.of_run, it:dir_of(run), metric)
  if ok then
    run.final, run.best, run.reward = found.final, found.best, found.reward
  else
    run.state, run.reason = "failed", errors.line(found)
  end
end

local fields = { "name", "options", "reason" }

-- Writes the fields of the runs that sweep.json keeps.
local function write(it)
  local whole = it.info.runs
  local plain = {}
  for i, run in ipairs(whole) do
    plain[i] = {}
    for _, name in ipairs(fields) do plain[i][name] = run[name] end
  end
  it.info.runs = plain
  it:write()
  it.info.runs = whole
end

-- A metric that no evaluation was known to have may have been misspelt.
local function note_missing(t)
  local any, done = false, 0
  for _, row in ipairs(t.rows) do
    any, done = any or row.final ~= nil, done + row.done
  end
  if t.metric and done > 0 and not any then
    core.err(("note: --metric %s: no run has a value of it, so only the reward is compared\n")
      :format(t.metric))
  end
end

local function show(o, it, t)
  results.write(it.dir, t)
  note_missing(t)
  if o.flags.json then
    for _, row in ipairs(t.rows) do core.out(core.json_encode(results.object(t, row)) .. "\n") end
  else
    core.out(table.concat(results.lines(t), "\n") .. "\n")
  end
end

function command.run(o)
  core.signals_install()
  local view = screen.new { quiet = o.flags.quiet }
  local found = plan(o, view)
  local metric = metric_of(o, found.e)
  local cores = o.flags.threads or core.threads()
  local it = open(o, found, view)
  local runs = it:add(found.lists)
  write(it)
  local jobs = jobs_of(o, found, cores, view)
  local function ended(run)
    look_at(it, run, metric)
    write(it)
  end
  local signal = scheduler.new({ sweep = it, runs = runs, script = o.words[1], args = o.args,
    jobs = jobs, cores = cores, memory = o.flags.memory and o.flags.memory // jobs,
    retry = o.flags.retry, screen = view, ended = ended,
    result = function(run)
      return metric and run.final and (", %s %.4g"):format(metric, run.final) or ""
    end }):run()
  for _, run in ipairs(it.info.runs) do
    if not run.state then look_at(it, run, metric) end
  end
  show(o, it, results.table(it.info.runs, metric))
  it:close()
  if signal then return signal_status[signal] end
  for _, run in ipairs(runs) do
    if run.state ~= "done" then return 1 end
  end
  return 0
end

return command
