-- examples/schedule.lua - numbers that change during training: ready schedules and one of your own.
--
--   ./grpo run examples/schedule.lua
--
-- A schedule is a function(p) -> number, which is called once per step.  p has p.step and p.steps
-- of the stage, p.tokens, p.fraction, and p.metrics of the step before.

local grpo = require "grpo"
local schedule = require "grpo.schedule"

-- The share of characters that are letters.
local function letters(text)
  return #text > 0 and select(2, text:gsub("%a", "")) / #text or 0
end

-- Rewards longer texts as soon as more than half of the characters are letters.
local function weight_of_length(p)
  return (p.metrics["rewards/letters/mean"] or 0) > 0.5 and 1.0 or 0.0
end

return grpo.experiment {
  model = {
    config = {
      model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
      num_attention_heads = 4, max_position_embeddings = 32,
    },
    tokenizer = grpo.tokenizer.chars("ab01"),
  },
  data     = {
    train = grpo.data.list { { prompt = "a" }, { prompt = "b" } },
    max_prompt_tokens = 2,
  },
  sampling = { group_size = 8, max_new_tokens = 8 },
  rewards  = {
    { name = "letters", fn = letters },
    { name = "length", weight = weight_of_length, fn = function(text) return #text / 8 end },
  },
  train = {
    steps = 60, prompts_per_step = 4,
    lr = schedule.cosine { peak = 3e-3, warmup = 5, final = 1e-4 },
    -- no KL for ten steps, then one that aims at 0.05
    kl = schedule.chain { { schedule.constant(0), steps = 10 },
      { schedule.adaptive_kl { initial = 0.05, target = 0.05, horizon = 400 } } },
  },
}
