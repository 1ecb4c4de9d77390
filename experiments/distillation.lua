-- experiments/distillation.lua
--
-- Question: how much processor time does a model save that learns from a teacher, token by token,
-- in place of rewards alone?   Answer and table: distillation.md
--
--   grpo run experiments/distillation.lua --arg method=grpo --arg seed=102 --arg steps=600 \
--     --as teacher
--   grpo run experiments/distillation.lua --arg method=grpo --arg seed=0
--   grpo run experiments/distillation.lua --arg method=distill --arg seed=0
--   ... --arg teacher=runs/teacher --arg beta=1 --arg steps=N
--
-- The task is that of `grpo init`: sums of two digits, a fifth of which is held out.  A student
-- first learns from answers that are one too many half of the time.  Then it learns the right ones
-- from the reward, or from a teacher, which is another run with more steps of GRPO.
--
-- logs/times.txt in the run's directory has a line for each evaluation: steps of the second stage,
-- its processor seconds without the evaluations, and pass@1 on the held-out sums.

local grpo = require "grpo"

local args = grpo.args
local method, seed = args.method or "distill", math.tointeger(tonumber(args.seed or 0))
local steps = math.tointeger(tonumber(args.steps or (method == "distill" and 400 or 150)))
local beta = tonumber(args.beta or 1)

-- All sums of two digits, in an order that mixes them.
local function sums(held_out)
  local rows = {}
  for i = 0, 99 do
    local a, b = i * 37 % 100 // 10, i * 37 % 10
    if ((a + 2 * b) % 5 == 0) == held_out then
      for slip = 0, held_out and 0 or 1 do
        rows[#rows + 1] = { prompt = ("%d+%d="):format(a, b), answer = tostring(a + b),
          slip = slip }
      end
    end
  end
  return grpo.data.list(rows)
end

local function correct(text, row) return text == row.answer end

local second = { kind = "grpo", train = { steps = steps, prompts_per_step = 32, lr = 1e-3 } }
if method == "distill" then
  second.kind, second.reference = "distill", args.teacher or "runs/teacher"
  second.train.distill = { beta = beta }
  second.sampling = { group_size = 1 } -- a teacher needs no group to compare with
end

local before = 200 -- steps of the first stage
local last, spent  -- processor seconds, of the clock and of the second stage

return grpo.experiment {
  name = "distillation-" .. method, seed = seed, threads = 1,
  model = {
    config = { model_type = "llama", hidden_size = 64, intermediate_size = 172,
      num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 2,
      max_position_embeddings = 64, tie_word_embeddings = true },
    tokenizer = grpo.tokenizer.chars("0123456789+="),
  },
  data = {
    train = sums(false), eval = sums(true), max_prompt_tokens = 8,
    target = function(row) return tostring(tonumber(row.answer) + row.slip) end,
  },
  sampling = { max_new_tokens = 4 },
  rewards = { { name = "correct", fn = correct } },
  stages = {
    { kind = "sft", train = { steps = before, prompts_per_step = 64, lr = 3e-3 } },
    second,
  },
  eval = { every = 4, group_size = 16 },
  hooks = {
    on_step = function()
      if last then spent = (spent or 0) + os.clock() - last end
    end,
    on_eval = function(report, tr)
      if tr.stage_index == 2 and tr.stage and not tr.stage.done then
        tr:append("times.txt", ("%d %.3f %.4f\n"):format(tr.step_count - before, spent or 0,
          report["eval/pass@1"]))
      end
      last = tr.step_count >= before and os.clock() or nil
    end,
  },
  log = { completions = 0, tensorboard = false },
}
