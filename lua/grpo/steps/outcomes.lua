-- The outcome of each group of a step, as data.sampler's observe sees it.

local core = require "grpo.core"
local scoring = require "grpo.scoring.scoring"
local statistics = require "grpo.statistics"

local outcomes = {}

local function is_zero(advantage)
  if type(advantage) ~= "table" then return (advantage or 0) == 0 end
  for _, a in ipairs(advantage) do
    if a ~= 0 then return false end
  end
  return true
end

local function mean_or_nil(list)
  return #list > 0 and statistics.mean(list) or nil
end

-- The mean of each reward entry by its name; without an entry that applied to no completion.
local function means(entries, group)
  local by_name = {}
  for _, entry in ipairs(entries) do
    by_name[entry.name] = mean_or_nil(scoring.column(group, entry.name))
  end
  return by_name
end

-- The outcome of one group.  replaced: other prompts took its place, so it was not trained on.
function outcomes.group(config, prompt, group, replaced)
  local rewards, zero = scoring.rewards(group), true
  for _, c in ipairs(group) do zero = zero and is_zero(c.advantage) end
  return { index = prompt.index > 0 and prompt.index or nil, row = prompt.row,
    rewards = rewards, mean = mean_or_nil(rewards),
    std = core.rewards_tied(group) and 0.0 or statistics.std(rewards),
    means = means(config.reward_entries, group), zero_advantage = zero or replaced or false,
    replaced = replaced or false }
end

-- Returns the outcomes of a batch: of the groups that were trained on, in order, then of those that
-- were replaced.
-- Where a critic gives advantages, a group alone does not say whether it teaches.
function outcomes.of(stage, batch)
  local list, config = {}, stage.config
  local n = #batch.completions // #batch.prompts
  for slot, prompt in ipairs(batch.prompts) do
    list[slot] = outcomes.group(config, prompt, batch.completions[(slot - 1) * n + 1].group)
    if stage.method.critic then list[slot].zero_advantage = nil end
  end
  return table.move(batch.replaced or {}, 1, #(batch.replaced or {}), #list + 1, list)
end

return outcomes
