local text = require "rewards.text"

describe("text.contains and text.equals", function()
  it("compare with the row's answer", function()
    assert.equal(1, text.contains("it is 4%", { answer = "4%" }))
    assert.equal(0, text.contains("it is four", { answer = "4" }))
    assert.equal(1, text.equals(" Paris\n", { answer = "Paris" }))
    assert.equal(0, text.equals("In Paris", { answer = "Paris" }))
    assert.equal(1, text.contains("7", { answer = 7 }))
  end)

  it("make a reward of options", function()
    local same = text.equals { field = "reference", ignore_case = true }
    assert.equal(1, same("PARIS", { reference = "Paris" }))
    assert.equal(1, text.contains { value = "please" }("yes please", {}))
    assert.error_matches(function()
      text.equals { ignorecase = true }
    end, "did you mean 'ignore_case'")
    assert.error_matches(function() text.contains("x", {}) end, "no field 'answer'")
  end)
end)

describe("text.similarity", function()
  it("is 1 for the same, 0 for nothing in common, and between otherwise", function()
    assert.equal(1, text.similarity("the cat ", { answer = "the cat" }))
    assert.equal(0, text.similarity("abc", { answer = "xyz" }))
    assert.near(0.25, text.similarity("night", { answer = "nacht" }), 1e-12)
    assert.equal(0, text.similarity("", { answer = "x" }))
    assert.equal(1, text.similarity("", { answer = "" }))
  end)

  it("is linear in a megabyte", function()
    local thousands = 0
    debug.sethook(function() thousands = thousands + 1 end, "", 1000)
    text.similarity(("ab\255"):rep(350000), { answer = ("ba"):rep(500000) })
    debug.sethook()
    assert.is_true(thousands < 40000)
  end)
end)
