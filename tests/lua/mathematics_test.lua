-- Lua's functions of mathematics are those of src/base. glibc 2.36 has other values than these.
local core = require "grpo.core"

local rows = {
  { "exp", -4.634, "0x1.3e5e304835dep-7" },
  { "log", 0.34, "-0x1.142cdeb63386bp+0" },
  { "sin", -4.285, "0x1.d1f2380410beap-1" },
  { "cos", -4.942, "0x1.d21f4db183e79p-3" },
  { "tan", -1.49, "-0x1.8b320622e27cep+3" },
  { "asin", -0.433, "-0x1.ca90e1c28f6a5p-2" },
  { "acos", 0.07, "0x1.80306eed99fefp+0" },
  { "atan", -4.035, "-0x1.53ee9c7702ea5p+0" },
  { "log10", 0.127, "-0x1.cada3d1a95053p-1" },
  { "sinh", -4.999, "-0x1.28842276b3b36p+6" },
  { "cosh", -4.995, "0x1.275c03e15d55bp+6" },
  { "tanh", -1.977, "-0x1.ecbb3ea652017p-1" },
}

describe("math", function()
  for _, row in ipairs(rows) do
    it(row[1] .. " is ours, in a host's Lua within limited calls", function()
      local ok, value = core.limited({ instructions = 1e5 }, row[1], function()
        return math[row[1]](row[2])
      end)
      assert.equal(true, ok)
      assert.equal(tonumber(row[3]), value)
    end)
  end

  it("has bases of logarithms and quotients of angles as in the manual", function()
    assert.equal(10, math.log(1024, 2))
    assert.equal(3, math.log(1000, 10))
    assert.equal(math.log(7) / math.log(3), math.log(7, 3))
    assert.equal(math.pi, math.atan(0, -1))
    assert.equal(math.pi / 4, math.atan(1))
    assert.equal(math.huge, math.exp(math.huge))
    assert.equal(math.exp(2), math.exp "2")
    local ok, message = pcall(math.sin, {})
    assert.equal(false, ok)
    assert.equal("number expected, got table", tostring(message):match "number expected[^)]*")
  end)

  if not core.is_guest() then
    it("has one power: that of the operator, of constants, and of code that is loaded", function()
      for i = 1, 4000 do
        local x, y = (i * 7919 % 1000) / 37 + 0.01, (i * 104729 % 1000) / 91 - 5
        assert.equal(math.pow(x, y), x ^ y)
      end
      assert.equal(math.pow(1.1, 1.3), load "return 1.1 ^ 1.3"())
    end)
  end
end)
