-- examples/custom_loss.lua - a policy loss written in Lua: GRPO with a smooth bound on the ratio
-- in place of the clip.
--
--   ./grpo run examples/custom_loss.lua
--
-- t holds tensors with one element for each completion token; gradients flow from t.logp and
-- t.entropy into the model.  The results for the micro-batches of a step are added up, so divide by
-- numbers of the whole step.

local grpo = require "grpo"

local bound = 0.2

local function smooth(t)
  local log_ratio = t.logp - t.old_logp
  local ratio = (log_ratio * (1 / bound)):tanh() * bound + 1 -- within 1 - bound .. 1 + bound
  local policy = -(ratio * t.advantage * t.mask):sum() / t.num_tokens
  local entropy = (t.entropy * t.mask):sum() / t.num_tokens
  return policy - entropy * 0.001
end

return grpo.experiment {
  model = {
    config = { model_type = "gpt2", n_embd = 32, n_layer = 2, n_head = 4, n_positions = 32 },
    tokenizer = grpo.tokenizer.chars("0123456789"),
  },
  data     = {
    train = grpo.data.list { { prompt = "1" }, { prompt = "5" } },
    max_prompt_tokens = 2,
  },
  sampling = { group_size = 16, max_new_tokens = 6 },
  -- the share of characters that repeat the prompt
  rewards  = { repeats = function(text, row) return select(2, text:gsub(row.prompt, "")) / 6 end },
  train    = { steps = 60, prompts_per_step = 4, iterations = 2, loss = smooth, lr = 3e-3 },
}
