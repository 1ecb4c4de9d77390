-- examples/calculator.lua - a model learns to use a calculator.
--
--   ./grpo check examples/calculator.lua         options, prompts, two conversations with the tool
--   ./grpo run examples/calculator.lua           minutes; --arg sft=N --arg steps=N --arg seed=N
--   ./grpo replay runs/calculator-001            the last completions, turn by turn
--
-- The script generates word problems of one step and makes a small model.  A short first stage
-- shows the model how solutions look: one demonstration in four calls the tool `calc`, the others
-- do the sum in the head.  The model learns the form of both, and sums badly.  Then GRPO rewards
-- right answers and nothing else, and the model discovers the tool: 23 of 100 completions call it
-- in the first step, nearly all from the 30th on (tools/call_frequency).  Of 100 held-out problems
-- 12 are solved before and 82 after (seed 0).
--
-- A call is <<calc 12+7>>.  The tool's answer, <<=19>>, is injected after it; the model reads it,
-- and it is never in the loss.

local answer   = require "grpo.answer"
local grpo     = require "grpo"
local schedule = require "grpo.schedule"
local wordmath = require "experiments.tasks.wordmath"

local function whole(name, default)
  local n = math.tointeger(tonumber(grpo.args[name] or default))
  return n or error(("--arg %s wants a whole number"):format(name), 0)
end
local seed, sft, steps = whole("seed", 0), whole("sft", 300), whole("steps", 120)

local function one_step(row) return row.steps == 1 end
local function problems(split, n)
  return wordmath.dataset { split = split, seed = seed, n = n }:filter(one_step)
end

-- A demonstration for data.target: texts of the model and of the tool in turn.
local function with_tool(row)
  local parts = { "" }
  for sum, result in row.answer:gmatch("<<([^=]*)=(%d+)>>") do
    parts[#parts] = parts[#parts] .. ("<<calc %s>>"):format(sum)
    parts[#parts + 1] = ("<<=%s>>"):format(result)
    parts[#parts + 1] = "\n"
  end
  parts[#parts] = parts[#parts] .. "#### " .. answer.hashed(row.answer)
  return parts
end

local function in_the_head(row)
  local lines = {}
  for step in row.answer:gmatch("<<([^>]*)>>") do lines[#lines + 1] = step end
  return { table.concat(lines, "\n") .. "\n#### " .. answer.hashed(row.answer) }
end

local function demonstration(row)
  return row.index % 4 == 0 and with_tool(row) or in_the_head(row)
end

local texts = {} -- the tokenizer is trained on these; every digit is a token of its own
for row in problems("demo", 2000):rows() do
  local solution = #texts % 2 == 0 and with_tool(row) or in_the_head(row)
  texts[#texts + 1] = wordmath.prompt(row) .. table.concat(solution, " ")
end

local function correct(text, row)
  return answer.hashed(text) == answer.hashed(row.answer)
end

return grpo.experiment {
  name     = "calculator",
  seed     = seed,
  model    = {
    config    = "configs/models/starter.json",
    tokenizer = grpo.tokenizer.train(texts, { kind = "bpe", vocab_size = 384 }),
  },
  data     = {
    train = problems("train", 20000), eval = problems("eval", 600),
    prompt = wordmath.prompt, target = demonstration, max_prompt_tokens = 64,
  },
  tools    = {
    calc = {
      description = "works out a sum", parameters = { expression = "string" },
      fn = function(arguments) return grpo.calc(arguments.expression) end,
    },
  },
  turns    = { format = "compact", max = 6 },
  sampling = { group_size = 8, max_new_tokens = 48 },
  rewards  = { correct = correct },
  eval     = { samples = 200 },
  log      = { every = 10 },
  stages   = {
    {
      kind = "sft", data = { train = problems("demo", 20000) },
      train = {
        steps = sft, prompts_per_step = 32,
        lr = schedule.cosine { peak = 3e-3, warmup = 20, final = 3e-4 },
      },
    },
    { kind = "grpo", train = { steps = steps, prompts_per_step = 16, lr = 1e-4 } },
  },
}
