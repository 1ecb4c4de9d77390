-- Means and spreads of plain lists of numbers without gaps.

local core = require "grpo.core"
local options = require "grpo.options"

local statistics = {}

function statistics.mean(list)
  if #list == 0 then return 0 / 0 end
  local sum = 0.0
  for _, v in ipairs(list) do sum = sum + v end
  return sum / #list
end

-- Returns the unbiased standard deviation (n - 1); NaN for fewer than two values.
function statistics.std(list)
  if #list < 2 then return 0 / 0 end
  local mean, sum = statistics.mean(list), 0.0
  for _, v in ipairs(list) do sum = sum + (v - mean) ^ 2 end
  return math.sqrt(sum / (#list - 1))
end

-- The quantile of values that are in order, by linear interpolation between them.
local function sorted_quantile(sorted, q)
  local rank = q * (#sorted - 1) + 1
  local low = math.floor(rank)
  local high = math.min(low + 1, #sorted)
  return sorted[low] + (sorted[high] - sorted[low]) * (rank - low)
end

-- Returns a quantile by linear interpolation between order statistics; sorts a copy.
function statistics.quantile(list, q)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  return sorted_quantile(sorted, q)
end

function statistics.median(list)
  return statistics.quantile(list, 0.5)
end

-- The probability that |T| < t, for Student's t with n degrees of freedom: a finite sum for a whole
-- n (Abramowitz and Stegun, 26.7.3 and 26.7.4).
local function within(t, n)
  local angle = math.atan(t / math.sqrt(n))
  local sine, square = math.sin(angle), math.cos(angle) ^ 2
  local odd = n % 2 == 1
  local term, sum = odd and math.cos(angle) or 1.0, 0.0
  for i = odd and 3 or 2, n, 2 do
    sum, term = sum + term, term * square * (i - 1) / i
  end
  return odd and 2 / math.pi * (angle + sine * sum) or sine * sum
end

-- Returns the number of standard errors to each side of the mean that a t interval has: the
-- quantile (1 + level) / 2 of Student's t with n degrees of freedom.
local function t_factor(n, level)
  local low, high = 0.0, 1.0
  while within(high, n) < level do high = 2 * high end
  for _ = 1, 100 do
    local middle = (low + high) / 2
    if within(middle, n) < level then low = middle else high = middle end
  end
  return (low + high) / 2
end

-- Returns the mean of a list with Student's t interval, for values that scatter normally, such as
-- the results of runs with several seeds: { mean =, low =, high =, n = }.  A single value has no
-- interval: low and high are nil.  opts: { level = 0.95 }.
function statistics.t_interval(list, opts)
  opts = options.check(opts, {
    level = { type = "number", default = 0.95, above = 0, max = 0.9999 },
  }, "statistics.t_interval")
  if #list == 0 then
    error("statistics.t_interval: the list is empty; give one value or more", 2)
  end
  local n, mean = #list, statistics.mean(list)
  if n == 1 then return { mean = mean, n = 1 } end
  local half = t_factor(n - 1, opts.level) * statistics.std(list) / math.sqrt(n)
  return { mean = mean, low = mean - half, high = mean + half, n = n }
end

local resampling = {
  resamples = { type = "integer", default = 10000, min = 100, max = 10000000 },
  level = { type = "number", default = 0.95, above = 0, max = 1 },
  seed = { type = "integer", default = 0, min = 0 },
}

-- Returns the mean of a list with a percentile bootstrap interval (Efron 1979): the quantiles of
-- the means of lists that are drawn from it with replacement: { mean =, low =, high =, n = }.
-- opts: { resamples = 10000, level = 0.95, seed = 0 }; equal seeds give equal intervals.
function statistics.bootstrap(list, opts)
  opts = options.check(opts, resampling, "statistics.bootstrap")
  if #list == 0 then error("statistics.bootstrap: the list is empty; give one value or more", 2) end
  local means = core.resampled_means(list, opts.resamples, opts.seed, "draws")
  local tail = (1 - opts.level) / 2
  table.sort(means)
  return { mean = statistics.mean(list), low = sorted_quantile(means, tail),
    high = sorted_quantile(means, 1 - tail), n = #list }
end

-- after[i] - before[i]
local function gains(before, after, name)
  if #before ~= #after or #before == 0 then
    error(("statistics.%s: %d and %d values do not form pairs; give two lists of the same length")
      :format(name, #before, #after), 3)
  end
  local list = {}
  for i, v in ipairs(before) do list[i] = after[i] - v end
  return list
end

-- Returns the mean of after[i] - before[i] with a bootstrap interval over the pairs:
-- { difference =, low =, high =, n = }.  opts: as of statistics.bootstrap.
function statistics.paired_bootstrap(before, after, opts)
  opts = options.check(opts, resampling, "statistics.paired_bootstrap")
  local b = statistics.bootstrap(gains(before, after, "paired_bootstrap"), opts)
  return { difference = b.mean, low = b.low, high = b.high, n = b.n }
end

-- P(X <= w or X >= n - w) for X of n throws of a coin, w <= n / 2: the exact test of McNemar.
local function coin(n, w)
  if 2 * w == n then return 1.0 end
  local log_term, sum, term = -n * math.log(2), 0.0, 1.0
  for i = 1, w do log_term = log_term + math.log((n - i + 1) / i) end -- of C(n, w) / 2^n
  for i = w, 0, -1 do
    sum, term = sum + term, term * i / (n - i + 1)
  end
  return math.min(1.0, 2 * sum * math.exp(log_term))
end

local MOST_EXACT = 16 -- differences whose signs are all tried

-- The share of all sign patterns whose sum is at least as far from 0 as that of the list.
local function all_signs(list, limit)
  local n, far = #list, 0
  local function try(i, sum)
    if i > n then
      far = far + (math.abs(sum) >= limit and 1 or 0)
      return
    end
    try(i + 1, sum + list[i])
    try(i + 1, sum - list[i])
  end
  try(1, 0.0)
  return far / 2 ^ n
end

local function some_signs(list, limit, opts)
  local far = 0
  for _, mean in ipairs(core.resampled_means(list, opts.resamples, opts.seed, "signs")) do
    far = far + (math.abs(mean) * #list >= limit and 1 or 0)
  end
  return (far + 1) / (opts.resamples + 1)
end

-- Returns { p =, exact =, higher =, lower = }: the two-sided p-value of the permutation test of
-- pairs, which gives every difference a random sign, and the numbers of differences above and below
-- 0.  Differences of one size, as those of right and wrong, make it the exact test of McNemar; up
-- to 16 others are exact too; more are tried with opts.resamples random signs (opts.seed = 0).
function statistics.paired_test(before, after, opts)
  opts = options.check(opts, { resamples = resampling.resamples, seed = resampling.seed },
    "statistics.paired_test")
  local list, higher, sum, size, one_size = {}, 0, 0.0, 0.0, true
  for _, d in ipairs(gains(before, after, "paired_test")) do
    if d ~= 0 then
      list[#list + 1] = d
      higher, sum, size = higher + (d > 0 and 1 or 0), sum + d, size + math.abs(d)
      one_size = one_size and math.abs(d) == math.abs(list[1])
    end
  end
  local lower = #list - higher
  local limit = math.abs(sum) - 1e-12 * size -- sums in another order differ by rounding
  local exact = one_size or #list <= MOST_EXACT
  local p = one_size and coin(#list, math.min(higher, lower))
    or exact and all_signs(list, limit) or some_signs(list, limit, opts)
  return { p = p, exact = exact, higher = higher, lower = lower }
end

return statistics
