-- Patterns in the metrics that a user should hear about: what is seen, what it means, what to try.

local diagnose = {}

local WINDOW = 5 -- a pattern must hold for so many steps in a row
local AGAIN = 100 -- and is told again after so many steps at the earliest

-- Each rule: a name, a test on one step's metrics, and a line.
local rules = {
  {
    name = "tied",
    test = function(m) return m.frac_reward_zero_std == 1 end,
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
    test = function(m) return m.kl and m.kl > 10 end,
    line = "kl is above 10 nats a token: the policy has left its reference; lower lr or raise kl",
  },
  {
    name = "gradient",
    test = function(m)
      return m.grad_norm == 0 and m.frac_reward_zero_std ~= nil and m.frac_reward_zero_std < 1
    end,
    line = "the gradient is zero although rewards differ: check clip, masks and lr",
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
    argument = function(m) return m.slowest_reward or "?" end,
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

function diagnose.watcher()
  return setmetatable({ held = {}, told = {} }, Watcher)
end

-- How far the reward is above the mean of the stage's first steps.
function Watcher:gain(metrics)
  return (metrics.reward or 0) - (self.sum or 0) / math.max(1, self.count or 0)
end

function Watcher:remember(metrics)
  if metrics.stage ~= self.stage then self.stage, self.sum, self.count = metrics.stage, 0.0, 0 end
  if metrics.reward and metrics.reward == metrics.reward and self.count < WINDOW then
    self.sum, self.count = self.sum + metrics.reward, self.count + 1
  end
end

-- Lines to show after this step; a rule speaks when its pattern has held, and again much later at
-- the earliest. context, optional: { completions = the step's, fixed_length = are they as long as
-- what they are compared with? }.
function Watcher:step(metrics, context)
  local lines, step = {}, metrics.step or 0
  context = context or {}
  self.fixed_length = context.fixed_length
  self:remember(metrics)
  for _, rule in ipairs(rules) do
    if rule.test(metrics, self) then
      self.held[rule.name] = (self.held[rule.name] or 0) + 1
      local told = self.told[rule.name]
      if self.held[rule.name] >= (rule.window or WINDOW) and (not told or step - told >= AGAIN) then
        self.told[rule.name] = step
        lines[#lines + 1] = rule.argument
          and rule.line:format(rule.argument(metrics, context.completions)) or rule.line
      end
    else
      self.held[rule.name] = 0
    end
  end
  return lines
end

return diagnose
