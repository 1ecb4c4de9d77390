-- examples/evaluation.lua - measures of many samples, before and after training.
--
--   grpo eval examples/evaluation.lua      before training: pass@K, maj@K, best@K for K = 1, 8, 64
--   grpo run examples/evaluation.lua       60 supervised steps, 60 steps with rewards
--   grpo eval examples/evaluation.lua evaluation-001   both on the same problems, row by row
--
-- The task is the larger one of two digits.  The teacher of the supervised stage is wrong four
-- times in ten, so the model is unsure, and a vote of its samples is better than each of them.

local grpo = require "grpo"

local train, held_out = {}, {}
for a = 0, 9 do
  for b = 0, 9 do
    local rows = (a * 7 + b * 3) % 5 == 0 and held_out or train
    rows[#rows + 1] = { prompt = ("%d|%d="):format(a, b), answer = tostring(math.max(a, b)),
      other = tostring(math.min(a, b)) }
  end
end

-- A judge that does not know the answer: a large digit is likely to be the larger one.
local function large(text) return tonumber(text:match("^%d")) end

return grpo.experiment {
  name = "evaluation",
  seed = 2,
  model = {
    config = { model_type = "llama", hidden_size = 32, intermediate_size = 64,
      num_hidden_layers = 2, num_attention_heads = 2, max_position_embeddings = 32 },
    tokenizer = grpo.tokenizer.chars("0123456789|="),
  },
  data = {
    train = grpo.data.list(train), eval = grpo.data.list(held_out), max_prompt_tokens = 8,
    target = function(row) return math.random() < 0.6 and row.answer or row.other end,
  },
  rewards = {
    { name = "correct", fn = function(text, row) return text == row.answer end },
    { name = "large", fn = large, weight = 0 },
  },
  sampling = { group_size = 8, max_new_tokens = 2 },
  eval = { group_size = 64, pass_at = { 1, 8, 64 }, majority = true, best_of = "large" },
  stages = {
    { kind = "sft", train = { steps = 60, prompts_per_step = 16, lr = 3e-3 } },
    { kind = "grpo", train = { steps = 60, prompts_per_step = 8, lr = 1e-3 } },
  },
  log = { completions = 0 },
}
