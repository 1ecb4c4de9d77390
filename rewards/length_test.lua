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
