-- Functions that make a reward from options are not taken for rewards.

local grpo = require "grpo"
local reward_factory = require "grpo.options.reward_factory"
local tiny = require "tests.lua.tiny"

-- Every function of the ready rewards, and whether it makes a reward.
local makers = {
  ["dense.match"] = true, ["dense.logprob"] = true, ["format.tags"] = true,
  ["format.partial"] = true, ["format.xml_count"] = true, ["format.incremental"] = true,
  ["format.regex"] = true, ["format.steps"] = true, ["format.code"] = true, ["gsm8k.length"] = true,
  ["length.cosine"] = true, ["length.soft_overlong"] = true, ["length.relative"] = true,
  ["repetition.ngram"] = true, ["dense.share"] = false, ["gsm8k.correct"] = false,
  ["gsm8k.integer"] = false, ["gsm8k.layout"] = false, ["gsm8k.nothing_after"] = false,
  ["length.measure"] = false, ["numeric.equal"] = false, ["text.contains"] = false,
  ["text.equals"] = false, ["text.similarity"] = false,
}

local function named(name)
  local module, field = name:match("^(.*)%.(.*)$")
  return require("rewards." .. module)[field]
end

local experiment = tiny.experiments(function()
  return {
    model = { config = tiny.llama(), tokenizer = grpo.tokenizer.chars("ab ") },
    data = { train = grpo.data.list { { prompt = "ab" } }, max_prompt_tokens = 8 },
    sampling = { group_size = 2, max_new_tokens = 4 }, train = { steps = 1, prompts_per_step = 1 },
  }
end)

describe("a function that makes a reward", function()
  for name, makes in require("grpo.base.sorted")(makers) do
    it(("is known: %s: %s"):format(name, makes), function()
      local made = reward_factory.of(named(name))
      assert.equal(makes, made ~= nil)
      if makes then assert.equal(name, made.name) end
    end)
  end

  it("is refused where a reward is wanted, with how it is written", function()
    local function refused(pattern, rewards, metric)
      tiny.refused(pattern, experiment, function(t)
        t.rewards, t.eval = rewards, { metric = metric }
      end)
    end
    refused("rewards%.reward1: length%.soft_overlong makes a reward from its options, and is not "
      .. "one itself; write length%.soft_overlong { %.%.%. }, with some of limit, cache",
      { named "length.soft_overlong" })
    refused("rewards%.short: length%.relative .*write { group_fn = length%.relative { %.%.%. } }",
      { short = { group_fn = named "length.relative" } })
    refused("rewards%.near: dense%.match .*write { token_fn = dense%.match { %.%.%. } }, with some "
      .. "of mode", { near = { token_fn = named "dense.match" } })
    refused("rewards%.shape: format%.regex .*write format%.regex%(pattern, flags%)",
      { shape = named "format.regex" })
    refused("eval%.metric: length%.cosine makes a reward", { as = tiny.count_a },
      named "length.cosine")
  end)

  it("may be one of a script, if its annotation says so", function()
    ---@param options { most: integer }
    ---@return fun(text: string): number
    local function within(options)
      return function(text) return #text <= options.most and 1 or 0 end
    end
    assert.matches("^within makes a reward .*write within { %.%.%. }, with some of most",
      reward_factory.problem(within))
    assert.is_nil(reward_factory.problem(within { most = 3 }))
    assert.is_nil(reward_factory.problem(print))
    assert.is_nil(reward_factory.problem(load "return 1"))
  end)
end)

describe("grpo.reward_model", function()
  it("names itself where it gets no path", function()
    tiny.refused("reward_model: path: got a number, want the directory of a model",
      grpo.reward_model, 3)
  end)
end)
