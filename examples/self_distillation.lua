-- examples/self_distillation.lua - a model learns from the correction of its own mistakes.
--
--   grpo run examples/self_distillation.lua                    self-distillation: solved
--   grpo run examples/self_distillation.lua --arg method=grpo  rewards alone: nothing is learned
--   ... --arg seed=1 --arg steps=300
--
-- A small model is first taught to repeat four digits, and to write what a correction behind a "!"
-- says in their place.  Then it is to add 1 to every digit, which it has never done: every answer
-- is wrong, all groups have reward 0, and GRPO has nothing to learn from.
--
-- The teacher is the model as it was after the first stage, with a privileged prompt: the prompt
-- of the student and, where its answer was wrong, the correction (train.distill.prompt; SDFT
-- 2601.19897, SDPO 2601.20802).  The student, which never sees a correction, is drawn towards what
-- the teacher would have written.  Held-out sums are solved at the end.
--
-- A teacher that moves with every step (reference = "policy") fails here: student and teacher
-- come to agree on a text that ignores the correction.

local grpo = require "grpo"

local method = grpo.args.method or "distill"
local steps = math.tointeger(tonumber(grpo.args.steps or 300))
local seed = math.tointeger(tonumber(grpo.args.seed or 0))

local function digits(number) return ("%04d"):format(number) end

local function add_one(text)
  return (text:gsub("%d", function(d) return tostring((tonumber(d) + 1) % 10) end))
end

-- Row i: four digits, the same for each i; those of held-out rows are in no other row.
local function row(i, held_out)
  local given = digits((i * 7919 + (held_out and 1 or 0)) % 5000 * 2 + (held_out and 1 or 0))
  return { given = given, prompt = given .. "=", answer = add_one(given) }
end

-- For the first stage: half of the rows have a correction.
local function copying(i)
  local r, other = row(i), digits((i * 104729) % 10000)
  if i % 2 == 0 then return { prompt = r.prompt, answer = r.given } end
  return { prompt = r.given .. "!" .. other .. "=", answer = other }
end

local function correct(text, r) return text == r.answer end

-- Returns the prompt of the teacher for a wrong answer.
local function corrected(r, c)
  if c.reward == 1 then return nil end
  return r.given .. "!" .. r.answer .. "="
end

local second = { kind = method, train = { steps = steps } }
if method == "distill" then
  second.reference, second.train.distill = "initial", { prompt = corrected }
end
second.train.prompts_per_step, second.train.lr = 16, 1e-3
second.data = { train = grpo.data.generate(function(_, i) return row(i) end, { n = 2000 }) }

return grpo.experiment {
  name = "self-distillation", seed = seed,
  model = {
    config = { model_type = "llama", hidden_size = 64, intermediate_size = 128,
      num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 32 },
    tokenizer = grpo.tokenizer.chars("0123456789!="),
  },
  data = {
    train = grpo.data.generate(function(_, i) return copying(i) end, { n = 4000 }),
    eval = grpo.data.generate(function(_, i) return row(i, true) end, { n = 100 }),
    target = function(r) return r.answer end, max_prompt_tokens = 12,
  },
  sampling = { group_size = 8, max_new_tokens = 6 },
  rewards = { { name = "correct", fn = correct } },
  stages = { { kind = "sft", train = { steps = 400, prompts_per_step = 64, lr = 2e-3 } }, second },
  eval = { group_size = 128, pass_at = { 1, 128 } },
  log = { completions = 0 },
}
