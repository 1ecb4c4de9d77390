-- kind = "ppo": proximal policy optimization with a critic (1707.06347).
--
-- Reading order of a step: draw prompts -> roll out -> rewards -> reference log-probabilities (for the KL in the
-- reward) -> values of the rollout, GAE, minibatches with policy and value loss, all in src/rl/ppo.c.

local core = require "grpo.core"
local engine_rules = require "grpo.experiment.engine_rules"
local errors = require "grpo.base.errors"
local sampled = require "grpo.train.steps.sampled"
local schedule_value = require "grpo.experiment.schedule_value"
local sorted_pairs = require "grpo.base.sorted"
local statistics = require "grpo.statistics"

local ppo = { title = "PPO", about = "PPO from rewards, with a critic", samples = true, critic = true }

-- Options of other kinds that would have no effect; what stands in their place.
local elsewhere = {
  ["train.loss"] = "a ppo stage has its own: the clipped surrogate, a mean over tokens",
  ["train.importance"] = "ppo's ratio is of a token",
  ["train.advantage.scale"] = "ppo's advantages come from the critic, whitened over the step",
  ["train.advantage.baseline"] = "ppo's baseline is the critic",
  ["train.advantage.normalize"] = "ppo's advantages are always whitened over the step",
  ["train.kl"] = "ppo's KL is in the reward: train.ppo.kl_coef",
  ["train.kl_estimator"] = "ppo's KL is in the reward: train.ppo.kl_estimator",
  ["train.kl_in"] = "ppo's KL is in the reward: train.ppo.kl_coef",
  ["train.kl_bias_correction"] = "ppo's KL is in the reward",
  ["train.off_policy_mask"] = "it is not for ppo",
  ["train.sampler_correction"] = "it is not for ppo",
  ["train.skip_zero_std_groups"] = "a tied group still teaches a critic",
  ["train.cispo_cap"] = "it is of the loss cispo",
  ["reward.aggregate"] = "ppo adds the rewards up",
}

function ppo.check(config, complain, origin)
  local train = config.train
  if #config.reward_entries == 0 then complain("rewards", "none given; a ppo stage learns from rewards") end
  for path, why in sorted_pairs(elsewhere) do
    local from = origin(path) or "default"
    local shared = from:find("^default") or from:find("^extends") -- a shared file may speak to other kinds
    if not shared then complain(path, "has no effect in a stage of kind \"ppo\": %s; remove it", why) end
  end
  if ppo.needs_reference(config) and config.reference == false then
    complain("train.ppo.kl_coef", "a KL needs a reference; reference is false")
  end
  engine_rules.ppo(train, complain)
end

function ppo.needs_reference(config)
  local coef = config.train.ppo.kl_coef
  return type(coef) == "function" or coef > 0
end

function ppo.first_row(source)
  source:next()
end

function ppo.engine_options(config)
  return { critic = config.train.ppo.critic }
end

function ppo.line(tr, m)
  local text = ("reward %6.3f | length %5.1f | value loss %.4f"):format(m.reward, m["completions/mean_length"],
    m["loss/value_avg"])
  if m.kl then text = text .. (" | kl %.4f"):format(m.kl) end
  local tokens = m["completions/mean_length"] * tr.settings.train.prompts_per_step * tr.settings.sampling.group_size
  return text .. (" | %d tokens/s"):format(math.floor(tokens / m.step_time))
end

-- The engine takes what it knows of the whole `train`; what the step decides goes before it.
local function update(stage, s, coef, lr)
  local config, scores = stage.config, {}
  for i, c in ipairs(s.cs) do scores[i] = c.reward == nil and core.none or c.reward end
  local options = setmetatable({ lr = lr, seed = config.seed, step = stage.tr.step_count + 1,
    ppo = setmetatable({ kl_coef = coef }, { __index = config.train.ppo }) }, { __index = config.train })
  options.scores, options.token_rewards = sampled.split_dense(stage, s.cs, s.weights, scores)
  if options.token_rewards then
    for i, score in ipairs(options.scores) do
      if score == core.none and s.cs[i].reward ~= nil then options.scores[i] = 0.0 end -- rewards of tokens alone
    end
  end
  local metrics, means, advantages = stage.engine:ppo(s.batch, options)
  for i, c in ipairs(s.cs) do c.advantage = means[i] end
  stage.tr.batch.token_advantages = advantages -- for tr:inspect
  return metrics
end

-- A group is no baseline here: the spread is that of the step.
local function spread(cs, metrics)
  local rewards = {}
  for _, c in ipairs(cs) do
    if c.reward ~= nil then rewards[#rewards + 1] = c.reward end
  end
  metrics.reward_std = #rewards > 1 and statistics.std(rewards) or 0.0
  metrics.frac_reward_zero_std = nil
end

function ppo.step(stage, p)
  local config = stage.config
  local coef = schedule_value(config, "train.ppo.kl_coef", config.train.ppo.kl_coef, p)
  local lr = schedule_value(config, "train.lr", config.train.lr, p)
  if coef > 0 and not stage.reference then
    errors.raise("EARG", "train.ppo.kl_coef: %g, but it was 0 when the stage began, so there is no reference; begin "
      .. "with a schedule or more than 0", coef)
  end
  local s = sampled.gather(stage, p)
  if stage.reference and ppo.needs_reference(config) then sampled.reference(stage, s) end
  sampled.publish(stage, s)
  local metrics = update(stage, s, coef, lr)
  metrics.beta, metrics.learning_rate = coef, lr
  local tokens = sampled.measure(stage, s, metrics)
  spread(s.cs, metrics)
  return metrics, tokens
end

return ppo
