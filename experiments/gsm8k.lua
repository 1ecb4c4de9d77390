-- experiments/gsm8k.lua
--
-- Question: how far can rewards alone lift a model above the teacher it learned from?
--
--   grpo run experiments/gsm8k.lua                   nothing to download: problems are generated,
--                                                    a small model is made, and taught on the spot
--   grpo run experiments/gsm8k.lua --arg data=DIR    real GSM8K: DIR/train.jsonl, test.jsonl
--   grpo run experiments/gsm8k.lua --arg model=DIR   a pretrained model: a Hugging Face directory,
--                                                    a .gguf file, or an adapter to train on
--   ... --arg steps=N --arg seed=N --arg lr=X
--
-- With a model: 4-bit weights with a low-rank adapter on all seven projections, a KL to the initial
-- model, four rewards.  The numbers are our choice (recipes/notebook.lua has published ones); they
-- are in configs/train/gsm8k-lora.json and below, and each can be changed on the command line:
-- model.quantize=null model.lora.rank=16 sampling.group_size=4 train.kl=0 ...
-- Afterwards: grpo export runs/gsm8k-001 my-model --merge
--
-- Measured results: experiments/gsm8k.md

local answer      = require "grpo.answer"
local grpo        = require "grpo"
local gsm8k       = require "rewards.gsm8k"
local model_paths = require "grpo.models.paths"
local schedule    = require "grpo.schedule"
local real        = require "tasks.gsm8k"
local wordmath    = require "tasks.wordmath"

local args  = grpo.args
local seed  = math.tointeger(tonumber(args.seed or 0))
local steps = math.tointeger(tonumber(args.steps or (args.model and 500 or 400)))
local lr    = tonumber(args.lr or 1e-5)
if not (seed and steps and lr) then
  error("--arg seed and --arg steps want whole numbers, --arg lr a number", 0)
end

-- 1. Problems: rows with a question, and an answer that ends in "#### 42". -----------------------

local task, demonstrations, problems, held_out
if args.data then
  task           = real
  problems       = grpo.data.jsonl(args.data .. "/train.jsonl")
  held_out       = grpo.data.jsonl(args.data .. "/test.jsonl")
  demonstrations = problems
else
  io.stderr:write("gsm8k: no --arg data=DIR, so word problems in GSM8K's format are generated\n")
  task           = wordmath
  problems       = wordmath.dataset { split = "train", seed = seed, n = 20000 }
  held_out       = wordmath.dataset { split = "eval", seed = seed, n = 400 }
  demonstrations = wordmath.dataset { split = "demo", seed = seed, n = 20000 }
end

-- The first stage imitates these texts.  For generated problems the teacher is weak on purpose: its
-- steps are right, but exactly half of its demonstrations slip in the final number or the form.
local teach = task.demonstration or task.solution

-- 2. A model: the one in --arg model, or a new one of 1.2 million weights. ------------------------

local model, prompt
if args.model then
  local place     = model_paths.find(args.model)
  local tokenizer = grpo.tokenizer.load(place.path)
  local ask       = real.messages
  local can_chat  = pcall(function() return tokenizer:chat(ask { question = "?" }) end)
  prompt = can_chat and ask or function(row) return real.system .. "\n\n" .. real.prompt(row) end
  model  = {
    path     = args.model,
    quantize = "nf4",
    lora     = not place.adapter and {
      rank = 8, alpha = 32, dropout = 0.05,
      targets = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" },
    } or nil,
  }
else
  io.stderr:write("gsm8k: no --arg model=DIR, so a small model is made and taught first\n")
  local texts = {} -- the tokenizer is trained on these; every digit is a token of its own
  for i = 1, math.min(#problems, 2000) do
    local row = problems[i]
    texts[i] = task.prompt(row) .. task.solution(row)
  end
  model = {
    config    = "configs/models/starter.json",
    tokenizer = grpo.tokenizer.train(texts, {
      kind = "bpe", vocab_size = args.data and 4096 or 512,
    }),
  }
  prompt = task.prompt
end

-- The longest prompt and completion, in tokens, of a model made here.
local longest = args.data and { 224, 288 } or { 64, 72 }

-- 3. Rewards: what we want, as numbers.  Being right counts most; the rest is how to say it. ------

local rewards = {
  { name = "correct",       fn = gsm8k.correct,       weight = 2.0 },  -- 1 or 0
  { name = "integer",       fn = gsm8k.integer,       weight = 0.25 }, -- 1 or -1
  { name = "layout",        fn = gsm8k.layout,        weight = 0.5 },  -- 1 or -1
  { name = "nothing_after", fn = gsm8k.nothing_after, weight = 0.5 },  -- 0 or -0.5
}

-- The held-out measure is stricter than any one reward: the right number in the right form.
local function solved(text, row)
  return gsm8k.correct(text, row) == 1 and gsm8k.layout(text) == 1
end

-- 4. Two stages: imitate, then improve.  A pretrained model needs no imitation. -------------------

local imitate = {
  kind = "sft",
  data = { train = demonstrations, target = teach },
  train = {
    steps = 900, prompts_per_step = 64,
    lr = schedule.cosine { peak = 3e-3, warmup = 40, final = 3e-4 },
  },
}

local improve = {
  kind = "grpo",
  data = { train = problems },
  train = {
    steps = steps, prompts_per_step = 32,
    lr = schedule.cosine { peak = 6e-5, warmup = 5, final = 6e-6 },
  },
}

-- Ten of the answers of the last evaluation, beside the right ones.
local function show_ten(report, tr)
  if not args.model or report.label ~= "after grpo" then return end
  for i = 1, math.min(10, #report.samples) do
    local c = report.samples[i]
    tr:print(("\n%d. %s\n%s\n(%s; the answer is %s)"):format(i, c.row.question, c.text,
      c.passed and "solved" or "not solved", answer.hashed(c.row.answer)))
  end
end

local experiment = {
  name    = "gsm8k",
  seed    = seed,
  model   = model,
  data    = { train = problems, eval = held_out, prompt = prompt },
  rewards = rewards,
  eval    = { metric = solved },
  log     = { completions = 2 },
  hooks   = { on_eval = show_ten },
}

if args.model then
  experiment.extends = "configs/train/gsm8k-lora.json"
  experiment.train = {
    steps = steps, lr = schedule.cosine { peak = lr, warmup = math.max(1, steps // 10) },
  }
else
  experiment.data.max_prompt_tokens = longest[1]
  experiment.sampling = { group_size = 8, max_new_tokens = longest[2] }
  experiment.stages   = { imitate, improve }
  -- Evaluated before, between and after the stages: greedy accuracy, and pass@1 and pass@8 of
  -- eight samples a problem.
  experiment.eval = { metric = solved, samples = 400, group_size = 8, pass_at = { 1, 8 } }
  function experiment.hooks.on_start(tr)
    if args.data or tr.resumed then return end
    local s = wordmath.teacher_stats(demonstrations:take(1000))
    tr:print(("teacher: of %d demonstrations %d are right, %d wrong in the number, %d in form")
      :format(s.n, s.right, s.wrong_answer, s.wrong_format))
  end
end

return grpo.experiment(experiment)
