-- kind = "online_dpo": preferences of the policy's own completions (2402.04792).  The rewards of a
-- group choose its pair, the best completion and the worst, and a loss of pairs learns from it.

local losses = require "grpo.preferences.losses"
local preference_options = require "grpo.preferences.options"
local sampling = require "grpo.steps.sampling"
local scoring = require "grpo.scoring.scoring"
local step = require "grpo.preferences.step"
local step_log = require "grpo.steps.step_log"

local online = { title = "Online DPO", about = "preferences of its own completions, by rewards",
  samples = true, schedules = { "train.dpo.beta" }, needs_reference = step.needs_reference,
  card = { "train.dpo.loss_type", "train.dpo.beta" } }

online.ignores = {
  ["train.loss"] = "its losses are those of train.dpo.loss_type",
  ["train.iterations"] = "it takes one update from a rollout",
  ["train.kl"] = "the distance from the reference is in train.dpo.beta",
  ["train.advantage.scale"] = "pairs have no advantages",
  ["train.advantage.baseline"] = "pairs have no advantages",
  ["train.advantage.normalize"] = "pairs have no advantages",
  ["train.entropy"] = "its losses have no such term",
  ["train.distill"] = "it has no teacher",
  ["data.pair"] = "the rewards choose the pairs",
}

function online.check(config, complain, origin)
  if #config.reward_entries == 0 then
    complain("rewards", "none given; an online_dpo stage chooses pairs by them")
  end
  for _, entry in ipairs(config.reward_entries) do
    if entry.token_fn then
      complain("rewards", "%s rewards tokens, and a pair is chosen by one number", entry.name)
    end
  end
  if config.sampling.group_size < 2 then
    complain("sampling.group_size", "1 makes no pairs; use 2 or more")
  end
  local list = preference_options.check(config, complain, origin)
  if losses.some(list, "rows") then
    complain("train.dpo.loss_type", "an online_dpo stage has pairs; take a loss of pairs")
  end
  if config.train.dpo.use_weighting then
    complain("train.dpo.use_weighting", "is for pairs of a file; an online_dpo stage has its own")
  end
end

function online.first_row(source)
  source:next()
end

function online.policy_term()
  return "reinforce", {}
end

-- ---- a step -----------------------------------------------------------------------------------

-- The completions of a group with the greatest and the least reward, the first of several; nil if
-- no two rewards differ.
local function ends_of(group)
  local best, worst
  for _, c in ipairs(group) do
    if c.reward ~= nil then
      if not best or c.reward > best.reward then best = c end
      if not worst or c.reward < worst.reward then worst = c end
    end
  end
  if best and best.reward > worst.reward then return best, worst end
end

-- The pairs of a batch; texts: of each completion by its place, where it is in a pair.
local function pairs_of(stage, o, batch)
  local items, texts = {}, {}
  for i = 1, #batch.completions do texts[i] = false end
  for slot = 1, #batch.prompts do
    local first = (slot - 1) * stage.config.sampling.group_size
    local best, worst = ends_of(batch.completions[first + 1].group)
    if best then
      local shared = math.min(best.length, worst.length)
      local function text(c)
        local i = first + c.index
        local ref = stage.reference and batch.record:ref_logprobs(i) or nil
        texts[i] = losses.text(c.logprobs, ref, o.ld_alpha, shared)
        return texts[i]
      end
      items[#items + 1] = { chosen = text(best), rejected = text(worst) }
    end
  end
  return items, texts
end

function online.step(stage, p)
  local config, o = stage.config, step.options(stage.config, p)
  local weights = scoring.weights(config, p)
  local log, batch = { weights = weights }, sampling.sample(stage)
  log.reward_errors, log.reward_seconds = scoring.reward(config, batch.completions, weights)
  if config.train.skip_zero_std_groups then
    log.groups_replaced = sampling.replace_tied(stage, batch, weights)
  end
  if stage.reference then sampling.reference(stage, batch, log) end
  sampling.publish(stage, batch) -- hooks.on_rollout
  local items, texts = pairs_of(stage, o, batch)
  local measured = { loss = 0.0 }
  if #items > 0 then measured = select(2, losses.evaluate(o, items)) end
  step.check(stage, measured.loss)
  local metrics = step.update(stage, p, batch.record, texts, batch.completions)
  for name, value in pairs(measured) do metrics[name] = value end
  metrics.beta, metrics.pairs = o.beta, #items
  return metrics, step_log.add(config, batch.completions, log, metrics)
end

function online.line(tr, m)
  local mean = m.reward == m.reward and ("%6.3f"):format(m.reward) or "  none"
  return ("reward %s | loss %.4f | pairs %d/%d%s"):format(mean, m.loss, m.pairs,
    tr.settings.train.prompts_per_step, step_log.speed(tr.settings, m))
end

return online
