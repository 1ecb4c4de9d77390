-- Metrics that a step with completions adds to those of its update.
--
-- The update gives lengths, losses and its own times; a log holds what came before the update:
--   { reward_errors = calls that failed, reward_seconds = { [entry] = seconds },
--     reference_seconds = nil without a reference, groups_replaced = nil without dynamic sampling,
--     frac_taught = nil without prompts of a teacher, teacher_dropped = those that were too long,
--     given = no model has sampled the completions,
--     weights = of the entries in this step }

local core = require "grpo.core"
local scoring = require "grpo.scoring.scoring"
local sorted_pairs = require "grpo.base.sorted"
local statistics = require "grpo.statistics"
local turns = require "grpo.scoring.turns"

local step_log = {}

-- Sums of the numbers `counts` among the columns that an entry has returned.
local function count_metrics(entry, completions, metrics)
  for _, c in ipairs(completions) do
    local counts = c.extra and c.extra[entry.name .. ".counts"]
    for name, n in sorted_pairs(type(counts) == "table" and counts or {}) do
      local key = ("rewards/%s/%s"):format(entry.name, name)
      if type(n) == "number" then metrics[key] = (metrics[key] or 0) + n end
    end
  end
end

local function reward_metrics(config, completions, metrics)
  local totals, stds, tied, groups = {}, {}, 0, 0
  for _, c in ipairs(completions) do
    if c.reward ~= nil then totals[#totals + 1] = c.reward end
    if c.index == 1 then
      local is_tied = core.rewards_tied(c.group)
      stds[#stds + 1] = is_tied and 0.0 or statistics.std(scoring.rewards(c.group))
      groups, tied = groups + 1, tied + (is_tied and 1 or 0)
    end
  end
  metrics.reward, metrics.reward_std = statistics.mean(totals), statistics.mean(stds)
  metrics.frac_reward_zero_std = tied / groups
  for _, entry in ipairs(config.reward_entries) do
    local values = scoring.column(completions, entry.name)
    count_metrics(entry, completions, metrics)
    metrics[("rewards/%s/mean"):format(entry.name)] = statistics.mean(values)
    metrics[("rewards/%s/std"):format(entry.name)] = statistics.std(values)
  end
end

-- The sum of the seconds, and the name of the entry that took the most.
local function total_and_slowest(seconds)
  local total, name, most = 0.0, nil, -1
  for entry, s in sorted_pairs(seconds) do
    total = total + s
    if s > most then name, most = entry, s end
  end
  return total, name
end

-- Adds to the metrics; returns the number of sampled tokens.
function step_log.add(config, completions, log, metrics)
  if #config.reward_entries > 0 then reward_metrics(config, completions, metrics) end
  metrics.frac_taught, metrics.teacher_prompts_dropped = log.frac_taught, log.teacher_dropped
  if not log.given then turns.measure(config, completions, metrics) end
  metrics.num_sequences = #completions
  for i, entry in ipairs(config.reward_entries) do
    metrics[("rewards/%s/weight"):format(entry.name)] = log.weights[i]
  end
  metrics["time/reward"], metrics["time/slowest_reward"] = total_and_slowest(log.reward_seconds)
  metrics["time/reference"] = log.reference_seconds
  if log.reward_errors > 0 then metrics.reward_errors = log.reward_errors end
  if (log.groups_replaced or 0) > 0 then metrics.groups_replaced = log.groups_replaced end
  local tokens = 0
  for _, c in ipairs(completions) do tokens = tokens + turns.sampled_length(c) end
  return tokens
end

-- The metric entropy_coef: what a schedule keeps beside its value, or the value; nil where the
-- coefficient is a number.
function step_log.entropy_coef(option, value, kept)
  if type(option) ~= "function" then return nil end
  return kept or value
end

-- " | 1234 tokens/s", sampled in the whole time of the step.
function step_log.speed(config, metrics)
  local tokens = metrics["completions/mean_length"] * config.train.prompts_per_step
    * config.sampling.group_size
  return (" | %d tokens/s"):format(math.floor(tokens / metrics.step_time))
end

return step_log
