-- Models in compact storages: loading, saving, what is refused, memory before they exist.

local core = require "grpo.core"
local grpo = require "grpo"
local tiny = require "tests.lua.tiny"

local shape = tiny.llama { vocab_size = 300, hidden_size = 64, intermediate_size = 96,
  num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 96,
  initializer_range = 0.2 }
local ids = { 1, 2, 3, 4, 5, 6, 7 }

local made = {}
local function tmpdir()
  local dir = tiny.path()
  made[#made + 1] = dir
  assert(core.fs.mkdirs(dir))
  return dir
end

local function saved(dtype)
  local dir = tmpdir()
  core.model_new(shape, { seed = 3 }):save(dir, { dtype = dtype })
  return dir
end

describe("compact storage", function()
  it("gives the bits of float32 for a checkpoint kept as it is", function()
    local dir = saved "bf16"
    local wide = core.model_load(dir)
    local compact = core.model_load(dir, { dtype = "auto" })
    assert.same(wide:logits(ids):totable(), compact:logits(ids):totable())
  end)

  it("quantises, saves in bitsandbytes' layout and loads that", function()
    local dir, out, again = saved "bf16", tmpdir(), tmpdir()
    local q = core.model_load(dir, { quantize = "nf4" })
    q:save(out, { dtype = "nf4" })
    local back = core.model_load(out, { dtype = "auto" })
    assert.same(q:logits(ids):totable(), back:logits(ids):totable())
    back:save(again, { dtype = "nf4" })
    assert.equal(core.fs.read(out .. "/model.safetensors"),
      core.fs.read(again .. "/model.safetensors"))
    local config = core.json_decode(core.fs.read(out .. "/config.json"))
    assert.equal("nf4", config.quantization_config.bnb_4bit_quant_type)
    assert.is_true(config.quantization_config.load_in_4bit)
    local int8 = core.model_load(dir, { quantize = "int8" })
    assert.near(q:logprobs(ids):totable()[1], int8:logprobs(ids):totable()[1], 1.0)
  end)

  it("refuses a weight that is not finite and that it could not keep so", function()
    local name = "model.layers.1.mlp.up_proj.weight"
    for _, strange in ipairs { 0 / 0, 1 / 0, -1 / 0 } do
      local dir = saved "f32"
      local path = dir .. "/model.safetensors"
      local text = core.fs.read(path)
      local size = ("<I8"):unpack(text)
      local header = core.json_decode(text:sub(9, 8 + size))
      local at = 8 + size + header[name].data_offsets[1] + 4 * (7 * 64 + 1)
      assert(core.fs.write(path, text:sub(1, at) .. ("<f"):pack(strange) .. text:sub(at + 5)))
      tiny.refused(("model%%.safetensors: tensor '%s': a value in row 7 of 96 is not finite, and "
        .. "NF4 has no code for it; repair the model, or load it as it is or with "
        .. 'quantize = "int8"')
        :format((name:gsub("%p", "%%%0"))), core.model_load, dir, { quantize = "nf4" })
      core.model_load(dir, { quantize = "int8" }) -- keeps the row as not finite
      local whole = core.model_load(dir)
      tiny.refused(name:gsub("%p", "%%%0") .. ": a value in row 7 of 96 is not finite",
        whole.save, whole, tmpdir(), { dtype = "nf4" })
    end
  end)

  it("is not trained without an adapter, and its parameters are copies", function()
    local m = core.model_load(saved "bf16", { dtype = "auto" })
    tiny.refused("or add an adapter", m.score, m, { { 1 } }, { { 2 } }, { grad = true })
    local name, tensor = m:parameters()()
    assert.equal("model.embed_tokens.weight", name)
    local wide = core.model_load(saved "bf16")
    local _, same = wide:parameters()()
    assert.same(same:totable(), tensor:totable())
  end)

  it("trains an adapter", function()
    local m = core.model_load(saved "bf16", { quantize = "nf4" })
    m:add_lora { rank = 4, targets = "all-linear", seed = 1 }
    m:score({ { 1, 2 } }, { { 3, 4 } }, { grad = true }).logp:sum():backward()
    assert.is_true(m:count { trainable = true } > 0)
  end)

  it("trains an adapter of the head, with the gradients of float32", function()
    for _, targets in ipairs { { "lm_head" }, { "lm_head", "embed_tokens", "q_proj" } } do
      local dir, grads = saved "bf16", {}
      for i, dtype in ipairs { "f32", "auto" } do
        local m = core.model_load(dir, { dtype = dtype })
        m:add_lora { rank = 4, targets = targets, seed = 1 }
        m:score({ { 1, 2 } }, { { 3, 4 } }, { grad = true }).logp:sum():backward()
        grads[i] = {}
        for name, tensor, trainable in m:parameters() do
          if trainable then grads[i][name] = tensor.grad:totable() end
        end
      end
      assert.is_true(next(grads[1]) ~= nil)
      assert.same(grads[1], grads[2])
    end
  end)

  it("refuses what contradicts itself", function()
    local dir = saved "f32"
    tiny.refused("exclude each other", core.model_load, dir, { dtype = "f32", quantize = "nf4" })
    assert.error_matches(function() core.model_load(dir, { quantize = "int3" }) end, "int8")
    assert.error_matches(function() core.model_load(dir, { dtype = "f8" }) end, "bf16")
  end)
end)

describe("a vocabulary", function()
  it("grows, and m.config says so", function()
    local m = core.model_load(saved "bf16", { dtype = "auto" })
    assert.equal(300, m.config.vocab_size)
    core.model_resize_vocab(m, 310)
    assert.equal(310, m.config.vocab_size)
    assert.equal(310, #m:logits(ids):totable()[1])
    assert.equal(1, #m:generate({ 305, 309 }, { max_new_tokens = 2, temperature = 0 }))
    assert.error_matches(function() core.model_resize_vocab(m, 300) end, "cannot shrink")
  end)
end)

describe("the estimate of a model", function()
  local function estimate(model, options)
    return core.engine_estimate(tiny.with({ model = model, optimizer = {}, max_prompt_tokens = 32,
      max_new_tokens = 48, examples = false }, options or {}))
  end

  it("is there before the model takes another form, and shrinks with its storage", function()
    local model = core.model_load(saved "bf16", { dtype = "auto" })
    local lora = { rank = 4, targets = { "all-linear" } }
    local function weights(storage)
      return estimate(model, { storage = storage, lora = lora }).weights
    end
    assert.is_true(weights "f32" > weights "auto")
    assert.is_true(weights "auto" > weights "int8")
    assert.is_true(weights "int8" > weights "nf4")
    assert.equal(weights "auto", weights "bf16")
    assert.equal(weights(nil), weights "auto")
  end)

  it("counts what is trained", function()
    local model = core.model_new(shape)
    local full = estimate(model, { group_size = 4 })
    local half = estimate(core.model_new(shape, { compute = "bf16" }), { group_size = 4 })
    assert.is_true(half.held < full.held and half.held > full.held / 2)
    local lora = estimate(model,
      { group_size = 4, lora = { rank = 4, targets = { "q_proj", "v_proj" } } })
    assert.is_true(full.optimizer > 10 * lora.optimizer)
    assert.is_true(lora.optimizer >= 2 * 4 * (4 * 4 * (64 + 64)))
    assert.equal(full.total,
      full.weights + full.reference + full.optimizer + full.cache + full.batch + full.activations)
    assert.equal(0, core.engine_estimate { model = model, max_prompt_tokens = 32,
      max_new_tokens = 48 }.optimizer)
    local copy = estimate(model, { reference = core.model_new(shape) })
    assert.is_true(copy.reference > 4 * model:count())
    assert.is_true(estimate(model, { reference = core.model_base(model) }).reference < 100000)
    local sizes = { group_size = 4, prompts_per_step = 4, max_prompt_tokens = 16,
      max_new_tokens = 16, reuse_rollout = false }
    local plain = estimate(model, sizes)
    sizes.reuse_rollout = true
    local reusing = estimate(model, sizes)
    assert.equal(0, plain.kept)
    assert.is_true(reusing.kept > 0)
    assert.is_true(reusing.total >= plain.total + reusing.kept)
    sizes.reuse_rollout = "auto" -- a small model on any machine
    assert.equal(reusing.total, estimate(model, sizes).total)
    local checkpointed = estimate(model, { gradient_checkpointing = true })
    assert.is_true(checkpointed.activations < estimate(model, {}).activations)
    tiny.refused("reuse_rollout: true, false or \"auto\"",
      core.engine, { model = core.model_new(shape), reuse_rollout = "sometimes" })
  end)

  it("is what an engine of that model says", function()
    local dir = saved "bf16"
    local m = core.model_load(dir, { quantize = "nf4" })
    m:add_lora { rank = 4, targets = "all-linear", seed = 1 }
    local sizes = { prompts_per_step = 2, group_size = 4, max_prompt_tokens = 16,
      max_new_tokens = 16, examples = false }
    local e = core.engine(tiny.with(sizes,
      { model = m, optimizer = {}, tokenizer = grpo.tokenizer.bytes() }))
    local said = e:estimate()
    sizes.storage, sizes.lora = "nf4", { rank = 4, targets = { "all-linear" } }
    assert.same(said.total, estimate(core.model_load(dir, { dtype = "auto" }), sizes).total)
    e:close()
  end)
end)

describe("directories of these tests", function()
  it("are removed", function()
    for _, dir in ipairs(made) do core.fs.remove_tree(dir) end
  end)
end)
