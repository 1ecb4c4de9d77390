local pass_at_k = require "grpo.loop.pass_at_k"

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

describe("passk.estimate", function()
  it("is the mean over problems, its error taken between problems", function()
    local e = pass_at_k.estimate({ 0, 4, 2, 1 }, 4, 1)
    assert.near((0 + 1 + 0.5 + 0.25) / 4, e.value, 1e-12)
    local s = math.sqrt((0.4375 ^ 2 + 0.5625 ^ 2 + 0.0625 ^ 2 + 0.1875 ^ 2) / 3)
    assert.near(s / 2, e.se, 1e-12)
    assert.near(e.value - 1.959963984540054 * e.se, e.low, 1e-12)
    assert.is_true(e.high <= 1)
  end)

  it("does not depend on how many samples a problem has, given their spread", function()
    local few, many = {}, {}
    for i = 1, 50 do few[i], many[i] = i % 2 * 2, i % 2 * 64 end
    assert.near(pass_at_k.estimate(few, 2, 1).se, pass_at_k.estimate(many, 64, 1).se, 1e-12)
  end)

  it("is honest when every problem is solved", function()
    local e = pass_at_k.estimate({ 4, 4, 4, 4, 4 }, 4, 1)
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
      local e = pass_at_k.estimate(counts, 8, 1)
      if e.low <= p and p <= e.high then covered = covered + 1 end
    end
    assert.is_true(covered / runs > 0.9)
  end)

  it("refuses what cannot be", function()
    assert.has_error(function() pass_at_k.estimate({ 1 }, 4, 5) end)
    assert.has_error(function() pass_at_k.estimate({ 5 }, 4, 1) end)
    assert.has_error(function() pass_at_k.estimate({ 1 }, 4, 0) end)
    assert.equal(0, pass_at_k.estimate({}, 4, 1).n)
  end)
end)
