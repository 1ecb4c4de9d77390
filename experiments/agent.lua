-- experiments/agent.lua
--
-- Question: does a program for agents that others wrote get better at its tasks by the rewards that
-- it posts?
--
--   pip install openai-agents reasoning-gym
--   python3 experiments/agent.py rows 0 24000 >tasks.jsonl
--   grpo run experiments/agent.lua &                          prints its address
--   python3 experiments/agent.py play http://127.0.0.1:8090   plays until the run is over
--   ... --arg seed=N --arg steps=N --arg port=N --arg tasks=FILE
--   ... --arg control=1      as many steps more on the demonstrations, and no agent
--
-- The program is OpenAI's Agents SDK with a calculator.  Tasks and rewards are Reasoning Gym's: how
-- many legs do 9 humans and 5 horses have?  The model first imitates demonstrations, half of which
-- call the calculator and half of which answer at once.
-- Measured results: experiments/agent.md

local grpo     = require "grpo"
local schedule = require "grpo.schedule"

local args  = grpo.args
local seed  = math.tointeger(tonumber(args.seed or 0))
local steps = math.tointeger(tonumber(args.steps or 40))
local port  = math.tointeger(tonumber(args.port or 8090))
if not (seed and steps and port) then
  error("--arg seed, --arg steps and --arg port want whole numbers", 0)
end

-- 1. Tasks: those that are not held out, of which the first are demonstrations. ------------------

local DEMONSTRATIONS, SFT_STEPS, SYSTEM = 6000, 400, "Use the calculator."

local tasks = grpo.data.jsonl(args.tasks or "tasks.jsonl"):filter(function(row)
  return not row.held_out
end)
local shown = tasks:take(DEMONSTRATIONS)

-- The tool is not described to the model: the demonstrations show how it is called.
local template = [[
{%- for m in messages -%}
{{ '<|im_start|>' ~ m.role ~ '\n' ~ (m.content or '') }}
{%- for c in m.tool_calls or [] -%}
{{ '<tool_call>' ~ (c.function | tojson) ~ '</tool_call>' }}
{%- endfor -%}
{{ '<|im_end|>\n' }}
{%- endfor -%}
{%- if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif -%}]]

local function demonstration(row)
  if row.metadata.source_index % 2 == 0 then return { row.answer } end
  return {
    '<tool_call>{"name": "calculate", "arguments": {"expression": "' .. row.calculation
      .. '"}}</tool_call><|im_end|>',
    "\n<|im_start|>tool\n" .. row.answer .. "<|im_end|>\n<|im_start|>assistant\n",
    row.answer,
  }
end

local texts = { SYSTEM .. " system user error" }
for i = 1, 1000 do
  texts[#texts + 1] = shown[i].question .. table.concat(demonstration(shown[i]))
end

-- 2. Imitate, then improve by what the program posts. ---------------------------------------------

local imitate = {
  kind = "sft",
  data = { train = shown, target = demonstration },
  train = { steps = SFT_STEPS, prompts_per_step = 32,
    lr = schedule.cosine { peak = 2e-3, warmup_ratio = 0.05, final = 1e-4 } },
}
local improve = {
  kind = "agents",
  train = { steps = steps, prompts_per_step = 16,
    lr = schedule.linear { from = 3e-4, to = 1e-4, steps = math.max(1, steps) } },
}
local control = {
  kind = "sft",
  data = imitate.data,
  train = { steps = steps, prompts_per_step = 32, lr = 1e-4 },
}

return grpo.experiment {
  name       = args.control and "agent-control" or "agent",
  seed       = seed,
  model      = {
    config = {
      model_type = "llama", hidden_size = 96, intermediate_size = 288, num_hidden_layers = 2,
      num_attention_heads = 4, num_key_value_heads = 4, max_position_embeddings = 256,
      tie_word_embeddings = true, initializer_range = 0.08,
    },
    tokenizer = grpo.tokenizer.train(texts, { vocab_size = 600, split_digits = true,
      special_tokens = { "<|im_start|>", "<|im_end|>" }, eos = "<|im_end|>" }),
    chat_template = template,
  },
  data       = {
    train = tasks:skip(DEMONSTRATIONS), max_prompt_tokens = 128,
    prompt = function(row)
      return { { role = "system", content = SYSTEM }, { role = "user", content = row.question } }
    end,
  },
  sampling   = { group_size = 8, max_new_tokens = 80 },
  agents     = { port = port, sequences = 16 },
  stages     = { imitate, args.control and control or improve },
  checkpoint = { every = SFT_STEPS },
  log        = { every = 10, completions = 2 },
}
