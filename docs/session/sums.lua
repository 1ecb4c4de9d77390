-- The experiment of docs/session.md: single-digit sums, a model of some thousand weights, and a
-- reward in a file of its own.
local grpo = require "grpo"
local reward = require "reward"

local rows = {}
for a = 0, 9 do
  for b = 0, 9 do
    rows[#rows + 1] = { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b) }
  end
end

return grpo.experiment {
  model = {
    config = { model_type = "llama", hidden_size = 64, intermediate_size = 192,
      num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 64 },
    tokenizer = grpo.tokenizer.chars("0123456789+="),
  },
  data       = { train = grpo.data.list(rows), max_prompt_tokens = 8 },
  sampling   = { group_size = 8, max_new_tokens = 12 },
  rewards    = { { name = "close", fn = function(text, row) return reward.close(text, row) end } },
  train      = { steps = 3000, prompts_per_step = 16, lr = 5e-4, kl = 0.01 },
  checkpoint = { every = 300 },
}
