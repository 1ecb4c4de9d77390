-- From rewards to advantages: of whole completions against their group, and of single tokens.

local core = require "grpo.core"
local scoring = require "grpo.train.scoring"

local advantages = {}

-- The weighted rewards that token_fn entries gave to each token of c.  Injected tokens have none.
local function token_sums(entries, weights, c)
  local sums = {}
  for t = 1, c.length do sums[t] = (not c.sampled or c.sampled[t]) and 0.0 or core.none end
  for k, entry in ipairs(entries) do
    local list = c.token_rewards and c.token_rewards[entry.name]
    for t = 1, list and c.length or 0 do
      if sums[t] ~= core.none then sums[t] = sums[t] + weights[k] * list[t] end
    end
  end
  return sums
end

-- The weighted rewards that the other entries gave to c as a whole; core.none if none applies.
local function whole_sum(entries, weights, c)
  local sum, applies = 0.0, false
  for k, entry in ipairs(entries) do
    if not entry.token_fn and c.rewards[entry.name] ~= core.none then
      sum, applies = sum + weights[k] * c.rewards[entry.name], true
    end
  end
  if c.kl_penalty and c.reward ~= nil then sum, applies = sum - c.kl_penalty, true end
  return applies and sum or core.none
end

-- Rewards of tokens and of whole completions apart: two lists, one item for each completion.  nil
-- if no entry rewards tokens.
function advantages.token_rewards(config, completions, weights)
  local entries, dense = config.reward_entries, false
  for _, entry in ipairs(entries) do dense = dense or entry.token_fn ~= nil end
  if not dense then return nil end
  local tokens, wholes = {}, {}
  for i, c in ipairs(completions) do
    tokens[i], wholes[i] = token_sums(entries, weights, c), whole_sum(entries, weights, c)
  end
  return tokens, wholes
end

-- One row of single rewards for each completion, for aggregate = "normalize_then_sum".
local function reward_rows(entries, completions)
  local rows = {}
  for i, c in ipairs(completions) do
    rows[i] = {}
    for k, entry in ipairs(entries) do rows[i][k] = c.rewards[entry.name] end
  end
  return rows
end

-- The options of core.advantages for groups of the step's size.
function advantages.options(config)
  return setmetatable({ group = config.sampling.group_size }, { __index = config.train.advantage })
end

-- Fills in c.advantage and returns the advantages as a list: a number for each completion, or a
-- list of numbers for its tokens if an entry rewards tokens.
function advantages.of_groups(config, completions, weights)
  local options = advantages.options(config)
  local tokens, rewards = advantages.token_rewards(config, completions, weights)
  if not tokens and config.reward.aggregate == "normalize_then_sum" then
    options.aggregate, options.weights = "normalize_then_sum", weights
    rewards = reward_rows(config.reward_entries, completions)
  end
  local list = core.advantages(rewards or scoring.totals(completions), options)
  if tokens then
    local by_token = core.dense_advantages(tokens, { group = config.sampling.group_size })
    for i, of_tokens in ipairs(by_token) do
      for t = 1, #of_tokens do of_tokens[t] = of_tokens[t] + list[i] end
    end
    list = by_token
  end
  for i, c in ipairs(completions) do c.advantage = list[i] end
  return list
end

return advantages
