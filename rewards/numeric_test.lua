local answer = require "grpo.answer"
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

  it("is exact where fractions are, and compares values at points otherwise", function()
    assert.equal(0, numeric.equal("\\boxed{0.33333333333}", { answer = "1/3" }))
    local row = { answer = "12345678901234567890124" }
    assert.equal(0, numeric.equal("12345678901234567890123", row))
    assert.equal(1, numeric.equal("\\boxed{2/6}", { answer = "\\frac{1}{3}" }))
    assert.equal(1, numeric.equal("\\boxed{\\text{ B}}", { answer = "b" }))
    assert.equal(1, numeric.equal("\\boxed{2x}", { answer = "x+x" })) -- by values at fixed points
    assert.equal(0, numeric.equal("\\boxed{2x}", { answer = "x+x+1e-9" }))
    row = { answer = ("3"):rep(60) .. ".0/7" }
    assert.equal(1, numeric.equal("\\boxed{" .. ("3"):rep(60) .. "/7}", row))
  end)

  it("finds the whole of a number in prose", function()
    for text, gold in pairs {
      ["The answer is \u{2212}5."] = "-5", ["it fell by \u{2013}7 degrees"] = "-7",
      ["x = \u{2212}1/2"] = "-0.5", ["\u{2212}$5"] = "-5", ["10\u{2212}3"] = "3", ["(-5)"] = "-5",
      ["The answer is 1e3"] = "1000", ["about 1.5E-3."] = "0.0015",
      ["The answer is 1.5 \\times 10^{3}"] = "1500", ["it is 1.5 x 10^3 in all"] = "1500",
      ["it is -2 \u{D7} 10^4."] = "-20000", ["so 1.5\u{B7}10\u{B3}."] = "1500",
      ["2^{10} bytes"] = "1024",
      ["The answer is 2 2/3"] = "8/3", ["She ate -1 1/2 pies"] = "-1.5",
      ["it is 2 \\frac{2}{3}."] = "8/3",
      ["it takes 2\u{BD} hours"] = "2.5",
      ["The answer is \\frac{1}{2}."] = "0.5", ["that is $\\frac{1}{2}$ of it."] = "0.5",
      ["so **42**."] = "42", ["**Answer: 42**"] = "42", ["so $x = 5$."] = "5",
      ["\\(x = 5\\)"] = "5",
      ["so $5 + 3 = 8$, and that is it"] = "8", ["It costs $5, I pay $20, so $15."] = "15",
      ["the sides are 2\\sqrt{3}"] = "\\sqrt{12}", ["6\\pi"] = "6\\pi",
      ["an area of 6\u{3C0}."] = "6\\pi",
      ["The point is (3, 4)."] = "(3,4)", ["it is 5%."] = "0.05", ["it grows by 5\\%"] = "5",
      ["1 / 2"] = "0.5", ["12\u{A0}345 people"] = "12345", ["12{,}345"] = "12345", ["5 km"] = "5",
      ["5km"] = "5", ["it is 30m"] = "30", ["the 5th"] = "5", ["Wow, 5!"] = "5", ["x=7"] = "7",
      ["2:3"] = "2:3", ["so x = 2x + 3 gives 9"] = "9",
    } do
      assert.equal(1, numeric.equal(text, { answer = gold }), text)
    end
  end)

  it("does not take a part of a number for the number", function()
    for text, gold in pairs {
      ["The answer is \u{2212}5."] = "5", ["x = \u{2212}1/2"] = "1/2", ["The answer is 1e3"] = "3",
      ["The answer is 1.5e-3."] = "3", ["The answer is 1.5 \\times 10^{3}"] = "3",
      ["1.5 x 10^3"] = "3", ["it is 10\u{B3}."] = "10", ["The answer is 2 2/3"] = "2/3",
      ["it is 2\u{BD}"] = "2", ["it is \\frac{1}{2}."] = "2", ["$\\frac{1}{2}$"] = "2",
      ["the sides are 2\\sqrt{3}"] = "3", ["6\\pi"] = "6", ["an area of 6\u{3C0}."] = "6",
      ["2\u{221A}3"] = "3", ["The point is (3, 4)."] = "4", ["[0, 4)"] = "4", ["2:3"] = "3",
      ["it is 2 + 3i"] = "3", ["it is 3x"] = "3", ["12{,}345"] = "345", ["\u{B1}5"] = "5",
      ["\\frac{3}{7}"] = "3", ["$x_2$"] = "2", ["10^{-3}"] = "3",
    } do
      assert.equal(0, numeric.equal(text, { answer = gold }), text)
    end
  end)

  it("takes the last box that holds something, with or without braces", function()
    for text, gold in pairs {
      ["\\boxed 5"] = "5", ["so $\\boxed 8$."] = "8", ["\\boxed{\\boxed{5}}"] = "5",
      ["\\boxed {7}"] = "7", ["\\boxed{5}, put it in \\boxed{}"] = "5", ["\\fbox{6}"] = "6",
      ["put it in \\boxed{}: 9"] = "9", ["\\boxed{4} no, \\boxed 6"] = "6",
      ["\\boxed 4 no, \\boxed{6}"] = "6", ["\\boxed{\\frac{1}{2}}"] = "1/2",
      ["\\boxed\\frac12"] = "0.5",
    } do
      assert.equal(1, numeric.equal(text, { answer = gold }), text)
    end
  end)

  it("tells an answer behind #### from a heading of Markdown", function()
    for text, gold in pairs {
      ["#### Step 2: add\nThe answer is 42."] = "42", ["#### Final answer\n42"] = "42",
      ["#### Final answer\n\n**42**\n"] = "42", ["#### Answer: 42"] = "42",
      ["#### **Answer:** 42"] = "42", ["#### The answer is 42"] = "42",
      ["#### 42\nI am sure, 100%"] = "42",
      ["#### 42 dollars\nfor 7 people"] = "42", ["#### 1. Setup\nSo there are 6."] = "6",
      ["#### Final Answer\n$x = \\frac{1}{2}$\nas 3 shows"] = "1/2",
      ["#### Result\n<answer>7</answer>\n8"] = "7",
      ["#### 42 apples"] = "42", ["#### \u{2212}5"] = "-5", ["#### $1,234.00"] = "1234",
    } do
      assert.equal(1, numeric.equal(text, { answer = gold }), text)
    end
    assert.equal(0, numeric.equal("#### Step 42: add\nSo there are 6.", { answer = "42" }))
    assert.equal(1, numeric.equal("42", { answer = "#### Final answer\n42" }))
  end)

  it("takes a number of a row exactly", function()
    for text, gold in pairs {
      ["0.00001"] = 0.00001, ["0.00005"] = 5e-05, ["3.141592653589793"] = math.pi,
      ["0.3333333333333333"] = 1 / 3, ["\\frac{1}{3}"] = 1 / 3, ["100000000000000000000"] = 1e20,
      ["123456789012345.5"] = 123456789012345.5, ["3"] = 3.0, ["-0.1"] = -0.1, ["1e-5"] = 1e-05,
      ["9007199254740993"] = 9007199254740993, ["0.1"] = 0.1, ["1/8"] = 0.125, ["1e300"] = 1e300,
    } do
      assert.equal(1, numeric.equal(text, { answer = gold }), text)
    end
    for text, gold in pairs {
      ["0.33333"] = 1 / 3, ["100000000000000000001"] = 1e20,
      ["123456789012345.6"] = 123456789012345.5,
      ["9007199254740992"] = 9007199254740993, ["3.14159"] = math.pi, ["0.10000000000000001"] = 0.1,
    } do
      assert.equal(0, numeric.equal(text, { answer = gold }), text)
    end
    assert.equal(1, numeric.equal("0.00001", { answer = "1e-05" }))
    assert.is_nil(numeric.equal("5", { answer = 0 / 0 }))
  end)

  it("earns nothing by an empty answer", function()
    for _, text in ipairs { "", "\\boxed{}", "<answer></answer>", "<answer> </answer>", "####" } do
      assert.equal(0, numeric.equal(text, { answer = "5" }))
      assert.is_nil(numeric.equal(text, { answer = "" }))
    end
    assert.is_false(answer.equal("", ""))
    assert.is_false(answer.equal(" ", " "))
  end)

  it("ends soon on what is huge, deep or long", function()
    local worst, thousands = 0
    for _, text in ipairs {
      "2^{10^9}", "9^9^9^9", "170!!", "170!!!!!!", "500!500!500!500!500!500!500!500!",
      "10^{10^{10}}",
      ("("):rep(400) .. "1" .. (")"):rep(400), ("{"):rep(400) .. ("}"):rep(400),
      ("\\frac1"):rep(140), ("\\sqrt"):rep(150), ("-"):rep(900) .. "1", ("x"):rep(900),
      ("500!"):rep(240), ("1,"):rep(400) .. "1", ("\\pm 1,"):rep(140), ("((1,2),"):rep(100),
      ("9"):rep(900) .. "^" .. ("9"):rep(90), ("|"):rep(900), ("a^"):rep(400) .. "2", "1e999999999",
      ("\\text{"):rep(140) .. ("}"):rep(140), ("f(x)=("):rep(150), ("x="):rep(400) .. "1",
      ("{1,2},"):rep(120), "\\binom{500}{250}^{400}", ("\\binom{400}{200}+x"):rep(50),
      ("(x+1)"):rep(180), ("2x+"):rep(300) .. "1",
    } do
      for _, gold in ipairs { "5", text, text .. "1", "x" } do
        thousands = 0
        debug.sethook(function() thousands = thousands + 1 end, "", 1000)
        numeric.equal("\\boxed{" .. text .. "}", { answer = gold })
        debug.sethook()
        worst = math.max(worst, thousands)
      end
    end
    assert.is_true(worst > 0 and worst < 25000) -- a reward may take 50,000
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
