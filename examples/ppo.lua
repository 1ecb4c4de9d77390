-- examples/ppo.lua - PPO: a critic in place of the group's mean, so that a prompt needs only one
-- completion.
--
--   ./grpo run examples/ppo.lua
--   ./grpo run examples/ppo.lua train.ppo.critic=separate
--
-- The KL of each token to the initial model is subtracted from its reward; adaptive_kl adjusts the
-- coefficient so that the KL stays near a target.

local grpo     = require "grpo"
local schedule = require "grpo.schedule"

return grpo.experiment {
  model = {
    config = { model_type = "gpt2", n_embd = 32, n_layer = 2, n_head = 4, n_positions = 32 },
    tokenizer = grpo.tokenizer.chars("0123456789"),
  },
  data     = {
    train = grpo.data.list { { prompt = "1" }, { prompt = "5" } },
    max_prompt_tokens = 2,
  },
  sampling = { group_size = 1, max_new_tokens = 6 },
  -- the share of characters that repeat the prompt
  rewards  = { repeats = function(text, row) return select(2, text:gsub(row.prompt, "")) / 6 end },
  stages   = { {
    kind  = "ppo",
    train = {
      steps = 60, prompts_per_step = 64, iterations = 2, lr = 3e-3,
      ppo = {
        minibatches = 2, value_coef = 0.5,
        kl_coef = schedule.adaptive_kl { initial = 0.01, target = 0.5, horizon = 2000 },
      },
    },
  } },
}
