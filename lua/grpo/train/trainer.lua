-- The trainer: the loop around steps.  Stages in order, evaluation before, between and after, hooks,
-- checkpoints, the run directory.  `grpo.trainer(experiment)` gives one without a directory: step by hand.

local core = require "grpo.core"
local checkpoint = require "grpo.runs.checkpoint"
local diagnose = require "grpo.train.diagnose"
local display = require "grpo.runs.display"
local errors = require "grpo.base.errors"
local evaluate = require "grpo.train.evaluate"
local reward_hacking = require "grpo.reward_checks.reward_hacking"
local experiment = require "grpo.experiment"
local live_options = require "grpo.experiment.live_options"
local loading = require "grpo.models.loading"
local Stage = require "grpo.train.stage"
local statistics = require "grpo.statistics"
local steps = require "grpo.train.steps"

local Trainer = { __name = "grpo.Trainer" }
local methods = {}

function Trainer.__index(tr, key)
  if key == "engine" then return tr.stage and tr.stage.engine end
  if key == "config" then return live_options.view(tr.settings, tr) end
  return methods[key]
end

Trainer.__tostring = function(tr)
  return ("trainer of %s at step %d"):format(tr.experiment.config.name, tr.step_count)
end

local trainer = {}

local function needs_mask(e)
  for _, spec in ipairs(e.stages) do
    if steps[spec.kind].masks then return true end
  end
  return false
end

-- options: { directory = run directory object, view = where lines are shown, from = a checkpoint to go on from,
-- weights = a checkpoint to look at }, all optional.
function trainer.new(e, options)
  options = options or {}
  if not experiment.is(e) then
    errors.raise("EARG", "grpo.trainer: got %s, want what grpo.experiment returned", type(e))
  end
  local tr = setmetatable({
    experiment = e, directory = options.directory, view = options.view or display.silent(),
    step_count = 0, tokens_seen = 0, stage_index = 0, state = {}, metrics = {}, settings = e.stages[1].config,
    watcher = diagnose.watcher(), detector = reward_hacking.detector(), extra = {}, resumed = false,
  }, Trainer)
  if options.from then tr.counters = checkpoint.read(options.from) end
  tr.model, tr.tokenizer, tr.about = loading.model(e.config.model, e.config, options.from or options.weights,
    needs_mask(e))
  if options.from then tr:restore(options.from) end
  return tr
end

-- ---- stages ------------------------------------------------------------------------

function methods:begin_stage(index)
  self.stage_index = index
  local spec = self.experiment.stages[index]
  self.settings = spec.config
  if self.stage then self.stage:close() end -- its optimizer and arenas, before the next stage takes its own
  self.stage = nil
  self.stage = Stage.new(self, spec, index)
end

