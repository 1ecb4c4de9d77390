-- The records of a run: metrics.jsonl, completions.jsonl, eval.jsonl, run.log, logs of extensions
-- and run.json in its directory, if it has one, and lines on the screen, with advice where the
-- numbers show a known pattern.

local core = require "grpo.core"
local course = require "grpo.loop.course"
local diagnose = require "grpo.loop.diagnose"
local display = require "grpo.base.display"
local evaluate = require "grpo.loop.evaluate"
local reward_hacking = require "grpo.scoring.reward_checks.reward_hacking"
local statistics = require "grpo.statistics"

local recorder = {}

local Recorder = {}
Recorder.__index = Recorder

function recorder.new(tr)
  return setmetatable({ tr = tr, watcher = diagnose.watcher(),
    detector = reward_hacking.detector(), course = course.new() }, Recorder)
end

-- ---- the beginning -----------------------------------------------------------------------

-- How the model computes, what is trained of it if it has an adapter, and what happened while it
-- was loaded.
local function facts_of_model(tr)
  local mode, native = core.compute { compute = tr.model.compute }
  local slow = native and "" or " (this CPU has no instructions for it: no faster)"
  local portable = core.version().kernels == "portable" and ", portable" or ""
  local lines = { ("compute: %s%s%s"):format(mode, portable, slow) }
  if tr.about.adapter then
    local trained, all = tr.model:count { trainable = true }, tr.model:count()
    lines[2] = ("trainable: %s of %s parameters (%.2f %%)"):format(display.thousands(trained),
      display.thousands(all), 100 * trained / all)
    if tr.directory then tr.directory.info.parameters = { all = all, trainable = trained } end
  end
  lines[#lines + 1] = tr.about.note
  return lines
end

-- run.log has it already.
local function say_resumed(tr)
  local at = tr.directory and tr.directory.resumed_at
  if not at then return end
  local stage, spec = tr.stage_index, tr.experiment.stages[tr.stage_index]
  tr.view:info(("resumed at step %d of %d%s"):format(at, tr:total_steps(),
    spec and (", in stage %d of %d (%s)"):format(stage, #tr.experiment.stages, spec.kind) or ""),
    "1")
end

function Recorder:begin()
  local tr = self.tr
  local lines = facts_of_model(tr)
  if tr.resumed then
    lines = {}
    self.course:add(tr.step_count, tr.metrics)
  end
  say_resumed(tr)
  for _, line in ipairs(lines) do
    tr.view:info(line)
    if tr.directory then tr.directory:note(line) end
  end
end

-- ---- a step ------------------------------------------------------------------------------

-- Lines of advice: on the screen and in run.log.
function Recorder:advise(lines)
  for _, line in ipairs(lines) do
    line = display.clean(line) -- it may hold a model's text
    self.tr.view:note(line)
    if self.tr.directory then self.tr.directory:note(line) end
  end
end

-- Are completions compared with a text token by token?  They end with it, cut or not.
local function follows_targets(config)
  for _, entry in ipairs(config.data.target and config.reward_entries or {}) do
    if entry.token_fn then return true end
  end
  return false
end

local function reward_columns(c)
  local columns = {}
  for name, r in pairs(c.rewards) do columns[name] = r ~= core.none and r or core.json_null end
  return columns
end

-- Completion number i of a batch as a row of completions.jsonl.
function recorder.completion_row(step, batch, i, c)
  local slot = (i - 1) // #c.group + 1
  local prompt, advantage = batch.prompts[slot], c.advantage
  if type(advantage) == "table" then advantage = statistics.mean(advantage) end
  return { step = step, prompt_index = slot, index = c.index,
    row = prompt.number, row_index = prompt.index, row_crc32c = prompt.row_crc32c,
    prompt = c.prompt, text = c.text,
    rewards = reward_columns(c), reward = c.reward, advantage = advantage, finish = c.finish,
    length = c.length, extra = c.extra, errors = c.errors, parts = c.sampled and c.parts or nil,
    environment = c.environment }
end

function Recorder:step(metrics)
  local tr, config = self.tr, self.tr.settings
  local run, completions = tr.directory, tr.batch and tr.batch.completions
  tr.view:step(tr, metrics)
  self.course:add(tr.step_count, metrics, tr.stage.engine:largest_gradient())
  self:advise(self.watcher:step(metrics,
    { fixed_length = follows_targets(config), completions = completions,
      reference = config.reference, taught = config.train.distill ~= nil }))
  if tr.stage.method.samples then self:advise(self.detector:step(metrics, completions, config)) end
  if not run then return end
  run:append("metrics", metrics)
  run:scalars(tr.step_count, metrics, config.log)
  for i, c in ipairs(tr.stage.method.samples and completions or {}) do
    run:append("completions", recorder.completion_row(tr.step_count, tr.batch, i, c))
  end
  run:heartbeat(tr.step_count, tr:total_steps())
end

-- ---- an evaluation -----------------------------------------------------------------------

function Recorder:evaluation(report)
  local tr = self.tr
  local run = tr.directory
  tr.view:evaluation(tr, report)
  if run then
    local row = evaluate.logged(report)
    run:append("eval", row)
    run:evaluation_scalars(tr.step_count, row, tr.settings.log)
  end
  local config, stage = tr.settings, tr.stage
  self:advise(self.detector:evaluation(report, { entries = config.reward_entries,
    weights = tr.eval_weights, clip = config.reward.clip,
    passes = stage.source.cursor / #config.data.train }))
end

-- ---- the end -----------------------------------------------------------------------------

-- Where a run that is not at its end has stopped, and how it is resumed.
local function say_stopped(tr, why)
  local reason = why == "stopped" and (" (%s)"):format(tostring(tr.stop_reason)) or ""
  tr.view:info(display.clean(("%s%s at step %d of %d, after a checkpoint; "
    .. "'grpo run --resume=%s' continues it"):format(why,
    reason, tr.step_count, tr:total_steps(), tr.directory.dir)))
  tr.directory:note(why == "stopped" and "stopped: " .. tostring(tr.stop_reason)
    or ("interrupted at step %d"):format(tr.step_count))
end

-- Raises if the run's directory was moved: then its run.log alone is open, and says so.
local function check_place(tr, run)
  local ok, err = pcall(run.check_place, run)
  if ok then return end
  tr.view:close()
  run:note(("error after step %d: %s"):format(tr.step_count, tostring(err)))
  run:close()
  error(err, 0)
end

-- why: "finished", "stopped", "interrupted", "diverged" or "error"; err: what was raised then, or
-- nil.
function Recorder:finish(why, err)
  local tr = self.tr
  local run, report = tr.directory, tr.last_report
  if run then check_place(tr, run) end
  if run and (why == "interrupted" or why == "stopped") then say_stopped(tr, why) end
  tr.view:close()
  if why == "finished" then tr.view:summary(run and run.dir) end
  if not run then return end
  if err then run:note(("error after step %d: %s"):format(tr.step_count, tostring(err))) end
  if not err then run:sync_logs() end
  run:set_state(why, { step = tr.step_count, steps = tr:total_steps(), finished = core.wall(),
    run_log = run:sum_of_notes(), log_lines = run:log_lines(),
    summary = report and { step = report.step, ["eval/accuracy"] = report["eval/accuracy"],
      ["eval/loss"] = report["eval/loss"],
      ["eval/masked_loss"] = report["eval/masked_loss"] } or nil })
  run:close()
end

return recorder
