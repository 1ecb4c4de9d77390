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
    assert.equal(1.5, view.reports[1].numbers["eval/loss"])
  end)

  it("keeps few of many evaluations, and shows them evenly spaced, the first and the last included",
    function()
      for count, want in pairs { [1] = 0, [2] = 2, [50] = 50, [51] = 26, [10001] = 41 } do
        local view, lines, most = display.new { quiet = true }, {}, 0
        view.info = function(_, text) lines[#lines + 1] = text end
        for step = 1, count do
          view:evaluation(nil, { step = step, n = 1, label = "step", ["eval/loss"] = 1.5,
            ["eval/bits_per_character"] = 2 })
          most = math.max(most, #view.reports)
        end
        lines = {}
        view:summary()
        local text, shown = table.concat(lines, "\n"), {}
        for step in text:gmatch("step (%d+) +1%.500") do shown[#shown + 1] = tonumber(step) end
        assert.equal(want, #shown)
        assert.is_true(most <= 50)
        if want > 0 then
          assert.equal(1, shown[1])
          assert.equal(count, shown[want])
        end
        for i = 3, want - 1 do assert.equal(shown[2] - shown[1], shown[i] - shown[i - 1]) end
        assert.equal(want > 0 and want < count,
          text:find(("%d of %d evaluations"):format(want, count), 1, true) ~= nil)
      end
    end)
end)
