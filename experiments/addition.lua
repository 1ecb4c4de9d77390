-- experiments/addition.lua
--
-- Question: do verified rewards on problems a little longer than the demonstrations teach a model
-- to add numbers of lengths at which it solved nothing before, not once in 128 samples?
--
--   grpo run experiments/addition.lua --arg seed=0
--   ... --arg steps=N         steps of GRPO
--   ... --arg control=yes     the same steps on numbers of the demonstrations' lengths alone
--   ... --arg rope=all|none   which layers have rotary positions; without it, every second one
--   ... --arg size=quick      seconds, to see that it runs
--
-- A problem is "571...+308...=" and its answer "8790": digits from the least significant on, both
-- numbers of the same length, in fields of a fixed width, the sum one digit longer.  A supervised
-- stage teaches short numbers.  Then GRPO rewards right sums of numbers one digit longer, and again
-- one digit longer whenever most of them are right.  Lee et al. (2502.01612) go round by round in
-- this way with imitation of the model's own answers.
-- Measured results: experiments/addition.md

local grpo     = require "grpo"
local schedule = require "grpo.schedule"
local solved   = require "tasks.solved"

local args = grpo.args
local seed = math.tointeger(tonumber(args.seed or 0))

local sizes = {
  full  = { taught = 4, width = 12, longest = 9, hidden = 64, layers = 4, sft = 1000, steps = 1200,
    every = 400, held_out = 50, samples = 128 },
  quick = { taught = 2, width = 5, longest = 4, hidden = 32, layers = 2, sft = 30, steps = 4,
    every = 2, held_out = 4, samples = 8 },
}
local size = sizes[args.size or "full"]
if not size then error(("--arg size=%s: want full or quick"):format(args.size), 0) end
local steps = math.tointeger(tonumber(args.steps or size.steps))
if not (seed and steps) then error("--arg seed and --arg steps want whole numbers", 0) end
local plain = ({ all = size.layers + 1, none = 1, half = 2 })[args.rope or "half"]
if not plain then error(("--arg rope=%s: want all, half or none"):format(args.rope), 0) end

-- 1. Problems: a hash of the problem decides whether it is held out, whatever the seed. -----------

local HELD_OUT = 10 -- one in 10

local function is_held_out(prompt)
  local hash = 0
  for i = 1, #prompt do hash = (hash * 257 + prompt:byte(i)) % 1000003 end
  return hash % HELD_OUT == 0
end

-- The last digit of a number is its first one in writing, and is not 0.
local function number(rng, digits)
  local d = {}
  for i = 1, digits do d[i] = math.floor(i < digits and rng() * 10 or 1 + rng() * 9) end
  return d
end

local function field(number_digits)
  return table.concat(number_digits) .. ("."):rep(size.width - #number_digits)
end

local function sum(a, b)
  local digits, carry = {}, 0
  for i = 1, #a do
    local s = a[i] + b[i] + carry
    digits[i], carry = s % 10, s // 10
  end
  return table.concat(digits) .. carry
end

local function problem(rng, digits, held_out)
  local a, b, prompt
  repeat
    a, b = number(rng, digits), number(rng, digits)
    prompt = field(a) .. "+" .. field(b) .. "="
  until is_held_out(prompt) == held_out
  return { prompt = prompt, answer = sum(a, b), digits = digits }
end

-- A whole number from 1 to n.
local function below(rng, n) return 1 + math.floor(rng() * n) end

local demonstrations = grpo.data.generate(function(rng)
  return problem(rng, below(rng, size.taught), false)
end, { seed = seed, n = 1000000 })

-- Row i of these is a problem; every length has the same number of them, and the shortest length
-- is that of the longest demonstrations.
local held_out = grpo.data.generate(function(rng, i)
  return problem(rng, size.taught + (i - 1) // size.held_out, true)
end, { seed = seed, n = (size.longest - size.taught + 1) * size.held_out })

-- 2. The curriculum of GRPO: half of the problems are of the longest length so far. ---------------

local ENOUGH = 0.9 -- share of right sums at which the next length begins
local WEIGHT = 0.2 -- of the newest step in the moving mean of that share

local curriculum = {}

function curriculum.sample(_, p)
  local s = p.state
  s.digits, s.right = s.digits or size.taught + (args.control and 0 or 1), s.right or 0.0
  local rows = {}
  for i = 1, p.n do
    local digits = i <= p.n // 2 and s.digits or below(p.rng, s.digits)
    rows[i] = problem(p.rng, digits, false)
  end
  return rows
end

function curriculum.observe(_, p, groups)
  local s, total, n = p.state, 0.0, 0
  for _, g in ipairs(groups) do
    if g.row.digits == s.digits then total, n = total + g.means.correct, n + 1 end
  end
  if n > 0 then s.right = s.right + WEIGHT * (total / n - s.right) end
  local seen = { digits = s.digits, right = s.right }
  if s.right > ENOUGH and s.digits < size.width and not args.control then
    s.digits, s.right = s.digits + 1, 0.0
  end
  return seen
end

-- 3. The reward, and the experiment. --------------------------------------------------------------

local function correct(text, row, c)
  return text == row.answer and c.finish == "eos"
end

-- The share of places with the right digit, or with the end.
local function places(text, row, c)
  local n, right = #row.answer, c.finish == "eos" and #text == #row.answer and 1 or 0
  for i = 1, n do right = right + (text:byte(i) == row.answer:byte(i) and 1 or 0) end
  return right / (n + 1)
end

-- Round 0 is the model of the supervised stage, -1 the one with random weights; then a round is the
-- number of digits beyond the demonstrations that the rewards have reached.
local function round_of(report, tr)
  if report.label == "before" then return -1 end
  return (math.tointeger(tr.metrics["sampler/digits"]) or size.taught) - size.taught
end

return grpo.experiment {
  name     = args.control and "addition-control" or "addition",
  seed     = seed,
  model    = {
    config = {
      -- Each such layer is without rotary positions.
      model_type = "smollm3", no_rope_layer_interval = plain,
      hidden_size = size.hidden, intermediate_size = 4 * size.hidden,
      num_hidden_layers = size.layers, num_attention_heads = 4, num_key_value_heads = 4,
      max_position_embeddings = 64, tie_word_embeddings = true, initializer_range = 0.08,
    },
    tokenizer = grpo.tokenizer.chars("0123456789+=."),
  },
  data     = {
    train = demonstrations, eval = held_out, target = function(row) return row.answer end,
    max_prompt_tokens = 2 * size.width + 2,
  },
  sampling = { group_size = 16, max_new_tokens = size.width + 2 },
  rewards  = { { name = "correct", fn = correct }, { name = "places", fn = places } },
  stages   = {
    {
      kind = "sft",
      train = {
        steps = size.sft, prompts_per_step = 64,
        lr = schedule.cosine { peak = 2e-3, warmup_ratio = 0.05, final = 1e-4 },
      },
    },
    {
      kind = "grpo",
      data = { sampler = curriculum },
      train = { steps = steps, prompts_per_step = 16, lr = 2e-4 },
      eval = { every = size.every },
    },
  },
  eval     = { group_size = size.samples, pass_at = { 1, size.samples } },
  log      = { every = 20, completions = 1 },
  hooks    = {
    on_eval = function(report, tr)
      solved.write(tr, report, { seed = seed, name = "digits", round = round_of(report, tr),
        class = function(row) return row.digits end })
    end,
  },
}
