-- Which patterns in the metrics are told, and when.

local diagnose = require "grpo.train.diagnose"

local function told(n, metrics, context)
  local watcher, lines = diagnose.watcher(), {}
  for step = 1, n do
    local m = type(metrics) == "function" and metrics(step) or metrics
    m.step, m.stage = step, 1
    for _, line in ipairs(watcher:step(m, context)) do lines[#lines + 1] = line end
  end
  return lines
end

describe("diagnosis", function()
  it("speaks when a pattern has held for some steps, once", function()
    assert.equal(0, #told(4, { frac_reward_zero_std = 1, reward = 0 }))
    local lines = told(50, { frac_reward_zero_std = 1, reward = 0 })
    assert.equal(1, #lines)
    assert.matches("no learning signal", lines[1])
  end)

  it("does not repeat a pattern that comes and goes", function()
    local lines = told(60, function(step)
      return { frac_reward_zero_std = step % 8 == 0 and 0 or 1, reward = 0 }
    end)
    assert.equal(1, #lines)
  end)

  it("takes certainty for a fault only when nothing was gained", function()
    local function metrics(gain)
      return function(step)
        return { entropy = step > 5 and 0.001 or 1, frac_reward_zero_std = 0.8, reward = step > 5
          and 1 + gain or 1 }
      end
    end
    assert.equal(0, #told(40, metrics(1)))
    local lines = told(40, metrics(-0.5))
    assert.equal(1, #lines)
    assert.matches("entropy has collapsed", lines[1])
  end)

  it("names truncation, and a ratio that is not 1 at once", function()
    assert.matches("max_new_tokens",
      told(9, { ["completions/clipped_ratio"] = 0.9, reward = 0 })[1])
    assert.same({},
      told(9, { ["completions/clipped_ratio"] = 1, reward = 0 }, { fixed_length = true }))
    assert.matches("report", told(1, { ratio_max_deviation = 1e-7, reward = 0 })[1])
  end)

  it("names the first reward that failed, at once", function()
    local watcher = require("grpo.train.diagnose").watcher()
    local cs = { {}, { errors = { b = "rewards.b: x.lua:3: bad" } } }
    local lines = watcher:step({ step = 1, reward_errors = 2 }, { completions = cs })
    assert.same({ "2 calls of rewards or the environment failed in this step (reward_errors); the "
      .. "first: "
      .. "rewards.b: x.lua:3: bad" }, lines)
    assert.same({}, watcher:step({ step = 2, reward_errors = 2 }, { completions = cs }))
  end)
end)
