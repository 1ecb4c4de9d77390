-- The experiment of tools/check-long: the smallest run that has every kind of log.
--
--   --arg steps=N   how many steps; a hundred times it writes down what the process holds
--
-- A row of logs/held has: step, KiB that are resident, KiB of the engine's and of Lua's memory,
-- descriptors, names in the run's directory.

local core = require "grpo.core"
local grpo = require "grpo"

local steps = math.tointeger(tonumber(grpo.args.steps))
local part = math.max(1, steps // 100)

local function problem(rng)
  local digit = tostring(math.floor(rng() * 2))
  return { prompt = digit .. "=", answer = digit }
end

-- How many names there are in a directory and in its folders.
local function names_in(dir)
  local count = 0
  for _, name in ipairs(core.fs.list(dir) or {}) do
    local path = dir .. "/" .. name
    count = count + 1
    if core.fs.isdir(path) and not core.fs.readlink(path) then count = count + names_in(path) end
  end
  return count
end

local function held(tr)
  local file <close> = assert(io.open "/proc/self/status")
  local resident = file:read("a"):match "VmRSS:%s*(%d+) kB"
  local memory = core.mem()
  return ("%d %s %d %d %d %d\n"):format(tr.step_count, resident, memory.live >> 10,
    memory.lua >> 10, #core.fs.list "/proc/self/fd", names_in(tr.directory.dir))
end

return grpo.experiment {
  name = "long",
  model = {
    config = { model_type = "llama", hidden_size = 8, intermediate_size = 8,
      num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 8 },
    tokenizer = grpo.tokenizer.chars "01=",
  },
  data = { train = grpo.data.generate(problem, { seed = 1 }),
    eval = grpo.data.generate(problem, { seed = 2, n = 4 }), max_prompt_tokens = 4 },
  sampling = { group_size = 2, max_new_tokens = 1 },
  rewards = { { name = "right",
    fn = function(text, row) return text == row.answer and 1 or 0 end } },
  train = { steps = steps, prompts_per_step = 1, lr = 1e-3, kl = 0.01 },
  eval = { every = part },
  checkpoint = { every = part, keep = 2, best = "eval/metric" },
  hooks = {
    on_step = function(_, tr)
      if tr.step_count % part == 0 then tr:append("held", held(tr)) end
    end,
  },
}
