local length = require "rewards.length"

describe("length.cosine", function()
  local row = { answer = "3" }

  it("goes from short to long along a cosine", function()
    local r = length.cosine { max_len = 100 }
    assert.near(1, r("3", row, { length = 0 }), 1e-12)
    assert.near(0.75, r("3", row, { length = 50 }), 1e-12)
    assert.near(0.5, r("3", row, { length = 100 }), 1e-12)
    assert.near(-1, r("4", row, { length = 0 }), 1e-12)
    assert.near(-0.5, r("4", row, { length = 400 }), 1e-12) -- past the end the value stays
  end)

  it("takes another judge, and leaves out what it cannot judge", function()
    local r = length.cosine { correct = function(text) return text == "yes" end, max_len = 10 }
    assert.near(1, r("yes", {}, { length = 0 }), 1e-12)
    assert.near(-1, r("no", {}, { length = 0 }), 1e-12)
    assert.is_nil(length.cosine { correct = function() end }("x", {}, { length = 1 }))
    assert.is_nil(length.cosine {}("x", { answer = "forty" }, { length = 1 }))
  end)

  it("names a misspelt option", function()
    assert.error_matches(function() length.cosine { maxlen = 3 } end, "did you mean 'max_len'")
  end)
end)

describe("length.soft_overlong", function()
  it("is 0, then falls to -1 at the limit", function()
    local r = length.soft_overlong { limit = 100, cache = 20 }
    local expected = { [0] = 0, [80] = 0, [85] = -0.25, [90] = -0.5, [100] = -1, [5000] = -1 }
    for n, value in pairs(expected) do
      assert.near(value, r("", {}, { length = n }), 1e-12)
    end
  end)

  it("refuses a cache beyond the limit", function()
    assert.error_matches(function()
      length.soft_overlong { limit = 10, cache = 20 }
    end, "must be at most limit")
    assert.error_matches(function() length.soft_overlong { limit = 10 } end, "cache: is required")
  end)
end)

describe("length.relative", function()
  it("ranks a group by length and never praises a wrong one", function()
    local r = length.relative { unit = "chars" }
    assert.same({ 0.5, 0, -0.5 }, r({ "7", "= 7", "12345" }, { answer = "7" }))
    assert.same({ 0.0, -0.5 }, r({ "8", "008" }, { answer = "7" }))
    assert.same({ 0, 0 }, r({ "7", "8" }, { answer = "7" }))
  end)
end)

describe("length.measure", function()
  it("counts tokens, or characters of any bytes", function()
    assert.equal(9, length.measure("abc", { length = 9 }))
    assert.equal(3, length.measure("a\u{e9}c", { length = 9 }, "chars"))
    assert.equal(2, length.measure("\255\254"))
  end)
end)

describe("the length of the reasoning alone", function()
  local function chars(text, c, tag) return length.measure(text, c, "chars", tag or "think") end

  it("is that between the tags, in characters or tokens", function()
    assert.equal(4, chars("<think>\nabcd\n</think>\n<answer>7</answer>"))
    assert.equal(4, chars("<thinking>häns</thinking> 7", nil, "thinking"))
    local c = { length = 50, tokenizer = { encode = function(_, text)
      local ids = {}
      for word in text:gmatch("%S+") do ids[#ids + 1] = #word end
      return ids
    end } }
    assert.equal(3, length.measure("<think>a b c</think> so it is 7", c, "tokens", "think"))
    assert.equal(50, length.measure("<think>a b c</think> so it is 7", c))
    assert.equal(20, length.measure("<think>abcdefgh</think>7", { length = 60 }, "tokens", "think"))
  end)

  it("counts a tag that the prompt ends in, what is cut, and all blocks", function()
    local c = { prompt = "<|im_start|>assistant\n<think>\n" }
    assert.equal(4, chars("abcd</think>7", c))
    assert.equal(5, chars("abcde", c))
    assert.equal(0, chars("abcde", { prompt = "2+2=" }))
    assert.equal(4, chars("abcd\n</think>7"))
    assert.equal(6, chars("<think>abcd</think>7<think>ef</think>8"))
    assert.equal(0, chars("7", { prompt = "a\n<think>\n\n</think>\n\n" }))
    assert.equal(0, chars("<think></think>7"))
    assert.equal(0, chars("7"))
  end)

  it("is rewarded within bounds", function()
    local r = length.reasoning { min = 3, max = 5, unit = "chars" }
    assert.equal(0, r("<think>abcd</think>a long answer"))
    assert.equal(-0.5, r("<think>abcdef</think>"))
    assert.equal(-0.5, r("an answer without reasoning"))
    assert.equal(0, length.reasoning { penalty = -1 }("7"))
    assert.equal(-1, length.reasoning { tag = "plan", min = 1, penalty = -1 }("<think>a</think>"))
  end)

  it("is what the other rewards take with a tag", function()
    local long = "<think>" .. ("a"):rep(20) .. "</think>"
    local short = "<think>a</think>" .. ("a"):rep(50)
    local o = { limit = 20, cache = 10, unit = "chars", tag = "think" }
    assert.equal(-1, length.soft_overlong(o)(long))
    assert.equal(0, length.soft_overlong(o)(short))
    local judge = function() return true end
    local relative = length.relative { unit = "chars", tag = "think", correct = judge }
    assert.same({ -0.5, 0.5 }, relative({ long, short }, {}, {}))
    local cosine = length.cosine { max_len = 20, unit = "chars", tag = "think", correct = judge }
    assert.near(0.5, cosine(long, {}), 1e-12)
    assert.is_true(cosine(short, {}) > 0.99)
  end)
end)
