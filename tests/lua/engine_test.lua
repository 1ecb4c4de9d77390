-- The engine's seam: what lua/grpo is composed from.

local core = require "grpo.core"
local option_rows = require "grpo.options.option_rows"
local tiny = require "tests.lua.tiny"

local config = tiny.llama { vocab_size = 258, intermediate_size = 48, num_hidden_layers = 2,
  num_attention_heads = 4, num_key_value_heads = 2, max_position_embeddings = 64,
  initializer_range = 0.2, tie_word_embeddings = true }
local message_of = tiny.message_of

local function make(options)
  local tokenizer = core.tokenizer_bytes()
  local model = assert(core.model_new(config, { seed = 1 }))
  local o = tiny.with({
    model = model, tokenizer = tokenizer, prompts_per_step = 2, group_size = 3,
    max_prompt_tokens = 16, max_new_tokens = 8, optimizer = { beta2 = 0.99 },
    reference = core.model_clone(model),
  }, options)
  return core.engine(o), o.model
end

local function roll_out(engine, more)
  return engine:rollout(tiny.with({ prompts = { { 72, 105 }, { 1, 2, 3 } }, index = { 10, 11 },
    n = 3, seed = 5, step = 1, sampling = { max_new_tokens = 8, temperature = 1.0 } }, more))
end

-- A completion with each of these advantages.
local function with(advantages)
  local completions = {}
  for i, a in ipairs(advantages) do completions[i] = { advantage = a } end
  return completions
end

describe("engine:given", function()
  local prompts = { { 72, 105 }, { 1, 2, 3 } }

  -- Lists what a batch holds of each completion.
  local function contents(batch, n)
    local list = {}
    for i = 1, n do list[i] = { batch:ids(i), batch:logprobs(i), batch:finish(i) } end
    return list
  end

  it("makes of ids the batch that sampled them", function()
    local engine = make {}
    local batch = roll_out(engine)
    local sampled, ids, logprobs, finish = contents(batch, 6), {}, {}, {}
    for i, c in ipairs(sampled) do ids[i], logprobs[i], finish[i] = table.unpack(c) end
    local given = { prompts = prompts, completions = ids, finish = finish, n = 3 }
    assert.same(sampled, contents(engine:given(given), 6))
    assert.same(sampled, contents(engine:given(tiny.with(given, { logprobs = logprobs })), 6))
  end)

  it("takes masks of very many texts", function()
    local n = 4000
    local engine = make { prompts_per_step = n, group_size = 1, max_prompt_tokens = 1,
      max_new_tokens = 1, turns = true }
    local o = { prompts = {}, completions = {}, sampled = {}, logprobs = {}, n = 1 }
    for i = 1, n do
      o.prompts[i], o.completions[i], o.sampled[i], o.logprobs[i] = { 1 }, { 2 }, { i % 2 == 0 },
        { -1.0 }
    end
    local batch = engine:given(o)
    assert.same({ false }, batch:sampled(n - 1))
    assert.same({ true }, batch:sampled(n))
  end)

  it("refuses lists that do not fit", function()
    local engine = make {}
    local given = { prompts = prompts, completions = { { 1 }, { 2 } }, n = 1 }
    engine:given(given)
    for words, wrong in pairs {
      ["given.completions: a list of 2"] = { completions = { { 1 } } },
      ["given: text 2 has 0 tokens"] = { completions = { { 1 }, {} } },
      ["given.logprobs%[1%]: 2 numbers for 1"] = { logprobs = { { 0, 0 }, { 0 } } },
      ["given.finish%[2%]"] = { finish = { "eos", "tired" } },
    } do
      assert.matches(words, message_of(engine.given, engine, tiny.with(given, wrong)))
    end
  end)
end)

