-- experiments/recipes/guide.lua
--
-- The two examples of a widely copied guide to GRPO with TRL: an instruct model of 1.5 billion
-- weights learns to answer GSM8K between tags.
--
--   grpo run experiments/recipes/guide.lua                        the basic example: one stage
--   grpo run experiments/recipes/guide.lua --arg example=stages   first the form, then the answer
--   ... --arg model=DIR (models/Qwen2.5-1.5B-Instruct) --arg data=DIR (gsm8k) --arg seed=N
--   ... --arg extra=0                                             without length and style
--
-- Published: Qwen2.5-1.5B-Instruct in bf16 with LoRA of rank 16, alpha 32, dropout 0.05 on all
-- seven projections; AdamW with moments in 8 bits, betas 0.9 and 0.99, weight decay 0.1; learning
-- rate 5e-6 on a cosine after a tenth of warm-up; gradient norm 0.1; groups of 8, prompts of 256
-- and completions of 512 tokens; one epoch, a checkpoint every 100 steps. Rewards: 0.25 for each
-- tag, less 0.001 for each character behind </answer> where that occurs once; 1.0 for the form; 2.0
-- for the answer. Its table of kinds of rewards adds one for the length, worth 0.1 to 0.5, and one
-- for the style, worth -0.5 to 0.5, and it advises one worked example in the system message.
-- With example=stages one epoch has the first two rewards and a second one form and answer.
--
-- Not published, chosen here: what the rewards for length and style look at, because the guide's
-- table has no code for them (--arg extra=0 leaves them out); the words of the system message and
-- its example, with the guide's tags; beta 0.04 and temperature 0.9, which were TRL's defaults when
-- the guide was written (0.14); the evaluation, because the guide has none. A batch of 1 that is
-- accumulated 4 times is read as 4 prompts in a step. The two stages have the settings of the basic
-- example, since the guide does not give their own.
-- Different: `grpo run` prints to the terminal; examples/wandb_forward.py sends a run to wandb.
--
-- Memory of the real model, computed from its config.json: weights 3.1 GB, keys and values 1.0 GB
-- (17,408 tokens of 56 KiB), adapter, gradient and moments 0.2 GB, and the activations of a group.
-- `grpo check experiments/recipes/guide.lua` has the figure for your settings.

local answer   = require "grpo.answer"
local format   = require "rewards.format"
local grpo     = require "grpo"

-- The task stands one directory up.
package.path = package.path:match("^[^?]*") .. "../?.lua;" .. package.path

local task     = require "tasks.gsm8k"
local schedule = require "grpo.schedule"

local args = grpo.args
for name in pairs(args) do
  if not (" example extra model data seed "):find(" " .. name .. " ", 1, true) then
    error(("--arg %s: unknown; see the head of the script"):format(name), 0)
  end
end
local example = args.example or "basic"
if example ~= "basic" and example ~= "stages" then
  error(("--arg example=%s: want basic or stages"):format(example), 0)
end
local data = args.data or "gsm8k"

local system = [[
Think first, then answer, in this form:
<reasoning>
your thoughts
</reasoning>
<answer>
the answer alone
</answer>

Example: Tom has 3 bags of 4 apples and eats 2. How many apples are left?
<reasoning>
3 bags of 4 apples are 12 apples. 12 - 2 = 10.
</reasoning>
<answer>
10
</answer>]]

-- The text between the first tags is compared as it stands, without a look at its number.
local function is_right(text, row)
  local given, right = answer.tagged(text, { first = true }), answer.hashed(row.answer)
  return given ~= nil and right ~= nil and answer.trim(given) == answer.trim(right)
end

local incremental = { name = "incremental", fn = format.incremental() }
local layout = {
  name = "layout", weight = 1.0,
  fn = format.regex([[<reasoning>.*?</reasoning>\s*<answer>.*?</answer>]], "s"),
}
local correct = { name = "correct", weight = 2.0, fn = is_right }

-- Rewards a completion whose reasoning is neither missing nor endless: 1 from 20 to 300 words.
local function has_length(text)
  local open, start = text:find("<reasoning>", 1, true)
  local stop = open and text:find("</reasoning>", start, true)
  local _, words = text:sub(stop and start + 1 or 1, stop and stop - 1 or 0):gsub("%S+", "")
  return words >= 20 and words <= 300
end

-- 1 for a calculation that is written out, -1 for phrases that answer nothing.
local function style(text)
  local lower = text:lower()
  for _, phrase in ipairs { "as an ai", "i cannot", "i'm sorry", "i am sorry" } do
    if lower:find(phrase, 1, true) then return -1 end
  end
  return text:find("%d%s*[-+*/x=]%s*%$?%d") and 1 or 0
end

local rewards = { incremental, layout, correct }
if args.extra ~= "0" then
  rewards[4] = { name = "length", weight = 0.25, fn = has_length }
  rewards[5] = { name = "style", weight = 0.5, fn = style }
end

local experiment = {
  name    = "guide-" .. example,
  seed    = math.tointeger(tonumber(args.seed or 0)),
  extends = "configs/train/guide.json",
  model   = {
    path = args.model or "models/Qwen2.5-1.5B-Instruct",
    lora = {
      rank = 16, alpha = 32, dropout = 0.05,
      targets = { "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj" },
    },
  },
  data    = {
    train  = grpo.data.jsonl(data .. "/train.jsonl"),
    eval   = grpo.data.jsonl(data .. "/test.jsonl"),
    prompt = function(row)
      return {
        { role = "system", content = system },
        { role = "user", content = row.question },
      }
    end,
    -- a right answer, which `grpo check` shows to the rewards
    target = function(row) return (task.solution(row):gsub("thinking>", "reasoning>")) end,
  },
  rewards = rewards,
  train   = { lr = schedule.cosine { peak = 5e-6, warmup_ratio = 0.1 } },
  eval    = { metric = is_right },
}

if example == "stages" then
  experiment.stages = {
    { kind = "grpo", rewards = { incremental, layout } },
    { kind = "grpo", rewards = { layout, correct } },
  }
end

return grpo.experiment(experiment)
