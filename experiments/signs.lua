-- experiments/signs.lua
--
-- Question: what do the common faults of a GRPO run look like in its metrics?
--
--   grpo run experiments/gsm8k.lua                       makes and teaches the model
--   grpo run experiments/signs.lua --arg model=runs/gsm8k-001/checkpoints/step-000900
--   ... --arg fault=rate                                 one fault at a time; below are all of them
--   ... --arg steps=N --arg seed=N
--
-- Every run begins with the same model: half of its sampled answers are right.  A fault changes one
-- thing.  docs/guide.md has a table of the results.

local grpo     = require "grpo"
local gsm8k    = require "rewards.gsm8k"
local wordmath = require "tasks.wordmath"

local args  = grpo.args
local seed  = math.tointeger(tonumber(args.seed or 0))
local steps = math.tointeger(tonumber(args.steps or 60))
if not (args.model and seed and steps) then
  error("--arg model=DIR is needed, a checkpoint of experiments/gsm8k.lua after its first stage; "
    .. "--arg seed and --arg steps want whole numbers", 0)
end

local experiment = {
  name = "signs",
  seed = seed,
  model = { path = args.model },
  data = {
    train = wordmath.dataset { split = "train", seed = seed, n = 20000 },
    eval = wordmath.dataset { split = "eval", seed = seed, n = 200 },
    prompt = wordmath.prompt,
    max_prompt_tokens = 64,
  },
  sampling = { group_size = 8, max_new_tokens = 72 },
  rewards = {
    { name = "correct", fn = gsm8k.correct, weight = 2.0 },
    { name = "layout", fn = gsm8k.layout, weight = 0.5 },
  },
  train = { steps = steps, prompts_per_step = 16, lr = 6e-5, kl = 0.01 },
  eval = {
    samples = 200, group_size = 4, pass_at = { 1, 4 }, every = 50,
    metric = function(text, row)
      return gsm8k.correct(text, row) == 1 and gsm8k.layout(text) == 1
    end,
  },
  checkpoint = { every = steps },
  log = { completions = 0 },
}

-- Rewards of which only `paid` counts; the right answer is still measured.
local function only(paid)
  return { paid, { name = "correct", fn = gsm8k.correct, weight = 0 } }
end

-- How the experiment is changed by each of the faults that docs/guide.md explains.
local faults = {
  none = function() end,
  -- a learning rate 50 times too high
  rate = function(e) e.train.lr = 3e-3 end,
  -- all completions of a group agree
  cold = function(e) e.sampling.temperature = 0.1 end,
  -- hardly a completion reaches its answer
  cut = function(e) e.sampling.max_new_tokens = 24 end,
  -- groups of two
  pairs = function(e) e.sampling.group_size = 2 end,
  -- a KL that forbids to move
  tight = function(e) e.train.kl = 2.0 end,
  -- only the format is paid for
  form = function(e) e.rewards = only { name = "layout", fn = gsm8k.layout } end,
  -- length is paid for
  long = function(e)
    e.rewards = only { name = "length", fn = function(_, _, c) return c.length / 72 end }
  end,
  -- the reward knows nothing
  noise = function(e)
    e.rewards = only { name = "noise", fn = function(_, _, c) return c.rng() end }
  end,
}

local fault = args.fault or "none"
if not faults[fault] then
  error(("--arg fault=%s: unknown; see the head of the script"):format(fault), 0)
end
experiment.name = "signs-" .. fault
faults[fault](experiment)

return grpo.experiment(experiment)
