-- The loss of a reward model, in double: -log s(r_chosen - r_rejected - margin), s the logistic
-- function, and center (r_chosen + r_rejected)^2 (2312.09244); the mean over pairs.

local function softplus(x)
  local u = math.exp(-math.abs(x))
  local small = 1 + u == 1 and u or math.log(1 + u) * u / (1 + u - 1)
  return math.max(x, 0) + small
end

-- rewards: of the chosen and the rejected text of each pair, in turn.  center: a number, or nil.
-- Returns the loss, its derivatives by the rewards, and metrics by TRL's names.
return function(rewards, margins, center)
  local n, loss, slopes = #margins, 0.0, {}
  local m = { min_reward = math.huge, max_reward = -math.huge, mean_reward = 0.0, accuracy = 0.0,
    margin = 0.0 }
  for i, margin in ipairs(margins) do
    local chosen, rejected = rewards[2 * i - 1], rewards[2 * i]
    local z, sum = chosen - rejected - margin, chosen + rejected
    local slope, centred = -1 / (1 + math.exp(z)), 2 * (center or 0) * sum
    loss = loss + (softplus(-z) + (center or 0) * sum * sum) / n
    slopes[2 * i - 1], slopes[2 * i] = (slope + centred) / n, (-slope + centred) / n
    m.accuracy = m.accuracy + (chosen > rejected and 1 or 0) / n
    m.margin, m.mean_reward = m.margin + (chosen - rejected) / n, m.mean_reward + sum / (2 * n)
    m.min_reward = math.min(m.min_reward, chosen, rejected)
    m.max_reward = math.max(m.max_reward, chosen, rejected)
  end
  return loss, slopes, m
end
