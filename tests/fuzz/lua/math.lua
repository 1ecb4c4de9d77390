-- Two answers, separated by a NUL: they are compared within a reward's limits, with one result in
-- both orders; each equals itself, whatever stands around it.
local answer = require "grpo.answer"
local expect = require "expect"

local function equal(a, b)
  local ok, same = expect.within_limits("equal", answer.equal, a, b)
  if not ok then error(same, 0) end
  return same
end

return function(input)
  local a, b = expect.parts(input, 2)
  local same = equal(a, b)
  expect.equal(same, equal(b, a), "symmetric")
  expect.truth(not a:find("%S") or equal(a, a), "an answer differs from itself")
  if a:find("%S") and answer.is_readable(a) and #a < 900 then
    expect.truth(equal(a, " " .. a .. " "), "spaces around an answer change it")
  end
  local ok, verdict = expect.within_limits("verdict", answer.verdict, a, b)
  if not ok then error(verdict, 0) end
  expect.truth(verdict ~= 1 or same, "a verdict of answers that differ")
end
