local schedule = require "grpo.schedule"
local tiny = require "tests.lua.tiny"

local function at(step, steps, more)
  return tiny.with({ step = step, steps = steps, tokens = 0, fraction = step / steps,
    metrics = {} }, more)
end

describe("schedules", function()
  it("are constant, straight or warmed up", function()
    assert.equal(3, schedule.constant(3)(at(7, 10)))
    local fall = schedule.linear { from = 1, to = 0, steps = 4 }
    assert.same({ 1.0, 0.5, 0.0, 0.0 },
      { fall(at(0, 9)), fall(at(2, 9)), fall(at(4, 9)), fall(at(8, 9)) })
    assert.near(0.5, schedule.linear { from = 1, to = 0 }(at(5, 10)), 1e-15) -- the whole stage
    assert.near(0.25, schedule.warmup { to = 0.5, tokens = 1000 }(at(9, 10, { tokens = 500 })),
      1e-15)
    assert.equal(0.5, schedule.warmup { to = 0.5, tokens = 1000 }(at(9, 10, { tokens = 5000 })))
  end)

  it("come in pieces", function()
    local rise = schedule.linear { from = 0, to = 10, steps = 10 }
    local s = schedule.piecewise { { at = 2, value = 1 }, { at = 5, value = rise } }
    assert.same({ 1, 1, 1, 5.0 }, { s(at(0, 9)), s(at(2, 9)), s(at(4, 9)), s(at(5, 9)) })
  end)

  it("follow one another, each from its own 0", function()
    local s = schedule.chain {
      { schedule.warmup { to = 1, steps = 4 }, steps = 4 },
      { 1, steps = 2 },
      { schedule.linear { from = 1, to = 0 } },
    }
    assert.near(0.5, s(at(2, 10)), 1e-15)
    assert.equal(1, s(at(5, 10)))
    assert.near(0.5, s(at(8, 10)), 1e-15)
    assert.near(0, s(at(10, 10)), 1e-15)
  end)

  it("multiply", function()
    assert.near(6, schedule.product(2, schedule.constant(3))(at(0, 1)), 0)
  end)

  it("steer KL towards its target", function()
    local s = schedule.adaptive_kl { initial = 0.1, target = 6, horizon = 100, sequences = 10 }
    assert.equal(0.1, s(at(0, 9)))
    assert.near(0.2 * 1.02, s(at(1, 9, { metrics = { kl = 100, beta = 0.2 } })), 1e-15)
    assert.near(0.2 * 0.98, s(at(1, 9, { metrics = { kl = 0, beta = 0.2 } })), 1e-15)
    assert.near(0.2 * (1 + 0.1 * 0.5),
      s(at(1, 9, { metrics = { kl = 6.6, beta = 0.2, num_sequences = 50 } })), 1e-12)
    -- another schedule was before it
    assert.equal(0.1, s(at(1, 9, { metrics = { kl = 100, beta = 0 } })))
  end)

  it("say what is wrong with their options", function()
    for _, case in ipairs {
      { function()
        schedule.cosine { peek = 1 }
      end, "schedule%.cosine%.peek: unknown option, did you mean 'peak'" },
      { function() schedule.cosine {} end, "schedule%.cosine%.peak: is required" },
      { function()
        schedule.linear { from = 1, to = 0, steps = 1, tokens = 1 }
      end, "steps or tokens, not both" },
      { function() schedule.piecewise { { at = 3, value = 1 }, { at = 3, value = 1 } } end,
        "more than the one before" },
      { function()
        schedule.chain { { 1 }, { 2 } }
      end, "schedule%.chain%[1%]%.steps: is required" },
      { function() schedule.product(1, "x") end, "two schedules" },
      { function() schedule.constant("x") end, "wants a number" },
    } do
      assert.error_matches(case[1], case[2])
    end
  end)
end)

-- oracles/optim/schedules.json: what transformers computes
local function after_warmup(case, rest)
  if case.warmup == 0 then return rest end
  return schedule.chain {
    { schedule.warmup { to = case.base_lr, steps = case.warmup }, steps = case.warmup }, { rest },
  }
end
local makers = {
  constant = function(c) return schedule.constant(c.base_lr) end,
  constant_with_warmup = function(c)
    return schedule.warmup { to = c.base_lr, steps = c.warmup }
  end,
  linear = function(c)
    return after_warmup(c, schedule.linear { from = c.base_lr, to = 0, steps = c.total - c.warmup })
  end,
  polynomial = function(c)
    return after_warmup(c, schedule.linear { from = c.base_lr, to = c.options.lr_end,
      steps = c.total - c.warmup, power = c.options.power })
  end,
  inverse_sqrt = function(c)
    return schedule.inverse_sqrt { peak = c.base_lr, warmup = c.warmup }
  end,
  cosine = function(c)
    return schedule.cosine { peak = c.base_lr, warmup = c.warmup, cycles = c.options.num_cycles }
  end,
  cosine_with_min_lr = function(c)
    return schedule.cosine { peak = c.base_lr, warmup = c.warmup,
      final = c.base_lr * c.options.min_lr_rate }
  end,
  cosine_with_restarts = function(c)
    return schedule.cosine { peak = c.base_lr, warmup = c.warmup, steps = c.total,
      restarts = c.options.num_cycles }
  end,
}

describe("schedule oracles", function()
  local cases = tiny.oracle "optim/schedules"
  if not cases then
    return pending("schedule oracles need GRPO_SHARED with oracles/optim/schedules.json")
  end
  for i, case in ipairs(cases) do
    it(("%d: %s"):format(i, case.schedule), function()
      local s = makers[case.schedule](case)
      for k, lr in ipairs(case.lrs) do
        assert.near(lr, s(at(k - 1, case.total)), 1e-12 * case.base_lr + 1e-15)
      end
    end)
  end
  it("are all there", function() assert.equal(10, #cases) end)
end)
