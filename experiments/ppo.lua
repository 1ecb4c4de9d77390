-- experiments/ppo.lua
--
-- Question: does a critic (PPO) reach the results of group baselines (GRPO) with the same number of
-- sampled tokens?
--
--   grpo run experiments/ppo.lua --arg mode=ppo
--   grpo run experiments/ppo.lua --arg mode=grpo
--   ... --arg from=CHECKPOINT   a model that is already taught: RUN/checkpoints/step-000900
--   ... --arg steps=N --arg seed=N --arg critic=separate
--
-- The task is the word problems of experiments/gsm8k.lua: a small model is made, taught by a weak
-- teacher, then improved by rewards.  Both modes sample 256 completions per step.
-- Measured results: experiments/ppo.md

local grpo     = require "grpo"
local gsm8k    = require "rewards.gsm8k"
local schedule = require "grpo.schedule"
local wordmath = require "tasks.wordmath"

local args  = grpo.args
local mode  = args.mode or "ppo"
local seed  = math.tointeger(tonumber(args.seed or 0))
local steps = math.tointeger(tonumber(args.steps or 200))
if mode ~= "ppo" and mode ~= "grpo" then error("--arg mode wants ppo or grpo", 0) end
if not (seed and steps) then error("--arg seed and --arg steps want whole numbers", 0) end

local problems       = wordmath.dataset { split = "train", seed = seed, n = 20000 }
local held_out       = wordmath.dataset { split = "eval", seed = seed, n = 400 }
local demonstrations = wordmath.dataset { split = "demo", seed = seed, n = 20000 }

local model
if args.from then
  model = { path = args.from }
else
  local texts = {} -- the tokenizer is trained on these; every digit is a token of its own
  for i = 1, 2000 do
    texts[i] = wordmath.prompt(problems[i]) .. wordmath.solution(problems[i])
  end
  model = {
    config    = "configs/models/starter.json",
    tokenizer = grpo.tokenizer.train(texts, { kind = "bpe", vocab_size = 512 }),
  }
end

local imitate = {
  kind = "sft",
  data = { train = demonstrations, target = wordmath.demonstration },
  train = {
    steps = 900, prompts_per_step = 64,
    lr = schedule.cosine { peak = 3e-3, warmup = 40, final = 3e-4 },
  },
}

local lr = schedule.cosine { peak = 6e-5, warmup = 5, final = 6e-6 }
local improve = {
  grpo = {
    kind = "grpo",
    train = { steps = steps, prompts_per_step = 32, lr = lr },
  },
  ppo = {
    kind = "ppo",
    train = {
      steps = steps, prompts_per_step = 32, lr = lr,
      -- A shared critic's loss trains the policy's layers too, so it gets little weight in a model
      -- this small.
      ppo = {
        critic = args.critic or "shared", kl_coef = 0.0,
        value_coef = args.critic == "separate" and 0.1 or 0.01,
      },
    },
  },
}

-- The right number in the right form.
local function solved(text, row)
  return gsm8k.correct(text, row) == 1 and gsm8k.layout(text) == 1
end

return grpo.experiment {
  name     = mode,
  seed     = seed,
  model    = model,
  data     = {
    train = problems, eval = held_out, prompt = wordmath.prompt, max_prompt_tokens = 64,
  },
  sampling = { group_size = 8, max_new_tokens = 72 },
  rewards  = {
    { name = "correct",       fn = gsm8k.correct,       weight = 2.0 },  -- 1 or 0
    { name = "integer",       fn = gsm8k.integer,       weight = 0.25 }, -- 1 or -1
    { name = "layout",        fn = gsm8k.layout,        weight = 0.5 },  -- 1 or -1
    { name = "nothing_after", fn = gsm8k.nothing_after, weight = 0.5 },  -- 0 or -0.5
  },
  eval     = { metric = solved, samples = 400, group_size = 8, pass_at = { 1, 8 } },
  stages   = args.from and { improve[mode] } or { imitate, improve[mode] },
}
