local core = require "grpo.core"
local gsm8k = require "rewards.gsm8k"

local function layout(thinking, answer)
  return ("<thinking>\n%s\n</thinking>\n<answer>\n%s\n</answer>"):format(thinking, answer)
end

-- VM instructions that a call takes, in thousands (rounded down).
local function cost(fn, ...)
  local thousands = 0
  debug.sethook(function() thousands = thousands + 1 end, "", 1000)
  local ok, err = pcall(fn, ...)
  debug.sethook()
  assert(ok, err)
  return thousands
end

describe("gsm8k.correct", function()
  it("compares the number in <answer> with the gold one after ####", function()
    assert.equal(1, gsm8k.correct("<answer>\n1,234\n</answer>", { answer = "so it is\n#### 1234" }))
    assert.equal(0, gsm8k.correct("<answer>\n1235\n</answer>", { answer = "so it is\n#### 1234" }))
  end)

  it("compares numbers, not spellings", function()
    for spelling, gold in pairs {
      ["0"] = "0", ["+5"] = "5", ["007"] = "7", ["-0"] = "0", ["1,234"] = "1234", ["$5"] = "5",
      ["3.0"] = "3", ["5 apples"] = "5", ["-$5"] = "-5", ["50%"] = "50", ["**7**"] = "7",
      ["6/3"] = "2", ["x = 9"] = "9", ["12."] = "12", [" 8\n"] = "8",
    } do
      assert.equal(1, gsm8k.correct(layout("", spelling), { answer = gold }))
    end
  end)

  it("does not take one number for another", function()
    for spelling, gold in pairs {
      ["12,34"] = "1234", ["1000001"] = "1000000", ["5 or 6"] = "5", ["2 dozen"] = "2",
      ["3x"] = "3",
      [""] = "0", ["-5"] = "5", ["1e3"] = "1", ["four"] = "4", ["0.3333333"] = "1/3",
    } do
      assert.equal(0, gsm8k.correct(layout("", spelling), { answer = gold }))
    end
  end)

  it("pays nothing for an empty answer, nor a mixed number as its digits", function()
    assert.equal(0, gsm8k.correct("<answer></answer>", { answer = "" }))
    assert.equal(0, gsm8k.correct("<answer>2\\frac{2}{3}</answer>", { answer = "22/3" }))
    assert.equal(1, gsm8k.correct("<answer>2\\frac{2}{3}</answer>", { answer = "8/3" }))
    assert.equal(1, gsm8k.correct("<answer>0.00001</answer>", { answer = 0.00001 }))
  end)

  it("takes the first complete tag, and of nested tags the innermost", function()
    local row = { answer = "#### 5" }
    assert.equal(0, gsm8k.correct("<answer>4</answer> no, <answer>5</answer>", row))
    assert.equal(1, gsm8k.correct("<answer>5</answer> no, <answer>4</answer>", row))
    assert.equal(1, gsm8k.correct("<answer>5</answer> or <answer>6", row))
    assert.equal(1, gsm8k.correct("<answer>4 <answer>5</answer></answer>", row))
    assert.equal(1, gsm8k.correct("</answer><answer>5</answer></answer>", row))
    assert.equal(0, gsm8k.correct("<answer>5", row))
    assert.equal(0, gsm8k.correct("5</answer>", row))
    assert.equal(0, gsm8k.correct("", row))
  end)

  it("sees tags in upper case", function()
    local row = { answer = "#### 5" }
    assert.equal(1, gsm8k.correct("<ANSWER>5</ANSWER>", row))
    assert.equal(1, gsm8k.correct("<Answer>5</answer> <answer>6</answer>", row))
  end)

  it("accepts a number as the gold answer and names a missing one", function()
    assert.equal(1, gsm8k.correct("<answer>3</answer>", { answer = 3.0 }))
    assert.error_matches(function() gsm8k.correct("x", { anwser = "3" }) end, "no field 'answer'")
  end)
end)

describe("gsm8k.integer", function()
  it("wants digits and nothing else", function()
    assert.equal(1, gsm8k.integer(layout("", "42")))
    assert.equal(1, gsm8k.integer(layout("", "-42")))
    assert.equal(1, gsm8k.integer(layout("", "+42")))
    for _, other in ipairs { "1,234", "4.0", "$4", "4 apples", "", "+-4", "+", "- 4" } do
      assert.equal(-1, gsm8k.integer(layout("", other)))
    end
    assert.equal(-1, gsm8k.integer("42"))
  end)
end)

describe("gsm8k.layout", function()
  it("accepts the layout to the letter only", function()
    assert.equal(1, gsm8k.layout(layout("5+3=8", "8")))
    assert.equal(1, gsm8k.layout(layout("two\nlines", "8")))
    assert.equal(1, gsm8k.layout(layout("", "")))
    for _, text in ipairs {
      "", "8", layout("x", "8") .. "\n", " " .. layout("x", "8"), layout("x", "8") .. " so 8",
      "<thinking>x</thinking><answer>8</answer>",
      "<thinking>\nx\n</thinking>\n\n<answer>\n8\n</answer>",
      "<answer>\n8\n</answer>\n<thinking>\nx\n</thinking>",
      "<thinking>\n</thinking>\n<answer>\n8\n</answer>",
      layout("x", "8") .. "\n" .. layout("x", "8"), layout(layout("x", "8"), "8"),
      layout("x", "<answer>\n8\n</answer>"), "<thinking>\nx\n</thinking>\n<answer>\n8",
    } do
      assert.equal(-1, gsm8k.layout(text))
    end
  end)
end)

