-- experiments/smollm2.lua
--
-- Question: can rewards alone teach a real model of 135 million weights to call tools in JSON?
--
--   grpo run experiments/smollm2.lua --arg model=PATH     SmolLM2-135M-Instruct: a directory or a
--                                                         .gguf file
--   ... --arg way=grpo|distill|sft                        how it learns: by rewards (default), from
--                                                         itself when it knows the answer, or from
--                                                         the answers
--   ... --arg steps=N --arg seed=N --arg lr=X --arg full=1
--
-- The answer to a request must be one JSON object that names the tool and its arguments.  The
-- prompt shows each tool once.  The model trains a low-rank adapter, or all weights with full=1.
--
-- Measured results: experiments/smollm2.md

local grpo      = require "grpo"
local plain     = require "tasks.plain"
local schedule  = require "grpo.schedule"
local toolcalls = require "tasks.toolcalls"

local args = grpo.args
local full  = args.full ~= nil
local seed  = math.tointeger(tonumber(args.seed or 0))
local steps = math.tointeger(tonumber(args.steps or 30))
local lr    = tonumber(args.lr or (full and 5e-6 or 3e-4))
local way   = args.way or "grpo"
if not args.model then error("--arg model=PATH: name a model; see the head of the script", 0) end
if not (seed and steps and lr) then
  error("--arg seed and --arg steps want whole numbers, --arg lr a number", 0)
end

-- Shows what was forgotten: nats per token of prose that has nothing to do with the task.
local function forgotten(report, tr)
  local loss = plain.loss(tr.model)
  tr:log("plain/loss", loss)
  tr:csv("plain", { "label", "loss", "perplexity" }):row { report.label, loss, math.exp(loss) }
  tr:print(("plain text: %.4f nats per token, perplexity %.2f"):format(loss, math.exp(loss)))
end

local ways = {
  grpo = {},
  distill = {
    train = { kl = 0, distill = { prompt = toolcalls.with_answer, max_prompt_tokens = 240 } } },
  sft = { train = { prompts_per_step = 32 },
    data = { target = function(row) return toolcalls.text(row.call) end } },
}
if not ways[way] then error("--arg way wants grpo, distill or sft", 0) end
ways[way].kind = way

return grpo.experiment {
  name    = way == "grpo" and "smollm2" or "smollm2-" .. way,
  seed    = seed,
  compute = "bf16",
  model   = {
    path = args.model,
    lora = not full and { rank = 16, alpha = 32, targets = "all-linear" } or nil,
  },
  data = {
    train  = toolcalls.dataset { split = "train", seed = seed },
    eval   = toolcalls.dataset { split = "eval", n = 100 },
    prompt = toolcalls.messages,
    max_prompt_tokens = 200,
  },
  sampling = { group_size = 8, max_new_tokens = 32, temperature = 0.8 },
  rewards = {
    { name = "json",   fn = toolcalls.json,   weight = 0.25 }, -- 1 or 0
    { name = "tool",   fn = toolcalls.tool,   weight = 0.25 }, -- 1 or 0
    { name = "fields", fn = toolcalls.fields, weight = 0.5 },  -- the share that is right
  },
  train = {
    steps = steps, prompts_per_step = 4, kl = 0.02,
    lr = schedule.cosine { peak = lr, warmup = 5, final = lr / 10 },
  },
  eval  = { metric = toolcalls.exact, group_size = 4, temperature = 0.8, pass_at = { 1, 4 } },
  hooks = { on_eval = forgotten },
  log   = { completions = 2 },
  stages = { ways[way] },
}
