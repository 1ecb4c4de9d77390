-- Sampling masks in Lua: m:generate and m:score, tr:inspect, and what `grpo check` says.

local grpo = require "grpo"
local tiny = require "tests.lua.tiny"
local truncated = require "grpo.options.truncated"

local config = tiny.llama { vocab_size = 258, num_hidden_layers = 2, num_attention_heads = 4,
  num_key_value_heads = 2, max_position_embeddings = 96, initializer_range = 0.2,
  eos_token_id = 256 }
local model = grpo.model.new(config, { seed = 1, tokenizer = grpo.tokenizer.bytes() })
local prompts = { { 65, 66, 67 }, { 70 }, { 65, 66, 67 } }

-- Samples with these options and scores what came out.
local function sampled_and_scored(options)
  options.n, options.max_new_tokens, options.sampling_mask = 2, 6, true
  local p, ids, masks, logprobs = {}, {}, {}, {}
  for i, s in ipairs(model:generate(prompts, options)) do
    p[i], ids[i], masks[i] = prompts[s.prompt], s.ids, s.sampling_mask or false
    table.move(s.logprobs, 1, #s.logprobs, #logprobs + 1, logprobs)
  end
  local scores = model:score(p, ids,
    { temperature = options.temperature, sampling_masks = masks, grad = true })
  return logprobs, scores, masks, p, ids
end

describe("a sampling mask", function()
  it("gives scores the bits of sampling", function()
    for _, options in ipairs { { top_k = 3 }, { top_p = 0.6, temperature = 0.5 },
        { min_p = 0.1 }, { top_p = 0.9, top_k = 100 }, {} } do
      local logprobs, scores = sampled_and_scored(options)
      assert.same(logprobs, scores.logp:totable())
    end
  end)

  it("makes log-probabilities larger, those of one token 0", function()
    local logprobs, _, _, p, ids = sampled_and_scored { top_k = 1 }
    for _, logp in ipairs(logprobs) do assert.equal(0.0, logp) end
    for _, logp in ipairs(model:score(p, ids).logp:totable()) do assert.is_true(logp < 0) end
  end)

  it("lets the gradient reach the parameters", function()
    local _, scores = sampled_and_scored { top_k = 3 }
    scores.logp:sum():backward()
    model:zero_grad()
  end)

  it("is left out where nothing is filtered", function()
    local _, _, masks = sampled_and_scored {}
    assert.same({ false, false, false, false, false, false }, masks)
    local plain = model:generate(prompts, { top_k = 3, max_new_tokens = 6 })
    assert.is_nil(plain[1].sampling_mask)
  end)

  it("of something else is refused", function()
    local _, _, masks, p, ids = sampled_and_scored { top_k = 3 }
    local function refused(mask, message)
      local list = { table.unpack(masks) }
      list[2] = mask
      assert.error_matches(function() model:score(p, ids, { sampling_masks = list }) end, message)
    end
    refused("", "item 2 is not what sampling gave")
    refused(masks[2] .. "\0\0\0\0", "item 2 has more tokens than its completion")
    refused(masks[2] .. "x", "item 2 has more tokens")
    refused(masks[2]:sub(1, -5), "item 2 is not what sampling gave")
    refused(("\255"):rep(#masks[2]), "item 2 is not what sampling gave")
    refused(("\1\0\0\0\0\0\0\0"):rep(#ids[2]), "target %d+ is not among the tokens")
    refused({}, "item 2 is a table, want a string or false")
    assert.error_matches(function() model:score(p, ids, { sampling_masks = 1 }) end,
      "want a list of strings")
  end)
end)

describe("what grpo check says of truncated sampling", function()
  local function notes(sampling, reference)
    setmetatable(sampling, { __index = { temperature = 1.0, top_p = 1.0, top_k = 0, min_p = 0.0,
      repetition_penalty = 1.0, renormalize = true } })
    return truncated.notes({ sampling = sampling, reference = reference }, 3 << 19)
  end

  it("names the filters, the reference and the memory", function()
    local list = notes({ top_p = 0.9, min_p = 0.05 }, "initial")
    assert.equal(2, #list)
    assert.matches("filters %(top_p = 0.9, min_p = 0.05%).*at most 2 MiB, which sampling.top_k",
      list[1])
    assert.matches("reference is not filtered", list[2])
    assert.matches("at most 2 MiB$", notes({ top_k = 5 }, false)[1])
  end)

  it("says that a repetition penalty is not trained on", function()
    local list = notes({ repetition_penalty = 1.2 }, false)
    assert.equal(1, #list)
    assert.matches("no log%-probability that a step trains on", list[1])
  end)

  it("says that log-probabilities over all tokens are not those of what is sampled", function()
    local list = notes({ top_p = 0.9, renormalize = false }, "initial")
    assert.equal(1, #list)
    assert.matches("renormalize is false.*over all tokens, as TRL does", list[1])
  end)

  it("is nothing without filters and when nothing is sampled", function()
    assert.same({}, notes({}, "initial"))
    assert.same({}, notes({ temperature = 0, top_p = 0.9, repetition_penalty = 2.0 }, "initial"))
  end)
end)

local _, run = tiny.experiments(function()
  return {
    seed = 3,
    model = { config = tiny.llama { initializer_range = 0.3 },
      tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = { train = grpo.data.list { { prompt = "ab" } }, max_prompt_tokens = 4 },
    sampling = { group_size = 4, max_new_tokens = 6, renormalize = false },
    rewards = { as = tiny.count_a },
    train = { steps = 2, prompts_per_step = 2, lr = 1e-2 },
  }
end)

describe("sampling.renormalize = false", function()
  it("trains log-probabilities over all tokens, with a ratio of 1", function()
    local _, list = run(function(t)
      t.sampling.top_k = 2
      t.hooks = { on_rollout = function(batch, tr)
        for _, c in ipairs(batch.completions) do
          assert.same(tr.model:score({ c.prompt }, { c.ids }).logp:totable(), c.logprobs)
        end
      end }
    end)
    for _, m in ipairs(list) do assert.equal(0, m.ratio_max_deviation) end
  end)

  it("changes nothing where nothing is filtered", function()
    assert.same(tiny.weights((run())),
      tiny.weights((run(function(t) t.sampling.renormalize = true end))))
  end)
end)

describe("a vocabulary that is padded", function()
  local chars = grpo.tokenizer.chars("abcdefgh ")
  local _, train = tiny.experiments(function()
    return {
      name = "padded", seed = 1,
      model = { config = tiny.llama { vocab_size = 64, hidden_size = 16, intermediate_size = 32 },
        tokenizer = chars },
      data = { train = grpo.data.list { { prompt = "abc" } }, max_prompt_tokens = 4 },
      sampling = { group_size = 8, max_new_tokens = 12 },
      rewards = { as = tiny.count_a },
      train = { steps = 2, prompts_per_step = 2, lr = 1e-2, iterations = 2 },
    }
  end)

  -- The number of sampled ids; fails where one has no token.
  local function sampled(completions)
    local count = 0
    for _, c in ipairs(completions) do
      for _, id in ipairs(c.ids) do
        assert.is_true(id < #chars)
        count = count + 1
      end
    end
    return count
  end

  it("has ids without a token, which no run samples", function()
    for _, change in ipairs {
      function() end,
      function(t) t.sampling.top_k = 30 end,
      function(t) t.sampling.top_p = 0.9 end,
      function(t) t.sampling.repetition_penalty = 1.1 end,
      function(t)
        t.stages, t.train.iterations = { { kind = "ppo" } }, nil
      end,
    } do
      local count = 0
      local _, list = train(function(t)
        change(t)
        t.hooks = { on_rollout = function(batch) count = count + sampled(batch.completions) end }
        t.data.eval, t.eval = t.data.train, { group_size = 4 }
        t.hooks.on_eval = function(report) sampled(report.samples) end
      end)
      assert.is_true(count > 50)
      for _, m in ipairs(list) do assert.equal(0, m.ratio_max_deviation) end
    end
  end)

  it("is sampled with the probabilities that the tokens have among each other", function()
    local padded = grpo.model.new(tiny.llama { vocab_size = 64, initializer_range = 0.3 },
      { seed = 3, tokenizer = chars })
    local counts, n = {}, 4000
    local prompt = chars:encode("a")
    for _, s in ipairs(padded:generate({ prompt }, { n = n, max_new_tokens = 1, seed = 5 })) do
      counts[s.ids[1]] = (counts[s.ids[1]] or 0) + 1
    end
    local texts, completions, mass = {}, {}, 0
    for id = 0, #chars - 1 do texts[id + 1], completions[id + 1] = prompt, { id } end
    local p = padded:score(texts, completions).logp:exp():totable()
    for _, x in ipairs(p) do mass = mass + x end
    for id = 0, #chars - 1 do assert.near(p[id + 1] / mass, (counts[id] or 0) / n, 0.03) end
    local greedy = padded:generate({ prompt }, { max_new_tokens = 8, temperature = 0 })
    sampled(greedy)
  end)
end)