function methods:restore(dir)
  local counters = self.counters
  self.step_count, self.tokens_seen, self.state = counters.step, counters.tokens_seen, counters.state
  self.best, self.best_step = counters.best, counters.best_step
  self.metrics, self.resumed = counters.last_metrics or {}, true
  self.saved_step = counters.step
  if counters.stage < 1 then return end
  if not self.experiment.stages[counters.stage] then
    errors.raise_plain("EARG", "%s: is of stage %d, the script has %d", dir, counters.stage, #self.experiment.stages)
  end
  self.stage_index, self.settings = counters.stage, self.experiment.stages[counters.stage].config
  if counters.stage_done then return end
  self:begin_stage(counters.stage)
  local stage = self.stage
  stage.step, stage.tokens, stage.source.cursor = counters.stage_step, counters.stage_tokens, counters.cursor
  stage.source.dropped, stage.source.truncated = counters.dropped, counters.truncated
  stage.engine:load(dir)
  if stage.reference then
    local reference, kept = checkpoint.reference(self, dir)
    stage:close()
    stage.reference, stage.keeps_reference = reference, kept
    stage:build_engine()
    stage.engine:load(dir)
  end
end

-- The last stage of a run that is finished, for further steps in memory: schedules are at their end.
local function go_beyond(tr)
  if not tr.stage then
    tr:begin_stage(tr.stage_index)
    local stage, counters = tr.stage, tr.counters
    stage.step, stage.tokens, stage.source.cursor = counters.stage_step, counters.stage_tokens, counters.cursor
  end
  tr.stage.done = false
  return tr.stage
end

-- The stage that the next step belongs to, begun; nil after the last one (tr.beyond: the last one goes on).
function methods:current_stage()
  while not self.stage or self.stage.done do
    if self.stage_index >= #self.experiment.stages then return self.beyond and go_beyond(self) or nil end
    self:begin_stage(self.stage_index + 1)
    if self.stage.steps == 0 then self.stage.done = true end
  end
  return self.stage
end

-- ---- one step ------------------------------------------------------------------------

-- Rewards, schedules, losses and hooks may not call what would run them again: it has no end.
function methods:refuse_inside(call, hooks_too)
  local inside = self.busy or (hooks_too and self.in_hook)
  if inside then errors.raise("EARG", "tr:%s: called inside %s; call it outside", call, inside) end
end

-- A whole step, with its counters and hooks.
local function step(self)
  local stage = self:current_stage()
  if not stage then return nil end
  local started = core.clock()
  self.evaluated = nil
  local metrics, tokens = stage:advance()
  self.step_count = self.step_count + 1
  self.tokens_seen = self.tokens_seen + tokens
  metrics.step, metrics.stage, metrics.stage_step = self.step_count, stage.index, stage.step
  metrics.kind, metrics.num_tokens = stage.kind, self.tokens_seen
  metrics.step_time = core.clock() - started
  metrics["memory/peak_bytes"] = core.mem().peak_rss
  self.metrics = metrics
  for name, v in pairs(self.extra) do metrics[name] = v end
  self.extra = {}
  self:hook("on_step", metrics)
  for name, v in pairs(self.extra) do metrics[name] = v end
  self.extra = {}
  self.step_seconds = core.clock() - started -- with the hook: what the steps that are left will take
  return metrics
end

-- One optimizer step of the current stage; nil when all stages are done.  Ctrl-C at a prompt finds it done or not
-- begun.
function methods:step()
  self:refuse_inside("step", true)
  return core.edit.holding("the step", step, self)
end

-- Metrics without times and memory: what two runs of the same experiment share.
function methods:repeatable_metrics()
  local kept = {}
  for name, v in pairs(self.metrics) do
    local timed = name:find("^time/") or name:find("^tokens_per_second/") or name == "step_time"
      or name == "memory/peak_bytes" or name == "slowest_reward"
    if not timed and type(v) ~= "table" then kept[name] = v end
  end
  return kept
end

-- Calls a hook protected and limited; its "stop" ends the run; an error in it stops the run.
function methods:hook(name, ...)
  local f = self.settings.hooks and self.settings.hooks[name]
  if not f then return end
  local args = table.pack(...)
  args.n = args.n + 1
  args[args.n] = self
  if name == "on_end" then args = { n = 2, self, (...) } end
  local outer = self.in_hook
  self.in_hook = "hooks." .. name
  local ok, result = core.limited(self.settings.limits.hook, "hooks." .. name, f, table.unpack(args, 1, args.n))
  self.in_hook = outer
  if not ok then
    if type(result) == "table" and result.fatal then error(result, 0) end
    error(core.error("ESCRIPT", ("hooks.%s: %s"):format(name, tostring(result))), 0)
  end
  if result == "stop" then self:stop("hooks." .. name) end
end

-- ---- what scripts and hooks call --------------------------------------------------------

-- Raised through a step that a signal abandons; the state is that of the step before.
local INTERRUPT = setmetatable({}, { __tostring = function() return "interrupted" end })

-- A message handler: errors keep the traceback of the place where they were raised.
local function traced(e)
  if type(e) == "table" and e ~= INTERRUPT and not e.traceback then e.traceback = debug.traceback("", 2) end
  return e
end

-- The tokens of the last step with every number of theirs; of its completion i.
function methods:inspect(i)
  self:refuse_inside("inspect", true)
  return require("grpo.repl.inspect").step(self, i)
end

-- The last step's completions under other rewards: see inspect.lua.
function methods:rescore(rewards)
  self:refuse_inside("rescore", true)
  return require("grpo.repl.inspect").rescore(self, rewards)
end

function methods:stop(reason)
  self.stop_reason = reason or "stopped"
end

function methods:evaluate(n)
  self:refuse_inside("evaluate")
  if not self.stage then self:current_stage() end
  return core.edit.holding("the evaluation", function()
    self.busy = "an evaluation"
    local ok, report = xpcall(evaluate.run, traced, self, n)
    self.busy = nil
    if not ok then error(report, 0) end
    return report
  end)
end

function methods:save(dir)
  self:refuse_inside("save")
  if dir then
    checkpoint.write(self, dir)
    return dir
  end
  if not self.directory then
    errors.raise("EARG", "tr:save: this trainer has no run directory; give one: tr:save(\"DIR\")")
  end
  local path = checkpoint.save(self)
  self:hook("on_checkpoint", path)
  return path
end

function methods:log(name, value)
  if type(name) ~= "string" or type(value) ~= "number" then
    errors.raise("EARG", "tr:log: want a name and a number, got %s and %s", type(name), type(value))
  end
  self.extra[name] = value
end

function methods:log_text(name, s)
  if self.directory then
    self.directory:event_text(self.step_count, name, tostring(s))
    self.directory:note(("%s: %s"):format(name, s))
  end
end

function methods:print(...)
  local parts = table.pack(...)
  for i = 1, parts.n do parts[i] = tostring(parts[i]) end
  self.view:line(display.clean(table.concat(parts, "\t", 1, parts.n))) -- it may be a model's text
end

-- ---- the run -----------------------------------------------------------------------------

function methods:check_interrupt()
  local signal = self.directory and core.signal_take()
  if not signal then return end
  if signal == "USR1" then
    self.save_now = true
    return
  end
  self.interrupted = signal
  error(INTERRUPT, 0)
end

local function reward_columns(c)
  local columns = {}
  for name, r in pairs(c.rewards) do columns[name] = r ~= core.none and r or core.json_null end
  return columns
end

-- Lines of advice: on the screen and in run.log.
function methods:advise(lines)
  for _, line in ipairs(lines) do
    line = display.clean(line) -- it may hold a model's text
    self.view:note(line)
    if self.directory then self.directory:note(line) end
  end
end

-- Are completions compared with a text token by token?  They end with it, cut or not.
local function follows_targets(config)
  for _, entry in ipairs(config.data.target and config.reward_entries or {}) do
    if entry.token_fn then return true end
  end
  return false
end

function methods:record_step(metrics)
  local run, config = self.directory, self.settings
  self.view:step(self, metrics)
  self:advise(self.watcher:step(metrics, { fixed_length = follows_targets(config),
    completions = self.batch and self.batch.completions }))
  if self.stage.method.samples then self:advise(self.detector:step(metrics, self.batch.completions, config)) end
  if not run then return end
  run:append("metrics", metrics)
  if config.log.tensorboard then run:scalars(self.step_count, metrics) end
  if self.stage.method.samples then
    for i, c in ipairs(self.batch.completions) do
      local slot = (i - 1) // #c.group + 1
      run:append("completions", { step = self.step_count, prompt_index = slot, index = c.index,
        row = self.batch.prompts[slot].number, prompt = c.prompt, text = c.text, rewards = reward_columns(c),
        reward = c.reward,
        advantage = type(c.advantage) == "table" and statistics.mean(c.advantage) or c.advantage,
        finish = c.finish, length = c.length,
        extra = c.extra, errors = c.errors, parts = c.sampled and c.parts or nil, environment = c.environment })
    end
  end
  run:heartbeat(self.step_count, self:total_steps())
end

function methods:total_steps()
  local total = 0
  for i, spec in ipairs(self.experiment.stages) do
    local begun = i == self.stage_index and self.stage
    total = total + (begun and begun.steps or Stage.planned_steps(spec.config))
  end
  return total
end

local function public_report(report)
  local copy = {}
  for k, v in pairs(report) do
    if k ~= "samples" and k ~= "per_row" then copy[k] = v end
  end
  return copy
end

function methods:run_evaluation(label)
  if not self.settings.data.eval then return end
  self.view:status("evaluating")
  local report = self:evaluate()
  report.label, report.stage = label, self.stage_index
  self.last_report = report
  self.view:evaluation(self, report)
  if self.directory then
    self.directory:append("eval", public_report(report))
    if self.settings.log.tensorboard then self.directory:scalars(self.step_count, public_report(report)) end
  end
  self:advise(self.detector:evaluation(report))
  self:hook("on_eval", report)
  self.evaluated = label
  if self:is_best(report) then
    self:save()
    checkpoint.mark_best(self)
  end
end

-- Metrics that are best when lowest.
local lower = { loss = true, ["eval/loss"] = true, ["eval/bits_per_character"] = true,
  ["eval/masked_loss"] = true }

-- Whether checkpoint.best is better in these numbers than ever before; remembers it.
function methods:is_best(numbers)
  local best = self.settings.checkpoint.best
  local value, last = best and self.directory and numbers[best], self.best
  if type(value) ~= "number" or value ~= value then return false end
  if last and (lower[best] and value >= last or not lower[best] and value <= last) then return false end
  self.best, self.best_step = value, self.step_count
  return true
end

-- A checkpoint that is due; a metric of training is the best one so far, or not, where one is written.
function methods:save_due()
  local best = self.settings.checkpoint.best
  if best and self.stage.method.samples and not best:find("^eval/") and not self.metrics[best] then
    self.view:line(("note: checkpoint.best: step %d has no metric '%s'"):format(self.step_count, best))
  end
  local is_best = self:is_best(self.metrics)
  self:save()
  if is_best then checkpoint.mark_best(self) end
end

-- The evaluation that was due at the checkpoint we go on from, and that it does not know of.
function methods:owed_evaluation()
  local counters = self.counters
  if counters.evaluated or counters.stage < 1 then return nil end
  if counters.step == 0 then return "before" end
  if counters.stage_done then
    self:begin_stage(counters.stage)
    self.stage.step, self.stage.tokens, self.stage.done = counters.stage_step, counters.stage_tokens, true
    return "after " .. self.stage.kind
  end
  local every = self.settings.eval.every
  return every > 0 and counters.stage_step > 0 and counters.stage_step % every == 0 and "step" or nil
end

function methods:after_step(metrics)
  self:record_step(metrics)
  local config, stage = self.settings, self.stage
  local due = config.eval.every > 0 and stage.step % config.eval.every == 0
  if due and not stage.done then self:run_evaluation("step") end
  local every = config.checkpoint.every
  if self.directory and (self.save_now or (every > 0 and self.step_count % every == 0)) then
    self.save_now = nil
    self:save_due()
  end
end

function methods:end_stage(stage)
  if self.directory then self:save_due() end
  self:run_evaluation("after " .. stage.kind)
end

local function thousands(n)
  local text = tostring(n):reverse():gsub("(%d%d%d)", "%1,"):reverse()
  return (text:gsub("^,", ""))
end

-- How it computes, what is trained of an adapter's model, and what happened while it was loaded.
local function announce(tr)
  local mode, native = core.compute { compute = tr.model.compute }
  local lines = { ("compute: %s%s"):format(mode, native and "" or " (this CPU has no instructions for it: no faster)") }
  if tr.about.adapter then
    local trained, all = tr.model:count { trainable = true }, tr.model:count()
    lines[2] = ("trainable: %s of %s parameters (%.2f %%)"):format(thousands(trained), thousands(all),
      100 * trained / all)
    if tr.directory then tr.directory.info.parameters = { all = all, trainable = trained } end
  end
  lines[#lines + 1] = tr.about.note
  for _, line in ipairs(lines) do
    tr.view:info(line)
    if tr.directory then tr.directory:note(line) end
  end
end

function methods:run_loop()
  if not self.resumed then
    self:current_stage()
    announce(self)
    self:hook("on_start")
    self:run_evaluation("before")
  else
    if self.best_step == self.step_count and self.directory then checkpoint.mark_best(self) end
    local other = self.directory and self.directory:other_kernels()
    if other then
      self.view:info(other)
      self.directory:note(other)
    end
    self:hook("on_start")
    local label = self:owed_evaluation()
    if label then self:run_evaluation(label) end
  end
  while not self.stop_reason do
    self:check_interrupt()
    local before = self.stage_index
    local stage = self:current_stage()
    if not stage then break end
    if stage.index ~= before or stage.step == 0 then self.view:stage(self, stage) end
    if self.services then self.services:between_steps() end
    if self.stop_reason then break end
    local metrics = self:step()
    self:after_step(metrics)
    if self.stage.done then self:end_stage(self.stage) end
    local finished = self.stage.done and self.stage_index == #self.experiment.stages
    if self.step_limit and self.step_count >= self.step_limit and not finished then self:stop("--steps") end
  end
end

-- Runs to the end.  Returns why it ended: "finished", "stopped", "interrupted"; raises after "diverged" or "error"
-- (hooks.on_error and on_end have been called then, and the run's state is written).
function methods:run()
  self:refuse_inside("run", true)
  if self.services then self.services:open() end
  local ok, err = xpcall(self.run_loop, traced, self)
  -- a rollout that a signal cut short ends with an error of its own
  if not ok and err ~= INTERRUPT and type(err) == "table" and err.code == "ELIMIT" and core.signal_count() > 0 then
    local signal = core.signal_take()
    if signal then self.interrupted, err = signal, INTERRUPT end
  end
  local why
  if ok then
    why = self.stop_reason and "stopped" or "finished"
  elseif err == INTERRUPT then
    why = "interrupted"
  else
    why = type(err) == "table" and err.code == "EDIVERGED" and "diverged" or "error"
  end
  if self.services then self.services:end_of_steps() end
  if (why == "stopped" or why == "interrupted") and self.directory then self:save() end
  if why == "error" or why == "diverged" then
    experiment.locate(self.settings, err)
    local handler = self.settings.hooks and self.settings.hooks.on_error
    if handler then core.limited(self.settings.limits.hook, "hooks.on_error", handler, err, self) end
  end
  self:finish(why, err)
  if why == "error" or why == "diverged" then error(err, 0) end
  return why
end

-- Where a run that is not at its end has stopped, and how it goes on.
local function say_end(self, why)
  if not self.directory or (why ~= "interrupted" and why ~= "stopped") then return end
  local reason = why == "stopped" and (" (%s)"):format(tostring(self.stop_reason)) or ""
  self.view:info(display.clean(("%s%s at step %d of %d, after a checkpoint; 'grpo run --resume=%s' goes on"):format(why,
    reason, self.step_count, self:total_steps(), self.directory.dir)))
  self.directory:note(why == "stopped" and "stopped: " .. tostring(self.stop_reason)
    or ("interrupted at step %d"):format(self.step_count))
end

function methods:finish(why, err)
  local ended, message = core.protected(function() self:hook("on_end", why) end)
  if self.services then self.services:close() end
  say_end(self, why)
  self.view:close()
  if why == "finished" then self.view:summary(self.directory and self.directory.dir) end
  if self.directory then
    if err and err ~= INTERRUPT then
      self.directory:note(("error after step %d: %s"):format(self.step_count, tostring(err)))
    end
    local report = self.last_report
    self.directory:set_state(why, { step = self.step_count, steps = self:total_steps(), finished = core.wall(),
      summary = report and { ["eval/accuracy"] = report["eval/accuracy"],
        ["eval/loss"] = report["eval/loss"], ["eval/masked_loss"] = report["eval/masked_loss"] } or nil })
    self.directory:close()
  end
  if not ended and why == "finished" then error(message, 0) end
end


return trainer
