-- Smoothing of curves by an exponential moving average.

local smooth = {}

-- Returns the averages of the points { { x, y, ... }, ... } as { { x, average }, ... }.  weight: of
-- what came before, 0 to below 1.  The average is corrected for its beginning, so that it begins at
-- the first value and not near zero.
function smooth.points(points, weight)
  local list, sum, total = {}, 0.0, 0.0
  for i, p in ipairs(points) do
    sum, total = weight * sum + (1 - weight) * p[2], weight * total + (1 - weight)
    list[i] = { p[1], sum / total }
  end
  return list
end

return smooth
