-- examples/generate.lua - sampling, scoring and looking at logits.
--
--   ./grpo repl < examples/generate.lua
--
-- The model is made on the spot with random weights; grpo.model.load("DIR") loads one of yours.

local grpo = require "grpo"

local tok = grpo.tokenizer.bytes()
local m = grpo.model.new({
  model_type = "gpt2", vocab_size = #tok, n_embd = 32, n_layer = 2, n_head = 4, n_positions = 64,
}, { seed = 1, tokenizer = tok })
print(m)

-- Two samples of each prompt; a seed gives the same text, whatever else is sampled in the same
-- call.
local options = { n = 2, max_new_tokens = 12, temperature = 0.8, top_p = 0.9, seed = 7 }
for _, s in ipairs(m:generate({ "Hello", "World" }, options)) do
  print(("prompt %d: %q (%d tokens, %s)"):format(s.prompt, s.text, #s.ids, s.finish))
end

-- How likely is a text?
local ids = tok:encode("Hello")
local logp = m:logprobs(ids) -- log p(ids[i + 1] | ids[1..i])
print(("log p(ello | H) = %.3f"):format(logp:sum():item()))

-- The most likely next byte.
local last = m:logits(ids)[#ids]
print(("most likely next: %.4f of the probability"):format(last:softmax(1):max():item()))
