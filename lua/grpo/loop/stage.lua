-- One stage of a run: its engine, its reference, its source of prompts.  What a step does is in
-- train/steps/KIND.lua.

local core = require "grpo.core"
local eval_names = require "grpo.options.eval_names"
local loading = require "grpo.models.loading"
local memory_advice = require "grpo.loop.memory_advice"
local nonfinite = require "grpo.loop.nonfinite"
local outcomes = require "grpo.steps.outcomes"
local planned_steps = require "grpo.loop.planned_steps"
local preflight = require "grpo.loop.preflight"
local prompts = require "grpo.scoring.prompts"
local reference_names = require "grpo.options.reference_names"
local steps = require "grpo.options.stage_kinds"
local turns = require "grpo.scoring.turns"
local vocabulary = require "grpo.loop.vocabulary"

local Stage = {}
Stage.__index = Stage

local function path_reference(tr, config)
  local dtype, options = config.reference_dtype, { compute = tr.model.compute }
  if dtype == "auto" then
    options.quantize = config.model.quantize
  else
    options[(dtype == "int8" or dtype == "nf4") and "quantize" or "dtype"] = dtype
  end
  local reference = loading.open(config.reference, options)
  vocabulary.check_size(config, tr.model, reference)
  return reference
end

-- "initial" is the policy as it is now: for an adapter that no step has touched yet the base model,
-- which is shared; for one that was trained its copy beside the shared base.  A reference that will
-- move needs a copy too. It computes as the policy does, so that a copy of the policy gives the
-- policy's own log-probabilities. Second result: must a checkpoint keep it?  Others can be made
-- again.
local function make_reference(tr, config, seed)
  local reference, adapter = config.reference, tr.about.adapter
  if reference == "initial" then
    local untouched = adapter == "fresh" and tr.step_count == 0 and not config.train.sync_reference
    if untouched then return core.model_base(tr.model), false end
    return core.model_clone(tr.model), true
  end
  if reference == "policy" then return tr.model, false end
  if reference == "random" then
    local table_config = {}
    for k, v in pairs(tr.model.config) do table_config[k] = v end
    return core.model_new(table_config, { seed = seed + 1, compute = tr.model.compute }),
      not adapter
  end
  local added = reference_names.added[reference]
  if added then return added.make(config, tr.tokenizer, tr.model), false end
  return path_reference(tr, config), not adapter and config.train.sync_reference ~= nil
end

-- spec: { kind=, config= } of the experiment.
function Stage.new(tr, spec, index)
  local config, planned = spec.config, planned_steps(spec.config)
  local stage = setmetatable({
    kind = spec.kind, method = steps[spec.kind], config = config, index = index, tr = tr, step = 0,
    tokens = 0, steps = planned, source = prompts.source(config, tr.tokenizer, planned),
    done = false,
    update = 0, update_tokens = 0, -- updates of the stage, and the tokens that they trained on
    engine_updates = 0, engine_tokens = 0, -- what the engine had counted when these were 0
    per_step = steps.updates(spec.kind, config),
  }, Stage)
  preflight.stage(tr, spec)
  -- config.json says how it was trained
  core.model_set_mask(tr.model, stage.method.masks and tr.tokenizer.mask or nil)
  if steps.wants_reference(spec.kind, config) then
    stage.reference, stage.keeps_reference = make_reference(tr, config, config.seed)
    if not reference_names.added[config.reference] then
      preflight.reference(spec, stage.reference)
    end
    stage.measures_kl = config.data.eval ~= nil and eval_names.has_kl(spec.kind, config)
  end
  stage:build_engine()
  return stage
end

-- The options of core.engine without a reference.  about: a trainer, or { model =, tokenizer = }.
function Stage.engine_options(about, spec)
  local options = steps.engine_options(spec.kind, spec.config)
  options.model, options.tokenizer, options.optimizer = about.model, about.tokenizer,
    spec.config.train.optimizer
  options.turns = options.turns or turns.wanted(spec.config)
  return options
end

