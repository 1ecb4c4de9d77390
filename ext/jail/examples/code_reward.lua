-- ext/jail/examples/code_reward.lua - a model learns to write programs that pass their tests.
--
--   ./grpo check ext/jail/examples/code_reward.lua    options, prompts, two programs, their rewards
--   ./grpo run ext/jail/examples/code_reward.lua      minutes; --arg sft=N --arg steps=N
--                                                     --arg seed=N
--
-- A prompt asks for a shell program that reads two numbers and writes one.  A short first stage
-- shows the model how such programs look, with an operator that is chosen by chance, so that one in
-- four is right.  Then GRPO rewards the share of tests that a program passes, and nothing else:
-- which operator a word means, the model learns from the tests alone.  For one word in four the
-- likeliest program is right before, and for three in four after 40 steps (seed 0).
--
-- Each program is run once per test in a jail of its own (ext/jail/README.md).

local code     = require "rewards.code"
local grpo     = require "grpo"
local schedule = require "grpo.schedule"

local function whole(name, default)
  local n = math.tointeger(tonumber(grpo.args[name] or default))
  return n or error(("--arg %s wants a whole number"):format(name), 0)
end
local seed, sft, steps = whole("seed", 0), whole("sft", 60), whole("steps", 40)

local tasks = { -- the word, the operator, and what it does
  { "sum", "+", function(a, b) return a + b end },
  { "difference", "-", function(a, b) return a - b end },
  { "product", "*", function(a, b) return a * b end },
  { "quotient", "/", function(a, b) return a // b end },
}

local function program(operator)
  return ("```sh\nread a b\necho $((a %s b))\n```"):format(operator)
end

local function row(i)
  local word, _, f = table.unpack(tasks[i % #tasks + 1])
  local tests = {}
  for k = 1, 3 do
    local b = math.random(2, 9)
    local a = b * math.random(2, 9)
    tests[k] = { input = ("%d %d\n"):format(a, b), output = tostring(f(a, b)) }
  end
  return { word = word, tests = tests }
end

local rows = {}
for i = 1, 400 do rows[i] = row(i) end

return grpo.experiment {
  name     = "code_reward",
  seed     = seed,
  model    = { config = "configs/models/tiny.json", tokenizer = grpo.tokenizer.bytes() },
  data     = {
    train = grpo.data.list(rows), eval = grpo.data.list { row(0), row(1), row(2), row(3) },
    prompt = function(r) return r.word .. ":\n" end,
    target = function() return program(tasks[math.random(#tasks)][2]) end,
  },
  sampling = { group_size = 8, max_new_tokens = 48 },
  rewards  = { { name = "tests", group_fn = code.passes { language = "sh", seconds = 1 } } },
  log      = { every = 10 },
  stages   = {
    {
      kind = "sft",
      train = {
        steps = sft, prompts_per_step = 32,
        lr = schedule.cosine { peak = 3e-3, warmup = 10, final = 3e-4 },
      },
    },
    { kind = "grpo", train = { steps = steps, prompts_per_step = 8, lr = 5e-4 } },
  },
}
