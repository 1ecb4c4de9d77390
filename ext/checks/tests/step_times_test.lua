local core = require "grpo.core"
local step_times = require "grpo.scoring.reward_checks.step_times"
local trainer = require "grpo.loop.trainer"

describe("the steps that check times", function()
  it("show the rewards of the step whose seconds are shown", function()
    local clock, set = core.clock, trainer.set
    local now, count = 0.0, 0
    local stage = { tr = { step_count = 0 }, method = {},
      config = { train = { prompts_per_step = 1 } } }
    function stage.advance()
      count = count + 1
      local reward = count == 6 and 3.0 or 0.1 -- the machine was busy in the last step
      now = now + reward + 0.5
      return { ["time/reward"] = reward }
    end
    core.clock, trainer.set = function() return now end, function() end
    local ok, timed = pcall(step_times.of, stage, nil, function() end)
    core.clock, trainer.set = clock, set
    assert.truthy(ok, timed)
    assert.near(0.6, timed.seconds, 1e-9)
    assert.equal(0.1, timed.metrics["time/reward"])
  end)
end)