function Stage:build_engine()
  local config, tr = self.config, self.tr
  local options = Stage.engine_options(tr, self)
  options.reference = self.reference
  memory_advice.check(self.kind, config, options)
  self.engine = core.engine(options)
  self.engine:reserve()
end

function Stage:close()
  self.engine:close()
  self.engine, self.reference = nil, nil
end

-- The argument of schedules.
function Stage:argument()
  return { step = self.step, steps = self.steps, tokens = self.tokens,
    update = self.update, updates = self.steps * self.per_step, update_tokens = self.update_tokens,
    fraction = self.steps > 0 and self.step / self.steps or 1.0, metrics = self.tr.metrics or {} }
end

-- The updates of the stage and the tokens that they trained on, also within a step.
function Stage:counted_updates()
  local engine = self.engine
  return engine:optimizer_steps() - self.engine_updates, engine:update_tokens() - self.engine_tokens
end

-- Continues from the place in the stage that a checkpoint's counters say.
function Stage:take_place(counters)
  local engine = self.engine
  self.step, self.tokens = counters.stage_step, counters.stage_tokens
  self.source.cursor = counters.cursor
  self.source.sampler.saved = counters.sampler or self.source.sampler.saved
  self.update = counters.stage_update
  self.update_tokens = counters.stage_update_tokens
  self.engine_updates = engine:optimizer_steps() - self.update
  self.engine_tokens = engine:update_tokens() - self.update_tokens
end

-- Takes a batch and trains on it: true, metrics, tokens, or false and the error.
function Stage:attempt(p)
  self.work = nil
  self.source:begin(p)
  self.tr.busy = "a step"
  local ok, metrics, tokens = xpcall(self.method.step, function(e)
    if type(e) == "table" and not e.traceback then e.traceback = debug.traceback("", 2) end
    return e
  end, self, p)
  self.tr.busy = nil
  return ok, metrics, tokens
end

-- Tells data.sampler what became of the rows of this step, and keeps its state.
function Stage:tell_sampler(metrics)
  local source, sampler = self.source, self.source.sampler
  if not sampler:is_used() then return end
  local groups = self.method.samples and outcomes.of(self, self.work.batch) or source.chosen
  local numbers = sampler:observe(metrics, groups, source.cursor)
  for name, value in pairs(numbers) do metrics[name] = value end
  sampler:commit()
end

-- One step of the stage; returns metrics and the tokens trained on.
function Stage:advance()
  local p = self:argument()
  self.p = p
  local sampler, remembered = self.source.sampler, self.source.sampler.saved
  local cursor, skipped = self.source.cursor, 0
  local before = self.engine:optimizer_steps()
  local taken = 0 -- by batches that are skipped
  local ok, metrics, tokens = self:attempt(p)
  while not ok do
    if not nonfinite.skips(self, p, metrics, skipped + 1) then
      self.source.cursor, sampler.saved = cursor, remembered -- an abandoned step has taken nothing
      error(metrics, 0)
    end
    skipped = skipped + 1
    sampler:commit() -- it has chosen these rows
    taken = self.engine:optimizer_steps() - before
    self.tr:check_interrupt()
    self.update, self.update_tokens = self:counted_updates()
    p.update, p.update_tokens = self.update, self.update_tokens
    ok, metrics, tokens = self:attempt(p)
  end
  self:tell_sampler(metrics)
  self.work = nil
  self.update, self.update_tokens = self:counted_updates()
  if skipped > 0 then metrics.batches_skipped = skipped end
  if taken > 0 then metrics.updates_of_skipped_batches = taken end
  self.step, self.tokens = self.step + 1, self.tokens + tokens
  local sync = self.config.train.sync_reference
  if self.reference and sync and self.step % sync.every == 0 then
    core.model_lerp(self.reference, self.tr.model, sync.mixup)
  end
  self.done = self.step >= self.steps
  local source = self.source
  if source.dropped > 0 then metrics.prompts_dropped = source.dropped end
  if source.truncated > 0 then metrics.prompts_truncated = source.truncated end
  if source.targets_truncated > 0 then metrics.targets_truncated = source.targets_truncated end
  return metrics, tokens
end

return Stage
