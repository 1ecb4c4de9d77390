-- The training loop: stages one after the other, their steps, held-out evaluation, checkpoints.
--
-- A step itself is in steps/; loop/recorder.lua writes it down and shows it.

local best_metric = require "grpo.loop.best_metric"
local checkpoint = require "grpo.loop.checkpoint"

local loop = {}

-- Writes a checkpoint and marks it best if `numbers` hold the best value so far of the metric in
-- checkpoint.best.
local function save_if_best(tr, numbers)
  if not best_metric.improves(tr, numbers) then return false end
  tr:save()
  checkpoint.mark_best(tr)
  checkpoint.prune(tr) -- the best one until now
  return true
end

-- Measures the policy on the held-out rows, if there are any.  label: "before", "step", "after
-- KIND" or "attached".
function loop.evaluate(tr, label)
  if not tr.settings.data.eval then return end
  tr.view:status("evaluating")
  local report = tr:evaluate()
  report.label, report.stage = label, tr.stage_index
  tr.last_report = report
  tr.recorder:evaluation(report)
  tr:hook("on_eval", report)
  tr.evaluated, tr.evaluations = label, tr.evaluations + 1
  tr:on_first_rank(function() save_if_best(tr, report) end)
end

-- Is what the section "eval" or "checkpoint" describes due after a step?  stage_step: of the stage;
-- step: of the whole run, which `every` counts, as the screen does.  An epoch is as long as in
-- train.epochs: a step takes prompts_per_step rows.
local function is_due(config, section, stage_step, step)
  local every, epochs = config[section].every, config[section].every_epochs
  if every > 0 then return step % every == 0 end
  if epochs <= 0 then return false end
  local span = epochs * #config.data.train / config.train.prompts_per_step -- in steps
  local function passed(n) return math.floor(n / span + 1e-9) end
  return passed(stage_step) > passed(stage_step - 1)
end

-- Returns the label of the evaluation that a run missed when it was stopped at a checkpoint; nil if
-- it missed none.
local function missed_evaluation(tr)
  local saved = tr.counters
  if saved.evaluated or saved.stage < 1 then return nil end
  if saved.step == 0 then return "before" end
  if saved.stage_done then
    tr:reopen_stage()
    return "after " .. tr.stage.kind
  end
  return saved.stage_step > 0 and is_due(tr.settings, "eval", saved.stage_step, saved.step)
    and "step" or nil
end

local function begin(tr)
  if not tr.resumed then tr:current_stage() end -- the model may change with it
  if tr.resumed and tr.best_step == tr.step_count and tr.directory then checkpoint.mark_best(tr) end
  tr.recorder:begin()
  tr:hook("on_start")
  local label = "before"
  if tr.resumed then label = missed_evaluation(tr) end
  if not label then return end
  if tr.services then tr.services:before_evaluation() end
  loop.evaluate(tr, label)
end

local function save(tr)
  tr:on_first_rank(function()
    if not tr.directory then return end
    best_metric.note_missing(tr)
    if not save_if_best(tr, tr.metrics) then tr:save() end
  end)
end

local function after_step(tr, metrics)
  tr.recorder:step(metrics)
  local config, stage = tr.settings, tr.stage
  if is_due(config, "eval", stage.step, tr.step_count) and not stage.done then
    loop.evaluate(tr, "step")
  end
  local due = is_due(config, "checkpoint", stage.step, tr.step_count)
  if tr.save_now or due then
    tr.save_now = nil
    save(tr)
  end
end

local function end_stage(tr)
  save(tr)
  loop.evaluate(tr, "after " .. tr.stage.kind)
end

-- Trains until the last stage is done or there is a reason to stop.
function loop.run(tr)
  begin(tr)
  if tr.resumed and tr.step_limit and tr.step_count >= tr.step_limit then
    tr.view:line(("note: --steps %d: the run has made %d steps already, so it makes none"):format(
      tr.step_limit, tr.step_count))
    tr:stop("--steps")
  end
  while not tr.stop_reason do
    tr:check_interrupt()
    local stage = tr:current_stage()
    if not stage then break end
    if stage.step == 0 then tr.view:stage(tr, stage) end
    if tr.services then tr.services:between_steps() end
    if tr.stop_reason then break end
    after_step(tr, tr:step())
    if stage.done then end_stage(tr) end
    local last = stage.done and stage.index == #tr.experiment.stages
    if tr.step_limit and tr.step_count >= tr.step_limit and not last then tr:stop("--steps") end
  end
  if tr.directory then checkpoint.prune(tr) end -- a kill may have come before
end

return loop
