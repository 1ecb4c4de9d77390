-- examples/guess.lua - a digit is guessed with hints, in an environment of a Python server.
--
--   grpo run ext/openenv/examples/guess.lua            (guess.py says how the server is started)
--
-- The environment knows the digit; the model guesses "5", reads "<", "=" or ">", and has four
-- turns.  Without hints half of the digits are found in four guesses; all can be with them.

local grpo = require "grpo"

return grpo.experiment {
  name = "guess",
  model = {
    config = { model_type = "llama", hidden_size = 64, intermediate_size = 128,
      num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 32 },
    tokenizer = grpo.tokenizer.chars("12345678?!<=>g"),
  },
  data = {
    train = grpo.data.generate(function() return { prompt = "g" } end, { seed = 1, n = 1000 }),
    eval = grpo.data.generate(function() return { prompt = "g" } end, { seed = 2, n = 64 }),
    max_prompt_tokens = 4,
  },
  environment = grpo.openenv {
    url = grpo.args.url or "http://127.0.0.1:8000", action = "text", observation = "hint",
  },
  turns = { max = 4 },
  sampling = { group_size = 8, max_new_tokens = 8, stop_regex = "." },
  train = { steps = 200, prompts_per_step = 16, lr = 2e-3, entropy = 0.01 },
  eval = { every = 50 },
  log = { completions = 0 },
}
