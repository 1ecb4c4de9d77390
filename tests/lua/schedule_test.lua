local schedule = require "grpo.schedule"
local grpo = require "grpo"
local start = require "grpo.runs.start"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

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

  -- TRL 1.16, GRPOTrainer._compute_loss: the update at the end of an optimizer step, and what the
  -- next one applies.
  it("keep the entropy from falling below its target, as TRL does", function()
    local o = { initial = 0.01, target = 0.5, delta = 0.02, min = 0.005, max = 0.06 }
    local s, coef, last = schedule.adaptive_entropy(o), o.initial, math.huge
    local metrics, applied = {}, {}
    for step, entropy in ipairs { 0.9, 0.5, 0.3, 0.2, 0.1, 0.6, 0.7, 0.8, 0.9, 0.4, 0.51 } do
      local want = last <= o.target and coef or 0
      local value, kept = s(at(step - 1, 11, { metrics = metrics }))
      assert.equal(want, value)
      assert.equal(coef, kept)
      metrics = { entropy = entropy, entropy_coef = kept }
      coef = entropy <= o.target and math.min(coef + o.delta, o.max)
        or math.max(coef - o.delta, o.min)
      last, applied[step] = entropy, value > 0
    end
    assert.same({ false, false, true, true, true, true, false, false, false, false, true }, applied)
    assert.error_matches(function()
      schedule.adaptive_entropy { target = 1, min = 2 }
    end, "schedule%.adaptive_entropy%.min: 2 is above max, 1")
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

describe("schedules as text", function()
  local function value(text, step)
    local made, message = schedule.parse(text)
    assert.equal(nil, message)
    return type(made) == "function" and made(at(step or 3, 10)) or made
  end

  it("are those of the functions", function()
    for _, case in ipairs {
      { "3e-4", schedule.constant(3e-4) },
      { "constant:2", schedule.constant(2) },
      { "cosine:peak=1e-4,warmup=2", schedule.cosine { peak = 1e-4, warmup = 2 } },
      { " cosine : peak = 1e-4 , final=1e-5 ", schedule.cosine { peak = 1e-4, final = 1e-5 } },
      { "linear:from=1,to=0,power=2", schedule.linear { from = 1, to = 0, power = 2 } },
      { "warmup:to=0.5,steps=8", schedule.warmup { to = 0.5, steps = 8 } },
      { "inverse_sqrt:peak=1,warmup=2", schedule.inverse_sqrt { peak = 1, warmup = 2 } },
      { "piecewise:0=1,5=(linear:from=1,to=0)", schedule.piecewise {
        { at = 0, value = 1 }, { at = 5, value = schedule.linear { from = 1, to = 0 } } } },
      { "chain:2=(warmup:to=1),4=1,(linear:from=1,to=0)", schedule.chain {
        { schedule.warmup { to = 1 }, steps = 2 }, { 1, steps = 4 },
        { schedule.linear { from = 1, to = 0 } } } },
      { "adaptive_kl:initial=0.1,target=6,horizon=100",
        schedule.adaptive_kl { initial = 0.1, target = 6, horizon = 100 } },
      { "product:2,(product:(cosine:peak=1),0.5)",
        schedule.product(1, schedule.cosine { peak = 1 }) },
    } do
      for step = 0, 9 do
        assert.near(case[2](at(step, 10)), value(case[1], step), 1e-15, case[1])
      end
    end
  end)

  it("remember their text", function()
    assert.equal("cosine:peak=1", schedule.text(schedule.parse("cosine:peak=1")))
    assert.equal(nil, schedule.text(schedule.cosine { peak = 1 }))
  end)

  it("name the part that is wrong", function()
    for text, pattern in pairs {
      ["cosine:peek=1"] = "^cosine: peek: unknown option, did you mean 'peak'",
      ["cosine"] = "^cosine: peak: is required",
      ["cosin:peak=1"] = "^cosin:peak=1: is not a schedule, did you mean 'cosine'",
      ["cosine:peak=1,peak=2"] = "^peak: is given twice",
      ["cosine:1"] = "^1: want NAME=VALUE in cosine",
      ["cosine:peak=1,,warmup=2"] = "item 2 is empty",
      ["cosine:"] = "cosine: item 1 is empty",
      ["inverse_sqrt:peak=1"] = "inverse_sqrt: warmup: is required",
      ["cosine:peak=(1"] = "its parentheses do not match",
      ["cosine:peak=1)("] = "its parentheses do not match",
      ["cosine:peak=0x10"] = "^0x10: want a number, a word or a schedule in parentheses",
      ["warmup:to=1e999"] = "^1e999: is not finite",
      ["linear:from=1,to=x"] = "^linear: to: must be number",
      ["piecewise:5=1,3=2"] = "^piecewise: .*more than the one before",
      ["piecewise:a=1"] = "^a: want a whole number of steps",
      ["chain:1,2"] = "^1: want a whole number of steps",
      ["constant:x"] = "wants a number",
      ["product:1"] = "^product: want two values",
      ["product:1,(cosine:peek=1)"] = "^cosine: peek: unknown option",
      ["parse:1"] = "is not a schedule",
      [""] = "is not a schedule",
      [("product:1,("):rep(20) .. "1" .. (")"):rep(20)] = "more than 8 schedules within one",
      [("1"):rep(3000)] = "at most 2000 bytes",
    } do
      local made, message = schedule.parse(text)
      assert.equal(nil, made)
      assert.matches(pattern, message)
    end
  end)
end)

local experiment = tiny.experiments(function()
  return { model = { config = tiny.llama(), tokenizer = grpo.tokenizer.chars("ab") },
    data = { train = grpo.data.list { { prompt = "a" } } },
    rewards = { count = { fn = tiny.count_a, weight = "linear:from=1,to=0" } } }
end)

describe("an option with a schedule as text", function()
  it("gets the schedule, in a script, as a weight and between two steps", function()
    local e = experiment(function(t) t.train = { lr = "cosine:peak=1,warmup=5" } end)
    local config = e.stages[1].config
    assert.equal(0.8, config.train.lr(at(4, 10)))
    assert.equal(0.75, config.reward_entries[1].weight(at(1, 4)))
    local tr = trainer.new(e)
    tr.config.train.lr = "constant:0.25"
    assert.equal(0.25, tr.config.train.lr(at(4, 10)))
    tr.config.train.lr = "0.5"
    assert.equal(0.5, tr.config.train.lr)
    tiny.refused("tr%.config%.train%.lr: the schedule 'cosin:peak=1': .*did you mean 'cosine'",
      function() tr.config.train.lr = "cosin:peak=1" end)
    tiny.refused("tr%.config%.train%.lr: got %-0%.5, want", function()
      tr.config.train.lr = "-0.5"
    end)
  end)

  it("is written into config.json as its text", function()
    local e = experiment(function(t) t.train = { lr = "cosine:peak=1,warmup=5" } end)
    assert.equal("cosine:peak=1,warmup=5", start.described(e).options["train.lr"].value)
  end)

  it("is refused with the option and the part that is wrong", function()
    tiny.refused("train%.lr: the schedule 'cosine:peek=1': cosine: peek: unknown option, "
      .. "did you mean 'peak'", experiment, function(t) t.train = { lr = "cosine:peek=1" } end)
    tiny.refused("rewards%.count%.weight: liner:to=1: is not a schedule, did you mean 'linear'",
      experiment, function(t) t.rewards.count.weight = "liner:to=1" end)
    tiny.refused("train%.kl: got 'x', want a number or a function%(p%), 0 or more, or a schedule "
      .. "such as", experiment, function(t) t.train = { kl = "x" } end)
  end)
end)

-- tests/oracles/schedules.py wrote tests/cases/schedules/transformers.jsonl with transformers: the
-- factors of its schedules, for a peak of 1.  They hold over steps, and over updates.
local of_transformers = {
  constant_with_warmup = function(o)
    if o.warmup == 0 then return schedule.constant(1) end
    return schedule.warmup { to = 1, steps = o.over == "step" and o.warmup or nil,
      updates = o.over == "update" and o.warmup or nil, warmup_ratio = o.warmup_ratio,
      over = o.over }
  end,
  linear = function(o) return schedule.linear(tiny.with(o, { from = 1, to = 0 })) end,
  polynomial = function(o, more)
    return schedule.linear(tiny.with(o, { from = 1, to = more.lr_end, power = more.power }))
  end,
  cosine = function(o, more)
    return schedule.cosine(tiny.with(o, { peak = 1, cycles = more.num_cycles }))
  end,
  cosine_with_restarts = function(o, more)
    return schedule.cosine(tiny.with(o, { peak = 1, restarts = more.num_cycles }))
  end,
  inverse_sqrt = function(o) return schedule.inverse_sqrt(tiny.with(o, { peak = 1 })) end,
}

describe("schedules of transformers", function()
  local cases = {}
  for line in io.lines("tests/cases/schedules/transformers.jsonl") do
    cases[#cases + 1] = grpo.json.decode(line)
  end

  for _, over in ipairs { "step", "update" } do
    it(("are ours over %ss in %d cases"):format(over, #cases), function()
      for _, case in ipairs(cases) do
        local s = of_transformers[case.schedule]({ over = over, warmup = case.warmup,
          warmup_ratio = case.warmup_ratio }, case.options)
        for i, factor in ipairs(case.factors) do
          -- counts that the schedule must not read have other values
          local p = at(over == "step" and i - 1 or 77, over == "step" and case.total or 99,
            { update = over == "update" and i - 1 or 55,
              updates = over == "update" and case.total or 88 })
          assert.near(factor, s(p), 1e-12, ("%s at %d of %d"):format(case.schedule, i - 1,
            case.total))
        end
      end
    end)
  end
end)

describe("schedules over updates and tokens", function()
  local function p(update, tokens)
    return at(1, 10, { update = update, updates = 40, update_tokens = tokens or 0 })
  end

  it("count what they are asked to", function()
    assert.near(0.5, schedule.linear { from = 1, to = 0, over = "update" }(p(20)), 1e-15)
    assert.near(0.25, schedule.linear { from = 1, to = 0, updates = 8 }(p(6)), 1e-15)
    assert.near(0.75, schedule.warmup { to = 1, tokens = 1000, over = "tokens" }(p(0, 750)), 1e-15)
    local cosine = schedule.cosine { peak = 2, warmup_ratio = 0.1, tokens = 2000, over = "tokens" }
    assert.near(1, cosine(p(0, 100)), 1e-15)
    assert.near(1, cosine(p(0, 1100)), 1e-15)
    assert.near(0.5, schedule.inverse_sqrt { peak = 1, warmup = 5, over = "update" }(p(20)), 1e-15)
    local pieces = schedule.piecewise { { at = 0, value = 1 }, { at = 12, value = 2 },
      over = "update" }
    assert.same({ 1, 2 }, { pieces(p(11)), pieces(p(12)) })
    local chain = schedule.chain { { schedule.warmup { to = 1, over = "update" }, steps = 10 },
      { schedule.linear { from = 1, to = 0, over = "update" } }, over = "update" }
    assert.near(0.5, chain(p(5)), 1e-15)
    assert.near(0.5, chain(p(25)), 1e-15)
    assert.equal(40, schedule.over("update", function(x) return x.updates end)(p(3)))
  end)

  it("are told apart from those that are called once a step", function()
    local often = schedule.linear { from = 1, to = 0, over = "update" }
    local user = schedule.over("tokens", function() return 1 end)
    for _, s in ipairs { often, user, schedule.product(2, often), schedule.chain { { user } },
      schedule.piecewise { { at = 0, value = often } }, schedule.parse("warmup:to=1,updates=3"),
      schedule.parse("piecewise:over=update,0=1,3=2"), schedule.parse("chain:3=1,2,over=update"),
      schedule.cosine { peak = 1, tokens = 9, over = "tokens" } } do
      assert.is_true(schedule.is_per_update(s))
    end
    for _, s in ipairs { 1, function() return 1 end, schedule.cosine { peak = 1 },
      schedule.cosine { peak = 1, over = "step" }, schedule.linear { from = 1, to = 0, tokens = 9 },
      schedule.over("step", function() return 1 end), schedule.product(1, 2) } do
      assert.is_false(schedule.is_per_update(s))
    end
  end)

  it("say what is wrong", function()
    for pattern, f in pairs {
      ["over: must be one of step, update, tokens"] = function()
        schedule.cosine { peak = 1, over = "epoch" }
      end,
      ["cosine%.steps: over = \"update\" counts updates; give updates"] = function()
        schedule.cosine { peak = 1, steps = 3, over = "update" }
      end,
      ["cosine%.tokens: is required, because a run does not know its tokens"] = function()
        schedule.cosine { peak = 1, over = "tokens" }
      end,
      ["give warmup or warmup_ratio, not both"] = function()
        schedule.linear { from = 1, to = 0, warmup = 1, warmup_ratio = 0.1 }
      end,
      ["warmup_ratio: must be at most 1"] = function()
        schedule.cosine { peak = 1, warmup_ratio = 10 }
      end,
      ["give steps or warmup_ratio, not both"] = function()
        schedule.warmup { to = 1, steps = 3, warmup_ratio = 0.1 }
      end,
      ["inverse_sqrt%.warmup: is required"] = function() schedule.inverse_sqrt { peak = 1 } end,
      ["steps or updates, not both"] = function()
        schedule.linear { from = 1, to = 0, steps = 1, updates = 2 }
      end,
      ['over: wants "step", "update" or "tokens", got once'] = function()
        schedule.over("once", print)
      end,
      ["over: wants a function"] = function() schedule.over("update", 1) end,
    } do
      assert.error_matches(f, pattern)
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
