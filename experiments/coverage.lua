-- experiments/coverage.lua
--
-- Question: do rewards widen what a model can solve at all, or make it solve more often what it
-- could solve before?
--
--   grpo run experiments/coverage.lua --arg seed=0
--   ... --arg spurious=no     contexts that say nothing about actions, in demonstrations too
--   ... --arg problems=N      problems that are rewarded (128)
--   ... --arg size=recipe     the published sizes: 1.05 million weights, 200,000 demonstrations
--   ... --arg size=quick      seconds, to see that it runs
--
-- The task of Qin et al. (2505.22756; github.com/cfpark00/RL-Wall, version 5).  A fixed table says
-- where an action leads from each state.  A problem gives the first state, and for each step a pair
-- of problem states from which a second table tells the action; the answer names states and actions
-- by turns.  In demonstrations some actions are likelier than others, and beside each step stands a
-- context that goes with its action; in all other problems both are uniform.
-- Measured results: experiments/coverage.md

local grpo     = require "grpo"
local schedule = require "grpo.schedule"
local solved   = require "tasks.solved"

local args = grpo.args
local seed = math.tointeger(tonumber(args.seed or 0))

local sizes = {
  recipe = { symbols = 20, irrelevant = 10, actions = { 5, 10 }, hidden = 128, layers = 4,
    sft = 3125, steps = 400, held_out = 512, samples = 128, each = 16 },
  small  = { symbols = 10, irrelevant = 4, actions = { 5, 10 }, hidden = 64, layers = 4,
    sft = 1500, steps = 200, held_out = 512, samples = 128, each = 8 },
  quick  = { symbols = 4, irrelevant = 1, actions = { 1, 2 }, hidden = 32, layers = 2,
    sft = 20, steps = 2, held_out = 8, samples = 8, each = 2 },
}
local size = sizes[args.size or "small"]
if not size then error(("--arg size=%s: want small, recipe or quick"):format(args.size), 0) end
local rewarded = math.tointeger(tonumber(args.problems or 128))
if not (seed and rewarded) then error("--arg seed and problems want whole numbers", 0) end
local spurious = args.spurious ~= "no"

local TEMPERATURES = { 0.025, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2 }
local ALPHA = 0.3 -- of the Dirichlet distributions: the smaller, the more uneven

-- 1. The world: tables and probabilities, made from the seed. -------------------------------------

local N = size.symbols

local function below(rng, n) return 1 + math.floor(rng() * n) end

-- A sample of the gamma distribution (Marsaglia and Tsang, 2000), for a shape below 1.
local function gamma(rng, shape)
  local d = shape + 1 - 1 / 3
  local c = 1 / math.sqrt(9 * d)
  while true do
    local x = math.sqrt(-2 * math.log(1 - rng())) * math.cos(2 * math.pi * rng())
    local v = (1 + c * x) ^ 3
    if v > 0 and math.log(1 - rng()) < x * x / 2 + d - d * v + d * math.log(v) then
      return d * v * (1 - rng()) ^ (1 / shape)
    end
  end
end

local function dirichlet(rng)
  local p, sum = {}, 0.0
  for i = 1, N do
    p[i] = gamma(rng, ALPHA)
    sum = sum + p[i]
  end
  for i = 1, N do p[i] = p[i] / sum end
  return p
end

local function permutation(rng)
  local p = {}
  for i = 1, N do
    local j = below(rng, i)
    p[i] = p[j]
    p[j] = i
  end
  return p
end

local function each(make, ...)
  local list = {}
  for i = 1, N do list[i] = make(...) end
  return list
end

local world = grpo.data.generate(function(rng)
  return {
    next_state = each(function() return each(below, rng, N) end), -- [state][action]
    next_problem_state = each(permutation, rng),                  -- [problem state][action]
    action = each(dirichlet, rng),                                -- [state]: probabilities
    context = each(dirichlet, rng),                               -- [action]: probabilities
  }
end, { seed = seed, n = 1 })[1]

-- 2. Problems. ------------------------------------------------------------------------------------

local function choose(rng, p)
  local u = rng()
  for i = 1, N do
    u = u - p[i]
    if u < 0 then return i end
  end
  return N
end

local function symbol(kind, i) return kind .. string.char(96 + i) end -- Sa, Pb, Ac, ...

