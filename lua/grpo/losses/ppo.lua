-- PPO's targets and value loss in readable Lua.  The engine runs C (src/rl/gae.c,
-- src/grad/op_value.c); the tests compare it with this file.  The policy loss is the clipped
-- surrogate of losses.lua, averaged over tokens.
--
-- A completion of n tokens has a value before each token and, if it ended before max_new_tokens,
-- one after the last token.  Its score is added to the reward of the last of these positions.
-- Formulas and sources: docs/algorithms.md.

local ppo = {}

-- Generalized advantage estimation (1506.02438):
--   d_t = r_t + gamma v_(t+1) - v_t,  A_t = d_t + gamma lambda A_(t+1)
-- rewards, values: lists of one completion; o.bootstrap: the value after the end, default 0.
-- Returns advantages, returns.
function ppo.gae(rewards, values, o)
  local advantages, returns = {}, {}
  local next_value, next_advantage = o.bootstrap or 0.0, 0.0
  for t = #rewards, 1, -1 do
    local delta = rewards[t] + (o.gamma or 1) * next_value - values[t]
    next_advantage = delta + (o.gamma or 1) * (o.lambda or 1) * next_advantage
    next_value = values[t]
    advantages[t], returns[t] = next_advantage, next_advantage + next_value
  end
  return advantages, returns
end

-- Returns (x - mean) / sqrt(variance + 1e-8) with the unbiased variance; o.keep_mean adds the mean
-- back.
function ppo.whiten(list, o)
  local mean, sum, n = 0.0, 0.0, #list
  for _, x in ipairs(list) do mean = mean + x / n end
  for _, x in ipairs(list) do sum = sum + (x - mean) ^ 2 end
  local scale = 1 / math.sqrt((n > 1 and sum / (n - 1) or 0) + 1e-8)
  local white = {}
  for i, x in ipairs(list) do white[i] = (x - mean) * scale + (o and o.keep_mean and mean or 0) end
  return white
end

-- Returns the rewards of one completion by position: each token's KL penalty plus its own reward,
-- and the score at the last position.  logprobs, ref_logprobs and token_rewards (may be nil) have
-- one number for each token.
function ppo.rewards(score, logprobs, ref_logprobs, token_rewards, o)
  local rewards, n = {}, #logprobs
  for t = 1, n do
    local d = logprobs[t] - ref_logprobs[t]
    local kl = o.kl_estimator == "k3" and math.exp(-d) - 1 + d
      or o.kl_estimator == "k2" and d * d / 2 or d
    rewards[t] = -o.kl_coef * kl + (token_rewards and token_rewards[t] or 0)
  end
  if n < o.max_new_tokens then rewards[n + 1] = 0.0 end
  rewards[#rewards] = rewards[#rewards] + score
  return rewards
end

-- Returns the mean of 0.5 max((v - R)^2, (clip(v, old - c, old + c) - R)^2).  values, old, returns:
-- tensors [N].
function ppo.value_loss(values, old, returns, clip)
  local held = old + (values - old):clamp(-clip, clip)
  local plain, bound = values - returns, held - returns
  return (plain * plain):maximum(bound * bound):mean() * 0.5
end

return ppo
