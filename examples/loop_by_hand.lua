-- examples/loop_by_hand.lua - GRPO without the trainer: the same pieces, called one after the other.
--
--   ./grpo repl < examples/loop_by_hand.lua

local grpo = require "grpo"

local tok = grpo.tokenizer.chars("0123456789")
local m = grpo.model.new({
  model_type = "llama", vocab_size = #tok, eos_token_id = tok.eos, hidden_size = 32, intermediate_size = 64,
  num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 32,
}, { seed = 1, tokenizer = tok })

local params = {}
for _, tensor in m:parameters() do params[#params + 1] = tensor end
local opt = grpo.optim.adamw(params)

local G, prompts = 8, { "1", "2", "3", "4" }

-- The reward: rising digits.
local function reward(text)
  local good = 0
  for i = 2, #text do
    if text:byte(i) >= text:byte(i - 1) then good = good + 1 end
  end
  return good / 7
end

for step = 1, 121 do
  -- 1. sample G completions of every prompt
  local samples = m:generate(prompts, { n = G, max_new_tokens = 8, seed = step })
  -- 2. reward them, 3. turn rewards into advantages, group by group
  local rewards, total = {}, 0
  for i, s in ipairs(samples) do
    rewards[i] = reward(s.text)
    total = total + rewards[i]
  end
  local advantages = grpo.advantages(rewards, { group = G })
  -- 4. log-probabilities of the sampled tokens, with a graph behind them
  local prompt_ids, completion_ids, old, per_token = {}, {}, {}, {}
  for i, s in ipairs(samples) do
    prompt_ids[i], completion_ids[i] = tok:encode(prompts[s.prompt]), s.ids
    for t = 1, #s.ids do
      old[#old + 1] = s.logprobs[t]
      per_token[#per_token + 1] = advantages[i]
    end
  end
  local t = m:score(prompt_ids, completion_ids, { grad = true })
  t.old_logp, t.advantage = grpo.tensor(old), grpo.tensor(per_token)
  -- 5. the loss, backward, one step of AdamW
  local loss, metrics = grpo.loss("grpo", t, { clip = 0.2 })
  loss:backward()
  grpo.clip_grad_norm(params, 1.0)
  opt:step(3e-3)
  opt:zero_grad()
  if step % 20 == 1 then
    print(("step %3d   reward %.3f   entropy %.3f"):format(step, total / #samples, metrics.entropy))
  end
end
