-- The share of the answer's characters that stand in their place; text after the answer costs.
local reward = {}

function reward.close(text, row)
  local right = 0
  for i = 1, #row.answer do
    if text:sub(i, i) == row.answer:sub(i, i) then right = right + 1 end
  end
  return right / #row.answer - 0.1 * math.max(0, #text - #row.answer)
end

return reward
