-- The share of the answer's characters that stand in their place.
local reward = {}

function reward.close(text, row)
  local right = 0
  for i = 1, #row.answer do
    if text:sub(i, i) == row.answer:sub(i, i) then right = right + 1 end
  end
  return right / #row.answer
end

return reward
