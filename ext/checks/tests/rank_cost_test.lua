local rank_cost = require "grpo.loop.rank_cost"

-- A step of 8 groups with a million trained numbers, one second of which can be divided.
local function step(fields)
  local s = { groups = 8, blocks = 0, numbers = 10^6, divided = 1.0, optimizer = 0.0, tokens = 0,
    memory = 2^30, moments = 8 * 10^6, link = 8 }
  for name, value in pairs(fields or {}) do s[name] = value end
  return s
end

describe("what a step costs on ranks", function()
  it("is one process's where there is one", function()
    local c = rank_cost.of(step(), 1)
    assert.equal(c.seconds, 1.0)
    assert.equal(c.sent, 0)
    assert.equal(c.memory, 2^30)
  end)

  it("is two slices of each other rank where leaves and ranks are powers of two", function()
    for _, n in ipairs { 2, 4, 8 } do
      local c = rank_cost.of(step(), n)
      local expected = 2 * 4e6 * (n - 1) / n
      assert.near(expected, c.sent, 1)
      assert.near(expected, c.received, 1)
      assert.near(1 / n, c.compute, 1e-9)
      assert.truthy(c.wire > expected / 1e9 and c.seconds == c.compute + c.wire)
    end
  end)

  it("counts the subtrees of a rank whose leaves make no single subtree", function()
    -- of 3 ranks: leaves 0 1 | 2 3 4 | 5 6 7, and so 1, 2 and 2 sums
    assert.near((2 + 1) * 4e6 * 2 / 3, rank_cost.of(step(), 3).sent, 1)
    assert.near(3 / 8, rank_cost.of(step(), 3).compute, 1e-9)
  end)

  it("does not fall with more ranks than groups", function()
    assert.equal(rank_cost.of(step(), 8).compute, rank_cost.of(step(), 16).compute)
  end)

  it("divides no update whose gradient is one sum", function()
    local s = step { numbers = 5 * 10^8, update = 0.6 }
    assert.equal(rank_cost.leaves(s.numbers, 8, 0), 1)
    assert.near(0.4 / 2 + 0.6, rank_cost.of(s, 2).compute, 1e-9)
    assert.near(4 * 5e8 / 2, rank_cost.of(s, 2).sent, 1)
  end)

  it("shares the moments, and adds the sums that wait", function()
    -- one process has 3 sums; each of 2 ranks 2 for its 4 leaves, and of 8 ranks one
    assert.near(2^30 - 4e6 + (2 - 3) * 4e6, rank_cost.of(step(), 2).memory, 1)
    assert.near(2^30 - 7e6 + (1 - 3) * 4e6, rank_cost.of(step(), 8).memory, 1)
    -- rank 1 of 3 has the leaves 2 3 4, rank 2 has 5 6 7
    assert.near(2^30 - 8e6 * 2 / 3 + (2 - 3) * 4e6, rank_cost.of(step(), 3).memory, 1)
    -- with 7 groups rank 1 of 2 has 3 4 5 6: 3, then 4 5, then 6
    assert.near(2^30 - 4e6, rank_cost.of(step { fewest = 1 }, 2).memory, 1)
  end)
end)
