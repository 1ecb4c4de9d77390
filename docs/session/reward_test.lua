local reward = require "reward"

describe("reward.close", function()
  it("is highest for the answer itself", function()
    assert.equal(1, reward.close("12", { answer = "12" }))
    assert.is_true(reward.close("17", { answer = "12" }) < 1)
  end)
end)
