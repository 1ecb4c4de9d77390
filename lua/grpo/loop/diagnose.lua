-- Patterns in the metrics that a user should hear about: what is seen, what it means, what to try.

local note_entry = require "grpo.base.note_entry"
local reference_names = require "grpo.options.reference_names"
local statistics = require "grpo.statistics"

local diagnose = {}

local WINDOW = 5 -- steps in a row for which a pattern must hold
local AGAIN = 100 -- steps before a note whose pattern had gone away may be shown again

-- A mean length, in tokens, up to which nothing runs away.
local SHORT = 16

-- Bounds of the KL in nats a token: from a model that the policy began as, and from one that it may
-- be far from at the first step (random weights, a reference that is not a model).
local KL_BOUND, FAR_KL_BOUND = 0.5, 10

-- Each rule: a name, a test on one step's metrics, and a line.
local rules = {
  {
    name = "tied",
    test = function(m, watcher) return m.frac_reward_zero_std == 1 and not watcher.taught end,
    line = "all groups are tied (frac_reward_zero_std = 1): there is no learning signal; "
      .. "look at the completions, check the reward, or start from easier prompts",
  },
  {
    name = "truncated",
    test = function(m, watcher)
      return not watcher.fixed_length and (m["completions/clipped_ratio"] or 0) > 0.5
    end,
    line = "most completions are cut off (completions/clipped_ratio > 0.5): the reward may never "
      .. "see an answer; raise sampling.max_new_tokens",
  },
  {
    name = "targets_truncated",
    window = 1,
    test = function(m) return (m.targets_truncated or 0) > 0 end,
    line = "targets are longer than sampling.max_new_tokens (targets_truncated: %d so far): they "
      .. "are cut, and the model does not learn their ends; raise sampling.max_new_tokens",
    argument = function(m) return m.targets_truncated end,
  },
  {
    name = "entropy",
    -- a policy that has learned its task is certain too: only without a gain is certainty a fault
    test = function(m, watcher)
      local tied = m.entropy and m.entropy < 0.01 and (m.frac_reward_zero_std or 0) > 0.5
      return tied and watcher:gain(m) <= 0
    end,
    line = "entropy has collapsed, most groups are tied and the reward is no higher than at "
      .. "first: the policy repeats itself; try clip_high = 0.28, an entropy bonus, a lower lr or "
      .. "a higher temperature",
  },
  {
    name = "kl",
    test = function(m, watcher)
      return m.kl and m.kl > watcher:kl_bound() and not watcher.taught
    end,
    line = "kl is %.3g nats a token, above %g, which is %.3g nats a completion of %.0f tokens: the "
      .. "policy has left its reference; lower train.lr, raise train.kl, or clip gradients closer "
      .. "(train.max_grad_norm)",
    argument = function(m, _, watcher)
      local length = m["completions/mean_length"] or 0
      return m.kl, watcher:kl_bound(), m.kl * length, length
    end,
  },
  {
    name = "kl_penalty",
    -- in the unit of rewards: nats a completion times beta
    test = function(m, watcher)
      local penalty, before = watcher:penalty(m)
      return penalty and penalty > 0 and penalty > math.abs(before) + (m.reward_std or 0)
    end,
    line = "the KL penalty takes %.3g of each completion's reward, which is %.3g before it: the "
      .. "policy is paid for staying where it is; lower the coefficient (train.kl with kl_in = "
      .. "\"reward\", train.ppo.kl_coef), or scale the rewards up",
    argument = function(m, _, watcher) return watcher:penalty(m) end,
  },
  {
    name = "runaway_length",
    test = function(_, watcher)
      local of = watcher:trend "completions/mean_length"
      local cut = watcher:trend "completions/clipped_ratio"
      if watcher.fixed_length or not of or not watcher:reward_is_no_higher() then return false end
      return of.now > 1.5 * of.first and of.now > of.first + 8
        or cut and cut.now > 0.3 and cut.now > cut.first + 0.2 and of.now > SHORT
          and of.now >= of.first
    end,
    line = "length runs away: completions have gone from %.0f to %.0f tokens, and %.0f %% are cut "
      .. "off (%.0f %% at first), while the reward is no higher; try rewards.length.soft_overlong, "
      .. "train.mask_truncated = true, train.loss = \"dr_grpo\" or a lower train.lr",
    argument = function(_, _, watcher)
      local of = watcher:trend "completions/mean_length"
      local cut = watcher:trend "completions/clipped_ratio" or { first = 0, now = 0 }
      return of.first, of.now, 100 * cut.now, 100 * cut.first
    end,
  },
  {
    name = "gradient",
    test = function(m)
      return m.grad_norm == 0 and m.frac_reward_zero_std ~= nil and m.frac_reward_zero_std < 1
    end,
    line = "the gradient is zero although rewards differ: check train.mask_truncated, "
      .. "train.top_entropy_quantile and train.clip",
  },
  {
    name = "ratio",
    window = 1,
    test = function(m) return (m.ratio_max_deviation or 0) ~= 0 end,
    line = "the ratio is not exactly 1 at the first inner iteration: sampling and training "
      .. "disagree; this is a bug, please report it with `grpo doctor`",
  },
  {
    name = "slow_reward",
    test = function(m)
      local seconds = m["time/reward"] or 0
      return seconds > 0.05 and seconds > 0.2 * (m.step_time or math.huge)
    end,
    line = "rewards take over 20 %% of the step; the slowest is '%s'",
    argument = function(m) return m["time/slowest_reward"] or "?" end,
  },
}

