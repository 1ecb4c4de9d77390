-- One stage of a run: its engine, its source of prompts, and what a step is.
--
-- Reading order of a GRPO step: draw prompts -> roll out G completions each -> rewards ->
-- group advantages -> reference log-probabilities (when KL is on) -> loss, backward, optimizer.

local core = require "grpo.core"
local sorted_pairs = require "grpo.sorted"
local errors = require "grpo.errors"
local loading = require "grpo.loading"
local preflight = require "grpo.preflight"
local prompts = require "grpo.prompts"
local rewarding = require "grpo.rewarding"
local rollout = require "grpo.rollout"
local scheduled = require "grpo.scheduled"
local statistics = require "grpo.statistics"

local Stage = {}
Stage.__index = Stage

local MAX_DYNAMIC_ROUNDS = 3

local function needs_reference(config)
  local kl = config.train.kl
  return type(kl) == "function" or kl > 0
end

-- "initial" is the policy as it is now: for an adapter that no step has touched yet the base model, which is shared;
-- for one that was trained its copy beside the shared base.  A reference that will move needs a copy too.
-- It computes as the policy does, so that a copy of the policy gives the policy's own log-probabilities.
-- Second result: must a checkpoint keep it?  Others can be made again.
local function make_reference(tr, config, seed)
  local reference, adapter = config.reference, tr.about.adapter
  if reference == "initial" then
    local untouched = adapter == "fresh" and tr.step_count == 0 and not config.train.sync_reference
    if untouched then return core.model_base(tr.model), false end
    return core.model_clone(tr.model), true
  end
  if reference == "random" then
    local table_config = {}
    for k, v in pairs(tr.model.config) do table_config[k] = v end
    return core.model_new(table_config, { seed = seed + 1, compute = tr.model.compute }), not adapter
  end
  return loading.open(reference, { quantize = config.model.quantize, compute = tr.model.compute }), not adapter
end

