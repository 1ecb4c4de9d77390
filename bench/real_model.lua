-- bench/real_model.lua - one GRPO step with LoRA on a model of a true shape, for bench/real-models.
--
--   grpo run bench/real_model.lua --arg model=DIR
--   ... --arg quantize=nf4 --arg prompt=64 --arg group=4 --arg new=16
--
-- The model has random weights, so the reward is a random number; only time and memory matter.

local grpo = require "grpo"
local core = require "grpo.core"

local a = grpo.args
local function number(name, default) return math.tointeger(tonumber(a[name] or default)) end

local prompt, group, new = number("prompt", 64), number("group", 4), number("new", 16)
local begin, cores = core.clock(), 0

return grpo.experiment {
  name = "real_model",
  compute = a.compute,
  model = { path = a.model, dtype = "auto", quantize = a.quantize,
    lora = { rank = number("rank", 8), alpha = 32, targets = "all-linear" },
    gradient_checkpointing = a.checkpointing == "true" },
  data = { train = grpo.data.list { { prompt = ("x"):rep(prompt) } }, max_prompt_tokens = prompt },
  sampling = { group_size = group, max_new_tokens = new },
  rewards = { function(_, _, c) return c.rng() end },
  train = { steps = number("steps", 1), prompts_per_step = 1, kl = 0.02, lr = 1e-5 },
  log = { completions = 0, tensorboard = false },
  hooks = {
    on_start = function()
      print(("load and set up: %.1f s"):format(core.clock() - begin))
      cores = os.clock()
    end,
    on_step = function(m)
      print(("processor time of the step: %.1f s"):format(os.clock() - cores))
      cores = os.clock()
      print(("step %.1f s: generate %.1f, train %.1f; %.1f tokens/s generated; loss %.3g")
        :format(m.step_time,
        m["time/generate"], m["time/train"], m["tokens_per_second/generate"], m.loss))
    end,
  },
}
