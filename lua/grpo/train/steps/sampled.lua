-- What a step that rolls out does before and after its update: prompts, completions, rewards; their metrics.

local core = require "grpo.core"
local scoring = require "grpo.train.scoring"
local rollout = require "grpo.train.rollout"
local sorted_pairs = require "grpo.base.sorted"
local statistics = require "grpo.statistics"
local turns = require "grpo.dialogue.turns"

local sampled = {}

local MAX_DYNAMIC_ROUNDS = 3

-- ---- before the update --------------------------------------------------------------

local function context(stage)
  return { seed = stage.config.seed, step = stage.tr.step_count, tokens_seen = stage.tr.tokens_seen,
    state = rollout.read_only(stage.tr.state), tokenizer = stage.tr.tokenizer }
end

local function roll_out(stage, list)
  local o, ids = rollout.options(stage.config, list, stage.config.sampling.group_size, context(stage), "sample")
  o.prompts = ids
  return stage.engine:rollout(o)
end

-- Fills in rewards; returns how many calls failed, those of the environment among them, and the seconds by entry.
local function score(stage, cs, weights)
  local config = stage.config
  local before = 0
  for _, c in ipairs(cs) do before = before + (c.errors and 1 or 0) end -- of the environment
  local failures, seconds = scoring.score(config.reward_entries, cs, config.limits.reward, config.reward.on_error)
  for _, c in ipairs(cs) do
    c.reward = scoring.total(config.reward_entries, weights, c, config.reward.clip)
  end
  return before + failures, seconds
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
local function replace_tied(stage, batch, list, cs, weights)
  local config, n = stage.config, stage.config.sampling.group_size
  local replaced = 0
  for _ = 1, MAX_DYNAMIC_ROUNDS do
    local slots, fresh = {}, {}
    for slot = 1, #list do
      if tied(cs[(slot - 1) * n + 1].group) then
        slots[#slots + 1], fresh[#fresh + 1] = slot, stage.source:next()
      end
    end
    if #slots == 0 then break end
    replaced = replaced + #slots
    local o, ids = rollout.options(config, fresh, n, context(stage), "sample")
    stage.engine:replace(batch, slots, ids, o)
    for k, slot in ipairs(slots) do
      list[slot] = fresh[k]
      local group = rollout.completions(batch, list, n, slot, context(stage))
      score(stage, group, weights)
      table.move(group, 1, n, (slot - 1) * n + 1, cs)
    end
  end
  return replaced
end

-- Draws prompts, rolls out and scores: { batch=, list=, cs=, weights=, ... }, what the functions below call a sample.
function sampled.gather(stage, p)
  local config, tr = stage.config, stage.tr
  local s = { weights = scoring.weights(config, p) }
  s.list = stage.source:draw(config.train.prompts_per_step)
  s.batch = roll_out(stage, s.list)
  s.cs = rollout.all(s.batch, s.list, config.sampling.group_size, context(stage))
  tr:check_interrupt()
  s.failures, s.seconds = score(stage, s.cs, s.weights) -- seconds: by entry
  s.replaced = config.train.skip_zero_std_groups and replace_tied(stage, s.batch, s.list, s.cs, s.weights) or 0
  return s
end

-- The frozen reference over the same tokens.
function sampled.reference(stage, s)
  local started = core.clock()
  stage.engine:reference(s.batch)
  s.referenced = core.clock() - started
end

-- Shows the sample to hooks, which may change rewards.
function sampled.publish(stage, s)
  local tr = stage.tr
  tr.batch = { completions = s.cs, prompts = s.list, step = tr.step_count, record = s.batch }
  tr:check_interrupt() -- an abandoned step leaves no trace, so not after a hook
  tr:hook("on_rollout", tr.batch)
end

-- With token_fn entries: their weighted per-token sums, and the scalar rewards without them.
function sampled.split_dense(stage, cs, weights, rewards)
  local entries, any = stage.config.reward_entries, false
  for _, entry in ipairs(entries) do any = any or entry.token_fn ~= nil end
  if not any then return rewards, nil end
  local tokens, scalar = {}, {}
  for i, c in ipairs(cs) do
    local sums = {}
    for t = 1, c.length do sums[t] = (not c.sampled or c.sampled[t]) and 0.0 or core.none end
    local rest, applies = 0.0, false
    for k, entry in ipairs(entries) do
      local list = c.token_rewards and c.token_rewards[entry.name]
      if list then
        for t = 1, c.length do
          if sums[t] ~= core.none then sums[t] = sums[t] + weights[k] * list[t] end
        end
      elseif not entry.token_fn and c.rewards[entry.name] ~= core.none then
        rest, applies = rest + weights[k] * c.rewards[entry.name], true
      end
    end
    if c.kl_penalty and c.reward ~= nil then rest, applies = rest - c.kl_penalty, true end
    tokens[i], scalar[i] = sums, applies and rest or core.none
  end
  return scalar, tokens
end

-- ---- after the update ---------------------------------------------------------------

local function reward_metrics(stage, cs, metrics)
  local config, n = stage.config, stage.config.sampling.group_size
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
    local values = scoring.column(cs, entry.name)
    metrics[("rewards/%s/mean"):format(entry.name)] = statistics.mean(values)
    metrics[("rewards/%s/std"):format(entry.name)] = statistics.std(values)
  end
end

local function slowest(seconds)
  local name, most = nil, -1
  for k, v in sorted_pairs(seconds) do
    if v > most then name, most = k, v end
  end
  return name
end

local function sum(seconds)
  local total = 0.0
  for _, v in sorted_pairs(seconds) do total = total + v end
  return total
end

-- Adds what rewards and turns show to the metrics of the update, which has those of lengths and of
-- its own times.  Returns the number of sampled tokens.
function sampled.measure(stage, s, metrics)
  reward_metrics(stage, s.cs, metrics)
  turns.measure(stage.config, s.cs, metrics)
  local tokens = 0
  for _, c in ipairs(s.cs) do tokens = tokens + turns.drawn(c) end
  metrics.num_sequences = #s.cs
  metrics["time/reward"], metrics["time/reference"] = sum(s.seconds), s.referenced
  metrics.slowest_reward = slowest(s.seconds)
  if s.failures > 0 then metrics.reward_errors = s.failures end
  if s.replaced > 0 then metrics.groups_replaced = s.replaced end
  return tokens
end

-- The middle of the line on the screen.
function sampled.line(tr, m)
  local groups = tr.settings.train.prompts_per_step
  local mixed = math.floor((1 - m.frac_reward_zero_std) * groups + 0.5)
  local reward = m.reward == m.reward and ("%6.3f"):format(m.reward) or ("%6s"):format("none")
  local text = ("reward %s | mixed groups %d/%d | length %5.1f"):format(reward, mixed, groups,
    m["completions/mean_length"])
  if m.beta > 0 and m.kl then text = text .. (" | kl %.4f"):format(m.kl) end
  local tokens = m["completions/mean_length"] * groups * tr.settings.sampling.group_size
  return text .. (" | %d tokens/s"):format(math.floor(tokens / m.step_time))
end

return sampled
