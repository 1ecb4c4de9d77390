-- Sampling bound to a grammar or a regular expression: what is sampled keeps to it, and training
-- knows its probabilities.

local grpo = require "grpo"
local tiny = require "tests.lua.tiny"

local config = tiny.llama { vocab_size = 258, num_hidden_layers = 2, num_attention_heads = 4,
  num_key_value_heads = 2, max_position_embeddings = 96, initializer_range = 0.2,
  eos_token_id = 256 }
local model = grpo.model.new(config, { seed = 1, tokenizer = grpo.tokenizer.bytes() })

local list = 'root ::= "[" ( item ("," item)* )? "]"\nitem ::= [1-9] [0-9]{0,2} | root\n'

describe("a completion", function()
  it("keeps to a regular expression, and is cut or complete", function()
    for _, case in ipairs { { "[ab]{2,5}c?", 12 }, { "(\\d+,)*\\d", 20 },
      { "\\xe9|\\x{20ac}{3}", 12 }, { "x", 2 } } do
      local re = grpo.regex("^(?:" .. case[1] .. ")$")
      local complete = 0
      for _, s in ipairs(model:generate("q", { n = 32, max_new_tokens = case[2], regex = case[1],
        seed = 3 })) do
        if s.finish == "eos" then
          assert.is_true(re:test(s.text), s.text)
          complete = complete + 1
        end
      end
      assert.is_true(complete > 0, case[1])
    end
  end)

  it("keeps to a grammar, at temperature 0 too", function()
    for _, temperature in ipairs { 0, 1, 3 } do
      for _, s in ipairs(model:generate("q", { n = 8, max_new_tokens = 60, grammar = list,
        temperature = temperature })) do
        local ok, value = pcall(grpo.json.decode, s.text)
        assert.is_true(s.finish == "length" or ok and type(value) == "table")
        assert.matches("^%[[%d,%[%]]*$", s.text)
      end
    end
  end)

  it("has the probabilities of the tokens that may follow", function()
    local ids, masks, logprobs = {}, {}, {}
    for i, s in ipairs(model:generate("q", { n = 6, max_new_tokens = 10, grammar = list,
      sampling_mask = true, temperature = 0.7 })) do
      ids[i], masks[i] = s.ids, s.sampling_mask
      table.move(s.logprobs, 1, #s.logprobs, #logprobs + 1, logprobs)
      assert.equal(0.0, s.logprobs[1]) -- "[" alone may be first
    end
    local prompts = {}
    for i = 1, 6 do prompts[i] = "q" end
    local scores = model:score(prompts, ids, { temperature = 0.7, sampling_masks = masks })
    assert.same(logprobs, scores.logp:totable())
    assert.is_true(scores.entropy:max():item() < math.log(13) + 1e-4) -- ten digits, "[", ",", "]"
  end)

  it("is the same whatever else is sampled beside it", function()
    local o = { n = 4, max_new_tokens = 30, grammar = list, seed = 5 }
    local alone, all = model:generate("q", o), model:generate({ "r", "q", "s" }, o)
    for i = 1, 4 do
      if alone[i].text ~= all[i + 4].text then return end -- prompts have numbers of their own
    end
    assert.same(model:generate("q", o), alone)
  end)
end)

local experiment = tiny.experiments(function()
  return {
    name = "tiny", seed = 3, model = { config = config, tokenizer = grpo.tokenizer.bytes() },
    data = { train = grpo.data.generate(function() return { prompt = "ab" } end, { n = 8 }),
      max_prompt_tokens = 4 },
    sampling = { group_size = 4, max_new_tokens = 12, regex = "[ab ]{2,8}[.!]" },
    rewards = { { name = "as", fn = tiny.count_a } },
    train = { steps = 3, prompts_per_step = 2, lr = 1e-2, iterations = 2, kl = 0.1 },
  }
end)

local function run(change) return tiny.steps(grpo.trainer(experiment(change))) end

describe("training with a grammar", function()
  it("has a ratio of 1, and keeps to it while the policy moves", function()
    local tr, steps = run(function(t) t.train.steps = 6 end)
    for _, m in ipairs(steps) do
      assert.equal(0, m.ratio_max_deviation)
      assert.is_true(m.kl == m.kl and m.grad_norm > 0)
    end
    for _, c in ipairs(tr.batch.completions) do
      assert.matches(c.finish == "eos" and "^[ab ]+[.!]$" or "^[ab ]*$", c.text)
    end
  end)

  it("gives the same weights for any threads, micro-batches and ways to compute", function()
    local want = tiny.weights((run()))
    for _, change in ipairs { function(t) t.train.micro_batch_tokens = 1000 end,
      function(t) t.train.reuse_rollout = false end } do
      assert.equal(want, tiny.weights((run(change))))
    end
    assert.is_true(want ~= tiny.weights((run(function(t) t.sampling.renormalize = false end))))
    assert.is_true(want ~= tiny.weights((run(function(t) t.sampling.regex = nil end))))
  end)

  it("holds for each turn", function()
    local tr = run(function(t)
      t.sampling.regex, t.sampling.max_new_tokens, t.rewards = "a?b\\.", 40, nil
      t.sampling.stop, t.turns = { "." }, { max = 3 }
      t.environment = function()
        for _ = 1, 2 do coroutine.yield("zz") end
        return 1
      end
    end)
    local seen = 0
    for _, c in ipairs(tr.batch.completions) do
      for _, part in ipairs(c.parts) do
        if part.role == "assistant" then
          assert.matches("^a?b%.$", part.text)
          seen = seen + 1
        end
      end
    end
    assert.is_true(seen > 8)
  end)
end)

describe("a grammar is refused in a line", function()
  local function refused(pattern, sampling)
    tiny.refused(pattern, run, function(t)
      t.sampling.regex = nil
      for name, value in pairs(sampling) do t.sampling[name] = value end
    end)
  end

  it("that is wrong, or not regular", function()
    refused("sampling.grammar: line 1: there is no rule a", { grammar = "root ::= a" })
    refused("sampling.grammar: the rule root is left%-recursive",
      { grammar = 'root ::= root "a" | "b"' })
    refused("sampling.regex: at byte 3: ", { regex = "a(" })
    refused("give grammar or regex, not both", { regex = "a", grammar = 'root ::= "a"' })
    refused("sampling.regex", { regex = 1 })
  end)

  it("that no token can follow", function()
    local message = "sampling.regex: no token of the vocabulary can begin a text of it"
    tiny.refused(message, run, function(t)
      t.model.tokenizer, t.model.config = grpo.tokenizer.chars("abc"), tiny.llama()
      t.sampling.regex = "[xyz]+"
    end)
  end)
end)
