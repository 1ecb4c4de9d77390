-- Cases of oracles/rewards/cases.json against the reward here that computes them.

local core = require "grpo.core"
local format = require "rewards.format"
local length = require "rewards.length"
local numeric = require "rewards.numeric"
local repetition = require "rewards.repetition"
local tiny = require "tests.lua.tiny"

local function lengths_of(p, unit)
  p.unit = unit
  return length.cosine(p)
end

-- Name in the oracle -> function(params) -> reward.  Parameters keep their names where ours agree.
local makers = {
  think_format_reward = function() return format.tags { "think", rest = true } end,
  format_reward = function() return format.tags { "think", "answer", newlines = true } end,
  tag_count_reward = function()
    return format.partial { tags = { "think", "answer" }, extra_cost = 0 }
  end,
  reasoning_steps_reward = function() return format.steps {} end,
  code_format_reward = function(p) return format.code { language = p.language } end,
  accuracy_reward = function() return numeric.equal {} end,
  reasoning_accuracy_reward = function() return numeric.equal { after = "</think>" } end,
  cosine_scaled_tokens = function(p) return lengths_of(p, "tokens") end,
  cosine_scaled_chars = function(p) return lengths_of(p, "chars") end,
  len_reward = function() return nil, length.relative { unit = "chars" } end,
  repetition_penalty_tokens = function(p)
    return repetition.ngram { n = p.ngram_size, max_penalty = p.max_penalty }
  end,
  repetition_penalty_words = function(p)
    return repetition.ngram { n = p.ngram_size, max_penalty = p.max_penalty, unit = "words" }
  end,
  soft_overlong_punishment = function(p)
    return length.soft_overlong { limit = p.max_completion_len, cache = p.soft_punish_cache }
  end,
}

local function context(ids)
  if not ids then return nil end
  if ids.length then return { length = ids.length } end
  return { ids = ids, length = #ids }
end

-- The rewards of all completions of a case, in order.
local function values(case)
  local reward, group_reward = makers[case.reward](case.params)
  local inputs = case.inputs
  local texts, golds, ids = inputs.completions or {}, inputs.solution or inputs.ground_truth or {},
    inputs.completion_ids or {}
  if group_reward then return group_reward(texts, { answer = golds[1] }) end
  local list = {}
  for i = 1, #case.expected do
    list[i] = reward(texts[i] or "", { answer = golds[i] }, context(ids[i]))
  end
  return list
end

local function check(case, null)
  if case.error then
    assert.has_error(function() makers[case.reward](case.params) end)
    return
  end
  local got = values(case)
  for i, want in ipairs(case.expected) do
    if want == null then
      assert.is_nil(got[i])
    else
      assert.near(want, got[i], 1e-9)
    end
  end
end

describe("reward oracles", function()
  local cases, why = tiny.reward_oracles(makers) -- extensions compute the others
  if not cases then return pending(why) end
  for _, case in ipairs(cases) do
    it(case.name, function() check(case, core.json_null) end)
  end
  it("are all there", function() assert.equal(52, #cases) end)
end)
