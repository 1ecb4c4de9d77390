-- examples/loop_by_hand.lua - GRPO without the trainer: its parts, called one after the other.
--
--   ./grpo repl <examples/loop_by_hand.lua

local grpo = require "grpo"

-- The policy: a small model with random weights that writes digits.
local tokenizer = grpo.tokenizer.chars("0123456789")
local policy = grpo.model.new({
  model_type = "llama", vocab_size = #tokenizer, eos_token_id = tokenizer.eos,
  hidden_size = 32, intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 4,
  max_position_embeddings = 32,
}, { seed = 1, tokenizer = tokenizer })

local parameters = {}
for _, tensor in policy:parameters() do parameters[#parameters + 1] = tensor end
local optimizer = grpo.optim.adamw(parameters)

local prompts, group_size = { "1", "2", "3", "4" }, 8

-- The reward of a completion: how many of its digits are not smaller than the one before, of 7.
local function reward_of(text)
  local rising = 0
  for i = 2, #text do
    if text:byte(i) >= text:byte(i - 1) then rising = rising + 1 end
  end
  return rising / 7
end

for step = 1, 121 do
  -- 1. Sample a group of completions for every prompt.
  local samples = policy:generate(prompts, { n = group_size, max_new_tokens = 8, seed = step })

  -- 2. Reward every completion.
  local rewards, total = {}, 0
  for i, s in ipairs(samples) do
    rewards[i] = reward_of(s.text)
    total = total + rewards[i]
  end

  -- 3. Advantages: how much better is a completion than the others of its group?
  local advantages = grpo.advantages(rewards, { group = group_size })

  -- 4. Log-probabilities of the sampled tokens under the policy, with gradients.
  local prompt_ids, completion_ids, old_logp, advantage = {}, {}, {}, {}
  for i, s in ipairs(samples) do
    prompt_ids[i], completion_ids[i] = tokenizer:encode(prompts[s.prompt]), s.ids
    for t = 1, #s.ids do
      old_logp[#old_logp + 1] = s.logprobs[t]
      advantage[#advantage + 1] = advantages[i]
    end
  end
  local tokens = policy:score(prompt_ids, completion_ids, { grad = true })
  tokens.old_logp, tokens.advantage = grpo.tensor(old_logp), grpo.tensor(advantage)

  -- 5. The loss and its gradient.
  local loss, metrics = grpo.loss("grpo", tokens, { clip = 0.2 })
  loss:backward()

  -- 6. One step of the optimizer.
  grpo.clip_grad_norm(parameters, 1.0)
  optimizer:step(3e-3)
  optimizer:zero_grad()

  if step % 20 == 1 then
    print(("step %3d   reward %.3f   entropy %.3f"):format(step, total / #samples, metrics.entropy))
  end
end
