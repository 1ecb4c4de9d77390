-- kind = "grpo": group-relative policy optimization.
--
-- Reading order of a step: draw prompts -> roll out G completions each -> rewards -> reference log-probabilities
-- (when KL is on) -> group advantages -> loss, backward, optimizer.

local core = require "grpo.core"
local engine_rules = require "grpo.experiment.engine_rules"
local errors = require "grpo.base.errors"
local sampled = require "grpo.train.steps.sampled"
local schedule_value = require "grpo.experiment.schedule_value"
local turns = require "grpo.dialogue.turns"

local grpo = { title = "GRPO", about = "GRPO from rewards", samples = true, turns = true,
  line = sampled.line }

function grpo.check(config, complain)
  if #config.reward_entries == 0 then complain("rewards", "none given; a grpo stage learns from rewards") end
  local train = config.train
  engine_rules.loss(train, complain)
  local own_loss = type(train.loss) == "function" -- it may do without advantages, as a KL does
  if config.sampling.group_size == 1 and train.advantage.baseline == "mean" and not own_loss and train.kl == 0 then
    complain("sampling.group_size", "1 leaves nothing to compare with: every advantage would be 0; use 2 or more, "
      .. "train.advantage.baseline = \"none\" with scale = \"none\", or a stage of kind \"ppo\"")
  end
end

function grpo.needs_reference(config)
  local kl = config.train.kl
  return type(kl) == "function" or kl > 0
end

function grpo.first_row(source, config)
  local prompt = source:next()
  if turns.wanted(config) then turns.try(config, source.tokenizer, prompt) end
end

-- kl_in = "reward": R -= beta * sum over the completion of (log p_old - log p_ref).
local function subtract_kl(batch, cs, beta)
  for i, c in ipairs(cs) do
    local ref, sum = batch:ref_logprobs(i), 0.0
    for t = 1, c.length do
      if not c.sampled or c.sampled[t] then sum = sum + (c.logprobs[t] - ref[t]) end
    end
    c.kl, c.kl_penalty = sum, beta * sum
    if c.reward ~= nil then c.reward = c.reward - c.kl_penalty end
  end
end

-- What core.advantages wants: totals, or rows of single rewards for normalize_then_sum.
local function advantages(stage, cs, weights)
  local config = stage.config
  local options = { group = config.sampling.group_size, scale = config.train.advantage.scale,
    baseline = config.train.advantage.baseline, normalize = config.train.advantage.normalize }
  local rewards = {}
  if config.reward.aggregate == "normalize_then_sum" then
    options.aggregate, options.weights = "normalize_then_sum", weights
    for i, c in ipairs(cs) do
      rewards[i] = {}
      for k, entry in ipairs(config.reward_entries) do rewards[i][k] = c.rewards[entry.name] end
    end
  else
    for i, c in ipairs(cs) do rewards[i] = c.reward == nil and core.none or c.reward end
  end
  local scalar, tokens = sampled.split_dense(stage, cs, weights, rewards)
  local given = core.advantages(scalar, options)
  if tokens then
    local per_token = core.dense_advantages(tokens, { group = config.sampling.group_size })
    for i, list in ipairs(per_token) do
      for t = 1, #list do list[t] = list[t] + given[i] end -- where tokens were put in, the engine takes none
    end
    given = per_token
  end
  for i, c in ipairs(cs) do c.advantage = given[i] end
  return given
end

grpo.advantages = advantages -- for tr:rescore

-- A loss of the script's, under the limits of hooks.
local function limited_loss(loss, limits)
  if type(loss) ~= "function" then return loss end
  return function(t)
    local ok, result = core.limited(limits, "train.loss", loss, t)
    if not ok then error(errors.naming("train.loss", result), 0) end
    return result
  end
end

-- The engine takes what it knows of the whole `train`; what the step decides goes before it.
local function update(stage, batch, given, beta, lr, p)
  local config = stage.config
  return stage.engine:update(batch, setmetatable({ advantages = given, lr = lr,
    kl = config.train.kl_in == "loss" and beta or 0.0, loss = limited_loss(config.train.loss, config.limits.hook),
    max_new_tokens = config.sampling.max_new_tokens, seed = config.seed, step = stage.tr.step_count + 1, p = p },
    { __index = config.train }))
end

-- The full KL runs the reference inside the update.
local function wants_reference(stage, beta)
  local train = stage.config.train
  if not stage.reference or (train.kl_estimator == "full" and train.kl_in == "loss") then return false end
  return beta > 0 or type(train.kl) == "function"
end

function grpo.step(stage, p)
  local config = stage.config
  local beta = schedule_value(config, "train.kl", config.train.kl, p)
  local lr = schedule_value(config, "train.lr", config.train.lr, p)
  local s = sampled.gather(stage, p)
  if wants_reference(stage, beta) then sampled.reference(stage, s) end
  if config.train.kl_in == "reward" and beta > 0 then subtract_kl(s.batch, s.cs, beta) end
  sampled.publish(stage, s)
  local given = advantages(stage, s.cs, s.weights)
  local metrics = update(stage, s.batch, given, beta, lr, p)
  metrics.beta, metrics.learning_rate = beta, lr
  return metrics, sampled.measure(stage, s, metrics)
end

return grpo
