-- The batch of a step: prompts, and what the policy completes them with.
--
-- A batch is { prompts = as a source gives them, completions = those of the first prompt, of the
-- second, ..., step = steps done before, record = the rollout as the engine keeps it }.  It becomes
-- tr.batch.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local number_text = require "grpo.base.number_text"
local option_rows = require "grpo.options.option_rows"
local outcomes = require "grpo.steps.outcomes"
local rollout = require "grpo.scoring.rollout"
local scoring = require "grpo.scoring.scoring"

local sampling = {}

local MAX_DYNAMIC_ROUNDS = 3

local function context(stage)
  local tr = stage.tr
  return { seed = stage.config.seed, step = tr.step_count, tokens_seen = tr.tokens_seen,
    state = rollout.read_only(tr.state), tokenizer = tr.tokenizer }
end

-- Takes the next prompts and samples a group of completions for each.
function sampling.sample(stage)
  local config, n = stage.config, stage.config.sampling.group_size
  local prompts = stage.source:take(config.train.prompts_per_step)
  local batch = { prompts = prompts, step = stage.tr.step_count }
  stage.work = { batch = batch }
  local options, ids = rollout.options(config, prompts, n, context(stage), "sample")
  batch.record = rollout.sample(stage.tr, prompts, options, ids)
  batch.completions = rollout.all(batch.record, prompts, n, context(stage))
  stage.tr:check_interrupt()
  return batch
end

-- The batch of completions that the policy has not sampled: a list of { ids=, sampled = list of
-- booleans or nil, finish= }, n for each prompt.  They have no log-probabilities.
local function given(stage, list, texts, n)
  local batch = { prompts = list, step = stage.tr.step_count, given = true }
  stage.work = { batch = batch }
  local o = { prompts = {}, completions = {}, sampled = {}, logprobs = {}, finish = {}, n = n,
    temperature = stage.config.sampling.temperature }
  for i, prompt in ipairs(list) do o.prompts[i] = prompt.ids end
  for i, text in ipairs(texts) do
    o.completions[i], o.sampled[i], o.finish[i] = text.ids, text.sampled or false, text.finish
    o.logprobs[i] = {}
    for t = 1, #text.ids do o.logprobs[i][t] = 0.0 end
  end
  batch.record = stage.engine:given(o)
  batch.completions = rollout.all(batch.record, list, n, context(stage))
  stage.tr:check_interrupt()
  return batch
end

-- Takes the next prompts with the completions that data.target gives, one for each prompt.
function sampling.targets(stage)
  local list, texts = stage.source:take(stage.config.train.prompts_per_step), {}
  for i, prompt in ipairs(list) do
    local ids, mask = stage.source:learned(prompt)
    texts[i] = { ids = ids, sampled = mask, finish = #ids < #prompt.target and "length" or "eos" }
  end
  return given(stage, list, texts, 1)
end

-- Takes the next prompts, and lets the reference sample a group of completions for each.
function sampling.of_reference(stage)
  local config, ids = stage.config, {}
  local n, o = config.sampling.group_size, { stop = config.sampling.stop }
  for _, row in ipairs(option_rows.rows) do
    local name = row.path:match("[^.]+$")
    if row.of == "sampling" then o[name] = config.sampling[name] end
  end
  o.stop_regex, o.n = config.sampling.stop_regex, n
  o.seed = math.floor(core.rng(config.seed, "user", stage.tr.step_count, 0, 4)() * 2 ^ 53)
  local list = stage.source:take(config.train.prompts_per_step)
  for i, prompt in ipairs(list) do ids[i] = prompt.ids end
  return given(stage, list, stage.reference:generate(ids, o), n)
end

-- The slots of a batch get further prompts, which are sampled.  Returns their groups.
local function sample_again(stage, batch, slots)
  local config, n = stage.config, stage.config.sampling.group_size
  local prompts = stage.source:take(#slots)
  local options, ids = rollout.options(config, prompts, n, context(stage), "sample")
  rollout.sample(stage.tr, prompts, options, ids, batch.record, slots)
  local groups = {}
  for k, slot in ipairs(slots) do
    batch.prompts[slot] = prompts[k]
    groups[k] = rollout.completions(batch.record, batch.prompts, n, slot, context(stage))
    table.move(groups[k], 1, n, (slot - 1) * n + 1, batch.completions)
  end
  return groups
end

local function tied_slots(batch, n)
  local slots = {}
  for slot = 1, #batch.prompts do
    if core.rewards_tied(batch.completions[(slot - 1) * n + 1].group) then
      slots[#slots + 1] = slot
    end
  end
  return slots
end

-- data.sampler learns of groups that are about to be replaced, too.
local function keep_outcomes(stage, batch, slots)
  if not stage.source.sampler:is_used() then return end
  local config, n = stage.config, stage.config.sampling.group_size
  batch.replaced = batch.replaced or {}
  for _, slot in ipairs(slots) do
    batch.replaced[#batch.replaced + 1] = outcomes.group(config, batch.prompts[slot],
      batch.completions[(slot - 1) * n + 1].group, true)
  end
end

-- Dynamic sampling: a tied group teaches nothing, so other prompts take its place, for a few
-- rounds. Returns how many groups were replaced.
function sampling.replace_tied(stage, batch, weights)
  local replaced = 0
  for _ = 1, MAX_DYNAMIC_ROUNDS do
    local slots = tied_slots(batch, stage.config.sampling.group_size)
    if #slots == 0 then break end
    replaced = replaced + #slots
    keep_outcomes(stage, batch, slots)
    for _, group in ipairs(sample_again(stage, batch, slots)) do
      scoring.reward(stage.config, group, weights)
    end
  end
  return replaced
end

-- The log-probabilities of the same tokens under the frozen reference, kept in the record.
function sampling.reference(stage, batch, log)
  local started = core.clock()
  stage.engine:reference(batch.record)
  log.reference_seconds = core.clock() - started
end

-- Raises if a hook has left a reward that is not finite, or something else than a number or nil.
local function check_rewards(completions)
  for i, c in ipairs(completions) do
    local r = c.reward
    local slot = (i - 1) // #c.group + 1
    if type(r) == "number" and r - r ~= 0 then
      local _, err = errors.try(errors.raise, "EDIVERGED", "the reward of prompt %d, completion "
        .. "%d is %s, so the weights were not changed; look at the rewards and at "
        .. "hooks.on_rollout", slot, c.index, number_text(r))
      err.nonfinite = true -- of a reward, as in scoring.lua
      error(err, 0)
    elseif r ~= nil and r ~= core.none
      and (type(r) ~= "number" or math.abs(r) > core.largest_reward) then
      errors.raise_plain("ESCRIPT", "hooks.on_rollout: the reward of prompt %d, completion %d is "
        .. "%s, want a number up to %g in size, or nil", slot, c.index,
        type(r) == "number" and tostring(r) or "a " .. type(r), core.largest_reward)
    end
  end
end

-- Shows the batch to scripts: tr.batch, and hooks.on_rollout, which may change rewards.  A signal
-- is looked at before, because a step that is abandoned must leave no trace.
function sampling.publish(stage, batch)
  stage.tr:take_batch(batch)
  stage.tr:check_interrupt()
  stage.tr:hook("on_rollout", batch)
  check_rewards(batch.completions)
end

return sampling
