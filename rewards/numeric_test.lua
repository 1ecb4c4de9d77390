local numeric = require "rewards.numeric"

describe("numeric.equal", function()
  it("takes the last \\boxed, ####, <answer> or number", function()
    for text, gold in pairs {
      ["The total is 42."] = "42", ["first 41, then 42"] = "42",
      ["so \\boxed{\\frac{1}{2}} of 7"] = "0.5",
      ["5 then\n#### 1,234"] = "1234", ["<answer>7</answer> out of 9"] = "7",
      ["it is -3 degrees"] = "-3", ["10-3"] = "3", ["costs $5.50."] = "5.5", ["3/4"] = "0.75",
      ["\\boxed{5} or \\boxed{6}"] = "6", ["\\boxed{a \\boxed{8}}"] = "8",
      ["it makes $1,234,567"] = "1234567", ["it is \\boxed{12\\text{ cm}}"] = "12",
    } do
      assert.equal(1, numeric.equal(text, { answer = gold }))
    end
    assert.equal(0, numeric.equal("42 apples, then 43", { answer = "42" }))
    assert.equal(0, numeric.equal("", { answer = "42" }))
    assert.equal(0, numeric.equal("none", { answer = "42" }))
  end)

  it("is exact where fractions are, and compares text otherwise", function()
    assert.equal(0, numeric.equal("\\boxed{0.33333333333}", { answer = "1/3" }))
    local row = { answer = "12345678901234567890124" }
    assert.equal(0, numeric.equal("12345678901234567890123", row))
    assert.equal(1, numeric.equal("\\boxed{2/6}", { answer = "\\frac{1}{3}" }))
    assert.equal(1, numeric.equal("\\boxed{\\text{ B}}", { answer = "b" }))
    assert.equal(0, numeric.equal("\\boxed{2x}", { answer = "x+x" })) -- never symbolic
    row = { answer = ("3"):rep(60) .. ".0/7" }
    assert.equal(1, numeric.equal("\\boxed{" .. ("3"):rep(60) .. "/7}", row))
  end)

  it("cannot judge by a row whose answer is not mathematics", function()
    for _, gold in ipairs { "paris", "forty", "see the figure", "", "?", "\\text{no solution}",
      "\u{5DF4}\u{9ECE}" } do
      assert.is_nil(numeric.equal("\\boxed{\\text{Paris}}", { answer = gold }))
      assert.is_nil(numeric.equal("7", { answer = gold }))
    end
    assert.is_nil((numeric.equal { after = "</think>" }("no thinking", { answer = "paris" })))
    for _, gold in ipairs { "x", "B", "-x", "\\pi", "\u{3C0}", "\\frac{a}{b}", "x+y", "(a, b)",
      "\u{221E}", "5 apples", "x \\in A", "3:2" } do
      assert.equal(0, numeric.equal("\\boxed{17}", { answer = gold }))
    end
  end)

  it("makes a reward of its options", function()
    local r = numeric.equal { field = "solution", after = "</think>" }
    assert.equal(1, r("<think>1</think> 2", { solution = 2 }))
    assert.equal(0, r("<think>2", { solution = 2 }))
    assert.error_matches(function() numeric.equal { fild = "x" } end, "did you mean 'field'")
  end)

  it("copes with a megabyte of braces and digits", function()
    local thousands = 0
    debug.sethook(function() thousands = thousands + 1 end, "", 1000)
    for _, text in ipairs {
      ("\\boxed{"):rep(150000), ("\\boxed{"):rep(75000) .. ("}"):rep(75000),
      ("1"):rep(2 ^ 20), ("1,"):rep(2 ^ 19), "\\boxed{" .. ("{}"):rep(2 ^ 19),
      ("-"):rep(2 ^ 20) .. "1", ("\255"):rep(2 ^ 20), ("1 "):rep(2 ^ 19),
    } do
      numeric.equal(text, { answer = "5" })
    end
    debug.sethook()
    assert.is_true(thousands < 50000) -- all eight together within the budget of one
  end)
end)

describe("numeric.verl", function()
  it("compares text, as verl does", function()
    assert.equal(0, (numeric.verl { method = "strict" }("#### 12.0", { answer = "12" })))
    assert.equal(1, (numeric.verl { method = "strict" }("#### 12", { answer = "so\n#### 12" })))
    assert.equal(1, (numeric.verl { method = "flexible" }("it is 12", { answer = "12" })))
    assert.equal(0, (numeric.verl { method = "math" }("\\boxed{1,000}", { answer = "1000" })))
    assert.equal(-1, (numeric.verl { method = "dapo" }("42", { answer = "42" })))
    assert.equal(1, (numeric.verl { method = "strict" }("#### 1,234", { answer = "#### 1,234" })))
    assert.equal(0, (numeric.verl { method = "math" }("\\fbox{7}", { answer = "7" })))
    assert.equal(1, (numeric.verl { method = "math" }("$\\boxed 8$", { answer = "8" })))
  end)

  it("knows four methods", function()
    assert.error_matches(function()
      numeric.verl { method = "lenient" }
    end, "must be one of strict, flexible")
    assert.error_matches(function() numeric.verl {} end, "method: is required")
  end)
end)
