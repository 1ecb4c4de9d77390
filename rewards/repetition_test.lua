local repetition = require "rewards.repetition"

describe("repetition.ngram", function()
  it("counts n-grams of words", function()
    local r = repetition.ngram { n = 2, max_penalty = -1, unit = "words" }
    assert.near(-0.75, r("this This THIS this this"), 1e-12)
    assert.equal(0, r("all of these words differ"))
    assert.equal(0, r(""))
    assert.equal(0, r("one"))
  end)

  it("counts n-grams of tokens where there are tokens", function()
    local r = repetition.ngram { n = 2, max_penalty = -1 }
    local c = { ids = { 1, 2, 1, 2, 1, 2 } }
    assert.near(-0.6, r("a b c", {}, c), 1e-12)
    assert.same({ 1, 2, 1, 2, 1, 2 }, c.ids) -- left as they were
  end)

  it("counts single items and long n-grams", function()
    assert.near(-0.5, repetition.ngram { n = 1 }("a b a b"), 1e-12)
    assert.near(-1 / 3, repetition.ngram { n = 4 }("a b c d a b c d a"), 1e-12)
    assert.equal(0, repetition.ngram { n = 9 }("a b c"))
    assert.near(-1 / 2, repetition.ngram { n = 5 }("a b c d e a b c d e a b c d"), 1e-12)
  end)

  it("agrees with counting the n-grams themselves", function()
    local words = {}
    for i = 1, 200 do words[i] = string.char(97 + (i * i + i // 7) % 5) end
    for n = 1, 20 do
      local seen, distinct, total = {}, 0, #words - n + 1
      for i = 1, total do
        local gram = table.concat(words, " ", i, i + n - 1)
        if not seen[gram] then seen[gram], distinct = true, distinct + 1 end
      end
      local got = repetition.ngram { n = n }(table.concat(words, " "))
      assert.near(distinct / total - 1, got, 1e-12)
    end
  end)

  it("stays within a reward's budget on a megabyte of short words", function()
    local text = (("a b b c e d f a g h"):rep(4) .. " i j k a j "):rep(2 ^ 20 // 85)
    local r = repetition.ngram { n = 3 }
    collectgarbage()
    local before, thousands = collectgarbage("count"), 0
    collectgarbage("stop")
    debug.sethook(function() thousands = thousands + 1 end, "", 1000)
    r(text)
    debug.sethook()
    local used = collectgarbage("count") - before
    collectgarbage("restart")
    assert.is_true(thousands < 25000)
    assert.is_true(used < 64 * 1024)
  end)

  it("refuses a reward for repetition", function()
    assert.error_matches(function()
      repetition.ngram { n = 2, max_penalty = 1 }
    end, "must be at most 0")
    assert.error_matches(function()
      repetition.ngram { ngram = 2 }
    end, "repetition%.ngram%.ngram: unknown option")
  end)
end)
