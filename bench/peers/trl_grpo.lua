-- bench/peers/trl_grpo.lua - the run that bench/peers/trl_grpo.py repeats with TRL.
--
--   MODEL=FILE OUT=DIR grpo repl < bench/peers/trl_grpo.lua   writes DIR/base, DIR/adapter (fresh)
--                                                             and DIR/rows.jsonl
--   grpo run bench/peers/trl_grpo.lua --arg from=DIR          trains on them; options as below
--
-- Both programs begin with the same adapter.  The task is that of experiments/smollm2.lua.

local core = require "grpo.core"
local grpo = require "grpo"

package.path = "experiments/?.lua;" .. package.path
local toolcalls = require "tasks.toolcalls"

local function prepare(model, out)
  local m = grpo.model.load(model)
  core.fs.mkdirs(out)
  m:save(out .. "/base")
  m:add_lora { rank = 16, alpha = 32, targets = "all-linear", seed = 1 }
  m:save(out .. "/adapter", { format = "adapter", base_name = out .. "/base" })
  local file = assert(io.open(out .. "/rows.jsonl", "w"))
  local rows = toolcalls.dataset { n = 400 }
  for i = 1, #rows do
    local row = rows[i]
    local prompt = m.tokenizer:chat(toolcalls.messages(row), { generation_prompt = true })
    file:write(grpo.json.encode { prompt = prompt, call = row.call }, "\n")
  end
  file:close()
end

if os.getenv "OUT" then return prepare(os.getenv "MODEL", os.getenv "OUT") end

local from = grpo.args.from

-- Ids, for the replay of the same completions in TRL.
local function record(batch, tr)
  for _, c in ipairs(batch.completions or batch) do
    tr:append("rollouts.jsonl", grpo.json.encode {
      prompt = c.row.prompt, call = c.row.call, ids = c.ids, reward = c.reward } .. "\n")
  end
end

return grpo.experiment {
  name  = "trl",
  model = { path = from .. "/adapter" },
  data  = {
    train = grpo.data.jsonl(from .. "/rows.jsonl"),
    prompt = function(row) return row.prompt end,
    max_prompt_tokens = 200,
  },
  sampling = { group_size = 8, max_new_tokens = 32, temperature = 0.8 },
  rewards = {
    { name = "json",   fn = toolcalls.json,   weight = 0.25 },
    { name = "tool",   fn = toolcalls.tool,   weight = 0.25 },
    { name = "fields", fn = toolcalls.fields, weight = 0.5 },
  },
  train = { steps = 20, prompts_per_step = 2, kl = 0.02, lr = 1e-4, max_grad_norm = 1 },
  hooks = { on_rollout = record },
}
