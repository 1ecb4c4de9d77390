local calc = require "grpo.base.calc"

describe("grpo.calc", function()
  it("evaluates exactly", function()
    for text, value in pairs {
      ["(3+4)*2/7"] = 2, ["-2^2"] = -4, ["2^3^2"] = 512, ["1/3*3"] = 1, ["0.1+0.2-0.3"] = 0,
      ["7 % 3"] = 1,
      ["-7%3"] = 2, ["5.5%2"] = 1.5, ["10/4"] = 2.5, ["2^-2"] = 0.25, [".5*4"] = 2, ["- -3"] = 3,
      ["48/2"] = 24,
      ["1/3+1/6"] = 0.5, ["2*-3"] = -6, ["0^0"] = 1,
    } do
      local got = calc(text)
      assert.equal(value, got)
      if value == value // 1 then assert.equal("integer", math.type(got)) end
    end
  end)

  it("continues in floating point where integers overflow", function()
    assert.near(2 ^ 200, calc("2^200"), 0)
    assert.near(9.2233720368547758e18, calc("9223372036854775807+1"), 2000)
    assert.near(1e36, calc("999999999999999999*999999999999999999"), 1e19)
    assert.near(0.5, calc("2^100/2^101"), 0)
  end)

  it("returns nil and why for anything else", function()
    for text, pattern in pairs {
      ["1/0"] = "division by zero", ["5%0"] = "division by zero", ["0^-1"] = "division by zero",
      ["1,000"] = "unexpected ',' at 2", ["(1"] = "'%)' is missing", ["1+"] = "ends too early",
      [""] = "ends too early",
      ["os.exit()"] = "unexpected 'o' at 1", ["1 2"] = "unexpected '2' at 3",
      ["3..4"] = "unexpected",
      ["(-8)^0.5"] = "finite", ["10^300*10^300"] = "finite", ["1)"] = "unexpected '%)'",
      ["\0"] = "unexpected",
    } do
      local value, why = calc(text)
      assert.is_nil(value)
      assert.matches(pattern, why)
    end
    assert.matches("wants a string", select(2, calc({})))
  end)

  it("is bounded in length and depth", function()
    assert.matches("nested more than 100 deep", select(2, calc(("("):rep(2000))))
    assert.matches("nested more than 100 deep", select(2, calc(("-"):rep(2000))))
    assert.matches("at most 4096", select(2, calc(("1+"):rep(5000) .. "1")))
    assert.equal(2000, calc(("1+"):rep(1999) .. "1"))
  end)
end)
