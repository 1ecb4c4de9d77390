-- Closing a coroutine runs what its variables close with, and the budget reaches that, too.
local core = require "grpo.core"

local limits = { instructions = 1e6, memory = 16 * 2^20, seconds = 600 }

-- A coroutine that is suspended with a variable that is closed by `closer`.
local function suspended(closer)
  local co = coroutine.create(function()
    local _ <close> = setmetatable({}, { __close = closer })
    coroutine.yield(1)
  end)
  assert.is_true(coroutine.resume(co))
  return co
end

local function endless() while true do end end

local function ends_the_budget(f)
  local ok, err = core.limited(limits, "reward 'x'", f)
  assert.is_false(ok)
  assert.equal("ELIMIT", err.code)
  assert.matches("instructions", tostring(err))
end

describe("coroutine.close under a budget", function()
  it("closes as it does without", function()
    for _, budget in ipairs { false, limits } do
      local closed = 0
      local _, done, failed, why, dead, running = core.limited(budget or nil, "f", function()
        local done = coroutine.close(suspended(function() closed = closed + 1 end))
        local failed, why = coroutine.close(suspended(function() error("boom", 0) end))
        local dead = coroutine.close(coroutine.create(print))
        return done, failed, why, dead, pcall(coroutine.close, (coroutine.running()))
      end)
      assert.same({ 1, true, false, "boom", true, false },
        { closed, done, failed, why, dead, running })
    end
  end)
  it("charges what closes to the budget, which cannot be caught", function()
    ends_the_budget(function() coroutine.close(suspended(endless)) end)
    ends_the_budget(function()
      pcall(coroutine.close, suspended(endless))
      endless()
    end)
    local after = 0
    ends_the_budget(function()
      pcall(function() coroutine.close(suspended(endless)) end)
      after = after + 1
    end)
    assert.equal(0, after)
  end)
  it("reaches a coroutine that was made outside", function()
    local co = suspended(endless)
    ends_the_budget(function() coroutine.close(co) end)
  end)
  it("charges what closes after an error in a wrapped coroutine", function()
    local after = 0
    ends_the_budget(function()
      pcall(coroutine.wrap(function()
        local _ <close> = setmetatable({}, { __close = endless })
        error("boom")
      end))
      after = after + 1
    end)
    assert.equal(0, after)
  end)
  it("charges what a generic for closes", function()
    ends_the_budget(function()
      for _ in next, { 1 }, nil, setmetatable({}, { __close = endless }) do end
    end)
  end)
end)
