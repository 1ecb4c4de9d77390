-- A model of some thousand random weights whose tokens are bytes, with a chat template.
local grpo = require "grpo"
local tok = grpo.tokenizer.bytes()
local m = grpo.model.new({ model_type = "llama", hidden_size = 32, intermediate_size = 64,
  num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads = 1,
  max_position_embeddings = 1024, initializer_range = 0.3 }, { tokenizer = tok, seed = 3 })
m:save("model")
