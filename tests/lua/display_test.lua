local display = require "grpo.base.display"

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

  it("shows samples at the first step and then at growing intervals, not at each step", function()
    local function shown(steps)
      local list = {}
      for step = 1, steps do
        if display.shows_sample(step, steps) then list[#list + 1] = step end
      end
      return table.concat(list, " ")
    end
    assert.equal("1", shown(4))
    assert.equal("1 5 10", shown(10))
    assert.equal("1 5 12 24 36 48 60 72 84 96", shown(100))
    assert.equal("1 5 10 20 40 125 250 375 500 625 750 875 1000", shown(1000))
    assert.is_true(#shown(1000000) < 200)
  end)

  -- A view with its lines in `lines`, and the trainer of a stage at a step.
  local function plain_view(lines)
    local view = display.new { quiet = true }
    view.info = function(_, text) lines[#lines + 1] = text end
    return view
  end
  local function trainer_at(step, seconds, more)
    local method = { line = function() return "loss 1" end }
    local tr = { step_count = 10 + step, step_seconds = seconds,
      stage = { kind = "sft", step = step, steps = 100, index = 2, method = method },
      experiment = { stages = { 1, 2 } }, settings = { log = { every = 1, completions = 0 } },
      total_steps = function() return 110 end }
    for k, v in pairs(more or {}) do tr[k] = v end
    return tr
  end

  it("estimates the remaining time from the steps of this process alone, also in its first one",
    function()
      local lines = {}
      local view = plain_view(lines)
      view:step(trainer_at(91, 2), { loss = 1 }) -- as after a resume at step 90 of the stage
      assert.equal("sft 101/110 | loss 1 | ETA 18s", lines[1])
      for step = 92, 96 do view:step(trainer_at(step, 4), { loss = 1 }) end
      assert.matches("^sft 106/110 | loss 1 | ETA 14s$", lines[6])
    end)

  it("says that the remaining time is that of the stage if others follow, and obeys --steps",
    function()
      local lines = {}
      local view = plain_view(lines)
      view:step(trainer_at(10, 2, { experiment = { stages = { 1, 2, 3 } } }), { loss = 1 })
      assert.matches("| stage ETA 3m00s$", lines[1])
      view:step(trainer_at(11, 2, { step_limit = 30, experiment = { stages = { 1, 2, 3 } } }),
        { loss = 1 })
      assert.matches("| ETA 18s$", lines[2])
    end)
end)

describe("shown completions", function()
  it("have their rewards, where there are any", function()
    local function lines_of(entries, reward)
      local lines, c = {}, { index = 1, prompt = "1+1=", text = "2", reward = reward,
        rewards = { right = reward } }
      c.group = { c }
      local view = display.new { quiet = true }
      view.info = function(_, text) lines[#lines + 1] = text end
      view:completions({ step_count = 1, batch = { completions = { c } },
        settings = { reward_entries = entries } }, 1)
      return lines
    end
    assert.same({ "  step 1, prompt: 1+1=", "  [right 1 | total 1] 2" },
      lines_of({ { name = "right" } }, 1.0))
    assert.same({ "  step 1, prompt: 1+1=", "  2" }, lines_of({}, nil))
  end)
end)

describe("the live line", function()
  local live_line = require "grpo.base.live_line"
  local sparkline = require "grpo.base.sparkline"
  local text_width = require "grpo.base.text_width"

  local function at(width, more)
    local spark = sparkline.new()
    for i = 1, 1000 do spark:add(i) end
    local one = { head = "grpo 41/200", fraction = 0.205, spark = spark, eta = "ETA 3m20s",
      parts = { "reward 0.413", "mixed groups 5/8", "length 31.0", "kl 0.0021", "1234 tokens/s" },
      width = width, utf8 = true }
    for k, v in pairs(more or {}) do one[k] = v end
    return live_line.text(one)
  end

  it("takes no more columns than there are, with colours and without", function()
    for width = 1, 200 do
      for _, more in ipairs { {}, { colour = true }, { utf8 = false } } do
        assert.is_true(text_width.columns(at(width, more)) <= width)
      end
    end
  end)

  it("keeps step, reward and remaining time longest, then the bar and the sparkline", function()
    assert.equal("grpo 41/200 reward 0.413 ETA 3m20s", at(36))
    assert.equal("grpo 41/200 | reward 0.413 | ETA 3m20s", at(38))
    assert.equal("grpo 41/200 ━━────────  20% | reward 0.413 | ETA 3m20s", at(56))
    assert.equal("grpo 41/200 ━━────────  20% | reward 0.413 ▁▂▃▄▅▆▇█ | 1234 tokens/s | "
      .. "ETA 3m20s", at(82))
    assert.equal("grpo 41/200 ━━━─────────────  20% | reward 0.413 ▁▁▂▃▃▄▅▆▆▇██ | "
      .. "mixed groups 5/8 | length 31.0 | kl 0.0021 | 1234 tokens/s | ETA 3m20s", at(140))
  end)

  it("is plain ASCII where the locale is not UTF-8", function()
    assert.equal("grpo 41/200 [#.......]  20% | reward 0.413 _.-=+*#@ | ETA 3m20s",
      at(70, { utf8 = false }))
  end)

  it("shows the whole course of the reward in bounded memory, and leaves out NaN and nil",
    function()
      local spark = sparkline.new()
      assert.equal("", spark:text(8, true))
      spark:add(0 / 0)
      spark:add(nil)
      assert.equal("", spark:text(8, true))
      for i = 1, 100000 do
        spark:add(i <= 50000 and 0 or 1)
        assert.is_true(#spark.sums <= 64)
      end
      assert.equal("▁▁▁▁████", spark:text(8, true))
    end)
end)
