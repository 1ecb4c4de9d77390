-- examples/lora.lua - a low-rank adapter on frozen weights, from a model to a merged model.
--
--   ./grpo run examples/lora.lua                    (--arg base=DIR: where to put the base model)
--   ./grpo generate runs/lora-001 "12"              the base with the adapter
--   ./grpo export runs/lora-001 models/merged --merge
--
-- The base model is made here, with random weights, and saved; --arg model=DIR takes one of yours.

local grpo = require "grpo"

local path = grpo.args.model
if not path then
  path = grpo.args.base or "models/tiny-base"
  local tok = grpo.tokenizer.chars("0123456789")
  grpo.model.new({
    model_type = "llama", vocab_size = #tok, eos_token_id = tok.eos,
    hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 4,
    max_position_embeddings = 32, initializer_range = 0.2,
  }, { seed = 1, tokenizer = tok }):save(path)
end

return grpo.experiment {
  model = {
    path = path,
    -- only A and B beside every projection are trained; the files in path never change
    lora = { rank = 8, alpha = 16, targets = "all-linear" },
  },
  data     = {
    train = grpo.data.list { { prompt = "1" }, { prompt = "5" } },
    max_prompt_tokens = 8,
  },
  sampling = { group_size = 16, max_new_tokens = 6 },
  -- the share of characters that repeat the prompt's digit
  rewards  = { repeats = function(text, row) return select(2, text:gsub(row.prompt, "")) / 6 end },
  -- the KL is measured against the base model, without the adapter; nothing is copied
  train    = { steps = 60, prompts_per_step = 4, lr = 1e-2, kl = 1e-3 },
}