-- The first thing that went wrong in a step whose reward.on_error is not "stop".
local function first_error(cs)
  for _, c in ipairs(cs or {}) do
    local first
    for name in pairs(c.errors or {}) do first = (not first or name < first) and name or first end
    if first then return c.errors[first] end
  end
  return "?"
end

rules[#rules + 1] = {
  name = "errors",
  window = 1,
  test = function(m) return (m.reward_errors or 0) > 0 end,
  line = "%d calls of rewards or the environment failed in this step (reward_errors); the "
    .. "first: %s",
  argument = function(m, cs) return m.reward_errors, first_error(cs) end,
}

local Watcher = {}
Watcher.__index = Watcher

-- Returns the names of all rules.
function diagnose.names()
  local names = {}
  for i, rule in ipairs(rules) do names[i] = rule.name end
  return names
end

function diagnose.watcher()
  return setmetatable({ held = {}, told = {}, gone = {}, active = {}, first = {}, last = {} },
    Watcher)
end

-- The mean of a metric over steps that have it; nil if none has.
local function mean(steps, name)
  local list = {}
  for _, m in ipairs(steps) do
    if m[name] and m[name] == m[name] then list[#list + 1] = m[name] end
  end
  return #list > 0 and statistics.mean(list) or nil
end

-- How far the reward is above the mean of the stage's first steps.
function Watcher:gain(metrics)
  return (metrics.reward or 0) - (mean(self.first, "reward") or 0)
end

-- Means of a metric over the stage's first steps and over the last ones: { first =, now = }; nil
-- while the two overlap.
function Watcher:trend(name)
  if self.count < 2 * WINDOW then return nil end
  local first, now = mean(self.first, name), mean(self.last, name)
  return first and now and { first = first, now = now } or nil
end

-- A tenth of the spread within groups is noise.
function Watcher:reward_is_no_higher()
  local reward = self:trend "reward"
  return reward and reward.now <= reward.first + 0.1 * (mean(self.first, "reward_std") or 0)
end

function Watcher:kl_bound()
  local far = self.reference == "random" or reference_names.added[self.reference]
  return far and FAR_KL_BOUND or KL_BOUND
end

-- The mean KL penalty of a completion, and its mean reward before that; nil without a penalty.
function Watcher:penalty(m)
  if m["objective/non_score_reward"] then return -m["objective/non_score_reward"], m.reward end
  local penalties, rewards = {}, {}
  for _, c in ipairs(self.completions or {}) do
    if c.kl_penalty and c.reward then
      penalties[#penalties + 1], rewards[#rewards + 1] = c.kl_penalty, c.reward + c.kl_penalty
    end
  end
  if #penalties == 0 then return nil end
  return statistics.mean(penalties), statistics.mean(rewards)
end

local remembered = { "reward", "reward_std", "completions/mean_length",
  "completions/clipped_ratio" }

function Watcher:remember(metrics)
  if metrics.stage ~= self.stage then
    self.stage, self.first, self.last, self.count = metrics.stage, {}, {}, 0
    self.held, self.active = {}, {}
  end
  local kept = {}
  for _, name in ipairs(remembered) do kept[name] = metrics[name] end
  self.count = (self.count or 0) + 1
  if #self.first < WINDOW then self.first[#self.first + 1] = kept end
  self.last[#self.last + 1] = kept
  if #self.last > WINDOW then table.remove(self.last, 1) end
end

-- Is this the step to tell of a rule?  A pattern that stays is told once, and one that comes and
-- goes not before AGAIN steps have passed.
function Watcher:is_due(rule, holds, step)
  local name = rule.name
  if not holds then
    self.held[name], self.gone[name] = 0, (self.gone[name] or 0) + 1
    if self.gone[name] >= WINDOW then self.active[name] = nil end
    return false
  end
  self.held[name], self.gone[name] = (self.held[name] or 0) + 1, 0
  local told = self.told[name]
  if self.held[name] < (rule.window or WINDOW) or self.active[name]
    or told and step - told < AGAIN then
    return false
  end
  self.told[name], self.active[name] = step, true
  return true
end

-- Lines to show after this step.  context, optional: { completions = the step's, reference = the
-- option, fixed_length = are they as long as what they are compared with?, taught = is the
-- reference a teacher? }.
function Watcher:step(metrics, context)
  local lines, step = {}, metrics.step or 0
  context = context or {}
  self.fixed_length, self.reference = context.fixed_length, context.reference
  self.completions, self.taught = context.completions, context.taught
  self:remember(metrics)
  for _, rule in ipairs(rules) do
    if self:is_due(rule, rule.test(metrics, self), step) then
      local line = rule.argument
        and rule.line:format(rule.argument(metrics, context.completions, self)) or rule.line
      lines[#lines + 1] = note_entry.added(line, rule.name)
    end
  end
  self.completions = nil
  return lines
end

return diagnose
