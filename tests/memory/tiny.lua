-- Two steps with everything that allocates: evaluation, checkpoints, hooks and schedules.
local grpo = require "grpo"
local rows = {}
for i = 1, 4 do
  rows[i] = { prompt = i .. "+" .. i .. "=", answer = tostring(2 * i) }
end
local digit = grpo.regex("[0-9]")
return grpo.experiment {
  name = "run",
  seed = 3,
  model = { path = "base" },
  data = { train = grpo.data.list(rows), eval = grpo.data.list { rows[1] }, max_prompt_tokens = 5 },
  sampling = { group_size = 2, max_new_tokens = 3 },
  rewards = {
    digits = function(text, _, c)
      c.seen = grpo.json.decode(grpo.json.encode { text = text })
      return select(2, digit:gsub(text, "")) / 3 + c.rng() / 10
    end,
  },
  train = { steps = 2, prompts_per_step = 1, lr = function(p) return 1e-3 / (1 + p.step) end },
  checkpoint = { every = 1 },
  hooks = { on_step = function(m, tr) tr.state.rewards = { m.reward } end },
}
