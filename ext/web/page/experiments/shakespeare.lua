-- A few pages of Shakespeare, character by character, with a reward for each of them.
--
-- The model reads 24 characters and writes 6.  A first, supervised stage shows it the text, so that
-- it writes something like English.  Then it learns from rewards alone: each of its characters gets
-- one of its own, so a completion has six rewards in place of one.

local grpo = require "grpo"

local path   = "shakespeare.txt"
local file   = assert(io.open(path, "rb"))
local source = file:read "a"
file:close()

local tokenizer = grpo.tokenizer.chars(source, { special = false })

-- Windows of the text: `prompt` characters are given, `more` follow.  The last tenth is held out.
local function windows(prompt, more, from, to, stride)
  return grpo.data.text(path, { tokenizer = tokenizer, from = from, to = to, stride = stride,
    window = prompt + more, prompt = prompt })
end

-- A character is rewarded if it is the play's, and if all before it were.  Change the numbers while
-- it trains, and press Apply: what does it write for 1, 0, 0, 0, 0, 0, or if `right` stays true?
local worth = { 1, 1, 1, 1, 1, 1 }

local function match(c)
  local list, right = {}, true
  for t = 1, c.length do
    right = right and c.ids[t] == c.target_ids[t]
    list[t] = right and worth[t] or 0
  end
  return list
end

-- The held-out measure: how many of the six are right before the first mistake, as a share.
local function share(_, _, c)
  local n = 0
  while n < 6 and c.ids[n + 1] == c.target_ids[n + 1] do n = n + 1 end
  return n / 6
end

return grpo.experiment {
  name     = "shakespeare",
  model    = {
    config = { model_type = "llama", hidden_size = 96, intermediate_size = 256,
      num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 64,
      initializer_range = 0.08 },
    tokenizer = tokenizer,
  },
  data     = {
    eval = windows(24, 6, 0.9, 1), max_prompt_tokens = 24,
    target = function(row) return row.target end,
  },
  limits   = { reward = { instructions = 2e6 } }, -- a loop without an end is stopped soon
  rewards  = { { name = "match", token_fn = match } },
  sampling = { max_new_tokens = 6 },
  eval     = { every = 30, metric = share, samples = 100, group_size = 4 },
  stages   = {
    { kind = "sft", data = { train = windows(1, 39, 0, 0.9, 1) },
      sampling = { max_new_tokens = 39 },
      train = { steps = 240, prompts_per_step = 12, lr = 4e-3 } },
    { kind = "grpo", data = { train = windows(24, 6, 0, 0.9, 1) },
      train = { steps = 100, prompts_per_step = 24, lr = 5e-4 } },
  },
}
