-- A text and a gold answer, separated by a NUL: every ready reward gives a finite number or nil
-- within a reward's limits; equality is reflexive and symmetric.
local answer = require "grpo.answer"
local expect = require "expect"
local format = require "rewards.format"
local gsm8k = require "rewards.gsm8k"
local length = require "rewards.length"
local numeric = require "rewards.numeric"
local repetition = require "rewards.repetition"
local text = require "rewards.text"

local last = gsm8k.with { answer = "last" }

local rewards = {
  numeric.equal, numeric.equal { after = "</think>" }, gsm8k.correct, gsm8k.integer, gsm8k.layout,
  gsm8k.nothing_after, last.correct, last.integer, last.nothing_after, gsm8k.length { max = 10 },
  format.tags { "think", "answer" },
  format.tags { "think", "answer", newlines = true }, format.tags { "think", rest = true },
  format.partial { tags = { "think", "answer" } }, format.xml_count(),
  format.incremental { tags = { "think", "answer" }, repeated = true },
  format.regex("<a>(.*?)</a>", "s"), format.steps(), format.code { language = "lua" },
  length.cosine(), length.soft_overlong { limit = 20, cache = 10 },
  repetition.ngram { unit = "words" },
  text.contains, text.equals, text.similarity, text.equals { ignore_case = true },
}

local function check(i, completion, row)
  local ok, value = expect.within_limits(("reward %d"):format(i), rewards[i], completion, row,
    { length = #completion })
  if not ok then error(value, 0) end
  expect.truth(value == nil or type(value) == "number" and value - value == 0,
    ("reward %d gives %s"):format(i, tostring(value)))
end

local function check_equal(a, b)
  local ok, ab = expect.within_limits("equal", answer.equal, a, b)
  local fine, ba = expect.within_limits("equal", answer.equal, b, a)
  if not ok or not fine then error(ok and ba or ab, 0) end
  expect.equal(ab, ba, "symmetric")
  expect.truth(not a:find("%S") or answer.equal(a, a), "an answer differs from itself")
end

return function(input)
  local completion, gold = expect.parts(input, 2)
  local row = { answer = gold }
  for i in ipairs(rewards) do check(i, completion, row) end
  check_equal(answer.extract(completion) or completion, answer.gold(gold))
  length.relative()({ completion, gold }, row)
end
