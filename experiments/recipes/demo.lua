-- experiments/recipes/demo.lua
--
-- The demo of a GRPO operation: a small GPT learns sums of two digits, first from worked sums, then
-- only from hearing whether its own answers are right.
--
--   grpo run experiments/recipes/demo.lua      a minute at most; nothing is downloaded
--   ... --arg supervised=N --arg steps=N --arg seed=N
--   ... --arg model=DIR                        starts from the weights of this model
--
-- The demo has a supervised stage and then a GRPO stage with the same weights, a reward of 1 for
-- the right answer and 0 for any other, advantages within groups, no KL and no reference.
-- examples/embed/nano_rl.cpp is the same in C++, a loop that calls the loss on logits, targets,
-- advantages and a normaliser.
--
-- Not published, chosen here: every number. They are those of nano_rl.cpp: 2 layers of 64, 4 heads,
-- 12 tokens; groups of 8 of 16 prompts; the learning rate of the GRPO stage is 5e-4. The supervised
-- stage has a fixed length here; there it ends when half of the sums are right.
-- Different: learned embeddings are shared with the output layer, and an answer has an end token.
--
-- Memory: 0.4 MB of weights; the program itself takes some 20 MB.

local grpo = require "grpo"

local args = grpo.args
for name in pairs(args) do
  if not (" supervised steps seed model "):find(" " .. name .. " ", 1, true) then
    error(("--arg %s: unknown; see the head of the script"):format(name), 0)
  end
end

local function whole(name, default)
  local n = math.tointeger(tonumber(args[name] or default))
  return n or error(("--arg %s=%s: want a whole number"):format(name, args[name]), 0)
end

local sums = {}
for a = 0, 9 do
  for b = 0, 9 do
    sums[#sums + 1] = { prompt = ("%d+%d="):format(a, b), answer = ("%02d"):format(a + b) }
  end
end
sums = grpo.data.list(sums)

local function is_right(text, row) return text == row.answer end

return grpo.experiment {
  name  = "demo",
  seed  = whole("seed", 0),
  model = args.model and { path = args.model } or {
    config = {
      model_type = "gpt2", n_layer = 2, n_embd = 64, n_head = 4, n_positions = 16,
      initializer_range = 0.1,
    },
    tokenizer = grpo.tokenizer.chars("0123456789+="),
  },
  data     = {
    train = sums, eval = sums, max_prompt_tokens = 4,
    target = function(row) return row.answer end,
  },
  sampling = { group_size = 8, max_new_tokens = 3 },
  rewards  = { correct = is_right },
  eval     = { metric = is_right },
  log      = { every = 50 },
  stages   = {
    { kind = "sft", train = { steps = whole("supervised", 40), prompts_per_step = 32, lr = 2e-3 } },
    { kind = "grpo", train = { steps = whole("steps", 300), prompts_per_step = 16, lr = 5e-4 } },
  },
}
