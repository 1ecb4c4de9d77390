-- pass@k without bias, and intervals that do not flatter.
--
-- From n samples of a problem, c of them right, the unbiased estimate of pass@k is
--   1 - C(n-c, k) / C(n, k)                                   (Chen et al. 2021)
-- The mean over problems is reported.  Samples of one problem are not independent evidence, so the
-- standard error is over problems (cluster-robust), the interval normal and cut to 0..1.  A share
-- of independent yes/no answers (greedy accuracy) gets Wilson's interval, which also holds near 0
-- and 1 and for few problems.

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

-- When every problem has the same value the deviation between problems says nothing: with m
-- problems all at 1 the interval is Wilson's for m of m (0: of none).
local function normal(value, deviation, m)
  if m < 2 or (deviation == 0 and (value == 0 or value == 1)) then
    return pass_at_k.wilson(value * m, m)
  end
  local half = Z95 * deviation / math.sqrt(m)
  return math.max(0.0, value - half), math.min(1.0, value + half)
end

--- pass@k over problems: counts[i] right answers of n samples of problem i.  With `judged`, only
--- judged[i] of these samples count, and a problem with fewer than k is left out: result n says how
--- many are not.
---@param counts integer[]
---@param n integer samples of each problem
---@param k integer 1 <= k <= n
---@param judged? integer[]
---@return { value: number, low: number, high: number, se: number, n: integer }
function pass_at_k.estimate(counts, n, k, judged)
  if math.type(n) ~= "integer" or math.type(k) ~= "integer" or k < 1 or k > n then
    error(("passk.estimate: wants whole numbers 1 <= k <= n, got k = %s, n = %s"):format(k, n), 2)
  end
  local values = {}
  for i, c in ipairs(counts) do
    local samples = judged and judged[i] or n
    if c < 0 or c > samples then
      error(("passk.estimate: counts[%d] is %s of %d samples"):format(i, c, samples), 2)
    end
    if samples >= k then values[#values + 1] = pass_at_k.one(samples, c, k) end
  end
  local m = #values
  if m == 0 then return { value = 0.0, low = 0.0, high = 1.0, se = 0.0, n = 0 } end
  local mean, deviation = statistics.mean(values), m > 1 and statistics.std(values) or 0.0
  local low, high = normal(mean, deviation, m)
  return { value = mean, low = low, high = high, se = deviation / math.sqrt(m), n = m }
end

return pass_at_k
