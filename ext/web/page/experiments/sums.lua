-- Sums of two digits: "3+4=" is answered by "7".
--
-- A teacher shows the model sums first, but is wrong half of the time.  Then only the reward says
-- what is right.  Change the reward while it trains, and press Apply (Ctrl-S).

local grpo     = require "grpo"
local schedule = require "grpo.schedule"

-- A reward is a function(text, row, c) -> number, boolean or nil.
local function correct(text, row)
  return text == row.answer
end

-- Makes rows on the fly: rng() gives numbers in [0, 1).  A fifth of all sums is held out, to see
-- whether the model learns to add or only to remember.
local function problems(held_out)
  return function(rng)
    local a, b
    repeat
      a, b = math.floor(rng() * 10), math.floor(rng() * 10)
    until ((a + 2 * b) % 5 == 0) == held_out
    local slip = rng() < 0.5 and 1 or 0
    return { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b), slip = slip }
  end
end

-- The teacher's answer, which is one too many half of the time.  The reward knows better.
local function demonstration(row)
  return tostring(tonumber(row.answer) + row.slip)
end

return grpo.experiment {
  name = "sums",
  model = {
    config = { model_type = "llama", hidden_size = 64, intermediate_size = 172,
      num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2,
      max_position_embeddings = 64, tie_word_embeddings = true },
    tokenizer = grpo.tokenizer.chars("0123456789+="),
  },
  data = {
    train = grpo.data.generate(problems(false), { seed = 1, n = 100000 }),
    eval = grpo.data.generate(problems(true), { seed = 2, n = 100 }),
    target = demonstration,
    max_prompt_tokens = 8,
  },
  sampling = { max_new_tokens = 4 },
  limits = { reward = { instructions = 2e6 } }, -- a loop without an end is stopped soon
  rewards = { { name = "correct", fn = correct } },
  eval = { every = 10 },
  stages = {
    { kind = "sft", train = { steps = 200, prompts_per_step = 64, lr = 3e-3 } },
    { kind = "grpo", train = { steps = 100, prompts_per_step = 32,
      lr = schedule.linear { from = 1e-3, to = 1e-4, steps = 100 } } },
  },
}
