-- Signs of reward hacking: each is seen where it is, and names a completion; healthy training is
-- left alone.

local core = require "grpo.core"
local reward_hacking = require "grpo.scoring.reward_checks.reward_hacking"

local config = { reward_entries = { { name = "correct" }, { name = "layout" } } }

-- groups: a list of lists of { text, correct, layout [, length] }.  Metrics as a stage makes them.
local function step_of(number, groups)
  local cs, columns = {}, { correct = {}, layout = {} }
  for g, list in ipairs(groups) do
    local group = {}
    for i, row in ipairs(list) do
      group[i] = { text = row[1], prompt = "prompt " .. g, index = i, group = group, length = row[4]
        or #row[1],
        rewards = { correct = row[2], layout = row[3] },
        reward = (row[2] == core.none and 0 or row[2]) + row[3] }
      cs[#cs + 1] = group[i]
      if row[2] ~= core.none then table.insert(columns.correct, row[2]) end
      table.insert(columns.layout, row[3])
    end
  end
  local statistics = require "grpo.statistics"
  local m = { step = number, stage = 1, reward = 0, ["completions/mean_length"] = 0 }
  for _, c in ipairs(cs) do
    m.reward = m.reward + c.reward / #cs
    m["completions/mean_length"] = m["completions/mean_length"] + c.length / #cs
  end
  for name, values in pairs(columns) do
    m["rewards/" .. name .. "/mean"], m["rewards/" .. name .. "/std"] = statistics.mean(values),
      statistics.std(values)
  end
  return m, cs
end

local function context(change)
  local facts = { entries = config.reward_entries, weights = { 1, 1 }, passes = 3 }
  for name, value in pairs(change or {}) do facts[name] = value end
  return facts
end

-- make(t): the groups at t in 0..1; changes: of the context of evaluations, by step
local function told(n, make, evaluations, changes)
  local detector, lines = reward_hacking.detector(), {}
  for number = 1, n do
    local m, cs = step_of(number, make((number - 1) / (n - 1)))
    for _, line in ipairs(detector:step(m, cs, config)) do lines[#lines + 1] = line end
    for _, line in ipairs(evaluations and evaluations[number]
      and detector:evaluation(evaluations[number], context(changes and changes[number])) or {}) do
      lines[#lines + 1] = line
    end
  end
  return lines
end

-- step, samples: a list of { text, correct, layout } with its number of copies, both optional
local function report(accuracy, step, samples)
  local list = {}
  for _, sample in ipairs(samples or {}) do
    for _ = 1, sample[4] do
      list[#list + 1] = { text = sample[1], prompt = "held out", passed = sample[2] == 1,
        rewards = { correct = sample[2], layout = sample[3] }, reward = sample[2] + sample[3] }
    end
  end
  return { ["eval/accuracy"] = accuracy, ["eval/accuracy/low"] = accuracy - 0.05,
    ["eval/accuracy/high"] = accuracy + 0.05, step = step, samples = samples and list }
end

-- n groups of four rows, row(g, i)
local function groups_of(n, row)
  local groups = {}
  for g = 1, n do
    groups[g] = {}
    for i = 1, 4 do groups[g][i] = row(g, i) end
  end
  return groups
end

describe("the detector of reward hacking", function()
  it("is silent while all goes well", function()
    local function healthy(t)
      return groups_of(6, function(g, i)
        local right = (i - 1) / 4 < t and 1 or 0
        return { ("answer %d of %d"):format(g * 7 + right, i), right, t > 0.3 and 1 or 0,
          20 + math.floor(15 * t) + i }
      end)
    end
    assert.same({},
      told(40, healthy, { [10] = report(0.3), [20] = report(0.5), [40] = report(0.8) }))
  end)

  it("sees a saturated reward beside one that does not rise", function()
    local lines = told(30, function(t)
      local layout = t > 0.4 and 1 or 0
      return { { { "a b", 0, layout }, { "c d", 1, layout } },
        { { "e f", 0, layout }, { "g h", 0, layout } } }
    end)
    assert.equal(1, #lines)
    assert.matches("^reward 'layout' is at its highest for every completion, while 'correct' is "
      .. "no higher", lines[1])
    assert.matches('For instance %(reward 2%) "c d" to the prompt "prompt 1" '
      .. "%(docs/troubleshooting.md#saturated%)$", lines[1])
  end)

  it("sees a format that is full for nearly every completion, while nothing is right", function()
    local function groups(full)
      return function(t)
        return groups_of(10, function(g, i)
          local layout = t > 0.4 and (g > 1 or i > 1 or not full) and 1 or 0
          return { ("try %d of %d"):format(i, g), 0, t > 0.4 and layout or 0 }
        end)
      end
    end
    local lines = told(200, groups(true))
    assert.equal(1, #lines)
    assert.matches("^reward 'layout' is at its highest for nearly every completion, while "
      .. "'correct' is no higher than at first: .*lower its weight or make it harder, and give "
      .. "'correct' easier prompts", lines[1])
    assert.equal(1, #told(200, groups(false)))
  end)

  it("does not take a penalty that is never due for what is wanted", function()
    local config_before = config.reward_entries
    config.reward_entries = { { name = "layout" }, { name = "nothing_after" } }
    local detector = reward_hacking.detector()
    for number = 1, 40 do
      local m, cs = step_of(number, groups_of(4, function(g, i)
        return { ("try %d of %d"):format(i, g), 0, number > 10 and 1 or (g + i) % 2 }
      end))
      for _, c in ipairs(cs) do c.rewards.nothing_after = 0 end
      m["rewards/nothing_after/mean"], m["rewards/nothing_after/std"] = 0, 0
      assert.same({}, detector:step(m, cs, config))
    end
    config.reward_entries = config_before
  end)

  it("sees length that is paid for, and its opposite", function()
    local function growing(sign)
      return function(t)
        local n = math.floor(sign > 0 and 10 + 60 * t or 70 - 60 * t)
        return { { { "short", t, 0, n }, { "long one", t + 0.1 * sign, 0, n + 9 } },
          { { "short", t, 0, n }, { "long two", t + 0.1 * sign, 0, n + 9 } } }
      end
    end
    local lines = told(30, growing(1))
    assert.matches("grown from %d+ to %d+ tokens, and within groups the longer ones win "
      .. "%(correlation 1%.00%)",
      lines[1])
    assert.matches('"long [ot]', lines[1])
    assert.matches("shrunk from %d+ to %d+ tokens", told(30, growing(-1))[1])
  end)

  it("sees winners that repeat themselves", function()
    local lines = told(30, function(t)
      local good = t > 0.4 and ("so it is and "):rep(10) or "one two three four five six seven"
      return { { { good, 1, 0, 30 }, { "another text of some other words", 0, 0, 30 } } }
    end)
    assert.equal(1, #lines)
    assert.matches("^the completions that win repeat themselves: %d+ %%", lines[1])
    assert.matches("so it is and so it is", lines[1])
  end)

  it("sees one string that wins everywhere", function()
    local lines = told(20, function()
      local groups = {}
      for g = 1, 6 do groups[g] = { { "I cannot say", 1, 0 }, { "it is " .. g, 0, 0 } } end
      return groups
    end)
    assert.equal(1, #lines)
    assert.matches("^the same text wins in 6 of 6 groups, whatever the prompt", lines[1])
    assert.matches('"I cannot say"', lines[1])
  end)

  it("sees every group end in one text", function()
    local lines = told(30, function(t)
      return groups_of(6, function(g, i)
        if t > 0.3 then return { "", 1, 0 } end
        return { ("text %d of %d"):format(i, g), i == 1 and 1 or 0, 0 }
      end)
    end)
    assert.equal(1, #lines)
    assert.matches('^24 of 24 completions are the same text, whatever the prompt.*%(reward 1%) "" '
      .. 'to', lines[1])
  end)

  it("sees nil where 0 was meant", function()
    local function make(share)
      return function()
        return groups_of(4, function(g, i)
          return { ("text %d of %d"):format(i, g), i <= share and 1 or core.none, 0 }
        end)
      end
    end
    local lines = told(10, make(2))
    assert.equal(1, #lines)
    assert.matches("^reward 'correct' gives nil for 8 of 16 completions.*return 0 or false",
      lines[1])
    assert.same({}, told(10, make(4)))
  end)

  it("sees the reward rise while the held-out metric falls", function()
    local lines = told(30, function(t)
      return { { { "right", 1, 0.2 }, { "shouting!!!", 0, 1.5 + 2 * t } },
        { { "b", 0, t }, { "c", 0, 0.1 } } }
    end, {
      [10] = report(0.7, 10, { { "fine", 1, 0.2, 14 }, { "wrong", 0, 0, 6 } }),
      [30] = report(0.5, 30, { { "fine", 1, 0.2, 10 }, { "wrong", 0, 0, 3 },
        { "SHOUTING!", 0, 3.5, 7 } }) })
    assert.equal(1, #lines)
    assert.matches("the reward rises %(.* on the held%-out rows%) while the held%-out metric falls "
      .. "%(eval/accuracy 0%.700 to 0%.500%): the reward is not what you want to measure",
      lines[1])
    assert.matches('For instance %(reward 3%.5%) "SHOUTING!"', lines[1])
    assert.same({}, told(30, function(t) return { { { "a", t, 0 }, { "b", 0, 0 } } } end,
      { [10] = report(0.7), [30] = report(0.65) }))
  end)

  it("takes completions without a reward, and entries that do not apply", function()
    local detector = reward_hacking.detector()
    for number = 1, 20 do
      local m, cs = step_of(number, { { { "a", 0, 0 }, { "b", 1, 0 } } })
      cs[1].reward, cs[1].rewards.correct = nil, core.none
      m["rewards/correct/mean"] = 0 / 0
      assert.same({}, detector:step(m, cs, config))
    end
    assert.same({}, reward_hacking.detector():evaluation(report(0.5), context()))
  end)

  -- The reward in training rises from 0.5 to 1.5, the held-out rows get less of it.
  local function rising(t) return { { { "a", t, 0.5 }, { "b", t, 0.5 } } } end
  local good = { { "fine", 1, 1, 14 }, { "wrong", 0, 0, 6 } }
  local bad = { { "fine", 1, 1, 10 }, { "wrong", 0, 0, 10 } }

  it("does not blame the reward for other rows in training", function()
    local falls = { [10] = report(0.7, 10, good), [30] = report(0.5, 30, bad) }
    local lines = told(30, rising, falls, { [30] = { passes = 0.4 } })
    assert.equal(1, #lines)
    assert.matches("^the reward in training rises %(.*%) while the held%-out metric falls "
      .. "%(eval/accuracy 0%.700 to 0%.500%), but the reward of the held%-out rows does not rise "
      .. "%(1%.4 to 1%): since step 10 training is on rows that the stage had not met", lines[1])
    assert.is_nil(lines[1]:find("not what you want", 1, true))
    assert.matches("has met each of its rows about 3%.0 times", told(30, rising, falls)[1])
  end)

  it("does not blame the reward for a weight that was changed", function()
    local lines = told(30, rising, { [10] = report(0.7, 10, good), [30] = report(0.5, 30, bad) },
      { [30] = { weights = { 1, 5 } } })
    assert.equal(1, #lines)
    assert.matches("does not rise %(4%.2 to 3%): the weights of the rewards have changed since "
      .. "step 10 %(layout 1 to 5%)", lines[1])
  end)

  it("does not compare rewards that are others", function()
    local other = { { name = "correct", fn = print }, { name = "layout" } }
    local lines = told(30, rising, { [10] = report(0.7, 10, good), [30] = report(0.5, 30, bad) },
      { [30] = { entries = other } })
    assert.equal(1, #lines)
    assert.matches("the rewards are others than at step 10, so the two values cannot be compared ",
      lines[1])
  end)

  it("shows a completion with a high reward, wherever the failures have low ones", function()
    local lines = told(30, rising, {
      [10] = report(0.7, 10, good),
      [30] = report(0.5, 30, { { "correct!!!", 1, 6, 10 }, { "wrong", 0, 0, 10 } }) })
    assert.equal(1, #lines)
    assert.matches('not what you want to measure. For instance %(reward 7%) "correct!!!"', lines[1])
  end)

  it("says nothing of a metric that falls alone", function()
    local function falling(t) return { { { "a", 1 - t, 0 }, { "b", 0, 0 } } } end
    assert.same({},
      told(30, falling, { [10] = report(0.7, 10, good), [30] = report(0.5, 30, bad) }))
  end)

  it("sees a metric that falls slowly, once for each fall", function()
    local evaluations = {}
    for k = 0, 6 do evaluations[5 + 5 * k] = report(0.8 - 0.04 * k) end
    local lines = told(40, function(t)
      return { { { "a", t, 0 }, { "b", 1, 0 } }, { { "c", t, 0 }, { "d", 1, 0 } } }
    end, evaluations)
    assert.equal(2, #lines)
    assert.matches("the held%-out metric falls %(eval/accuracy 0.800 to 0.680%)", lines[1])
    assert.matches("eval/accuracy 0.680 to 0.560", lines[2])
  end)

  it("sees repetition in texts without spaces", function()
    local ids = "0123456789abcdefghijklmnopqrstuvwxyz"
    local lines = told(20, function(t)
      local text = t > 0.3 and ("数字"):rep(20) or ids
      return { { { text, 1, 0, 40 }, { ids, 0, 0, 40 } },
        { { text .. "!", 1, 0, 40 }, { ids, 0, 0, 40 } } }
    end)
    assert.equal(1, #lines)
    assert.matches("repeat themselves: %d+ %% of their runs of eight characters came before, 0 %% "
      .. "at first", lines[1])
    assert.is_true(reward_hacking.repetition("Natalia sold clips to 48 of her friends in April, "
      .. "and then she sold half as "
      .. "many clips in May. How many clips did Natalia sell altogether in April and May?") < 0.1)
  end)
end)
