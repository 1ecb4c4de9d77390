-- kind = "grpo": group-relative policy optimization (2402.03300).

local core = require "grpo.core"
local engine_rules = require "grpo.options.engine_rules"
local errors = require "grpo.base.errors"
local ranks = require "grpo.base.ranks"
local sampling = require "grpo.steps.sampling"
local schedule_value = require "grpo.options.schedule_value"
local scoring = require "grpo.scoring.scoring"
local step_log = require "grpo.steps.step_log"
local teacher = require "grpo.steps.teacher"
local turn_credit = require "grpo.scoring.turn_credit"
local turns = require "grpo.scoring.turns"
local update_schedules = require "grpo.steps.update_schedules"

local grpo = { title = "GRPO", about = "GRPO from rewards", samples = true, turns = true,
  schedules = { "train.kl", "train.entropy", "train.distill.weight" } }

-- ---- the parts of a step -----------------------------------------------------------------

-- The full KL runs the reference inside the update.
local function needs_logprobs(stage, beta)
  local train = stage.config.train
  if train.distill then return beta > 0 and teacher.needs_logprobs(stage.config) end
  if not stage.reference or (train.kl_estimator == "full" and train.kl_in == "loss") then
    return false
  end
  return beta > 0 or type(train.kl) == "function"
end

-- kl_in = "reward": c.reward -= beta * sum over the sampled tokens of (log p_old - log p_ref).
local function subtract_kl(batch, beta)
  for i, c in ipairs(batch.completions) do
    local ref_logprobs, sum = batch.record:ref_logprobs(i), 0.0
    for t = 1, c.length do
      if not c.sampled or c.sampled[t] then sum = sum + (c.logprobs[t] - ref_logprobs[t]) end
    end
    c.kl, c.kl_penalty = sum, beta * sum
    if c.reward ~= nil then c.reward = c.reward - c.kl_penalty end
  end
end

local function reward(stage, batch, weights, log)
  log.reward_errors, log.reward_seconds = scoring.reward(stage.config, batch.completions, weights)
  if stage.config.train.skip_zero_std_groups then
    log.groups_replaced = sampling.replace_tied(stage, batch, weights)
  end
end

local function reference(stage, batch, beta, log)
  teacher.prompts(stage, batch, log)
  if needs_logprobs(stage, beta) then sampling.reference(stage, batch, log) end
  if stage.config.train.kl_in == "reward" and beta > 0 then subtract_kl(batch, beta) end
end

-- Sets c.advantage of each completion: a number, or a list of numbers, one for each token, if an
-- entry rewards tokens or turns have advantages of their own.
local function advantage(config, completions, weights)
  local options = setmetatable({ group = config.sampling.group_size },
    { __index = config.train.advantage })
  local rewards, token_rewards = scoring.apart(config.reward_entries, completions, weights)
  if not token_rewards and config.reward.aggregate == "normalize_then_sum" then
    options.aggregate, options.weights, rewards = "normalize_then_sum", weights, {}
    for i, c in ipairs(completions) do
      rewards[i] = {}
      for k, entry in ipairs(config.reward_entries) do rewards[i][k] = c.rewards[entry.name] end
    end
  end
  core.set_advantages(completions, options, rewards, token_rewards) -- rewards: nil for c.reward
  turn_credit.add(config.train.advantage, completions)
end

-- Hides t.beta until it is asked for, which is noted in `asked`.
local function notice_beta(t, asked)
  local beta = t.beta
  local function reveal(_, key)
    if key ~= "beta" then return nil end
    asked.beta = true
    return beta
  end
  local function all()
    setmetatable(t, nil)
    t.beta, asked.beta = beta, true
    return next, t
  end
  t.beta = nil
  setmetatable(t, { __index = reveal, __pairs = all })
end

-- A loss of the script's, under the limits of hooks.  asked, optional: see notice_beta.
local function limited_loss(loss, limits, asked)
  if type(loss) ~= "function" then return loss end
  return function(t)
    if asked then notice_beta(t, asked) end
    local ok, result = core.limited(limits, "train.loss", loss, t)
    if not ok then error(errors.naming("train.loss", result), 0) end
    return result
  end
end

-- Says in a stage's first step if train.kl has no effect.
local function advise_about_kl(stage, asked)
  if not asked or ranks.any(asked.beta) then return end -- a rank may have had no unit
  stage.tr.recorder:advise { "train.kl has no effect on the loss: train.loss is a function and "
    .. "does not read t.beta; multiply its KL by t.beta, or set train.kl = 0" }
end