describe("the table of options", function()
  it("lists every option once, defaults with their kind", function()
    local seen = {}
    for _, row in ipairs(option_rows.rows) do
      assert.is_nil(seen[row.path])
      seen[row.path] = row
      assert.truthy(row.doc and row.type)
    end
    assert.equal("integer", math.type(seen["sampling.group_size"].default))
    assert.equal(8, seen["sampling.group_size"].default)
    assert.near(1e-6, seen["train.lr"].default, 0)
    assert.equal("grpo", seen["train.loss"].default)
    assert.same({ "bias", "norm" }, seen["train.optimizer.no_decay"].default)
    assert.is_false(seen["data.train"].live)
    assert.is_true(seen["train.lr"].live)
    assert.equal(13, #seen["train.loss"].choices)
  end)

  it("says what a loss's name changes", function()
    local d = option_rows.loss_defaults
    assert.near(0.28, d.dapo["train.clip_high"], 0)
    assert.equal("sequence", d.gspo["train.importance"])
    assert.is_nil(d.grpo)
  end)
end)

describe("core.advantages", function()
  it("takes numbers or rows, with none where a reward does not apply", function()
    local a, info = core.advantages({ 0, 1, 1, 1 }, { group = 2, scale = "none" })
    assert.same({ -0.5, 0.5, 0.0, 0.0 }, a)
    assert.near(0.5, info.frac_zero_std, 0)
    a = core.advantages({ { 1, core.none }, { core.none, core.none }, { 0, 3 } },
      { group = 3, scale = "none", weights = { 1, 2 } })
    assert.same({ -2.5, 0.0, 2.5 }, a)
  end)

  it("names what is wrong", function()
    assert.matches("did you mean 'scale'",
      message_of(core.advantages, { 1, 2 }, { scael = "none" }))
    assert.matches("rewards%[2%]", message_of(core.advantages, { 1, "x" }, {}))
    assert.matches("groups of 2", message_of(core.advantages, { 1, 2, 3 }, { group = 2 }))
    assert.matches("finite", message_of(core.advantages, { 1, 0 / 0 }, {}))
    assert.matches("2 weights for 1", message_of(core.advantages, { 1, 2 }, { weights = { 1, 2 } }))
  end)

  it("come from weighted sums of the rewards that apply, within bounds", function()
    local entries, weights = { { name = "a" }, { name = "b" } }, { 2, 1 }
    local rewards = { a = 1, b = core.none, c = 7 }
    assert.equal(2.0, core.total_reward(rewards, entries, weights))
    assert.equal(1.5, core.total_reward(rewards, entries, weights, { 0, 1.5 }))
    assert.is_nil(core.total_reward({ a = core.none }, entries, weights))
    assert.matches("table expected", message_of(core.total_reward, rewards, 5, weights))
  end)

  it("centres dense rewards at each position", function()
    local c, d = { reward = 1 }, { reward = 0 }
    core.set_advantages({ c, d }, { group = 2, scale = "none" }, { 0, 0 }, { { 1, 0 }, { 0 } })
    assert.is_true(c.advantage[1] > 0 and d.advantage[1] < 0)
    assert.equal(0.0, c.advantage[2])
    core.set_advantages({ c, d }, { group = 2, scale = "none" })
    assert.same({ 0.5, -0.5 }, { c.advantage, d.advantage })
  end)
end)

describe("an engine", function()
  it("rolls out batches that tell what they hold", function()
    local engine = make()
    local batch = roll_out(engine)
    assert.equal(6, #batch)
    for i = 1, #batch do
      assert.equal(batch:length(i), #batch:ids(i))
      assert.equal(batch:length(i), #batch:logprobs(i))
      assert.equal("string", type(batch:text(i)))
      assert.is_true(batch:finish(i) == "length" or batch:length(i) < 8)
      assert.is_true(batch:logprobs(i)[1] < 0 and batch:entropies(i)[1] > 0)
    end
    assert.same({ 72, 105 }, batch:prompt(3))
    assert.same({ 1, 2, 3 }, batch:prompt(4))
    local before = batch:ids(1)
    local again = roll_out(engine)
    assert.same(before, again:ids(1))
    assert.matches("rolled out again", message_of(batch.ids, batch, 1))
    assert.matches("out of range", message_of(again.ids, again, 7))
  end)

  it("keeps an evaluation apart from a step's batch", function()
    local engine = make()
    local batch = roll_out(engine)
    local first = batch:ids(2)
    local eval = roll_out(engine,
      { stream = "eval", n = 1, sampling = { temperature = 0, max_new_tokens = 4 } })
    assert.equal(2, #eval)
    assert.same(first, batch:ids(2))
    assert.is_true(engine:eval_capacity() > 0)
  end)

  it("replaces groups", function()
    local engine = make()
    local batch = roll_out(engine)
    local kept, gone = batch:ids(1), batch:ids(4)
    engine:replace(batch, { 2 }, { { 9, 9 } }, { index = { 77 }, n = 3, seed = 5, step = 1 })
    assert.same(kept, batch:ids(1))
    assert.same({ 9, 9 }, batch:prompt(4))
    assert.is_false(table.concat(gone, " ") == table.concat(batch:ids(4), " "))
  end)

  it("takes a step and reports it by TRL's names", function()
    local engine = make()
    local batch = roll_out(engine)
    engine:reference(batch)
    local m = engine:update(batch, with { 1, 0, -1, 1, -1, 0 }, { kl = 0.1, lr = 1e-3 })
    assert.equal(0.0, m.ratio_max_deviation)
    assert.near(0, m.kl, 1e-6)
    assert.is_true(m.grad_norm > 0 and m.entropy > 0)
    assert.equal(0.1, m.beta)
    for _, name in ipairs { "loss", "clip_ratio/low_mean", "completions/mean_length", "num_tokens",
      "time/train" } do
      assert.equal("number", type(m[name]))
    end
  end)

  it("runs a loss written in Lua like the built-in one", function()
    local advantages, losses, norms = { 1, 0, -1, 1, -1, 0.5 }, {}, {}
    local function own(t)
      assert.equal(t.num_tokens, t.normalizer)
      assert.equal("answer", t.p.question)
      return -(t.logp * t.advantage * t.mask):sum() / t.normalizer
    end
    for i, loss in ipairs { "reinforce", own } do
      local engine = make()
      local m = engine:update(roll_out(engine), with(advantages), { loss = loss, lr = 1e-3,
        p = { question = "answer" } })
      losses[i], norms[i] = m.loss, m.grad_norm
    end
    assert.near(losses[1], losses[2], 1e-6)
    assert.near(norms[1], norms[2], 1e-5 * norms[1])
  end)

  it("makes the tensors of a loss stale after the step", function()
    local engine = make()
    local kept
    engine:update(roll_out(engine), with { 1, 0, -1, 1, -1, 0 }, { loss = function(t)
      kept = t.logp
      return (t.logp * t.advantage):sum() / t.normalizer
    end })
    assert.matches("detach", message_of(function() return kept:totable() end))
  end)

  it("passes on what a loss raises, and refuses what it cannot use", function()
    local engine = make()
    local batch = roll_out(engine)
    local function update(loss)
      return message_of(engine.update, engine, batch, with { 1, 0, -1, 1, -1, 0 }, { loss = loss })
    end
    assert.matches("my own words", update(function() error("my own words") end))
    assert.matches("must return a tensor", update(function() return 3 end))
    assert.matches("does not depend", update(function(t) return t.advantage:sum() end))
    assert.matches("one number", update(function(t) return t.logp end))
    assert.matches("train.loss: 'grop' is not known, did you mean 'grpo'", update("grop"))
  end)

  it("names what is wrong with an update", function()
    local engine = make()
    local batch = roll_out(engine)
    local function update(o, advantages)
      return message_of(engine.update, engine, batch, with(advantages or { 1, 0, -1, 1, -1, 0 }), o)
    end
    assert.matches("each of 6 completions", update({}, { 1 }))
    assert.matches("advantage%[1%]: 2 numbers for %d tokens",
      update({}, { { 1, 2 }, 0, -1, 1, -1, 0 }))
    assert.matches("reference", update { kl = 0.1 })
    assert.matches("did you mean 'clip'", update { clpi = 0.1 })
    assert.matches("vocabulary",
      message_of(core.engine, { model = core.model_new(config, {}),
        reference = core.model_new(tiny.with(config, { vocab_size = 300 }), {}),
        max_prompt_tokens = 16, max_new_tokens = 8 }))
  end)

  it("learns demonstrations and measures them", function()
    local engine = make()
    local rows = { { prompt = { 1, 2, 3 }, target = { 4, 5, 6 } },
      { prompt = { 9 }, target = { 8, 7 } } }
    local before, tokens = engine:nll(rows)
    assert.equal(5, tokens)
    local m = engine:sft(rows, { lr = 1e-2, max_grad_norm = 1 })
    assert.near(before, m.loss, 1e-9)
    for _ = 1, 10 do engine:sft(rows, { lr = 1e-2, max_grad_norm = 1 }) end
    assert.is_true(engine:nll(rows) < 0.5 * before)
  end)

  it("estimates its memory, and can be closed", function()
    local engine = make()
    local e = engine:estimate()
    assert.is_true(e.total > e.weights and e.activations > 0)
    engine:close()
    assert.matches("closed", message_of(engine.estimate, engine))
  end)
end)
