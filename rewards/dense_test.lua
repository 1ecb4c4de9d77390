local dense = require "rewards.dense"

local function completion()
  return {
    ids = { 5, 6, 7, 8 }, length = 4, logprobs = { -1, -2, -3, -4 }, target_ids = { 5, 0, 7 },
    target_logprobs = { -0.1, -0.2, -0.3 },
  }
end

describe("dense.match", function()
  it("is 1 where the target's token was sampled, 0 elsewhere and past its end", function()
    assert.same({ 1, 0, 1, 0 }, dense.match()(completion()))
  end)

  it("is -1 for another token when signed, still 0 past the end", function()
    assert.same({ 1, -1, 1, 0 }, dense.match { mode = "signed" }(completion()))
  end)

  it("handles completions that are shorter than the target, or empty", function()
    local c = completion()
    c.ids, c.length = { 5 }, 1
    assert.same({ 1 }, dense.match()(c))
    c.ids, c.length = {}, 0
    assert.same({}, dense.match { mode = "signed" }(c))
  end)

  it("names a wrong mode and a row without a target", function()
    local ok, err = pcall(dense.match, { mode = "sgned" })
    assert.is_false(ok)
    assert.matches("mode", tostring(err))
    local c = completion()
    c.target_ids = nil
    ok, err = pcall(dense.match(), c)
    assert.is_false(ok)
    assert.matches("data%.target", tostring(err))
  end)
end)

describe("dense.logprob", function()
  it("gives the target's log-probabilities, 0 past its end", function()
    assert.same({ -0.1, -0.2, -0.3, 0 }, dense.logprob()(completion()))
  end)

  it("gives those of the sampled tokens", function()
    assert.same({ -1, -2, -3, -4 }, dense.logprob { of = "sampled" }(completion()))
  end)
end)

describe("dense.share", function()
  it("is the share of the target that was matched", function()
    assert.near(2 / 3, dense.share("", {}, completion()), 1e-12)
    local c = completion()
    c.target_ids = { 5, 6, 7, 8, 9, 10 } -- longer than the completion, which could say no more
    assert.equal(1, dense.share("", {}, c))
    c.target_ids = {}
    assert.equal(0, dense.share("", {}, c))
  end)
end)
