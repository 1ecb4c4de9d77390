-- experiments/parity.lua
--
-- Question: demonstrations that think are rare among ones that guess.  Do rewards make a model
-- think, and its greedy answers right, where imitation alone leaves them a coin's toss?
--
--   grpo run experiments/parity.lua --arg seed=0
--   ... --arg share=0.25      share of demonstrations with all steps (Tsilivis et al.: p_cot)
--   ... --arg bits=N --arg steps=N
--   ... --arg size=quick      seconds, to see that it runs
--
-- The task of Tsilivis et al. (2510.11495): the parity of random bits.  A long demonstration is the
-- parity of the first bit, of the first two, and so on to that of all; a short one is the last of
-- these alone.  An answer is right if its last digit is.
-- Measured results: experiments/parity.md

local grpo     = require "grpo"
local schedule = require "grpo.schedule"
local solved   = require "tasks.solved"

local args  = grpo.args
local seed  = math.tointeger(tonumber(args.seed or 0))
local share = tonumber(args.share or 0.25)

local sizes = {
  full  = { bits = 20, hidden = 64, sft = 400, rows = 64, steps = 60, held_out = 500 },
  quick = { bits = 4, hidden = 32, sft = 30, rows = 32, steps = 3, held_out = 8 },
}
local size = sizes[args.size or "full"]
if not size then error(("--arg size=%s: want full or quick"):format(args.size), 0) end
local bits  = math.tointeger(tonumber(args.bits or size.bits))
local steps = math.tointeger(tonumber(args.steps or size.steps))
if not (seed and bits and steps and share) then
  error("--arg seed, bits and steps want whole numbers, --arg share a number", 0)
end

-- 1. Problems: a hash of the bits decides whether they are held out, whatever the seed. -----------

local HELD_OUT = 10 -- one in 10

local function problem(rng, held_out)
  local x, steps_of, hash, parity
  repeat
    x, steps_of, hash, parity = {}, {}, 0, 0
    for i = 1, bits do
      x[i] = rng() < 0.5 and 0 or 1
      parity = parity ~ x[i]
      steps_of[i] = parity
      hash = (hash * 257 + x[i] + 1) % 1000003
    end
  until (hash % HELD_OUT == 0) == held_out
  return {
    prompt = table.concat(x) .. ":", long = table.concat(steps_of), answer = tostring(parity),
  }
end

local train = grpo.data.generate(function(rng)
  local row = problem(rng, false)
  row.target = rng() < share and row.long or row.answer
  return row
end, { seed = seed, n = 1000000 })

local held_out = grpo.data.generate(function(rng) return problem(rng, true) end,
  { seed = seed, n = size.held_out })

-- 2. Rewards: being right.  The others are only measured. -----------------------------------------

local function correct(text, row, c)
  return c.finish == "eos" and text:sub(-1) == row.answer
end

local function is_long(text) return #text > 1 end

local rewards = {
  { name = "correct", fn = correct },
  { name = "long", weight = 0, fn = is_long },
  { name = "right_if_long", weight = 0, fn = function(text, row, c)
    if is_long(text) then return correct(text, row, c) end
  end },
  { name = "right_if_short", weight = 0, fn = function(text, row, c)
    if not is_long(text) then return correct(text, row, c) end
  end },
}

-- 3. Imitate the mixture, then improve. -----------------------------------------------------------

return grpo.experiment {
  name     = "parity",
  seed     = seed,
  model    = {
    config = {
      model_type = "llama", hidden_size = size.hidden, intermediate_size = 4 * size.hidden,
      num_hidden_layers = 2, num_attention_heads = 4, num_key_value_heads = 4,
      max_position_embeddings = 128, tie_word_embeddings = true, initializer_range = 0.08,
    },
    tokenizer = grpo.tokenizer.chars("01:"),
  },
  data     = { train = train, eval = held_out, max_prompt_tokens = bits + 1 },
  sampling = { group_size = 16, max_new_tokens = bits + 4 },
  rewards  = rewards,
  stages   = {
    {
      kind = "sft",
      data = { target = function(row) return row.target end },
      train = {
        steps = size.sft, prompts_per_step = size.rows,
        lr = schedule.cosine { peak = 2e-3, warmup_ratio = 0.05, final = 1e-4 },
      },
    },
    {
      kind = "grpo",
      train = { steps = steps, prompts_per_step = 16, lr = 3e-4 },
      eval = { every = math.max(1, steps // 6), group_size = 8 },
    },
  },
  eval     = { group_size = 8, pass_at = { 1 } },
  log      = { every = 10, completions = 2 },
  hooks    = {
    on_eval = function(report, tr)
      solved.write(tr, report, { seed = seed, name = "bits",
        round = report.label == "before" and -1 or report.stage - 1,
        class = function() return bits end })
    end,
  },
}
