-- Any reply of a judge: a score within the grades, an answer, or one problem; and a row that a run
-- can keep and read again.
local core = require "grpo.core"
local expect = require "expect"
local replies = require "grpo.judge.replies"
local verdicts = require "grpo.judge.verdicts"

local grades = { yes = 1, no = 0, ["5"] = 0.5 }

local function keepable(row)
  local again = core.json_decode(core.json_encode(row))
  for name, value in pairs(row) do
    expect.truth(again[name] == value or type(value) == "string", "a row that reads otherwise")
  end
end

local function check(result, problem)
  if not result then
    expect.truth(type(problem) == "string" and #problem < 400, "no problem, or a long one")
    return keepable { problem = problem }
  end
  if result.logprobs then
    local score = verdicts.expected(grades, result.logprobs)
    expect.truth(score == nil or score >= 0 and score <= 1, "a score beyond the grades")
    return keepable { score = score, answer = result.answer }
  end
  local score = result.score
  expect.truth(score == nil or score == core.none or math.abs(score) <= core.largest_reward,
    "a score that can be no reward")
  keepable { score = score ~= core.none and score or nil, answer = result.answer }
end

return function(input)
  check(replies.of_server(grades, input))
  check(replies.of_server(nil, input))
  local reply = replies.line(input)
  if reply then check(replies.of_program(reply)) end
end
