-- Latent attention from Lua: decoding against the full forward, the cache, files, adapters,
-- training.
local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local config = {
  model_type = "gpt2_mla", vocab_size = 258, n_embd = 32, n_layer = 2, n_head = 4, n_positions = 96,
  initializer_range = 0.2, q_lora_rank = 12, kv_lora_rank = 16, qk_nope_head_dim = 8,
  qk_rope_head_dim = 4, v_head_dim = 8, eos_token_id = 256,
}

local function new(seed)
  return grpo.model.new(config, { seed = seed or 1, tokenizer = grpo.tokenizer.bytes() })
end

describe("a model with latent attention", function()
  local m = new()
  it("says what its cache takes", function()
    local bytes, every_head = m:cache_bytes_per_token()
    assert.equal(2 * (16 + 4) * 4, bytes)
    assert.equal(2 * 4 * (8 + 4 + 8) * 4, every_head)
    assert.matches("gpt2_mla, .* latent cache of 160 bytes a token", tostring(m))
  end)
  it("records while sampling what the full forward computes, to the bit", function()
    local prompts, completions, logprobs = {}, {}, {}
    for i, g in ipairs(m:generate({ "a prompt", "b" }, { n = 3, max_new_tokens = 20, seed = 4 })) do
      prompts[i], completions[i] = g.prompt == 1 and "a prompt" or "b", g.ids
      for _, lp in ipairs(g.logprobs) do logprobs[#logprobs + 1] = lp end
    end
    assert.same(logprobs, m:score(prompts, completions).logp:totable())
  end)
  it("is saved and loaded", function()
    local dir = tiny.path()
    m:save(dir)
    local back = grpo.model.load(dir)
    assert.same(m:logits("hello"):totable(), back:logits("hello"):totable())
    assert.equal(16, back.config.kv_lora_rank)
    core.fs.remove_tree(dir)
  end)
  it("takes adapters everywhere but on kv_b_proj", function()
    local adapted = new(2)
    assert.error_matches(function() adapted:add_lora { targets = { "kv_b_proj" } } end,
      "attn.kv_b_proj is not supported, because latent attention")
    adapted:add_lora { rank = 2 }
    for name in adapted:parameters() do assert.is_nil(name:find("kv_b_proj.lora", 1, true)) end
    assert.is_true(adapted:count { trainable = true } > 0)
  end)
end)

describe("a model whose keys are shared by heads", function()
  it("says what that saves", function()
    local m = grpo.model.new(tiny.llama { vocab_size = 32, num_hidden_layers = 2,
      num_attention_heads = 4, num_key_value_heads = 2 })
    local bytes, every_head = m:cache_bytes_per_token()
    assert.equal(2 * 2 * 2 * 8 * 4, bytes)
    assert.equal(2 * bytes, every_head)
  end)
end)
