-- Measures of k samples of a problem, estimated from n of them, and intervals that do not flatter.
--
-- pass@k: one of k is right.  From n samples, c of them right, the unbiased estimate is
--   1 - C(n-c, k) / C(n, k)                                   (Chen et al. 2021)
-- best@k: the one of k with the highest reward is right.  maj@k: the answer that most of k give is
-- right.
--
-- The mean over problems is reported.  Samples of one problem are not independent evidence, so the
-- interval is that of a bootstrap over problems.  A share of independent yes/no answers (greedy
-- accuracy) gets Wilson's interval, which also holds near 0 and 1 and for few problems.

local statistics = require "grpo.statistics"

local pass_at_k = {}

local Z95 = 1.959963984540054 -- two-sided 95 %

--- Unbiased pass@k of one problem: c right answers among n samples.
---@param n integer
---@param c integer
---@param k integer 1 <= k <= n
---@return number
function pass_at_k.one(n, c, k)
  if n - c < k then return 1.0 end
  local miss = 1.0
  for i = n - c + 1, n do miss = miss * (1 - k / i) end
  return 1 - miss
end

--- Unbiased best@k of one problem: the mean, over all k of its n samples, of the value of the one
--- with the highest reward; those that share the highest reward count alike.  Among samples in the
--- order of their rewards, sample i from below is the best of C(i-1, k-1) of C(n, k) choices.
---@param values number[]
---@param rewards number[] one for each value
---@param k integer 1 <= k <= #values
---@return number
function pass_at_k.best(values, rewards, k)
  local order, n = {}, #values
  for i = 1, n do order[i] = i end
  table.sort(order, function(a, b)
    if rewards[a] ~= rewards[b] then return rewards[a] < rewards[b] end
    return a < b
  end)
  -- left: C(i, k) / C(n, k), the share of the choices among the first i
  local sum, left, last = 0.0, 1.0, n
  while last >= k do
    local first, share, value = last + 1, 0.0, 0.0
    repeat
      first = first - 1
      share, left = share + left * k / first, left * (1 - k / first)
      value = value + values[order[first]]
    until first == 1 or rewards[order[first - 1]] ~= rewards[order[last]]
    sum, last = sum + share * value / (last - first + 1), first - 1
  end
  return sum
end

-- The value of the answer that most of the samples first .. last give.
local function voted(values, answers, first, last)
  local votes, sums, most = {}, {}, 0
  for i = first, last do
    local answer = answers[i]
    if answer then
      votes[answer], sums[answer] = (votes[answer] or 0) + 1, (sums[answer] or 0.0) + values[i]
      most = math.max(most, votes[answer])
    end
  end
  local sum, winners, seen = 0.0, 0, {}
  for i = first, last do -- in the order of the samples
    local answer = answers[i]
    if answer and votes[answer] == most and not seen[answer] then
      seen[answer], sum, winners = true, sum + sums[answer] / most, winners + 1
    end
  end
  return winners > 0 and sum / winners or 0.0
end

--- maj@k of one problem, without bias: the mean over the n // k runs of k samples in a row of the
--- value of the answer that most of the k give.  An answer's value is the mean of those who gave
--- it; of answers with equally many votes each counts alike; a sample without an answer does not
--- vote.
---@param values number[]
---@param answers (integer|false)[] equal numbers stand for equal answers, false for none
---@param k integer 1 <= k <= #values
---@return number
function pass_at_k.majority(values, answers, k)
  local sum, runs = 0.0, #values // k
  for r = 1, runs do sum = sum + voted(values, answers, (r - 1) * k + 1, r * k) end
  return sum / runs
end

--- Wilson's interval of a share: `passed` successes of n independent trials.
---@param passed number
---@param n integer
---@param z? number default: 95 %
---@return number low
---@return number high
function pass_at_k.wilson(passed, n, z)
  if n < 1 then return 0.0, 1.0 end
  z = z or Z95
  local p, zz = passed / n, z * z
  local centre = (p + zz / (2 * n)) / (1 + zz / n)
  local half = z / (1 + zz / n) * math.sqrt(p * (1 - p) / n + zz / (4 * n * n))
  return math.max(0.0, centre - half), math.min(1.0, centre + half)
end

local RESAMPLES = 2000 -- of the problems

--- The mean of one value from 0 to 1 for each problem, with a 95 % interval by bootstrap over
--- problems.  When every problem has the same value resampling says nothing: with m problems all
--- at 1 the interval is Wilson's for m of m (0: of none).
---@param values number[]
---@return { value: number, low: number, high: number, se: number, n: integer }
function pass_at_k.mean(values)
  local m = #values
  if m == 0 then return { value = 0.0, low = 0.0, high = 1.0, se = 0.0, n = 0 } end
  local mean, deviation = statistics.mean(values), m > 1 and statistics.std(values) or 0.0
  local e = { value = mean, se = deviation / math.sqrt(m), n = m }
  if m < 2 or deviation == 0 and (mean == 0 or mean == 1) then
    e.low, e.high = pass_at_k.wilson(mean * m, m)
  else
    local b = statistics.bootstrap(values, { resamples = RESAMPLES })
    e.low, e.high = b.low, b.high
  end
  return e
end

return pass_at_k
