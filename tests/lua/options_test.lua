local options = require "grpo.options"
local sorted_pairs = require "grpo.base.sorted"

local spec = {
  temperature = { type = "number", default = 1, min = 0 },
  top_k = { type = "integer", default = 0, min = 0 },
  mode = { type = "string", one_of = { "a", "b" } },
  lr = { type = "number|function" },
}

local function check(t) return options.check(t, spec, "sampling", 2) end

describe("options.nearest", function()
  local known = { "train", "trace", "memory_mib", "group_size", "max", "loss", "lr" }
  it("knows letters that are wrong, missing or exchanged, and the half of a name", function()
    for name, want in sorted_pairs { trian = "train", tran = "train", trains = "train",
      memory = "memory_mib", group = "group_size", groop_size = "group_size", mex = "max",
      size = "group_size", Train = "train" } do
      assert.equal(want, options.nearest(name, known), name)
    end
  end)
  it("does not guess where most letters differ", function()
    for _, name in ipairs { "oops", "beta", "tra", "rain_drop", "iters", "x", "" } do
      assert.is_nil(options.nearest(name, known), name)
    end
  end)
end)

describe("options.check", function()
  it("fills in defaults in a new table", function()
    local given = { top_k = 5 }
    assert.same({ temperature = 1, top_k = 5 }, check(given))
    assert.same({ top_k = 5 }, given)
    assert.same({ temperature = 1, top_k = 0 }, check(nil))
  end)

  it("names the field, the call and the closest name", function()
    assert.error_matches(function() check { temprature = 1 } end,
      "sampling%.temprature: unknown option, did you mean 'temperature'%?")
    assert.error_matches(function() check { Temperature = 1 } end, "did you mean 'temperature'")
    assert.error_matches(function() check { zzzzzz = 1 } end, "known: lr, mode, temperature, top_k")
    assert.error_matches(function() check { 5 } end, "sampling%.%[1%]: unknown option")
  end)

  it("says what a value must be and what it got", function()
    local cases = {
      [{ temperature = "hot" }] = 'sampling%.temperature: must be number, got "hot"',
      [{ temperature = -1 }] = "must be at least 0, got %-1",
      [{ temperature = 0 / 0 }] = "must be a number",
      [{ top_k = 1.5 }] = "must be integer, got 1%.5",
      [{ mode = "c" }] = 'must be one of a, b, got "c"',
      [{ lr = true }] = "must be number or function, got true",
    }
    for given, pattern in pairs(cases) do
      assert.error_matches(function() check(given) end, pattern)
    end
    assert.error_matches(function() check(3) end, "sampling: wants a table of options, got 3")
  end)

  it("points at the line of the call", function()
    assert.error_matches(function()
      require("grpo.schedule").warmup { too = 1 }
    end, "options_test%.lua:%d+: ")
  end)
end)

describe("grpo.sorted_pairs", function()
  it("goes through keys in one order", function()
    local order = {}
    for k, v in sorted_pairs { b = 1, a = 2, [10] = 3, [2] = 4, [true] = 5, [false] = 6 } do
      order[#order + 1] = tostring(k) .. v
    end
    assert.same({ "24", "103", "a2", "b1", "false6", "true5" }, order)
  end)

  it("refuses keys without an order", function()
    assert.error_matches(function()
      sorted_pairs { [{}] = 1 }
    end, "a key of type table has no order")
  end)
end)
