-- examples/embed/stock.lua - a program in stock Lua that trains a model with a reward of its own.
--
--   lua5.4 examples/embed/stock.lua         (installed; from the source tree: make lua-module, and
--   LUA_CPATH="build/release/lua/?.so;;" lua5.4 examples/embed/stock.lua)
--
-- grpo is a module like any other: loading it changes nothing in this program.  See
-- docs/stock-lua.md.

local grpo = require "grpo"

-- The program's own data and reward.
local words = { "level", "noon", "radar", "civic", "refer", "kayak" }

local function palindrome(text)
  local matching = 0
  for i = 1, #text // 2 do
    if text:byte(i) == text:byte(-i) then matching = matching + 1 end
  end
  return #text < 4 and 0 or matching / (#text // 2)
end

local rows = {}
for i, word in ipairs(words) do rows[i] = { prompt = word:sub(1, 2) } end

local trainer = grpo.trainer(grpo.experiment {
  model = {
    config = {
      model_type = "llama", hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2,
      num_attention_heads = 4, max_position_embeddings = 16,
    },
    tokenizer = grpo.tokenizer.chars("abcdefghijklmnopqrstuvwxyz"),
  },
  data     = { train = grpo.data.list(rows), max_prompt_tokens = 4 },
  sampling = { group_size = 16, max_new_tokens = 6 },
  rewards  = { { name = "palindrome", fn = palindrome } },
  train    = { steps = 60, prompts_per_step = 4, lr = 3e-3 },
})

-- The loop is this program's.
local first, last
while trainer.step_count < 60 do
  last = trainer:step().reward
  first = first or last
end
print(("reward %.2f, after %d steps %.2f"):format(first, trainer.step_count, last))

local prompts = { "no", "ra" }
for _, sample in ipairs(trainer.model:generate(prompts, { max_new_tokens = 6, temperature = 0 })) do
  print(("%s: %s, %.2f"):format(prompts[sample.prompt], sample.text, palindrome(sample.text)))
end