describe("gsm8k.nothing_after", function()
  it("minds what follows the first closing tag", function()
    assert.equal(0, gsm8k.nothing_after(layout("x", "8")))
    assert.equal(0, gsm8k.nothing_after(layout("x", "8") .. "\n "))
    assert.equal(-0.5, gsm8k.nothing_after(layout("x", "8") .. " so 8"))
    assert.equal(-0.5, gsm8k.nothing_after("<answer>1</answer><answer>42</answer>"))
    assert.equal(-0.5, gsm8k.nothing_after("<answer>8"))
    assert.equal(-0.5, gsm8k.nothing_after(""))
  end)
end)

describe("gsm8k.with", function()
  local last = gsm8k.with { answer = "last" }

  it("takes the last complete answer where it is asked to", function()
    local row, text = { answer = "#### 42" }, "<answer>1</answer><answer>42</answer>"
    assert.equal(1, last.correct(text, row))
    assert.equal(1, last.integer("<answer>x</answer><answer>42</answer>"))
    assert.equal(0, last.nothing_after(text))
    assert.equal(1, last.correct("<answer>4 <answer>42</answer></answer>", row))
    for _, same in ipairs { gsm8k, gsm8k.with(), gsm8k.with { answer = "first" } } do
      assert.equal(0, same.correct(text, row))
      assert.equal(-1, same.integer("<answer>x</answer><answer>42</answer>"))
      assert.equal(-0.5, same.nothing_after(text))
    end
  end)

  it("has the other rewards too, and knows its option", function()
    assert.equal(gsm8k.layout, last.layout)
    assert.equal(gsm8k.length, last.length)
    assert.error_matches(function() gsm8k.with { answer = "best" } end, "one of first, last")
  end)
end)

describe("gsm8k.length", function()
  it("penalises a length out of bounds, in tokens", function()
    local r = gsm8k.length { min = 2, max = 4 }
    assert.equal(0, r("long enough text", {}, { length = 4 }))
    assert.equal(-0.5, r("a", {}, { length = 5 }))
    assert.equal(-0.5, r("a", {}, { length = 1 }))
    assert.equal(-2, gsm8k.length { max = 3, penalty = -2 }("four"))
  end)

  it("names a misspelt option", function()
    local _, err = pcall(function() gsm8k.length { mex = 3 } end)
    assert.matches("gsm8k_test%.lua:%d+: gsm8k%.length%.mex: unknown option, did you mean 'max'%?",
      tostring(err))
  end)
end)

describe("the four rewards of the notebook", function()
  local function all(text, row)
    return gsm8k.correct(text, row) + gsm8k.integer(text) + gsm8k.layout(text)
      + gsm8k.nothing_after(text)
  end

  it("stay cheap and quiet on a megabyte of anything", function()
    local n = 2 ^ 20 // 1
    local hostile = {
      ("a"):rep(n), ("<answer>"):rep(n // 8), ("</answer>"):rep(n // 9), ("\255\xC0"):rep(n // 2),
      ("<answer></answer>"):rep(n // 17), ("<answer>"):rep(n // 17) .. ("</answer>"):rep(n // 17),
      "<answer>" .. ("1"):rep(n) .. "</answer>", "<answer>" .. (" "):rep(n) .. "</answer>",
      (" "):rep(n), ("#### 5\n"):rep(n // 7),
      "<thinking>\n" .. ("\n</thinking>\n<answer>"):rep(n // 21) .. "\n</answer>",
      "<answer>" .. ("{"):rep(n) .. "</answer>", ("</answer> "):rep(n // 10) .. "x",
    }
    for _, text in ipairs(hostile) do
      -- a reward may take 50,000
      assert.is_true(cost(all, text, { answer = "#### 5" }) < 10000)
    end
  end)

  it("give all 7,473 gold answers, rewritten into the layout, the maximum", function()
    local path = (os.getenv("GRPO_SHARED") or "") .. "/data/gsm8k/train.jsonl"
    local file = io.open(path)
    if not file then return pending("needs GRPO_SHARED with data/gsm8k/train.jsonl") end
    file:close()
    local rewrite = require("experiments.tasks.gsm8k").solution
    local rows, texts, with_comma = require("grpo.data").jsonl(path), {}, 0
    for i, row in ipairs(rows) do
      texts[i] = rewrite(row)
      if row.answer:find("####[^\n]*,") then with_comma = with_comma + 1 end
    end
    local limits = core.limits { instructions = 1e4 } -- of 5e7 that a reward has
    for i, row in ipairs(rows) do
      local ok, reward = core.limited(limits, "reward", all, texts[i], row)
      assert.is_true(ok, tostring(reward))
      assert.equal(3, reward)
    end
    assert.equal(7473, #rows)
    assert.equal(79, with_comma)
  end)
end)

describe("gsm8k.layout", function()
  it("counts a tag that the prompt ends in", function()
    local text = "so\n</thinking>\n<answer>\n4\n</answer>"
    assert.equal(-1, gsm8k.layout(text, {}, { prompt = "2+2=" }))
    assert.equal(1, gsm8k.layout(text, {}, { prompt = "2+2=\n<thinking>\n" }))
  end)
end)