local function problem(rng, demonstration)
  local state, problem_state = below(rng, N), below(rng, N)
  local prompt = { symbol("S", state), symbol("P", problem_state) }
  local answer = { symbol("S", state) }
  local n = size.actions[1] - 1 + below(rng, size.actions[2] - size.actions[1] + 1)
  for _ = 1, n do
    local action = demonstration and choose(rng, world.action[state]) or below(rng, N)
    local context = demonstration and spurious and choose(rng, world.context[action])
      or below(rng, N)
    state = world.next_state[state][action]
    problem_state = world.next_problem_state[problem_state][action]
    prompt[#prompt + 1] = symbol("C", context) .. symbol("P", problem_state)
    answer[#answer + 1] = symbol("A", action) .. symbol("S", state)
  end
  for _ = 1, size.irrelevant do prompt[#prompt + 1] = symbol("I", below(rng, N)) end
  return { prompt = table.concat(prompt) .. ":", answer = table.concat(answer), actions = n }
end

local function problems(n, offset, demonstration)
  return grpo.data.generate(function(rng) return problem(rng, demonstration) end,
    { seed = 3 * seed + offset, n = n })
end

local held_out = problems(size.held_out, 2)

local function correct(text, row) return text == row.answer end

-- 3. What is measured beside the evaluation: pass@1 at other temperatures, and each problem before
-- and after the rewards. --------------------------------------------------------------------------

local CHUNK = 32 -- prompts at a time

local function pass_at_1(tr, temperature)
  local right, n = 0, 0
  for first = 1, #held_out, CHUNK do
    local rows, prompts = {}, {}
    for i = first, math.min(first + CHUNK - 1, #held_out) do
      rows[#rows + 1] = held_out[i]
      prompts[#prompts + 1] = held_out[i].prompt
    end
    local results = tr.model:generate(prompts, { n = size.each, temperature = temperature,
      max_new_tokens = tr.config.sampling.max_new_tokens, seed = first })
    for _, c in ipairs(results) do
      right, n = right + (correct(c.text, rows[c.prompt]) and 1 or 0), n + 1
    end
  end
  return right / n
end

-- Groups of problems by their pass@1 before the rewards, each up to a share: those of share 0 were
-- never right.
local GROUPS = { 0, 0.1, 0.5, 0.9, 1 }

local function compare(tr, before, after)
  local csv = tr:csv("matched", { "seed", "up_to", "problems", "before", "after", "solved" })
  local rows = {}
  for i, share in ipairs(GROUPS) do
    rows[i] = { seed = seed, up_to = share, problems = 0, before = 0.0, after = 0.0, solved = 0 }
  end
  for i, share in ipairs(before) do
    local at = 1
    while share > GROUPS[at] do at = at + 1 end
    local row = rows[at]
    row.problems, row.before = row.problems + 1, row.before + share
    row.after, row.solved = row.after + after[i], row.solved + (after[i] > 0 and 1 or 0)
  end
  for _, row in ipairs(rows) do
    row.before = row.before / math.max(1, row.problems)
    row.after = row.after / math.max(1, row.problems)
    csv:row(row)
    tr:print(("  pass@1 up to %.1f before: %d problems, pass@1 %.4f before, %.4f after, %d solved")
      :format(row.up_to, row.problems, row.before, row.after, row.solved))
  end
end

local function measure(report, tr)
  local round = report.label == "before" and -1 or report.stage - 1
  solved.write(tr, report, { seed = seed, name = "actions", round = round,
    class = function(row) return row.actions end })
  if round < 0 then return end
  local csv = tr:csv("temperatures", { "seed", "round", "step", "temperature", "pass_at_1" })
  for _, temperature in ipairs(TEMPERATURES) do
    local share = pass_at_1(tr, temperature)
    csv:row { seed, round, tr.step_count, temperature, share }
    tr:print(("  temperature %.3f: pass@1 %.4f"):format(temperature, share))
  end
  if round == 0 then
    tr.state.before = report.per_row
  else
    compare(tr, tr.state.before, report.per_row)
  end
end

local most = size.actions[2]
return grpo.experiment {
  name     = spurious and "coverage" or "coverage-plain",
  seed     = seed,
  model    = {
    config = {
      model_type = "qwen2", hidden_size = size.hidden, intermediate_size = 4 * size.hidden,
      num_hidden_layers = size.layers, num_attention_heads = 2, num_key_value_heads = 2,
      max_position_embeddings = 256, initializer_range = 0.08,
    },
    tokenizer = grpo.tokenizer.chars("SPCAI:" .. ("abcdefghijklmnopqrst"):sub(1, N)),
  },
  data     = {
    eval = held_out, target = function(row) return row.answer end,
    max_prompt_tokens = 5 + 4 * most + 2 * size.irrelevant,
  },
  sampling = { group_size = 8, max_new_tokens = 3 + 4 * most },
  rewards  = { { name = "correct", fn = correct } },
  stages   = {
    {
      kind = "sft",
      data = { train = problems(200000, 0, true) },
      train = {
        steps = size.sft, prompts_per_step = 64,
        lr = schedule.linear { from = 1e-3, to = 0, warmup = size.sft // 20 },
      },
    },
    {
      kind = "grpo",
      data = { train = problems(rewarded, 1) },
      train = {
        steps = size.steps, prompts_per_step = 32, iterations = 4, lr = 5e-5, max_grad_norm = 0.2,
        clip = 0.2, kl = 0.001, entropy = 0.001,
      },
    },
  },
  eval     = { group_size = size.samples, pass_at = { 1, size.samples } },
  limits   = { hook = { seconds = 7200 } },
  log      = { every = 20, completions = 1 },
  hooks    = { on_eval = measure },
}
