local checkpoint = require "grpo.loop.checkpoint"
local core = require "grpo.core"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local evaluate = require "grpo.loop.evaluate"
local events = require "grpo.loop.events"
local extensions = require "grpo.base.extensions"
local files_read = require "grpo.base.files_read"
local flags = require "grpo.commands.flags"
local history = require "grpo.runs.history"
local inputs = require "grpo.runs.inputs"
local paired = require "grpo.loop.paired"
local places = require "grpo.data.places"
local row_check = require "grpo.loop.row_check"
local rundir = require "grpo.runs.directory"
local script = require "grpo.loop.script"
local services = require "grpo.runs.services"
local sorted_pairs = require "grpo.base.sorted"
local trainer = require "grpo.loop.trainer"
local verdict = require "grpo.base.verdict"

local command = {
  name = "eval",
  summary = "evaluate a model: accuracy, pass@k, samples; or compare two",
  arguments = {
    { name = "SCRIPT|RUN|CHECKPOINT", type = { "script", "run", "dir" } },
    { name = "OTHER", type = { "script", "run", "dir" }, optional = true,
      doc = "a second model, which is compared with the first on the same rows" },
    flags.override,
  },
  flags = {
    flags.arg,
    { name = "rows", type = "integer", min = 1, instead_of = { "n", "limit" },
      doc = "evaluate only the first N held-out rows" },
    flags.with(flags.completions, { min = 0, default = 3, instead_of = { "samples" },
      doc = "show N completions" }),
    flags.memory, flags.threads, flags.json,
  },
  about = {
    "Evaluates on the held-out rows of the experiment (data.eval) one of these models:",
    {
      { "SCRIPT", "the model of the script as it is before training; model.path=DIR chooses "
        .. "another model or an adapter" },
      { "RUN", "the newest checkpoint of a run, which is a directory or a name in runs/" },
      { "CHECKPOINT", "one checkpoint of a run" },
    },
    "A checkpoint is measured as the run itself measured it: with the rewards, weights and options "
      .. "that were in force at its step, after reloads and changes by attached sessions. To "
      .. "measure it with another script: grpo eval SCRIPT model.path=CHECKPOINT. A note says "
      .. "which data has changed since the run began.",
    "With a second model both are measured on the same held-out rows, and what both measure is "
      .. "compared row by row: the difference, its 95 % interval by bootstrap over rows, and the "
      .. "p-value of a test of pairs, exact (McNemar's) where values are right or wrong. Options "
      .. "hold for both.",
  },
}

