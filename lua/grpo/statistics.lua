-- Means and spreads of plain lists; a nil or absent entry is the caller's business.

local statistics = {}

function statistics.mean(list)
  if #list == 0 then return 0 / 0 end
  local sum = 0.0
  for _, v in ipairs(list) do sum = sum + v end
  return sum / #list
end

-- Unbiased (n - 1); NaN below two values.
function statistics.std(list)
  if #list < 2 then return 0 / 0 end
  local mean, sum = statistics.mean(list), 0.0
  for _, v in ipairs(list) do sum = sum + (v - mean) ^ 2 end
  return math.sqrt(sum / (#list - 1))
end

-- Linear interpolation between order statistics; sorts a copy.
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

return statistics
