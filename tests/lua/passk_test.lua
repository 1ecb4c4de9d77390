local grpo = require "grpo"
local pass_at_k = require "grpo.loop.pass_at_k"
local statistics = require "grpo.statistics"

-- Every k-subset of n samples, the first c of them right: the share with a right one.
local function by_counting(n, c, k)
  local hits, all = 0, 0
  local function choose(first, left, hit)
    if left == 0 then
      all = all + 1
      if hit then hits = hits + 1 end
      return
    end
    for i = first, n - left + 1 do choose(i + 1, left - 1, hit or i <= c) end
  end
  choose(1, k, false)
  return hits / all
end

describe("passk.one", function()
  it("is the share of k-subsets with a right answer", function()
    for n = 1, 8 do
      for c = 0, n do
        for k = 1, n do assert.near(by_counting(n, c, k), pass_at_k.one(n, c, k), 1e-12) end
      end
    end
  end)

  it("stays exact where binomials overflow", function()
    assert.near(1 - 0.5, pass_at_k.one(10000, 5000, 1), 1e-12)
    assert.near(1, pass_at_k.one(10000, 5000, 200), 1e-12)
    assert.equal(0.0, pass_at_k.one(10000, 0, 5000))
  end)
end)

describe("passk.wilson", function()
  it("agrees with published values", function()
    local low, high = pass_at_k.wilson(8, 10)
    assert.near(0.490162, low, 1e-6)
    assert.near(0.943318, high, 1e-6)
  end)

  it("holds at the ends", function()
    local low, high = pass_at_k.wilson(0, 20)
    assert.equal(0.0, low)
    assert.near(0.161125, high, 1e-6)
    low, high = pass_at_k.wilson(20, 20)
    assert.near(0.838875, low, 1e-6)
    assert.near(1, high, 1e-12)
    low, high = pass_at_k.wilson(0, 0)
    assert.equal(0.0, low)
    assert.equal(1.0, high)
  end)
end)

-- pass@1 of problems with n samples each, counts[i] of them right.
local function first_try(counts, n)
  local values = {}
  for i, c in ipairs(counts) do values[i] = pass_at_k.one(n, c, 1) end
  return pass_at_k.mean(values)
end

describe("passk.mean", function()
  it("is the mean over problems, its error taken between problems", function()
    local e = first_try({ 0, 4, 2, 1 }, 4)
    assert.near((0 + 1 + 0.5 + 0.25) / 4, e.value, 1e-12)
    local s = math.sqrt((0.4375 ^ 2 + 0.5625 ^ 2 + 0.0625 ^ 2 + 0.1875 ^ 2) / 3)
    assert.near(s / 2, e.se, 1e-12)
    assert.is_true(0 <= e.low and e.low < e.value and e.value < e.high and e.high <= 1)
  end)

  it("has the interval of a bootstrap over problems, the same each time", function()
    local counts = {}
    for i = 1, 60 do counts[i] = i * i % 9 end
    local e, again = first_try(counts, 8), first_try(counts, 8)
    assert.near(e.value - 1.96 * e.se, e.low, 0.2 * e.se)
    assert.near(e.value + 1.96 * e.se, e.high, 0.2 * e.se)
    assert.same(e, again)
  end)

  it("does not depend on how many samples a problem has, given their spread", function()
    local few, many = {}, {}
    for i = 1, 50 do few[i], many[i] = i % 2 * 2, i % 2 * 64 end
    assert.near(first_try(few, 2).se, first_try(many, 64).se, 1e-12)
  end)

  it("is honest when every problem is solved", function()
    local e = first_try({ 4, 4, 4, 4, 4 }, 4)
    assert.equal(1.0, e.value)
    assert.is_true(e.low < 0.6)
  end)

  it("covers the truth about 95 times in 100", function()
    local covered, runs, p = 0, 300, 0.3
    math.randomseed(7)
    for _ = 1, runs do
      local counts = {}
      for i = 1, 60 do
        local skill, c = i % 3 == 0 and 0.7 or 0.1, 0 -- mean 0.3
        for _ = 1, 8 do c = c + (math.random() < skill and 1 or 0) end
        counts[i] = c
      end
      local e = first_try(counts, 8)
      if e.low <= p and p <= e.high then covered = covered + 1 end
    end
    assert.is_true(covered / runs > 0.9)
  end)

  it("is of no problem too", function() assert.equal(0, pass_at_k.mean({}).n) end)
end)

-- tests/oracles/evaluation.py wrote tests/cases/evaluation.jsonl with numpy and scipy.
describe("what scipy says", function()
  local cases = {}
  for line in io.lines "tests/cases/evaluation.jsonl" do
    local case = grpo.json.decode(line)
    cases[case.measure] = cases[case.measure] or {}
    table.insert(cases[case.measure], case)
  end

  it("is what pass@k, best@k and maj@k are", function()
    for _, case in ipairs(cases.pass) do
      assert.near(case.value, pass_at_k.one(case.n, case.c, case.k), 1e-12)
    end
    for _, case in ipairs(cases.best) do
      assert.near(case.value, pass_at_k.best(case.values, case.rewards, case.k), 1e-12)
    end
    for _, case in ipairs(cases.maj) do
      local answers = {}
      for i = 1, #case.values do
        answers[i] = case.answers[i] ~= grpo.json.null and case.answers[i]
      end
      assert.near(case.value, pass_at_k.majority(case.values, answers, case.k), 1e-12)
    end
  end)

  it("is the p-value of right and wrong answers, at any number", function()
    for _, case in ipairs(cases.mcnemar) do
      local before, after = { 1.0, 0.0 }, { 1.0, 0.0 }
      for _ = 1, case.higher do
        before[#before + 1], after[#after + 1] = 0.0, 1.0
      end
      for _ = 1, case.lower do
        before[#before + 1], after[#after + 1] = 1.0, 0.0
      end
      local found = statistics.paired_test(before, after)
      assert.near(case.p, found.p, 1e-9 * case.p)
      assert.same({ true, case.higher, case.lower }, { found.exact, found.higher, found.lower })
    end
  end)

  it("is the p-value of other measures, exactly or nearly", function()
    for _, case in ipairs(cases.permutation) do
      local found = statistics.paired_test(case.before, case.after)
      assert.equal(case.exact, found.exact)
      assert.near(case.p, found.p, case.exact and 1e-12 or 4 * math.sqrt(case.p / 1e4) + 1e-4)
      assert.same(found, statistics.paired_test(case.before, case.after))
    end
  end)

  it("is nearly the interval of the bootstrap", function()
    for _, case in ipairs(cases.bootstrap) do
      local b = statistics.bootstrap(case.values)
      assert.near(case.mean, b.mean, 1e-12)
      assert.near(case.low, b.low, 0.05 * (case.high - case.low))
      assert.near(case.high, b.high, 0.05 * (case.high - case.low))
    end
  end)
end)

describe("statistics.paired_test", function()
  it("refuses what is not pairs, and finds no difference where there is none", function()
    assert.has_error(function() statistics.paired_test({ 1 }, { 1, 2 }) end)
    assert.same({ p = 1.0, exact = true, higher = 0, lower = 0 },
      statistics.paired_test({ 0.5, 0.25 }, { 0.5, 0.25 }))
  end)
end)
