-- experiments/recipes/notebook.lua
--
-- The recipe of the QLoRA notebook: Llama-3.1-8B-Instruct improves on GSM8K by rewards alone.
--
--   grpo pull --dataset openai/gsm8k
--   grpo check experiments/recipes/notebook.lua      prompts, scored samples, memory, time
--   grpo run experiments/recipes/notebook.lua        with models/Llama-3.1-8B-Instruct
--   ... --arg faster=1                       the notebook's settings for a shorter run
--   ... --arg rows=3000                      that many rows, shuffled with seed 42, not all 7,473
--   ... --arg model=DIR --arg data=DIR --arg seed=N
--
-- Published: compute in bf16 on frozen weights in NF4; LoRA of rank 8, alpha 32, dropout 0.05 on
-- all seven projections; learning rate 2e-4 on a cosine after 500 steps of warm-up; weight decay
-- 0.01; groups of 4 (faster: 2); 32 completions a step, as 4 x 8 (faster: 8 x 4); prompts of 512
-- tokens, cut at the left, and completions of 256 (faster: 128); one iteration (faster: 4); one
-- epoch; temperature 0.7, top_p 0.9, beta 0.02; four rewards of weight 1, of which a right answer
-- earns 2; a line of log every 10 steps, a checkpoint every epoch; an evaluation every 250 steps
-- on 1,319 rows, greedy, of 128 tokens, right if the integer in <answer> is; ten samples at the
-- end.
-- Defaults of TRL at that time, where the notebook says nothing: loss bnpo, clip 0.2, AdamW with
-- beta2 0.999, gradient norm 1.0, seed 42, log-probabilities over all tokens whatever top_p left.
--
-- Different, and why:
--   - The system message has the notebook's meaning in other words, with the same tags.
--   - A step here is one rollout with all its updates. With faster=1 a rollout has 4 updates, and
--     TRL counts each as a step; the schedule counts updates, and the other intervals are rounded.
--   - bnpo averages over each micro-batch. Here that is one group: the notebook's 4 completions;
--     with faster=1 it is 2 of its 8.
--   - --arg rows=N takes other rows than the notebook, because random numbers differ. With 3,000
--     rows the 500 steps of warm-up never end, there as here; a note says so.
--   - Nothing is padded, and a group shares its prompt (docs/algorithms.md).
--
-- Memory of the real model, computed from its config.json: weights 5.7 GB, of which the embedding
-- and the output projection in bf16 take 2.1; keys and values 3.2 GB (12,288 tokens of 256 KiB);
-- adapter, gradient and moments 0.3 GB; beside them the activations of one group, which
-- model.gradient_checkpointing=true makes smaller. `grpo check` has the figure for your settings.

local grpo = require "grpo"

-- The task stands one directory up.
package.path = package.path:match("^[^?]*") .. "../?.lua;" .. package.path

local answer   = require "grpo.answer"
local gsm8k    = require "rewards.gsm8k"
local schedule = require "grpo.schedule"
local task     = require "tasks.gsm8k"

local args = grpo.args
local faster = args.faster == "1"

local function whole(name, default)
  local n = args[name] and math.tointeger(tonumber(args[name])) or default
  if args[name] and not math.tointeger(tonumber(args[name])) then
    error(("--arg %s=%s: want a whole number"):format(name, args[name]), 0)
  end
  return n
end

-- The split of the Hub's dataset, or DIR/train.jsonl and DIR/test.jsonl.
local function split(name)
  if args.data then return grpo.data.jsonl(args.data .. "/" .. name .. ".jsonl") end
  return grpo.data.load("openai/gsm8k", { config = "main", split = name })
end

local train, rows = split "train", whole("rows")
if rows then train = train:shuffle(42):take(rows) end

local group_size = faster and 2 or 4
local iterations = faster and 4 or 1

-- Steps of a run in which about n optimizer updates are made.
local function updates(n) return math.max(1, n // iterations) end

local function is_right(text, row)
  return gsm8k.integer(text) == 1 and gsm8k.correct(text, row) == 1
end

local function show_ten(report, tr)
  if report.label ~= "after grpo" then return end
  for i = 1, math.min(10, #report.samples) do
    local c = report.samples[i]
    tr:print(("\n%d. Question: %s\nPrediction: %s\nGold: %s\n%s"):format(i, c.row.question,
      answer.trim(answer.tagged(c.text, { first = true }) or "none"),
      answer.hashed(c.row.answer), c.text))
  end
end

return grpo.experiment {
  name     = "notebook",
  seed     = whole("seed", 42),
  compute  = "bf16",
  model    = {
    path     = args.model or "models/Llama-3.1-8B-Instruct",
    quantize = "nf4",
    lora     = {
      rank = 8, alpha = 32, dropout = 0.05,
      targets = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" },
    },
  },
  data     = {
    train = train, eval = split "test", prompt = task.messages,
    max_prompt_tokens = 512, too_long = "truncate_left",
    target = task.solution, -- a right answer, which `grpo check` shows to the rewards
  },
  sampling = {
    group_size = group_size, max_new_tokens = faster and 128 or 256,
    temperature = 0.7, top_p = 0.9, renormalize = false,
  },
  rewards  = {
    { name = "correct", fn = function(text, row) return 2 * gsm8k.correct(text, row) end },
    { name = "integer",       fn = gsm8k.integer },       -- 1 or -1
    { name = "layout",        fn = gsm8k.layout },        -- 1 or -1
    { name = "nothing_after", fn = gsm8k.nothing_after }, -- 0 or -0.5
  },
  train    = {
    loss = "bnpo", epochs = 1, prompts_per_step = 32 // group_size, iterations = iterations,
    kl = 0.02, clip = 0.2, max_grad_norm = 1.0,
    lr = schedule.cosine { peak = 2e-4, warmup = 500, over = "update" },
    optimizer = { beta1 = 0.9, beta2 = 0.999, weight_decay = 0.01 },
  },
  eval       = { every = updates(250), max_new_tokens = 128, metric = is_right },
  log        = { every = updates(10) },
  checkpoint = { every_epochs = 1 },
  hooks      = { on_eval = show_ten },
}
