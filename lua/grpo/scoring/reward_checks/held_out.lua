-- The reward rises while the held-out metric falls: does the reward want something else than the
-- metric, or has something else changed?
--
-- The reward in training is of the rows of its steps and has the weights of its steps, so that two
-- of its values may differ for reasons of their own.  On held-out rows both evaluations are scored
-- with the weights of the second one.

local core = require "grpo.core"
local reward_entries = require "grpo.options.reward_entries"
local statistics = require "grpo.statistics"

local held_out = {}

-- Returns what is kept of an evaluation.  reward: the mean in training before it, or nil.  context:
-- { entries = of the rewards, weights = theirs, clip = reward.clip or nil, passes = how often the
-- stage has met each row that it trains on }
function held_out.facts(report, reward, context)
  local samples = {}
  for i, c in ipairs(report.samples or {}) do samples[i] = { rewards = c.rewards } end
  return { step = report.step or 0, accuracy = report["eval/accuracy"],
    low = report["eval/accuracy/low"], reward = reward, samples = samples,
    entries = context.entries, weights = context.weights, clip = context.clip,
    passes = context.passes }
end

-- Returns the mean rewards of the same held-out rows, and whether they have risen by more than two
-- standard errors; nil if there are none.
local function compare(best, now)
  local before, after, gains = {}, {}, {}
  for i = 1, #best.samples == #now.samples and #now.samples or 0 do
    local x = core.total_reward(best.samples[i].rewards, now.entries, now.weights, now.clip)
    local y = core.total_reward(now.samples[i].rewards, now.entries, now.weights, now.clip)
    if x and y then
      before[#before + 1], after[#after + 1], gains[#gains + 1] = x, y, y - x
    end
  end
  if #gains == 0 then return nil end
  local noise = statistics.std(gains) / math.sqrt(#gains) -- NaN for a single one
  return statistics.mean(before), statistics.mean(after),
    statistics.mean(gains) > (noise == noise and 2 * noise or 0)
end

-- The weights that differ, as "layout 0.1 to 1"; nil if none does.
local function changed_weights(best, now)
  local list = {}
  for i, entry in ipairs(now.entries) do
    if best.weights[i] ~= now.weights[i] then
      list[#list + 1] = ("%s %.4g to %.4g"):format(entry.name, best.weights[i], now.weights[i])
    end
  end
  return #list > 0 and table.concat(list, ", ") or nil
end

-- Why the reward in training may rise although that of the held-out rows does not.
local function cause(best, now)
  local weights = changed_weights(best, now)
  if weights then
    return ("the weights of the rewards have changed since step %d (%s), and with them what the "
      .. "reward in training means"):format(best.step, weights)
  elseif now.passes <= 1 then
    return ("since step %d training is on rows that the stage had not met before, and they may be "
      .. "easier than the held-out ones"):format(best.step)
  end
  return ("training has met each of its rows about %.1f times, and may know them by heart")
    :format(now.passes)
end

local function highest(samples, keep)
  local found
  for _, c in ipairs(samples) do
    if c.reward and keep(c) and (not found or c.reward > found.reward) then found = c end
  end
  return found
end

-- Returns the completion that shows it: one that failed and has at least the mean reward, or the
-- one with the highest reward.
local function shows_it(samples, mean)
  return highest(samples, function(c) return c.passed == false and c.reward >= mean end)
    or highest(samples, function() return true end)
end

-- The metric has fallen from `best` to `now`: returns a sentence if a reward has risen, and the
-- completion that shows it if the reward is to blame.  samples: the newest completions.
function held_out.explain(best, now, samples)
  local metric = ("the held-out metric falls (eval/accuracy %.3f to %.3f)"):format(best.accuracy,
    now.accuracy)
  local trained_more = now.reward > best.reward
  local training = ("the reward in training rises (%.4g to %.4g) while %s"):format(best.reward,
    now.reward, metric)
  if not reward_entries.same(best.entries, now.entries) then
    return trained_more and ("%s; the rewards are others than at step %d, so the two values cannot "
      .. "be compared"):format(training, best.step) or nil
  end
  local before, after, rises = compare(best, now)
  if rises then
    return ("the reward rises (%.4g to %.4g on the held-out rows) while %s: the reward is not what "
      .. "you want to measure"):format(before, after, metric), shows_it(samples, after)
  elseif not trained_more then
    return nil
  end
  return before and ("%s, but the reward of the held-out rows does not rise (%.4g to %.4g): %s")
    :format(training, before, after, cause(best, now)) or training
end

return held_out
