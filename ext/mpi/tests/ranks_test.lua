-- Ranks say how they are bound to cores.

local ranks = require "grpo.loop.several_ranks"

local function rank(cores, online, threads, node)
  return { cores = cores, online = online, threads = threads, node = node }
end

describe("ranks and cores", function()
  it("are fine where all cores are used, or a rank has no more threads than cores", function()
    assert.is_nil(ranks.binding_problem { rank(1, 2, 1, 0), rank(1, 2, 1, 0) })
    assert.is_nil(ranks.binding_problem { rank(8, 8, 2, 0), rank(8, 8, 2, 0) })
    assert.is_nil(ranks.binding_problem { rank(4, 8, 4, 0), rank(4, 8, 4, 0), rank(8, 8, 8, 2) })
    assert.is_nil(ranks.binding_problem { rank(2, 2, 4, 0), rank(2, 2, 4, 0) }) -- asked for
  end)
  it("are named where a rank has more threads than it is bound to", function()
    assert.matches("^rank 1 has 4 threads, but is bound to 1 of 8 cores: .*%-%-bind%-to none",
      ranks.binding_problem { rank(4, 8, 4, 0), rank(1, 8, 4, 0) })
  end)
  it("are named where cores are idle", function()
    assert.matches("^rank 0 is bound to 1 of 8 cores, and its machine has 2 ranks",
      ranks.binding_problem { rank(1, 8, 1, 0), rank(1, 8, 1, 0), rank(8, 8, 8, 2) })
  end)
end)
