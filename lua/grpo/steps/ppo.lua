-- kind = "ppo": proximal policy optimization with a critic (1707.06347).  Values, GAE and the
-- minibatches of a step are in src/rl/ppo.c.

local core = require "grpo.core"
local engine_rules = require "grpo.options.engine_rules"
local errors = require "grpo.base.errors"
local option_rows = require "grpo.options.option_rows"
local sampling = require "grpo.steps.sampling"
local schedule_value = require "grpo.options.schedule_value"
local scoring = require "grpo.scoring.scoring"
local statistics = require "grpo.statistics"
local step_log = require "grpo.steps.step_log"
local update_schedules = require "grpo.steps.update_schedules"

local ppo = { title = "PPO", about = "PPO from rewards, with a critic", samples = true,
  schedules = { "train.ppo.kl_coef", "train.entropy" }, critic = true,
  card = { "train.ppo.critic", "train.ppo.kl_coef" } }

ppo.ignores = {
  ["train.loss"] = "a ppo stage has its own: the clipped surrogate, a mean over tokens",
  ["train.importance"] = "ppo's ratio is of a token",
  ["train.advantage.scale"] = "ppo's advantages come from the critic, whitened over the step",
  ["train.advantage.baseline"] = "ppo's baseline is the critic",
  ["train.advantage.normalize"] = "ppo's advantages are always whitened over the step",
  ["train.kl"] = "ppo's KL is in the reward: train.ppo.kl_coef",
  ["train.kl_estimator"] = "ppo's KL is in the reward: train.ppo.kl_estimator",
  ["train.kl_in"] = "ppo's KL is in the reward: train.ppo.kl_coef",
  ["train.kl_bias_correction"] = "ppo's KL is in the reward",
  ["train.distill"] = "it has no teacher",
  ["train.off_policy_mask"] = "it is not for ppo",
  ["train.sampler_correction"] = "it is not for ppo",
  ["train.skip_zero_std_groups"] = "a tied group still teaches a critic",
  ["train.cispo_cap"] = "it is of the loss cispo",
  ["reward.aggregate"] = "ppo adds the rewards up",
}

function ppo.check(config, complain)
  local train = config.train
  if #config.reward_entries == 0 then
    complain("rewards", "none given; a ppo stage learns from rewards")
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

function ppo.updates(config)
  return config.train.iterations * config.train.ppo.minibatches
end

function ppo.first_row(source)
  source:next()
end

function ppo.engine_options(config)
  return { critic = config.train.ppo.critic }
end

-- The policy's part alone, a mean over tokens; not the critic's loss.
function ppo.policy_term(train)
  local options = {}
  for _, row in ipairs(option_rows.rows) do
    local name = row.path:match("[^.]+$")
    if row.ppo then options[name] = train[name] end
  end
  return "dapo", options
end

function ppo.line(tr, m)
  local text = ("reward %6.3f | length %5.1f | value loss %.4f"):format(m.reward,
    m["completions/mean_length"], m["loss/value_avg"])
  if m.kl then text = text .. (" | kl %.4f"):format(m.kl) end
  return text .. step_log.speed(tr.settings, m)
end

-- Values, advantages, losses, backward pass, optimizer.  The engine takes what it knows of `train`;
-- what this step decides goes before it.  The third result is the rate of the last update.
local function update(stage, batch, weights, coef, p, lr)
  local config, completions = stage.config, batch.completions
  local scores, token_rewards = scoring.apart(config.reward_entries, completions, weights)
  for i, c in ipairs(scores and completions or {}) do
    if scores[i] == core.none and c.reward ~= nil then scores[i] = 0.0 end -- its tokens alone have
  end
  local chosen = { lr = lr, p = p, kl = 0.0 }
  local metrics, of_tokens = stage.engine:ppo(batch.record, completions, setmetatable({ lr = lr,
    entropy = stage.entropy, seed = config.seed, step = stage.tr.step_count + 1,
    scores = scores, -- nil: each c.reward
    token_rewards = token_rewards, before = update_schedules.between(stage, chosen),
    ppo = setmetatable({ kl_coef = coef }, { __index = config.train.ppo }) },
    { __index = config.train }))
  batch.token_advantages = of_tokens -- for tr:inspect
  return metrics, chosen.lr
end

function ppo.step(stage, p)
  local config, train = stage.config, stage.config.train
  local coef = schedule_value(config, "train.ppo.kl_coef", train.ppo.kl_coef, p)
  local lr = schedule_value(config, "train.lr", train.lr, p)
  local entropy, entropy_coef = schedule_value(config, "train.entropy", train.entropy, p)
  stage.entropy = entropy
  if coef > 0 and not stage.reference then
    errors.raise("EARG", "train.ppo.kl_coef: %g, but it was 0 when the stage began, so there is no "
      .. "reference; begin with a schedule or more than 0", coef)
  end
  local weights = scoring.weights(config, p)
  local log = { weights = weights }

  local batch = sampling.sample(stage)
  log.reward_errors, log.reward_seconds = scoring.reward(config, batch.completions, weights)
  if stage.reference and ppo.needs_reference(config) then sampling.reference(stage, batch, log) end
  sampling.publish(stage, batch) -- hooks.on_rollout
  local metrics, last_lr = update(stage, batch, weights, coef, p, lr)
  metrics.beta, metrics.learning_rate = coef, last_lr
  metrics.entropy_coef = step_log.entropy_coef(train.entropy, entropy, entropy_coef)
  local tokens = step_log.add(config, batch.completions, log, metrics)
  -- a group is not a baseline here, so the spread is that of the whole step
  local rewards = scoring.rewards(batch.completions)
  metrics.reward_std = #rewards > 1 and statistics.std(rewards) or 0.0
  metrics.frac_reward_zero_std = nil
  return metrics, tokens
end

return ppo
