-- Low-rank adapters of models, as scripts see them.
local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"
local fs = core.fs

local function new(seed)
  return grpo.model.new(tiny.llama { vocab_size = 64, intermediate_size = 48,
    num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2,
    max_position_embeddings = 64, initializer_range = 0.2 }, { seed = seed or 1 })
end

local ids = { 1, 5, 9, 2, 33, 60, 7 }
local raises = assert.error_matches

local function logits(m)
  local list = {}
  for i, row in ipairs(m:logits(ids):totable()) do list[i] = table.concat(row, " ") end
  return table.concat(list, "\n")
end

-- Moves B away from zero.
local function train(m)
  local list = {}
  for _, t, trainable in m:parameters() do
    if trainable then list[#list + 1] = t end
  end
  local adam = grpo.optim.adamw(list)
  for _ = 1, 3 do
    local t = m:score({ { 1, 5 } }, { { 9, 2, 33 } }, { grad = true })
    t.logp:sum():backward()
    adam:step(1e-2)
    adam:zero_grad()
  end
end

describe("an adapter", function()
  local directory
  before_each(function()
    directory = tiny.path()
    fs.mkdirs(directory)
  end)
  after_each(function() fs.remove_tree(directory) end)

  it("changes nothing at first and is all that is trained", function()
    local m = new()
    local before = logits(m)
    m:add_lora { rank = 4, alpha = 8, seed = 3 }
    assert.equal(before, logits(m))
    assert.equal(2 * 4 * (2 * (32 + 32) + 2 * (32 + 16) + 3 * (32 + 48)),
      m:count { trainable = true })
    local n = 0
    for name, t, trainable in m:parameters() do
      assert.equal(name:find("%.lora_[AB]%.weight$") ~= nil, trainable)
      if trainable then n = n + #t * t.shape[2] end
    end
    assert.equal(m:count { trainable = true }, n)
    assert.matches("with an adapter", tostring(m))
    train(m)
    assert.not_equal(before, logits(m))
    assert.equal(before, m:without_adapter(function() return logits(m) end))
    assert.equal(before, logits(core.model_base(m)))
    raises(function() m:without_adapter(error, "boom") end, "boom")
    assert.not_equal(before, logits(m))
  end)

  it("is saved and loaded as PEFT has it", function()
    local m, again = new(), new()
    m:add_lora { targets = { "q_proj", "down_proj" }, alpha = 32, dropout = 0.25,
      use_rslora = true }
    train(m)
    m:save(directory .. "/a", { format = "adapter", base_name = "org/base" })
    again:load_adapter(directory .. "/a")
    assert.equal(logits(m), logits(again))
    again:save(directory .. "/b", { format = "adapter" })
    for _, name in ipairs { "adapter_config.json", "adapter_model.safetensors" } do
      assert.equal(fs.read(directory .. "/a/" .. name), fs.read(directory .. "/b/" .. name))
    end
    local config = core.json_decode(fs.read(directory .. "/a/adapter_config.json"))
    assert.equal("org/base", config.base_model_name_or_path)
    assert.same({ "q_proj", "down_proj" }, config.target_modules)
    assert.equal(0.25, config.lora_dropout)
    new():save(directory .. "/base")
    local loaded = grpo.model.load(directory .. "/base", { adapter = directory .. "/a" })
    assert.equal(logits(m), logits(loaded))
  end)

  it("is merged", function()
    local m = new()
    m:add_lora {}
    train(m)
    local with = logits(m)
    m:save(directory, { merge = true })
    do
      local reference <close> = core.model_clone(m)
      assert.equal(with, logits(reference))
      raises(function() m:merge_lora() end, "shared with a frozen view")
    end
    m:merge_lora()
    assert.equal(m:count(), m:count { trainable = true })
    assert.equal(logits(m), logits(grpo.model.load(directory)))
    raises(function() m:merge_lora() end, "no adapter")
    m:add_lora { rank = 2 }
    assert.equal(logits(m), logits(grpo.model.load(directory)))
  end)

  it("is merged out in the type that its base was saved in", function()
    local base = new()
    base:save(directory .. "/base", { dtype = "bf16" })
    local m = grpo.model.load(directory .. "/base")
    m:add_lora {}
    train(m)
    m:save(directory .. "/adapter", { format = "adapter", base_name = directory .. "/base" })
    require("grpo.runs.export").write { path = directory .. "/adapter", format = "hf",
      target = directory .. "/merged", merge = true }
    assert.equal(fs.size(directory .. "/base/model.safetensors"),
      fs.size(directory .. "/merged/model.safetensors"))
    assert.matches('"torch_dtype": "bfloat16"', fs.read(directory .. "/merged/config.json"))
  end)

  it("refuses what cannot be", function()
    local m = new()
    raises(function()
      m:add_lora { targets = { "q_porj" } }
    end, "'q_porj' matches nothing.*q_proj, k_proj")
    raises(function() m:add_lora { targets = {} } end, "targets")
    raises(function() m:add_lora { targets = { 1 } } end, "targets%[1%]")
    raises(function() m:add_lora { rnak = 1 } end, "did you mean 'rank'")
    raises(function() m:add_lora { dropout = 1 } end, "dropout")
    raises(function() m:load_adapter("/no/such") end, "/no/such")
    raises(function() m:save(directory, { format = "adapter" }) end, "no adapter")
    raises(function() m:save(directory, { merge = true }) end, "no adapter")
    raises(function() core.model_clone(m):add_lora {} end, "frozen")
    m:add_lora {}
    raises(function() m:add_lora {} end, "has an adapter already")
    raises(function() m:save(directory) end, "merge = true")
  end)
end)
