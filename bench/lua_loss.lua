-- bench/lua_loss.lua - the cost of a loss written in Lua beside the same loss in C.  Two trainers
-- of the starter model step in turn on the same prompts; medians of processor times count. Run by
-- bench/lua-loss.

local core = require "grpo.core"
local grpo = require "grpo"
local losses = require "grpo.losses"
local median = require "grpo.statistics".median

local STEPS = 15

local function trainer(loss)
  return grpo.trainer(grpo.experiment {
    model = { config = "configs/models/starter.json", tokenizer = grpo.tokenizer.bytes() },
    data = { max_prompt_tokens = 64,
      train = grpo.data.generate(function(_, i)
        return { prompt = ("%060d"):format(i) }
      end, { seed = 0, n = 1000 }) },
    sampling = { group_size = 8, max_new_tokens = 72 },
    rewards = { function(_, _, c) return c.rng() end },
    train = { steps = STEPS + 1, prompts_per_step = 32, loss = loss, lr = 1e-5 },
  })
end

local function lua_loss(t)
  return losses.grpo(t, { clip = 0.2 })
end

local function measured(tr)
  local cpu, wall = os.clock(), core.clock()
  local m = tr:step()
  return os.clock() - cpu, core.clock() - wall, m.loss
end

local built_in, written = trainer("grpo"), trainer(lua_loss)
local ratios, walls, worst = {}, {}, 0
for step = 0, STEPS do
  local c, cw, x = measured(built_in)
  local l, lw, y = measured(written)
  if step > 0 then ratios[step], walls[step] = l / c, lw / cw end -- the first step warms up
  worst = math.max(worst, math.abs(x - y))
end
print(("a Lua loss: %+.2f %% processor time, %+.2f %% time of a step (medians of %d pairs); "
  .. "values within %.1e"):format(
  100 * (median(ratios) - 1), 100 * (median(walls) - 1), STEPS, worst))
