-- A text and a gold answer, separated by a NUL: each of verl's scorers gives a finite number within
-- a reward's limits.
local expect = require "expect"
local numeric = require "rewards.numeric"

return function(input)
  local completion, gold = expect.parts(input, 2)
  for _, method in ipairs { "strict", "flexible", "math", "dapo" } do
    local ok, value = expect.within_limits(method, numeric.verl { method = method }, completion,
      { answer = gold })
    if not ok then error(value, 0) end
    expect.truth(type(value) == "number" and value - value == 0,
      ("%s gives %s"):format(method, tostring(value)))
  end
end
