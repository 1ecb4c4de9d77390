-- examples/curriculum.lua - rows that are sometimes solved come more often.
--
--   grpo run examples/curriculum.lua                    by pass rate, 60 steps
--   grpo run examples/curriculum.lua --arg order=plain  the shuffled order, to compare
--   grpo run examples/curriculum.lua --arg order=hard   from small numbers to large ones
--
-- The task: copy the first digit of a sum as often as its second digit says, so that rows differ in
-- difficulty.  Watch sampler/pass_rate.  Kill the run and resume it: the sampler's state is in the
-- checkpoint, so it continues with the same rows.

local grpo = require "grpo"

local rows = {}
for digit = 1, 9 do
  for times = 1, 6 do
    rows[#rows + 1] = { prompt = ("%d*%d="):format(digit, times), times = times,
      answer = tostring(digit):rep(times) }
  end
end

-- The share of the answer that is right, from its beginning.
local function share(text, row)
  local right = 0
  while right < #row.answer and text:byte(right + 1) == row.answer:byte(right + 1) do
    right = right + 1
  end
  return right / math.max(#row.answer, #text)
end

local orders = {
  plain = nil,
  rate = grpo.samplers.by_pass_rate { reward = "share" },
  hard = grpo.samplers.easy_to_hard { difficulty = function(row) return row.times end },
}

return grpo.experiment {
  name = "curriculum",
  model = {
    config = { model_type = "llama", hidden_size = 32, intermediate_size = 64,
      num_hidden_layers = 2, num_attention_heads = 2, max_position_embeddings = 32 },
    tokenizer = grpo.tokenizer.chars("0123456789*="),
  },
  data = {
    train = grpo.data.list(rows), max_prompt_tokens = 8,
    target = function(row) return row.answer end,
    sampler = orders[grpo.args.order or "rate"],
  },
  rewards = { { name = "share", fn = share } },
  sampling = { group_size = 8, max_new_tokens = 8 },
  stages = {
    { kind = "sft", train = { steps = 40, prompts_per_step = 16, lr = 3e-3 } },
    { kind = "grpo", train = { steps = 60, prompts_per_step = 8, lr = 1e-3 } },
  },
  checkpoint = { every = 20 },
  log = { completions = 0 },
}
