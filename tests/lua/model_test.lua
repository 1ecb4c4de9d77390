local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local config = tiny.llama { vocab_size = 258, num_hidden_layers = 2, num_attention_heads = 4,
  num_key_value_heads = 2, max_position_embeddings = 96, tie_word_embeddings = false,
  rms_norm_eps = 1e-5, initializer_range = 0.2, eos_token_id = 256 }

local function new(seed)
  return grpo.model.new(config, { seed = seed or 1, tokenizer = grpo.tokenizer.bytes() })
end

local prompts = { { 65, 66, 67 }, { 65, 66, 67 }, { 70 }, { 65, 66, 67 } }
local completions = { { 1, 2, 3 }, { 4, 5 }, { 6, 7, 8, 9 }, { 10 } }

describe("a model", function()
  local m = new()
  it("shows its shape and its tokenizer", function()
    assert.equal(32, m.config.hidden_size)
    assert.equal("llama", m.config.model_type)
    local n = 0
    for _ in pairs(m.config) do n = n + 1 end
    assert.is_true(n > 8)
    assert.error_matches(function() m.config.hidden_size = 1 end, "cannot be changed")
    assert.equal(258, #m.tokenizer)
    assert.matches("^grpo.Model: llama, .* parameters, 2 layers", tostring(m))
    assert.equal(m:count(), m:count { trainable = true })
    assert.equal(m:count(), grpo.model.new(m.config):count())
  end)

  it("prints its weights as a tree in which layers stand once", function()
    local text = tostring(m)
    for _, line in ipairs { "  model", "    embed_tokens.weight [258, 32]", "    layers (2)",
        "      self_attn", "        q_proj.weight [32, 32]", "    norm.weight [32]" } do
      assert.is_true(text:find("\n" .. line .. "\n", 1, true) ~= nil, line)
    end
    assert.equal(1, select(2, text:gsub("q_proj", "")))
  end)

  it("has a row for each of its tokenizer's tokens, where its config does not say how many",
    function()
    local own = grpo.tokenizer.chars("ab")
    local bare = { model_type = "gpt2", n_embd = 8, n_layer = 1, n_head = 1, n_positions = 16 }
    assert.equal(#own, grpo.model.new(bare, { tokenizer = own }).config.vocab_size)
    assert.is_nil(bare.vocab_size)
    assert.equal(50257, grpo.model.new(bare).config.vocab_size)
    bare.vocab_size = 9
    assert.equal(9, grpo.model.new(bare, { tokenizer = own }).config.vocab_size)
  end)

  it("has its tokenizer's begin and end tokens, where its config does not say which", function()
    local own = grpo.tokenizer.train({ "ab ba" }, { special_tokens = { "<s>", "</s>" },
      bos = "<s>", eos = "</s>" })
    local bare = { model_type = "gpt2", n_embd = 8, n_layer = 1, n_head = 1, n_positions = 16 }
    local dir = tiny.path()
    grpo.model.new(bare, { tokenizer = own }):save(dir)
    own:save(dir .. "/tokenizer")
    for _, file in ipairs { "/config.json", "/generation_config.json" } do
      local written = grpo.json.decode(core.fs.read(dir .. file))
      assert.equal(own.bos, written.bos_token_id)
      assert.equal(own.eos, written.eos_token_id)
    end
    local named = grpo.model.new(bare, { tokenizer = dir .. "/tokenizer" })
    assert.same({ #own, own.bos, own.eos },
      { named.config.vocab_size, named.config.bos_token_id, named.config.eos_token_id })
    bare.bos_token_id, bare.eos_token_id = 0, { 1, 2 }
    local given = grpo.model.new(bare, { tokenizer = own }).config
    assert.same({ 0, 1, 2 }, { given.bos_token_id, table.unpack(given.eos_token_id) })
    bare.bos_token_id, bare.eos_token_id = grpo.json.null, grpo.json.null
    given = grpo.model.new(bare, { tokenizer = own }).config
    assert.is_true(given.bos_token_id == grpo.json.null or given.bos_token_id == nil)
    assert.is_true(given.eos_token_id == grpo.json.null or given.eos_token_id == nil)
    core.fs.remove_tree(dir)
  end)

  it("names its parameters", function()
    local count, names = 0, {}
    for name, tensor, trainable in m:parameters() do
      local n = 1
      for _, d in ipairs(tensor.shape) do n = n * d end
      count = count + n
      names[name] = true
      assert.is_true(trainable)
    end
    assert.equal(m:count(), count)
    assert.is_true(names["model.layers.1.self_attn.q_proj.weight"])
  end)
  it("gives logits and log-probabilities", function()
    local ids = { 65, 66, 67, 68 }
    local logits = m:logits(ids)
    assert.same({ 4, 258 }, logits.shape)
    local lp = m:logprobs(ids)
    assert.same({ 3 }, lp.shape)
    local want = logits:log_softmax(2):narrow(1, 1, 3):gather(2, { 66, 67, 68 })
    assert.near(0, (want - lp):abs():max():item(), 1e-5)
    assert.same(m:logits("ABCD"):totable(), logits:totable())
  end)
  it("scores completions, equal prompts once, in the caller's order", function()
    local t = m:score(prompts, completions)
    assert.same({ 3, 2, 4, 1 }, t.lengths)
    assert.same({ 1, 1, 1, 2, 2, 3, 3, 3, 3, 4 }, t.sequence)
    assert.equal(10, #t.logp)
    local at = 0
    for i, c in ipairs(completions) do
      local all = {}
      table.move(prompts[i], 1, #prompts[i], 1, all)
      table.move(c, 1, #c, #all + 1, all)
      local lp = m:logprobs(all):totable()
      for k = 1, #c do
        at = at + 1
        assert.near(lp[#prompts[i] + k - 1], t.logp:totable()[at], 1e-5)
      end
    end
    local hot = m:score(prompts, completions, { temperature = 2 })
    assert.is_true(hot.entropy:mean():item() > t.entropy:mean():item())
    assert.is_false(t.logp.requires_grad)
  end)
  it("scores completions that are strings, encoded without special tokens", function()
    local tok = grpo.tokenizer.train({ "ab ba" }, { special_tokens = { "<s>", "</s>" },
      bos = "<s>", eos = "</s>" })
    local model = grpo.model.new({ model_type = "llama", hidden_size = 8, intermediate_size = 8,
      num_hidden_layers = 1, num_attention_heads = 1, max_position_embeddings = 32 },
      { tokenizer = tok })
    local ids = tok:encode("ba ab")
    local t = model:score({ "ab" }, { "ba ab" })
    assert.same({ #ids }, t.lengths)
    assert.same(model:score({ "ab" }, { ids }).logp:totable(), t.logp:totable())
    assert.error_matches(function() m:score({ "a" }, { "" }) end, "completions%[1%]: is empty")
    local bare = grpo.model.new(config)
    assert.error_matches(function() bare:score({ { 1 } }, { "a" }) end,
      "completions%[1%]: a string needs a tokenizer")
  end)
  it("scores with the factors of longrope that sampling had", function()
    local model = grpo.model.new({ model_type = "phi3", vocab_size = 20, hidden_size = 16,
      intermediate_size = 8, num_hidden_layers = 1, num_attention_heads = 2,
      max_position_embeddings = 64, original_max_position_embeddings = 8, initializer_range = 0.4,
      rope_scaling = { type = "longrope", short_factor = { 1, 1, 1, 1 },
        long_factor = { 1, 3, 5, 7 } } })
    local prompt, short, long = { 3, 1, 4 }, { 1, 5 }, { 9, 2, 6, 5, 3, 5 }
    local function score(list, options)
      local same = {}
      for i = 1, #list do same[i] = prompt end
      return model:score(same, list, options).logp:totable()
    end
    local alone, as_sampled = score({ short }), score({ short }, { max_new_tokens = 6 })
    assert.is_false(alone[1] == as_sampled[1])
    assert.same(as_sampled[2], score({ short, long }, { max_new_tokens = 6 })[2])
    assert.error_matches(function() score({ short, long }) end, "give max_new_tokens")
  end)
  it("passes gradients back into its parameters", function()
    local model = new(3)
    local params = {}
    for _, p in model:parameters() do params[#params + 1] = p end
    local o = grpo.optim.adamw(params)
    local function loss_of(grad)
      local t = model:score(prompts, completions, { grad = grad })
      return -(t.logp:sum()) - t.entropy:sum() * 0.1
    end
    local loss = loss_of(true)
    assert.near(loss_of(false):item(), loss:item(), 1e-5)
    loss:backward()
    -- one weight by differences, through a step along the gradient
    local norm = grpo.clip_grad_norm(params, 1e9)
    assert.is_true(norm > 0)
    local before = loss:item()
    for _ = 1, 30 do
      o:zero_grad()
      loss_of(true):backward()
      grpo.clip_grad_norm(params, 1.0)
      o:step(1e-2)
    end
    assert.is_true(loss_of(false):item() < before - 5)
    assert.error_matches(function() loss:backward() end, "already used")
  end)
  it("has gradients that differences confirm", function()
    local model = new(4)
    local name, p
    for n, t in model:parameters() do if n:find("norm") and not p then name, p = n, t end end
    local w = grpo.tensor { 1, -2, 3, 1, 2, -1, 0.5, 1, -1, 2 }
    local loss = (model:score(prompts, completions, { grad = true }).logp * w):sum()
    loss:backward()
    local g = p.grad
    assert.is_true(g ~= nil, name)
    -- a step of lr * g / (|g| + eps) is tiny and along g
    local o = grpo.optim.adamw({ p }, { eps = 1e9 })
    local lr = 1e9 * 1e-3
    o:step(lr)
    local moved = (model:score(prompts, completions).logp * w):sum():item() - loss:item()
    local want = -1e-3 * (g * g):sum():item()
    assert.near(want, moved, 0.05 * math.abs(want) + 1e-3)
  end)
  it("keeps a parameter's memory alive", function()
    local p
    do
      local model = new(5)
      for _, t in model:parameters() do p = p or t end
    end
    collectgarbage()
    collectgarbage()
    assert.equal(258, p.shape[1])
    assert.is_true((p * p):sum():item() > 0)
  end)
  it("calls on_token for every token, with the completion that it belongs to", function()
    local seen = {}
    local list = m:generate({ "ab", "c" },
      { max_new_tokens = 6, n = 2, seed = 7, on_token = function(id, index)
      seen[index] = seen[index] or {}
      table.insert(seen[index], id)
    end })
    for i, c in ipairs(list) do assert.same(c.ids, seen[i]) end
    assert.same(list, m:generate({ "ab", "c" }, { max_new_tokens = 6, n = 2, seed = 7 }))
  end)
  it("passes on what on_token raises, and goes on working", function()
    local n = 0
    local function enough()
      n = n + 1
      error("enough")
    end
    tiny.refused("enough", m.generate, m, "ab",
      { max_new_tokens = 6, seed = 7, on_token = enough })
    assert.equal(1, n)
    local function again() m:generate("c") end
    tiny.refused("generating already", m.generate, m, "ab", { on_token = again })
    tiny.refused("on_token: want a function, got number", m.generate, m, "ab", { on_token = 5 })
    assert.equal(6, #m:generate("ab", { max_new_tokens = 6, seed = 7 })[1].ids)
  end)
  it("generates, the same for the same seed", function()
    local a = m:generate("ab", { max_new_tokens = 12, n = 3, seed = 7 })
    local b = m:generate("ab", { max_new_tokens = 12, n = 3, seed = 7 })
    assert.equal(3, #a)
    for i = 1, 3 do
      assert.same(a[i], b[i])
      assert.equal(#a[i].ids, #a[i].logprobs)
      local ended = a[i].ids[#a[i].ids] == m.tokenizer.eos
      assert.equal(ended and "eos" or "length", a[i].finish)
      assert.equal(1, a[i].prompt)
      assert.equal(m.tokenizer:decode(a[i].ids, { skip_special = true }), a[i].text)
    end
    assert.is_false(a[1].text == a[2].text)
    local c = m:generate({ "ab", { 1, 2, 3 }, "x" }, { max_new_tokens = 4, temperature = 0 })
    assert.equal(3, #c)
    assert.equal(2, c[2].prompt)
    assert.same(c[2].ids, m:generate({ 1, 2, 3 }, { max_new_tokens = 4, temperature = 0 })[1].ids)
    assert.same({}, m:generate({}, {}))
  end)
  it("records log-probabilities that score confirms", function()
    local list = m:generate({ "ab", "c" },
      { max_new_tokens = 6, n = 2, temperature = 0.7, top_p = 0.9, seed = 1 })
    local ps, cs, lps = {}, {}, {}
    for i, c in ipairs(list) do
      ps[i], cs[i] = m.tokenizer:encode(c.prompt == 1 and "ab" or "c"), c.ids
      table.move(c.logprobs, 1, #c.logprobs, #lps + 1, lps)
    end
    assert.same(lps, m:score(ps, cs, { temperature = 0.7 }).logp:totable())
  end)
  it("stops at strings and patterns", function()
    local stopped = false
    for _, c in ipairs(m:generate("a",
      { max_new_tokens = 60, n = 8, stop_regex = "[a-zA-Z]", seed = 2 })) do
      if c.finish == "stop" and c.text:find("%a") then stopped = true end
    end
    assert.is_true(stopped)
    m:generate("a", { max_new_tokens = 4, stop = { "x", "yz" }, stop_regex = grpo.regex("\\d") })
  end)
  it("is saved and loaded with its tokenizer", function()
    local dir = tiny.path()
    m:save(dir)
    local loaded = grpo.model.load(dir)
    assert.same(m:logits({ 1, 2, 3 }):totable(), loaded:logits({ 1, 2, 3 }):totable())
    assert.equal(258, #loaded.tokenizer)
    core.fs.mkdirs(dir .. "/run")
    core.fs.write(dir .. "/run/run.json", "{}")
    assert.error_matches(function() grpo.model.load(dir .. "/run") end, "no checkpoint yet")
    core.fs.link("..", dir .. "/run/latest")
    assert.equal(m:count(), grpo.model.load(dir .. "/run"):count())
    m:save(dir .. "/b", { dtype = "bf16" })
    assert.is_true(core.fs.size(dir .. "/b/model.safetensors") < core.fs.size(dir
      .. "/model.safetensors") * 0.6)
    core.fs.remove_tree(dir)
  end)
  it("names the type of its weights in config.json, as other programs read it", function()
    local dir = tiny.path()
    for dtype, name in pairs { bf16 = "bfloat16", f16 = "float16", nf4 = "bfloat16" } do
      m:save(dir, { dtype = dtype })
      assert.equal(name, grpo.json.decode(core.fs.read(dir .. "/config.json")).torch_dtype)
      assert.equal(m:count(), grpo.model.load(dir):count())
    end
    m:save(dir) -- float32, which is what no name means
    assert.is_nil(grpo.json.decode(core.fs.read(dir .. "/config.json")).torch_dtype)
    core.fs.remove_tree(dir)
  end)
  it("has frozen copies", function()
    local model = new(6)
    local reference = core.model_clone(model)
    assert.is_true(reference.frozen)
    assert.equal(0, reference:count { trainable = true })
    assert.same(model:logits({ 1 }):totable(), reference:logits({ 1 }):totable())
    tiny.refused("frozen", reference.score, reference, prompts, completions, { grad = true })
    core.model_lerp(reference, new(7), 1.0)
    assert.same(new(7):logits({ 1 }):totable(), reference:logits({ 1 }):totable())
  end)
  it("is nobody's crash", function()
    local raises = assert.error_matches
    raises(function() m:logits({}) end, "at least one token")
    raises(function() m:logits({ 258 }) end, "outside the vocabulary")
    raises(function() m:logits({ -1 }) end, "a token id")
    raises(function() m:logits() end, "list of token ids")
    local long = {}
    for i = 1, 200 do long[i] = 1 end
    raises(function() m:logits(long) end, "context of 96")
    raises(function() m:logprobs({ 1 }) end, "at least 2")
    raises(function() m:score({ { 1 } }, {}) end, "1 prompts for 0")
    raises(function() m:score({}, {}) end, "no completions")
    raises(function() m:score({ { 1 } }, { {} }) end, "completions%[1%]: is empty")
    raises(function() m:score({ {} }, { { 1 } }) end, "prompts%[1%]: is empty")
    raises(function() m:score({ { 1 } }, { { 300 } }) end, "vocabulary")
    raises(function() m:score({ long }, { { 1 } }) end, "context")
    raises(function() m:score({ { 1 } }, { { 1 } }, { temperature = 0 }) end, "temperature")
    raises(function() m:score({ { 1 } }, { { 1 } }, { gard = true }) end, "did you mean 'grad'")
    raises(function() m:generate() end, "prompt")
    raises(function() m:generate("") end, "is empty")
    raises(function() m:generate(long) end, "context")
    raises(function() m:generate({ "a", 1 }) end, "prompt%[2%]")
    raises(function() m:generate("a", { temprature = 1 }) end, "did you mean 'temperature'")
    raises(function() m:generate("a", { max_new_tokens = 0 }) end, "max_new_tokens")
    raises(function() m:generate("a", { top_p = 0 }) end, "top_p")
    raises(function() m:generate("a", { n = 1 << 40 }) end, "generate%.n")
    raises(function() m:generate("a", { stop = { "" } }) end, "stop: item 1")
    raises(function() m:generate("a", { stop_regex = "(" }) end, "missing")
    raises(function() grpo.model.load("/no/such/model") end, "/no/such/model")
    raises(function() grpo.model.load("/tmp", { quantize = "nf5" }) end, "nf4")
    tiny.refused("exclude each other", grpo.model.load, "/tmp",
      { quantize = "nf4", dtype = "f32" })
    raises(function() grpo.model.new({ model_type = "mamba" }) end, "mamba")
    raises(function() grpo.model.new("no/such.json") end, "no/such.json")
    raises(function() grpo.model.new(5) end, "table or path")
    raises(function() return m.wieghts end, "no field 'wieghts'")
    raises(function() m.config = {} end, "cannot be set")
    raises(function() m:save("/proc/no/dir") end, "/proc/no")
    raises(function() m:count(1) end, "table of options")
    local closed = new(8)
    local iterator = closed:parameters()
    do local _ <close> = closed end
    raises(function() closed:logits({ 1 }) end, "was closed")
    assert.is_nil(iterator())
    assert.equal("grpo.Model (closed)", tostring(closed))
  end)
end)

describe("a model of the oracles", function()
  it("gives the reference's log-probabilities", function()
    if not tiny.shared then return pending("the oracles are not here (GRPO_SHARED)") end
    for _, name in ipairs { "llama", "gpt2" } do
      local base = tiny.shared .. "/oracles/models/" .. name
      local weights = base .. "/checkpoint/model.safetensors"
      if not core.fs.exists(weights) then
        return pending("the oracle is incomplete: " .. weights .. " is missing")
      end
      local model = grpo.model.load(base .. "/checkpoint")
      local want = grpo.json.decode(core.fs.read(base .. "/forward.json"))
      for i, ids in ipairs(want.input_ids) do
        local got = model:logprobs(ids):totable()
        for k, v in ipairs(want.next_token_logprobs[i]) do assert.near(v, got[k], 5e-5) end
        local greedy = model:generate(ids, { max_new_tokens = 8, temperature = 0 })[1].ids
        assert.same(want.greedy[i].new_tokens, greedy)
      end
    end
  end)
end)
