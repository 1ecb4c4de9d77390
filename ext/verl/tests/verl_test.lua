-- Every text of ext/verl/tests/cases/scores.jsonl, which ext/verl/tests/verl_scores.py wrote,
-- against the scorers here: the value and what was extracted are verl's.  Then the reward that
-- calls them, and the oracles of rewards that have other requirements.

local grpo = require "grpo"
local reward_factory = require "grpo.options.reward_factory"
local verl = require "grpo.verl"
local numeric = require "rewards.numeric"
local tiny = require "tests.lua.tiny"

-- Returns the answer that verl extracts, or nil.  Where there is none, verl's DAPO scorer gives a
-- word.
local function extracted_of(case, null)
  local extracted = case[5]
  if extracted == null or case[1] == "dapo" and extracted == "[INVALID]" then return nil end
  return extracted
end

describe("verl's scorers", function()
  local by_method = {}
  for line in io.lines("ext/verl/tests/cases/scores.jsonl") do
    local case = grpo.json.decode(line)
    by_method[case[1]] = by_method[case[1]] or {}
    table.insert(by_method[case[1]], case)
  end
  for _, method in ipairs { "math", "dapo", "strict", "flexible" } do
    it(("%s: %d texts as verl scores them"):format(method, #by_method[method]), function()
      for _, case in ipairs(by_method[method]) do
        local _, text, gold, score = table.unpack(case)
        local got, extracted = verl[method](text, gold)
        local where = ("%q against %q"):format(text, gold)
        assert.equal(score, got, where)
        assert.equal(extracted_of(case, grpo.json.null), extracted, where)
      end
    end)
  end
end)

describe("numeric.verl", function()
  it("compares text, as verl does", function()
    assert.equal(0, (numeric.verl { method = "strict" }("#### 12.0", { answer = "12" })))
    assert.equal(1, (numeric.verl { method = "strict" }("#### 12", { answer = "so\n#### 12" })))
    assert.equal(1, (numeric.verl { method = "flexible" }("it is 12", { answer = "12" })))
    assert.equal(0, (numeric.verl { method = "math" }("\\boxed{1,000}", { answer = "1000" })))
    assert.equal(-1, (numeric.verl { method = "dapo" }("42", { answer = "42" })))
    assert.equal(1, (numeric.verl { method = "strict" }("#### 1,234", { answer = "#### 1,234" })))
    assert.equal(0, (numeric.verl { method = "math" }("\\fbox{7}", { answer = "7" })))
    assert.equal(1, (numeric.verl { method = "math" }("$\\boxed 8$", { answer = "8" })))
  end)

  it("knows four methods", function()
    assert.error_matches(function()
      numeric.verl { method = "lenient" }
    end, "must be one of strict, flexible")
    assert.error_matches(function() numeric.verl {} end, "method: is required")
  end)

  it("is refused where a reward is wanted, with how it is written", function()
    assert.equal("numeric.verl", reward_factory.of(numeric.verl).name)
    assert.matches("^numeric%.verl makes a reward from its options",
      reward_factory.problem(numeric.verl))
  end)
end)

-- Name in oracles/rewards/cases.json -> the method that computes it.
local methods = {
  gsm8k = function(params) return params.method end,
  math_string_equivalence = function() return "math" end,
  math_answer_line = function() return "dapo" end,
}

-- One case of the oracle: every value, and what was extracted where the oracle has it in one form.
local function check(case)
  local reward = numeric.verl { method = methods[case.reward](case.params) }
  local golds = case.inputs.solution or case.inputs.ground_truth
  for i, want in ipairs(case.expected) do
    local got, extra = reward(case.inputs.completions[i], { answer = golds[i] })
    assert.near(want, got, 1e-9)
    local extracted = case.reward == "gsm8k" and case.extracted[i]
    if extracted then
      if extracted == grpo.json.null then extracted = nil end
      assert.equal(extracted, extra and extra.extracted)
    end
  end
end

describe("numeric.verl, against reward oracles,", function()
  local cases, why = tiny.reward_oracles(methods)
  if not cases then return pending(why) end
  for _, case in ipairs(cases) do
    it(case.name, function() check(case) end)
  end
  it("are all there", function() assert.equal(53, #cases) end)
end)
