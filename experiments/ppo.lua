-- experiments/ppo.lua
--
-- Question: does a critic (PPO) reach what group baselines (GRPO) reach, with the same number of sampled tokens?
--
--   grpo run experiments/ppo.lua --arg mode=ppo          the word problems of experiments/gsm8k.lua: a small model is
--   grpo run experiments/ppo.lua --arg mode=grpo         made, taught by a weak teacher, then improved by rewards
--   ... --arg from=CHECKPOINT   a model that has been taught already: RUN/checkpoints/step-000900; saves the teaching
--   ... --arg steps=N --arg seed=N --arg critic=separate
--
-- Both modes sample 256 completions a step.  Measured results: experiments/ppo.md

local grpo     = require "grpo"
local gsm8k    = require "rewards.gsm8k"
local schedule = require "grpo.schedule"
local wordmath = require "tasks.wordmath"

local args  = grpo.args
for name in pairs(args) do
  if not (" mode from steps seed critic "):find(" " .. name .. " ", 1, true) then
    error(("--arg %s: unknown; see the head of the script"):format(name), 0)
  end
end
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
  local texts = {} -- what its tokenizer is trained on; every digit is a token of its own
  for i = 1, 2000 do texts[i] = wordmath.prompt(problems[i]) .. wordmath.solution(problems[i]) end
  model = {
    config    = "configs/models/starter.json",
    tokenizer = grpo.tokenizer.train(texts, { kind = "bpe", vocab_size = 512 }),
  }
end

local imitate = {
  kind = "sft",
  data = { train = demonstrations, target = wordmath.demonstration },
  train = { steps = 900, prompts_per_step = 64, lr = schedule.cosine { peak = 3e-3, warmup = 40, final = 3e-4 } },
}

local improve = {
  grpo = {
    kind = "grpo",
    train = { steps = steps, prompts_per_step = 32, lr = schedule.cosine { peak = 6e-5, warmup = 5, final = 6e-6 } },
  },
  ppo = {
    kind = "ppo",
    train = {
      steps = steps, prompts_per_step = 32, lr = schedule.cosine { peak = 6e-5, warmup = 5, final = 6e-6 },
      -- a shared critic's loss trains the policy's layers too: in a model this small, weigh it little
      ppo = { critic = args.critic or "shared", value_coef = args.critic == "separate" and 0.1 or 0.01, kl_coef = 0.0 },
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
  data     = { train = problems, eval = held_out, prompt = wordmath.prompt, max_prompt_tokens = 64 },
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