-- How many optimizer steps a stage has: train.steps, else what train.epochs makes of the rows.
function Stage.planned_steps(config)
  local train = config.train
  if train.steps then return train.steps end
  if train.epochs == 0 then return 0 end
  return math.max(1, math.floor(train.epochs * #config.data.train / train.prompts_per_step))
end

-- spec: { kind=, config= } of the experiment.
function Stage.new(tr, spec, index)
  local config = spec.config
  local stage = setmetatable({
    kind = spec.kind, config = config, index = index, tr = tr, step = 0, tokens = 0,
    steps = Stage.planned_steps(config), source = prompts.source(config, tr.tokenizer), done = false,
  }, Stage)
  preflight.stage(tr, spec)
  if spec.kind == "grpo" and needs_reference(config) and config.reference then
    stage.reference, stage.keeps_reference = make_reference(tr, config, config.seed)
  end
  stage:build_engine()
  return stage
end

-- What makes a stage smaller, the most helpful first.
local function memory_advice(need, config)
  local advice = {}
  if need.kept > 0 then advice[#advice + 1] = "set train.reuse_rollout = false" end
  if need.activations > need.cache and not config.model.gradient_checkpointing then
    advice[#advice + 1] = "set model.gradient_checkpointing = true"
  end
  if config.train.micro_batch_tokens then advice[#advice + 1] = "lower train.micro_batch_tokens" end
  advice[#advice + 1] = "lower sampling.max_new_tokens, sampling.group_size or data.max_prompt_tokens"
  if config.model.lora and not config.model.quantize then advice[#advice + 1] = 'set model.quantize = "nf4"' end
  return table.concat(advice, ", or ")
end

-- Refuses a stage whose worst-case lengths cannot fit, before a page of it is touched.
local function check_memory(engine, config)
  local need = engine:estimate()
  local more = need.total - need.weights - need.reference -- the models are there already
  local available = core.mem().available
  if available > 0 and more > available then
    errors.raise("ENOMEM", "the stage needs up to %d MiB more (optimizer %d, activations %d, cache %d) and %d are "
      .. "free; %s", more >> 20, need.optimizer >> 20, (need.activations + need.kept) >> 20, need.cache >> 20,
      available >> 20, memory_advice(need, config))
  end
end

function Stage:build_engine()
  local config, tr = self.config, self.tr
  self.engine = core.engine {
    model = tr.model, tokenizer = tr.tokenizer, reference = self.reference,
    prompts_per_step = config.train.prompts_per_step,
    group_size = self.kind == "grpo" and config.sampling.group_size or 1,
    max_prompt_tokens = config.data.max_prompt_tokens, max_new_tokens = config.sampling.max_new_tokens,
    examples = self.kind ~= "grpo", micro_batch_tokens = config.train.micro_batch_tokens,
    optimizer = config.train.optimizer, gradient_checkpointing = config.model.gradient_checkpointing,
    reuse_rollout = self.kind == "grpo" and config.train.reuse_rollout,
  }
  check_memory(self.engine, config)
  self.engine:reserve()
end

function Stage:close()
  self.engine:close()
  self.engine, self.reference = nil, nil
end

-- The argument of schedules.
function Stage:argument()
  return { step = self.step, steps = self.steps, tokens = self.tokens,
    fraction = self.steps > 0 and self.step / self.steps or 1.0, metrics = self.tr.metrics or {} }
end

-- ---- sft --------------------------------------------------------------------------

function Stage:sft_step(p)
  local config = self.config
  local rows = {}
  for i = 1, config.train.prompts_per_step do
    rows[i] = self.source:demonstration(config.sampling.max_new_tokens)
  end
  local lr = scheduled(config, "train.lr", config.train.lr, p)
  local started = core.clock()
  local metrics = self.engine:sft(rows, { lr = lr, max_grad_norm = config.train.max_grad_norm,
    seed = config.seed, step = self.tr.step_count + 1 })
  metrics.learning_rate = lr
  metrics["time/train"] = core.clock() - started
  return metrics, metrics.num_tokens
end

-- ---- grpo -------------------------------------------------------------------------

function Stage:context()
  return { seed = self.config.seed, step = self.tr.step_count, tokens_seen = self.tr.tokens_seen,
    state = rollout.read_only(self.tr.state) }
end

function Stage:roll_out(list)
  local config = self.config
  local ids, numbers = {}, {}
  for i, prompt in ipairs(list) do ids[i], numbers[i] = prompt.ids, prompt.number end
  return self.engine:rollout { prompts = ids, index = numbers, n = config.sampling.group_size,
    sampling = config.sampling, seed = config.seed, step = self.tr.step_count, stream = "sample" }
end

function Stage:score(cs, weights)
  local config = self.config
  local failures, seconds = rewarding.score(config.reward_entries, cs, config.limits.reward, config.reward.on_error)
  for _, c in ipairs(cs) do
    c.reward = rewarding.total(config.reward_entries, weights, c, config.reward.clip)
  end
  return failures, seconds
end

-- True when the scored rewards of a group are all equal (or fewer than two).
local function tied(group)
  local first
  for _, c in ipairs(group) do
    if c.reward ~= nil then
      if first == nil then first = c.reward end
      if c.reward ~= first then return false end
    end
  end
  return true
end

-- Dynamic sampling: groups without spread are replaced by further prompts, a few rounds long.
function Stage:replace_tied(batch, list, cs, weights)
  local config, n = self.config, self.config.sampling.group_size
  local replaced = 0
  for _ = 1, MAX_DYNAMIC_ROUNDS do
    local slots, fresh, ids, numbers = {}, {}, {}, {}
    for slot = 1, #list do
      if tied(cs[(slot - 1) * n + 1].group) then
        local prompt = self.source:next()
        slots[#slots + 1], fresh[#fresh + 1] = slot, prompt
        ids[#ids + 1], numbers[#numbers + 1] = prompt.ids, prompt.number
      end
    end
    if #slots == 0 then break end
    replaced = replaced + #slots
    self.engine:replace(batch, slots, ids, { index = numbers, n = n, sampling = config.sampling, seed = config.seed,
      step = self.tr.step_count, stream = "sample" })
    for k, slot in ipairs(slots) do
      list[slot] = fresh[k]
      local group = rollout.completions(batch, list, n, slot, self:context())
      self:score(group, weights)
      table.move(group, 1, n, (slot - 1) * n + 1, cs)
    end
  end
  return replaced
end

-- kl_in = "reward": R -= beta * sum over the completion of (log p_old - log p_ref).
local function subtract_kl(batch, cs, beta)
  for i, c in ipairs(cs) do
    local ref, sum = batch:ref_logprobs(i), 0.0
    for t = 1, c.length do sum = sum + (c.logprobs[t] - ref[t]) end
    c.kl, c.kl_penalty = sum, beta * sum
    if c.reward ~= nil then c.reward = c.reward - c.kl_penalty end
  end
end

-- What core.advantages wants: totals, or rows of single rewards for normalize_then_sum.
function Stage:advantages(cs, weights)
  local config = self.config
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
  local scalar, tokens = self:split_dense(cs, weights, rewards)
  local advantages = core.advantages(scalar, options)
  if tokens then
    local per_token = core.dense_advantages(tokens, { group = config.sampling.group_size })
    for i, list in ipairs(per_token) do
      for t = 1, #list do list[t] = list[t] + advantages[i] end
    end
    advantages = per_token
  end
  for i, c in ipairs(cs) do c.advantage = advantages[i] end
  return advantages
end

-- With token_fn entries: their weighted per-token sums, and the scalar rewards without them.
function Stage:split_dense(cs, weights, rewards)
  local entries, any = self.config.reward_entries, false
  for _, entry in ipairs(entries) do any = any or entry.token_fn ~= nil end
  if not any then return rewards, nil end
  local tokens, scalar = {}, {}
  for i, c in ipairs(cs) do
    local sums = {}
    for t = 1, c.length do sums[t] = 0.0 end
    local rest, applies = 0.0, false
    for k, entry in ipairs(entries) do
      local list = c.token_rewards and c.token_rewards[entry.name]
      if list then
        for t = 1, c.length do sums[t] = sums[t] + weights[k] * list[t] end
      elseif not entry.token_fn and c.rewards[entry.name] ~= core.none then
        rest, applies = rest + weights[k] * c.rewards[entry.name], true
      end
    end
    if c.kl_penalty and c.reward ~= nil then rest, applies = rest - c.kl_penalty, true end
    tokens[i], scalar[i] = sums, applies and rest or core.none
  end
  return scalar, tokens
end

local loss_fields = {
  "loss", "clip", "clip_high", "delta", "importance", "kl_estimator", "kl_bias_correction", "off_policy_mask",
  "sampler_correction", "entropy", "top_entropy_quantile", "mask_truncated", "sapo", "vespo", "cispo_cap",
  "max_grad_norm", "iterations", "skip_zero_std_groups",
}

-- A loss of the script's, under the limits of hooks.
local function limited_loss(loss, limits)
  if type(loss) ~= "function" then return loss end
  return function(t)
    local ok, result = core.limited(limits, "train.loss", loss, t)
    if not ok then error(errors.naming("train.loss", result), 0) end
    return result
  end
end

function Stage:update(batch, advantages, beta, lr, p)
  local config = self.config
  local options = { advantages = advantages, kl = config.train.kl_in == "loss" and beta or 0.0, lr = lr,
    max_new_tokens = config.sampling.max_new_tokens, seed = config.seed, step = self.tr.step_count + 1, p = p }
  for _, name in ipairs(loss_fields) do options[name] = config.train[name] end
  options.loss = limited_loss(config.train.loss, config.limits.hook)
  return self.engine:update(batch, options)
end

function Stage:reward_metrics(cs, metrics)
  local config, n = self.config, self.config.sampling.group_size
  local totals, stds, flat, groups = {}, {}, 0, #cs // n
  for g = 1, groups do
    local of_group = {}
    for k = 1, n do
      local r = cs[(g - 1) * n + k].reward
      if r ~= nil then of_group[#of_group + 1], totals[#totals + 1] = r, r end
    end
    local std = statistics.std(of_group)
    stds[#stds + 1] = std == std and std or 0.0
    if tied(cs[(g - 1) * n + 1].group) then flat = flat + 1 end
  end
  metrics.reward, metrics.reward_std = statistics.mean(totals), statistics.mean(stds)
  metrics.frac_reward_zero_std = flat / groups
  for _, entry in ipairs(config.reward_entries) do
    local values = rewarding.column(cs, entry.name)
    metrics[("rewards/%s/mean"):format(entry.name)] = statistics.mean(values)
    metrics[("rewards/%s/std"):format(entry.name)] = statistics.std(values)
  end
end

local function length_metrics(cs, metrics)
  local lengths, ended, cut = {}, {}, 0
  for i, c in ipairs(cs) do
    lengths[i] = c.length
    if c.truncated then cut = cut + 1 else ended[#ended + 1] = c.length end
  end
  metrics["completions/mean_length"] = statistics.mean(lengths)
  metrics["completions/min_length"], metrics["completions/max_length"] = math.min(table.unpack(lengths)),
    math.max(table.unpack(lengths))
  metrics["completions/clipped_ratio"] = cut / #cs
  metrics["completions/mean_terminated_length"] = #ended > 0 and statistics.mean(ended) or 0.0
end

local function slowest(seconds)
  local name, most = nil, -1
  for k, v in sorted_pairs(seconds) do
    if v > most then name, most = k, v end
  end
  return name
end

-- The full KL runs the reference inside the update.
function Stage:wants_reference(beta)
  local train = self.config.train
  if not self.reference or (train.kl_estimator == "full" and train.kl_in == "loss") then return false end
  return beta > 0 or type(train.kl) == "function"
end

function Stage:grpo_step(p)
  local config, tr = self.config, self.tr
  local beta = scheduled(config, "train.kl", config.train.kl, p)
  local lr = scheduled(config, "train.lr", config.train.lr, p)
  local weights = rewarding.weights(config, p)
  local clock = core.clock()
  local list = self.source:draw(config.train.prompts_per_step)
  local batch = self:roll_out(list)
  local generated = core.clock()
  local cs = rollout.all(batch, list, config.sampling.group_size, self:context())
  tr:check_interrupt()
  local failures, seconds = self:score(cs, weights)
  local replaced = config.train.skip_zero_std_groups and self:replace_tied(batch, list, cs, weights) or 0
  if self:wants_reference(beta) then self.engine:reference(batch) end
  if config.train.kl_in == "reward" and beta > 0 then subtract_kl(batch, cs, beta) end
  tr.batch = { completions = cs, prompts = list, step = tr.step_count }
  tr:check_interrupt() -- an abandoned step leaves no trace, so not after a hook
  tr:hook("on_rollout", tr.batch)
  local advantages = self:advantages(cs, weights)
  local rewarded = core.clock()
  local metrics = self:update(batch, advantages, beta, lr, p)
  self:reward_metrics(cs, metrics)
  length_metrics(cs, metrics)
  local tokens = 0
  for _, c in ipairs(cs) do tokens = tokens + c.length end
  metrics.beta, metrics.learning_rate, metrics.num_sequences = beta, lr, #cs
  metrics["time/generate"], metrics["time/reward"] = generated - clock, rewarded - generated
  metrics["time/train"] = core.clock() - rewarded
  metrics["tokens_per_second/generate"] = tokens / (generated - clock)
  metrics["tokens_per_second/train"] = tokens / metrics["time/train"]
  metrics.slowest_reward = slowest(seconds)
  if failures > 0 then metrics.reward_errors = failures end
  if replaced > 0 then metrics.groups_replaced = replaced end
  return metrics, tokens
end

-- One step of the stage; returns metrics and the tokens trained on.
function Stage:advance()
  local p = self:argument()
  self.p = p
  local metrics, tokens
  local cursor = self.source.cursor
  self.tr.busy = "a step"
  local ok, err = xpcall(function()
    if self.kind == "sft" then metrics, tokens = self:sft_step(p) else metrics, tokens = self:grpo_step(p) end
  end, function(e)
    if type(e) == "table" and not e.traceback then e.traceback = debug.traceback("", 2) end
    return e
  end)
  self.tr.busy = nil
  if not ok then
    self.source.cursor = cursor -- an abandoned step has drawn nothing
    error(err, 0)
  end
  self.step, self.tokens = self.step + 1, self.tokens + tokens
  local sync = self.config.train.sync_reference
  if self.reference and sync and self.step % sync.every == 0 then
    core.model_lerp(self.reference, self.tr.model, sync.mixup)
  end
  self.done = self.step >= self.steps
  local source = self.source
  if source.dropped > 0 then metrics.prompts_dropped = source.dropped end
  if source.truncated > 0 then metrics.prompts_truncated = source.truncated end
  return metrics, tokens
end

return Stage
