-- Word problems: "Tom has 5 pens and gets 3 more. How many now?" is answered by "5+3=8".
--
-- A supervised stage shows solutions of a teacher who is wrong half of the time.  Then two rewards
-- say what is right, and the model becomes better than its teacher.

local grpo     = require "grpo"
local schedule = require "grpo.schedule"

local people = { "Tom", "Ann", "Ben", "Mia", "Sam", "Eva" }
local things = { "apples", "books", "coins", "cards", "pens", "cups" }
local kinds  = {
  { "P has A T and gets B more. How many now?", "+" },
  { "P has A T, Q has B. How many together?", "+" },
  { "P has A T and loses B. How many are left?", "-" },
  { "P had A T and gave Q B. How many has P?", "-" },
}

-- Rows are made on the fly.  A tenth of all questions is held out: the model has seen such numbers,
-- but not of these people and things.
local function problems(held_out)
  return function(rng)
    local function upto(n) return 1 + math.floor(rng() * n) end
    local kind, a, b, p, q, t
    repeat
      kind, a, b = kinds[upto(#kinds)], upto(9), upto(9)
      p, q, t = upto(#people), upto(#people), upto(#things)
    until p ~= q and (kind[2] == "+" or a > b) and ((a + 2 * b + p + 3 * t) % 10 == 0) == held_out
    local names = { P = people[p], Q = people[q], T = things[t], A = a, B = b }
    return { question = kind[1]:gsub("%f[%u][PQTAB]%f[%U]", names), steps = a .. kind[2] .. b,
      answer = kind[2] == "+" and a + b or a - b, slip = rng() < 0.5 and 1 or 0 }
  end
end

-- The teacher's solution, which is one too many half of the time.  The rewards know better.
local function demonstration(row)
  return ("%s=%d"):format(row.steps, row.answer + row.slip)
end

local function right(text, row)
  return tonumber(text:match "=(%d+)$") == row.answer
end

-- The calculation before the "=" is the one that the question asks for.
local function calculation(text, row)
  return text:match "^(.-)=" == row.steps
end

local train = grpo.data.generate(problems(false), { seed = 1, n = 50000 })

local texts = {}
for i = 1, 400 do texts[i] = train[i].question end

return grpo.experiment {
  name     = "words",
  model    = {
    config = { model_type = "llama", hidden_size = 64, intermediate_size = 172,
      num_hidden_layers = 2, num_attention_heads = 4, max_position_embeddings = 64,
      initializer_range = 0.1 },
    tokenizer = grpo.tokenizer.train(texts, { kind = "bpe", vocab_size = 384 }),
  },
  data     = {
    train = train, eval = grpo.data.generate(problems(true), { seed = 2, n = 100 }),
    prompt = function(row) return row.question end, target = demonstration, max_prompt_tokens = 32,
  },
  sampling = { max_new_tokens = 8 },
  limits   = { reward = { instructions = 2e6 } }, -- a loop without an end is stopped soon
  rewards  = {
    { name = "right", fn = right },
    { name = "calculation", fn = calculation, weight = 0.2 },
  },
  eval     = { every = 20, metric = right },
  stages   = {
    { kind = "sft", train = { steps = 200, prompts_per_step = 48, lr = 3e-3 } },
    { kind = "grpo", train = { steps = 160, prompts_per_step = 24,
      lr = schedule.linear { from = 1e-3, to = 1e-4, steps = 160 } } },
  },
}
