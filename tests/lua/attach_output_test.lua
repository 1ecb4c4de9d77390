-- The output of a request in an attached session.

local output = require "grpo.commands.repl.output"

describe("the output of an attached session", function()
  it("keeps the order of each kind", function()
    local o = output.new(100)
    for i = 1, 3 do
      o:put("out", i .. "\n")
      o:put("err", "e" .. i)
    end
    assert.equal("1\n2\n3\n", o:text("out"))
    assert.equal("e1e2e3", o:text("err"))
    assert.is_nil(o.cut)
    assert.is_nil(output.new(5):text("out"))
  end)

  it("is cut at its limit, and not within a character", function()
    local o = output.new(8)
    o:put("out", "abc")
    o:put("out", "\u{e9}\u{e9}\u{20AC}")
    o:put("err", "more")
    assert.equal("abc\u{e9}\u{e9}", o:text("out"))
    assert.is_nil(o:text("err"))
    assert.is_true(o.cut)
  end)

  it("takes memory that is linear in the number of pieces", function()
    collectgarbage()
    collectgarbage("stop")
    local o, before = output.new(1 << 20), collectgarbage("count")
    for _ = 1, 20000 do o:put("out", "x\n") end
    local text = o:text("out")
    local kib = collectgarbage("count") - before
    collectgarbage("restart")
    assert.equal(40000, #text)
    assert.is_true(kib < 4000) -- one string after the other would be 400,000
  end)
end)
