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

-- Returns a quantile by linear interpolation between order statistics; sorts a copy.
function statistics.quantile(list, q)
  local sorted = table.move(list, 1, #list, 1, {})
  table.sort(sorted)
  local rank = q * (#sorted - 1) + 1
  local low = math.floor(rank)
  local high = math.min(low + 1, #sorted)
  return sorted[low] + (sorted[high] - sorted[low]) * (rank - low)
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

-- Returns the mean of after[i] - before[i] with a percentile bootstrap interval over the pairs:
-- { difference =, low =, high =, n = }.  opts: { resamples = 10000, level = 0.95, seed = 0 }; equal
-- seeds give equal intervals.
function statistics.paired_bootstrap(before, after, opts)
  opts = options.check(opts, {
    resamples = { type = "integer", default = 10000, min = 100 },
    level = { type = "number", default = 0.95, above = 0, max = 1 },
    seed = { type = "integer", default = 0, min = 0 },
  }, "statistics.paired_bootstrap")
  if #before ~= #after or #before == 0 then
    error(("statistics.paired_bootstrap: %d and %d values do not form pairs; give two lists of the "
      .. "same length"):format(#before, #after), 2)
  end
  local gain, n, means = {}, #before, {}
  for i = 1, n do gain[i] = after[i] - before[i] end
  local rng = core.rng(opts.seed, "task", 0, 0, 0)
  for r = 1, opts.resamples do
    local sum = 0.0
    for _ = 1, n do sum = sum + gain[math.floor(rng() * n) + 1] end
    means[r] = sum / n
  end
  local tail = (1 - opts.level) / 2
  table.sort(means)
  return { difference = statistics.mean(gain), low = statistics.quantile(means, tail),
    high = statistics.quantile(means, 1 - tail), n = n }
end

return statistics