-- Loss, backward pass, optimizer, from each c.advantage.  The engine takes what it knows of
-- `train`; `chosen` is what this step decides, and goes before it.
local function update(stage, batch, chosen)
  local config, train = stage.config, stage.config.train
  local asked = type(train.loss) == "function" and stage.step == 0 and grpo.needs_reference(config)
    and train.kl_in == "loss" and {} or nil
  chosen.loss = limited_loss(train.loss, config.limits.hook, asked)
  chosen.max_new_tokens, chosen.seed = config.sampling.max_new_tokens, config.seed
  chosen.step = stage.tr.step_count + 1
  local path, kl = teacher.coefficient(train)
  chosen.before = update_schedules.between(stage, chosen, path, train.kl_in == "loss" and kl or 0.0)
  teacher.choose(train, chosen)
  local metrics = stage.engine:update(batch.record, batch.completions,
    setmetatable(chosen, { __index = train }))
  advise_about_kl(stage, asked)
  return metrics
end

-- ---- a step ------------------------------------------------------------------------------

-- sample: what samples the batch, in place of sampling.sample; for other kinds of stages.
function grpo.step(stage, p, sample)
  local config, train = stage.config, stage.config.train
  local path, kl = teacher.coefficient(train)
  local beta = schedule_value(config, path, kl, p)
  local lr = schedule_value(config, "train.lr", train.lr, p)
  local entropy, entropy_coef = schedule_value(config, "train.entropy", train.entropy, p)
  local weights = scoring.weights(config, p)
  local log = { weights = weights }
  stage.entropy = entropy

  local batch = (sample or sampling.sample)(stage)
  reward(stage, batch, weights, log)
  reference(stage, batch, beta, log)
  sampling.publish(stage, batch) -- hooks.on_rollout
  advantage(config, batch.completions, weights)
  local in_loss = train.kl_in == "loss"
  local chosen = { lr = lr, p = p, kl = in_loss and beta or 0.0, entropy = entropy }
  local metrics = update(stage, batch, chosen)
  metrics.beta, metrics.learning_rate = in_loss and chosen.kl or beta, chosen.lr
  metrics.entropy_coef = step_log.entropy_coef(train.entropy, entropy, entropy_coef)
  return metrics, step_log.add(config, batch.completions, log, metrics)
end

-- ---- what else a kind of stage is --------------------------------------------------------

grpo.advantages = advantage -- for tr:rescore

-- The path of an option that gives each token an advantage of its own, or nil.
local function of_tokens(config)
  if config.train.advantage.turn_weight > 0 then return "train.advantage.turn_weight" end
  for _, entry in ipairs(config.reward_entries) do
    if entry.token_fn then return "rewards" end
  end
end

function grpo.check(config, complain)
  local train = config.train
  if #config.reward_entries == 0 then
    complain("rewards", "none given; a grpo stage learns from rewards")
  end
  engine_rules.loss(train, of_tokens(config), complain)
  teacher.check(config, complain)
  if train.distill and train.distill.lambda < 1 then
    complain("train.distill.lambda", "is for stages of kind \"distill\"; a grpo stage samples in "
      .. "every step")
  end
  if train.kl_cov.ratio > 0 and train.iterations == 1 then
    complain("train.kl_cov.ratio", "does nothing with train.iterations = 1, because the policy is "
      .. "still the one that sampled, and a KL to it has no gradient; set train.iterations = 2 or "
      .. "more, or use train.clip_cov")
  end
  local own_loss = type(train.loss) == "function" -- it may do without advantages, as a KL does
  if config.sampling.group_size == 1 and train.advantage.baseline == "mean" and not own_loss
    and train.kl == 0 and not train.distill then
    complain("sampling.group_size", "1 leaves nothing to compare with: every advantage would be 0; "
      .. "use 2 or more, train.advantage.baseline = \"none\" with scale = \"none\", or a stage of "
      .. "kind \"ppo\"")
  end
end

function grpo.engine_options(config)
  return { ref_prompt_tokens = teacher.prompt_tokens(config) }
end

function grpo.updates(config)
  return config.train.iterations
end

function grpo.needs_reference(config)
  local _, kl = teacher.coefficient(config.train)
  return type(kl) == "function" or kl > 0
end

function grpo.first_row(source, config)
  local prompt = source:next()
  if turns.wanted(config) then turns.try(config, source.tokenizer, prompt) end
end

function grpo.line(tr, m)
  local config = tr.settings
  local groups = config.train.prompts_per_step
  local mixed = math.floor((1 - m.frac_reward_zero_std) * groups + 0.5)
  local mean = m.reward == m.reward and ("%6.3f"):format(m.reward) or ("%6s"):format("none")
  local text = ("reward %s | mixed groups %d/%d | length %5.1f"):format(mean, mixed, groups,
    m["completions/mean_length"])
  if m.beta > 0 and m.kl then text = text .. (" | kl %.4f"):format(m.kl) end
  return text .. step_log.speed(config, m)
end

return grpo
