local display = require "grpo.runs.display"

describe("the screen of a run", function()
  it("does not keep the completions of an evaluation", function()
    local view = display.new { quiet = true }
    local kept = setmetatable({}, { __mode = "k" })
    do
      local samples = { { text = "4" } }
      kept[samples] = true
      view:evaluation(nil, { step = 1, n = 1, label = "step", samples = samples, per_row = { 1 },
        ["eval/loss"] = 1.5 })
    end
    collectgarbage()
    assert.is_nil(next(kept))
    assert.equal(1.5, view.reports[1]["eval/loss"])
  end)
end)
