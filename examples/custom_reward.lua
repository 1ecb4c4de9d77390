-- examples/custom_reward.lua - every kind of reward, on a model made on the spot.
--
--   ./grpo run examples/custom_reward.lua
--
-- The task is to continue "abc" with vowels.  There are no demonstrations, only rewards.

local grpo = require "grpo"

-- Scores one completion.  text: the model's text; row: the dataset's row; c: everything else.
-- A second result is a table of columns for completions.jsonl.
local function vowels(text)
  local n = select(2, text:gsub("[aeiou]", ""))
  return n / 8, { vowels = n }
end

-- Scores a whole group: a completion earns a little if no other one has the same text.
local function different(texts)
  local seen, list = {}, {}
  for _, text in ipairs(texts) do seen[text] = (seen[text] or 0) + 1 end
  for i, text in ipairs(texts) do list[i] = seen[text] == 1 end
  return list -- true is 1, false is 0
end

-- nil means that the reward does not apply; the entry is then left out of this completion's sum.
local function ends(_, _, c)
  if c.truncated then return nil end
  return c.length <= 8
end

return grpo.experiment {
  model = {
    config = {
      model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
      num_attention_heads = 4, max_position_embeddings = 32,
    },
    tokenizer = grpo.tokenizer.chars("abcdefghijklmnopqrstuvwxyz"),
  },
  data     = { train = grpo.data.list { { prompt = "abc" } }, max_prompt_tokens = 4 },
  sampling = { group_size = 16, max_new_tokens = 8 },
  rewards  = {
    { name = "vowels", fn = vowels },
    { name = "different", group_fn = different, weight = 0.1 },
    { name = "ends", fn = ends, weight = 0.1 },
  },
  train = { steps = 60, prompts_per_step = 4, lr = 3e-3 },
}
