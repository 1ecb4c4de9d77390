-- The workloads of `grpo bench`: models of true shapes with random weights, and the size of a step.
--
-- Every completion runs to its limit.  A step is: generate, reference log-probabilities, a reward
-- for each completion, forward, backward, AdamW.

local core = require "grpo.core"

local workloads = {}

local lora = { rank = 8, alpha = 16 }

workloads.list = {
  { name = "W1", title = "char: GPT-2 of 6 layers of 384, 65 characters, full training",
    config = "configs/models/gpt2-char.json", vocab = 65, prompts = 32, group = 4, prompt = 1,
    new = 70, sft = { rows = 32, tokens = 128 } },
  { name = "W2", title = "tiny: Llama of 4 layers of 256, 256 bytes, full training",
    config = "configs/models/tiny.json", vocab = 256, prompts = 8, group = 8, prompt = 96,
    new = 96 },
  { name = "W3", title = "small: SmolLM2-135M's shape, LoRA of rank 8",
    config = "configs/models/smollm2-135m.json", lora = lora, prompts = 2, group = 8, prompt = 128,
    new = 64 },
  { name = "W4", title = "half: Qwen2.5-0.5B's shape, LoRA of rank 8",
    config = "configs/models/qwen2.5-0.5b.json", lora = lora, prompts = 1, group = 8, prompt = 160,
    new = 32 },
  { name = "smoke", title = "a step of next to nothing, for tests",
    config = { model_type = "llama", hidden_size = 32, intermediate_size = 64,
      num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 1,
      max_position_embeddings = 64, tie_word_embeddings = true },
    vocab = 32, prompts = 2, group = 3, prompt = 5, new = 6, sft = { rows = 2, tokens = 8 } },
}

-- The model on which decoding is timed: 123 million weights.
workloads.decode = {
  name = "decode", title = "decode: Llama of 12 layers of 768, 49,152 tokens (123 million weights)",
  config = { model_type = "llama", vocab_size = 49152, hidden_size = 768, intermediate_size = 2048,
    num_hidden_layers = 12, num_attention_heads = 12, max_position_embeddings = 2048,
    tie_word_embeddings = true },
  prompt = 16, new = 64, sequences = { 1, 8, 16, 32 },
}

workloads.decode_smoke = {
  name = "decode", title = "decode: next to nothing", config = workloads.list[5].config, vocab = 32,
  prompt = 2, new = 32, sequences = { 1, 2 },
}

function workloads.find(name)
  for _, w in ipairs(workloads.list) do
    if w.name == name then return w end
  end
end

-- Returns the configuration as a table, without tokens that would end a completion early.
function workloads.config(w)
  local source = w.config
  if type(source) == "string" then source = core.json_decode(core.embedded(source), source) end
  local config = {}
  for k, v in pairs(source) do config[k] = v end
  config.bos_token_id, config.eos_token_id = nil, nil
  config.vocab_size = w.vocab or config.vocab_size
  return config
end

-- ---- the size of a model: weights and the work of attention ------------------------------------

-- Returns { body = weights of the layers' products, head = of the output layer, pair = FLOPs of a
-- query with a key in all layers, kv = numbers of a position's keys and values in all layers,
-- trained = weights that the optimizer touches }
function workloads.sizes(config, rank)
  local gpt2 = config.model_type == "gpt2"
  local hidden = gpt2 and config.n_embd or config.hidden_size
  local layers = gpt2 and config.n_layer or config.num_hidden_layers
  local heads = gpt2 and config.n_head or config.num_attention_heads
  local head_dim = config.head_dim or hidden // heads
  local q, kv = heads * head_dim, (not gpt2 and config.num_key_value_heads or heads) * head_dim
  local inner = gpt2 and (config.n_inner or 4 * hidden) or config.intermediate_size
  local up = gpt2 and 1 or 2 -- gate and up
  local layer = hidden * (q + 2 * kv) + q * hidden + (up + 1) * hidden * inner
  local head = config.vocab_size * hidden
  local low_rank = rank and rank * layers
    * (hidden + q + 2 * (hidden + kv) + q + hidden + (up + 1) * (hidden + inner)) or 0
  local positions = gpt2 and config.n_positions * hidden or 0
  local embeddings = head * (config.tie_word_embeddings == false and 2 or 1) + positions
  return { body = layer * layers, head = head, pair = 4 * q * layers, kv = 2 * kv * layers,
    trained = rank and low_rank or layer * layers + embeddings }
end

-- Returns the matrices of a Llama's decoding step: { outputs, inputs, number of them }.
function workloads.matrices(config)
  local hidden, inner, layers = config.hidden_size, config.intermediate_size,
    config.num_hidden_layers
  local head_dim = config.head_dim or hidden // config.num_attention_heads
  local q = config.num_attention_heads * head_dim
  local kv = (config.num_key_value_heads or config.num_attention_heads) * head_dim
  return { { q, hidden, layers }, { kv, hidden, 2 * layers }, { hidden, q, layers },
    { inner, hidden, 2 * layers },
    { hidden, inner, layers }, { config.vocab_size, hidden, 1 } }
end

return workloads
