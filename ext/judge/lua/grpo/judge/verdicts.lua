-- From the probabilities of verdicts to a number.

local verdicts = {}

-- The expected grade: the mean of the verdicts' grades, weighted by their probabilities.  logprobs:
-- log-probabilities by verdict; one that is missing is impossible.  With yes = 1 and no = 0 it is
-- P(yes) / (P(yes) + P(no)).  nil: no verdict is possible.
function verdicts.expected(grades, logprobs)
  local largest = -math.huge
  for name in pairs(grades) do largest = math.max(largest, logprobs[name] or -math.huge) end
  if largest == -math.huge then return nil end
  local sum, mass = 0.0, 0.0
  for _, name in ipairs(verdicts.names(grades)) do
    local p = math.exp((logprobs[name] or -math.huge) - largest)
    sum, mass = sum + grades[name] * p, mass + p
  end
  return sum / mass
end

-- The verdicts in a fixed order.
function verdicts.names(grades)
  local names = {}
  for name in pairs(grades) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- The most probable verdict, for people.
function verdicts.likeliest(grades, logprobs)
  local best
  for _, name in ipairs(verdicts.names(grades)) do
    if logprobs[name] and (not best or logprobs[name] > logprobs[best]) then best = name end
  end
  return best
end

return verdicts