-- Says what has changed since the run measured it: rows of data, the model below an adapter.
local function note_changes(tr, e, info, changed)
  local list = {}
  for _, file in ipairs(changed) do
    local used = files_read.paths[file.path] or tr.about.adapter
    if file.now and used then list[#list + 1] = inputs.told(file) end
  end
  if #list == 0 then list[1] = row_check.change(e, info.rows) end
  if #list == 0 then return end
  core.notice(("note: %s, so this does not measure what the run has measured"):format(
    table.concat(list, ", ")))
end

-- A run's trainer at one of its checkpoints, with what was in force when the run evaluated it.
local function trainer_at(dir, from, o)
  local info = rundir.read(dir, "run")
  from = from or core.checkpoint_newest(dir)
  if not from then errors.raise_plain("ENOENT", "%s has no checkpoint yet", dir) end
  local before = checkpoint.step(from) - 1 -- its evaluation came first
  local changed = inputs.changed(dir)
  inputs.refuse_elsewhere(dir, info, changed, "evaluate it")
  local e = script.of_run(dir, info, { overrides = o.overrides, at = before })
  extensions.run_opened(dir, false)
  local tr = trainer.new(e, { weights = from })
  note_changes(tr, e, info, changed)
  services.changes_until(tr, dir, info, o.overrides, true)
  local later = events.still_to_come(tr)
  if later then
    core.notice(("note: what was changed at step %d counts from step %d, so not here: %s"):format(
      tr.step_count, tr.step_count + 1, later))
  end
  return tr
end

local function refuse_model(what, is)
  errors.raise_plain("EARG", "eval: %s is %s; to evaluate a model, give a script: grpo eval SCRIPT "
    .. "model.path=%s", what, is, what)
end

-- Is it the name of a model that is there?
local function is_cached(name)
  return name:find("/", 1, true) and not core.fs.exists(name) and places.is_name(name)
    and pcall(places.snapshot, name)
end

-- The trainer of what is to be evaluated.
local function trainer_of(what, o)
  local one = nil
  if core.fs.exists(what .. "/trainer.json") and core.fs.exists(what .. "/../../run.json") then
    what, one = what .. "/../..", what
  end
  if not one and not core.fs.exists(what) and not what:find("[/.]") then
    what = history.find(what)
  end
  if not core.fs.exists(what .. "/run.json") then
    if core.fs.isdir(what) then refuse_model(what, "neither a run nor a checkpoint of one") end
    if what:find("%.gguf$") and core.fs.exists(what) then refuse_model(what, "a model") end
    if is_cached(what) then refuse_model(what, "a model of the Hub and not a run") end
    return trainer.new(script.load(what, o))
  end
  return trainer_at(what, one, o)
end

local function outcome(c)
  if c.passed == nil then return "not judged" end
  return c.passed and "passed" or "failed"
end

local function show(report, samples)
  for name, v in sorted_pairs(report) do
    if type(v) == "number" and name:find("^eval/") then
      core.out(("%-28s %.4f\n"):format(name, v))
    end
  end
  core.out(("%-28s %d\n"):format("rows", report.n))
  if (report.unjudged or 0) > 0 then
    core.out(("%-28s %d\n"):format("rows that cannot be judged", report.unjudged))
    if report.failure then core.out(("a reward failed: %s\n"):format(report.failure)) end
  end
  for i = 1, math.min(samples, #report.samples) do
    local c = report.samples[i]
    local line = verdict.line(c)
    core.out(("\n[%s] %s\n%s\n"):format(outcome(c),
      display.clean(c.prompt):gsub("\n", " "), display.clean(c.text)))
    if line then core.out(("(%s)\n"):format(display.clean(line))) end
  end
end

local function report_of(what, o)
  local tr = trainer_of(what, o)
  for _, note in ipairs(tr.about.lengths) do core.notice("note: " .. note) end
  local report = tr:evaluate(o.flags.rows)
  tr.stage:close() -- the next model finds its memory free
  return report
end

local function show_comparison(list)
  if #list == 0 then return end
  core.out(("%-24s %9s %9s %10s  %-18s  %s\n"):format("", "first", "second", "difference",
    "95 % interval", "p"))
  for _, one in ipairs(list) do
    core.out(("%-24s %9.4f %9.4f %+10.4f  %+.4f to %+.4f  %.3g  (of %d rows %d higher, %d lower)\n")
      :format(one.name, one.a, one.b, one.difference, one.low, one.high, one.p, one.n, one.higher,
        one.lower))
  end
end

local function compare(o)
  local a = report_of(o.words[1], o)
  collectgarbage()
  local b = report_of(o.words[2], o)
  local list = paired.compare(a, b)
  if #list == 0 then
    core.notice("note: there is nothing that both have measured row by row, so nothing is compared")
  end
  if not o.flags.json then return show_comparison(list) end
  core.out(core.json_encode { first = evaluate.logged(a), second = evaluate.logged(b),
    comparison = list } .. "\n")
end

function command.run(o)
  if o.words[2] then return compare(o) end
  local report = report_of(o.words[1], o)
  if o.flags.json then
    core.out(core.json_encode(evaluate.logged(report)) .. "\n")
  else
    show(report, o.flags.completions)
  end
end

return command
