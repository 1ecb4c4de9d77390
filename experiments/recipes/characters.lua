-- experiments/recipes/characters.lua
--
-- The programs of a character-level research code on tiny Shakespeare, with that code's numbers.
--
--   grpo run experiments/recipes/characters.lua --arg text=input.txt [--arg program=grpo]
--
--   program=grpo     a reward for each character, no teaching, a bigram as reference
--   program=taught   4,000 supervised steps first, then more samples of shorter texts
--   program=ppo      an actor with a critic
--   program=denoise  masked characters          program=latent  latent attention
--
-- Every argument of experiments/shakespeare.lua (for latent: latent.lua), which are the programs,
-- wins over the preset: horizon, K, beta_kl, kl_warmup_tokens, partial_logprob, reward_mode, ...
--
-- Published: GPT-2 of 6 layers of 384 with a context of 256; one character is given, then
--   grpo    horizon 70, K 4, beta_kl 0.001 over 200,000 characters, 32 windows, lr 1e-5,
--           1,000 steps, partial_logprob 0.05 (of the sampled character)
--   taught  horizon 32, K 70, beta_kl 0.003 over 20,000 characters, 64 windows, lr 3e-5,
--           2,000 steps, partial_logprob 0.05
--   ppo     horizon 32, gamma 1, lambda 0.95, clip 0.2, four epochs of four minibatches,
--           64 windows, lr 3e-5, 3,000 steps, no KL, half of the squared error of the values
-- Rewards are 1 and 0, the gradient's norm at most 1 (ppo: any), weights decay by 0.01.
--
-- Different: kl_warmup_tokens counts all K samples here and one of them there, so the numbers below
-- are K times as large, and the weight rises within as many steps. That code scores a character by
-- the logits of its own place, which have seen it; here it is those of the place before. It trains
-- on the whole text, in order; here on nine tenths, in random windows. Its PPO reads GPT-2's tokens
-- (--arg tokens=FILE of ranks) and gives the value head a second optimizer with lr 1e-4; its ratio
-- sees one token without context. AdamW has beta2 0.99 here (train.optimizer.beta2=0.999), and PPO
-- clips values (train.ppo.clip_value=1000 turns that off).
-- Not published, chosen here: all of denoise and latent, and the supervised windows of taught.
--
-- Nothing is downloaded without a text: a small grammar makes one. ../README.md has the address of
-- tiny Shakespeare. Memory: 43 MB of weights, four times that with gradient and moments, 43 MB of
-- reference if it is a model, and the activations of a step, which take most: `grpo check`.
-- --arg size=tiny tries each program in seconds.

local grpo = require "grpo"

-- The programs stand one directory up.
package.path = package.path:match("^[^?]*") .. "../?.lua;" .. package.path

local presets = {
  grpo = {
    mode = "grpo", prompt = 1, horizon = 70, K = 4, beta_kl = 0.001, kl_warmup_tokens = 800000,
    batch_size = 32, lr = 1e-5, lr_warmup = 0, steps = 1000, pretrain = 0, reference = "bigram",
    partial_logprob = 0.05, partial_of = "sampled", weight_decay = 0.01,
  },
  taught = {
    mode = "grpo", prompt = 1, horizon = 32, K = 70, beta_kl = 0.003, kl_warmup_tokens = 1400000,
    batch_size = 64, lr = 3e-5, lr_warmup = 0, steps = 2000, pretrain = 4000, reference = "bigram",
    partial_logprob = 0.05, partial_of = "sampled", weight_decay = 0.01,
  },
  ppo = {
    mode = "ppo", prompt = 1, horizon = 32, K = 1, beta_kl = 0, gamma = 1, lambda = 0.95,
    value_coef = 1, iterations = 4, minibatches = 4, batch_size = 64, lr = 3e-5, lr_warmup = 0,
    steps = 3000, pretrain = 0, max_grad_norm = 0, weight_decay = 0.01,
  },
  denoise = { mode = "denoise" },
  latent = { attention = "latent" },
}

local args = grpo.args
local program = args.program or "grpo"
local preset = presets[program]
if not preset then
  error(("--arg program=%s: want grpo, taught, ppo, denoise or latent"):format(program), 0)
end
args.program = nil
for name, value in grpo.sorted_pairs(preset) do
  if args[name] == nil then args[name] = tostring(value) end
end

return require(program == "latent" and "latent" or "shakespeare")
