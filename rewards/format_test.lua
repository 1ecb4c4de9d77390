local core = require "grpo.core"
local format = require "rewards.format"

describe("format.tags", function()
  local think_answer = format.tags { "think", "answer" }

  it("accepts the blocks in order and nothing else", function()
    assert.equal(1, think_answer("<think>x</think><answer>7</answer>"))
    assert.equal(1, think_answer(" <think>\nx\n</think>\n\n<answer>7</answer>\n"))
    for _, text in ipairs {
      "", "7", "<answer>7</answer><think>x</think>", "<think>x</think> so <answer>7</answer>",
      "<think>x</think><answer>7</answer> 7", "well <think>x</think><answer>7</answer>",
      "<think>x</think><answer>7", "<think>x</think><answer>7</answer><answer>8</answer>",
      "<think><think>x</think></think><answer>7</answer>", "<think>x<answer>7</think></answer>",
    } do
      assert.equal(0, think_answer(text))
    end
  end)

  it("asks for a line of its own for every tag when newlines are wanted", function()
    local strict = format.tags { "think", "answer", newlines = true }
    assert.equal(1, strict("<think>\nx\n</think>\n<answer>\n7\n</answer>"))
    assert.equal(0, strict("<think>x</think><answer>7</answer>"))
    assert.equal(0, strict("<think>\nx\n</think>\n<answer>\n7\n</answer>\n"))
  end)

  it("lets anything follow with rest", function()
    local thinks = format.tags { "think", rest = true }
    assert.equal(1, thinks("<think>x</think> 7"))
    assert.equal(0, thinks("7 <think>x</think>"))
  end)

  it("are a PCRE2 expression that a user can change", function()
    local pattern = format.pattern({ "a.b" }, { newlines = true })
    assert.equal([[\A<a\.b>\n(?!</a\.b>)[^<]*+(?:<(?!/?(?:a\.b)>)[^<]*+)*+(?<=\n)</a\.b>\z]],
      pattern)
    assert.equal(1, format.regex(pattern)("<a.b>\nx < y\n</a.b>"))
    assert.equal(0, format.regex(pattern)("<a.b>\n</a.b>"))
    local free = format.regex("(?i)" .. format.pattern { "a" })
    assert.equal(1, free("<A>x</A>"))
  end)

  it("read bytes that are not UTF-8 as characters", function()
    assert.equal(1, think_answer("<think>\xff</think><answer>\xe2\x82</answer>"))
  end)

  it("says what is wrong with its options", function()
    assert.error_matches(function()
      format.tags { "a", newline = true }
    end, "did you mean 'newlines'")
    assert.error_matches(function() format.tags { "<a>" } end, "not the name of a tag")
    assert.error_matches(function() format.tags { "a", "b", "a" } end, '"a" is named twice')
    assert.error_matches(function() format.tags {} end, "at least one tag")
    assert.error_matches(function() format.tags { 3 } end, "must be string")
  end)

  it("is linear in a megabyte of tags", function()
    local limits = core.limits { instructions = 1e6 } -- of 5e7 that a reward has
    for _, text in ipairs {
      ("<think>"):rep(150000), "<think>" .. ("</answer>"):rep(110000), (" "):rep(2 ^ 20),
    } do
      local ok, reward = core.limited(limits, "reward", think_answer, text)
      assert.is_true(ok, tostring(reward))
      assert.equal(0, reward)
    end
  end)
end)

describe("format.partial", function()
  local partial = format.partial { tags = { "think", "answer" } }

  it("gives every tag that occurs once its share", function()
    assert.equal(1, partial("<think>x</think><answer>7</answer>"))
    assert.equal(0.75, partial("<think>x<answer>7</answer>"))
    assert.equal(0.5, partial("<think>x</think>"))
    assert.equal(0, partial("nothing"))
    assert.equal(0.75, partial("<think><think>x</think><answer>7</answer>"))
  end)

  it("charges for what follows, by the character, down to 0", function()
    assert.near(0.996, partial("<think>x</think><answer>7</answer>\u{e9}\u{e9} 7"), 1e-12)
    assert.equal(0, partial("<think>x</think><answer>7</answer>" .. ("\255"):rep(5000)))
    assert.equal(1, format.partial { tags = { "a" }, extra_cost = 0 } "<a></a> and more")
  end)

  it("names what is missing or misspelt", function()
    assert.error_matches(function() format.partial {} end, "format%.partial%.tags: is required")
    assert.error_matches(function()
      format.partial { tags = { "a" }, extra_cots = 1 }
    end, "extra_cost")
  end)
end)

describe("format.xml_count and format.incremental", function()
  it("take other names and another cost", function()
    local text = "<a>\nx\n</a>\n<b>\n7\n</b>12"
    -- </b> and a newline is missing, so all 23 characters count, and 1 beside the newline
    assert.near(0.26, format.xml_count { tags = { "a", "b" }, extra_cost = 0.01 } (text), 1e-12)
    assert.near(0.98, format.incremental { tags = { "a", "b" }, extra_cost = 0.01 } (text), 1e-12)
    assert.equal(2, format.incremental { tags = { "a", "b" }, share = 0.5, extra_cost = 0 } (text))
  end)

  it("have no lower bound", function()
    assert.near(-2, format.incremental() ("</answer>" .. ("x"):rep(2250)), 1e-9)
    assert.near(-1, format.xml_count() ("\n<answer>\n" .. ("x"):rep(1115)), 1e-9)
  end)

  it("name what is wrong", function()
    assert.error_matches(function() format.xml_count { tags = { "a" } } end, "wants two names")
    assert.error_matches(function() format.incremental { tags = { "a", "<b>" } } end,
      "not the name of a tag")
    assert.error_matches(function() format.incremental { shares = 1 } end, "did you mean 'share'")
  end)

  it("stay cheap on a megabyte of anything", function()
    local n, close = 2 ^ 20 // 1, "</answer>"
    for _, text in ipairs { ("a"):rep(n), (close):rep(n // 9), close .. (" "):rep(n),
      close .. ("\u{A0}"):rep(n // 2), close .. ("\u{2003} "):rep(n // 4), ("\255"):rep(n),
      ("\n<answer>\n"):rep(n // 10), ("<reasoning>\n"):rep(n // 12) } do
      for _, reward in ipairs { format.xml_count(), format.incremental { repeated = true } } do
        local thousands = 0
        debug.sethook(function() thousands = thousands + 1 end, "", 1000)
        reward(text)
        debug.sethook()
        assert.is_true(thousands < 15000) -- a reward may take 50,000
      end
    end
  end)
end)

describe("format.regex", function()
  it("is 1 where the expression matches", function()
    local r = format.regex("^\\d+$")
    assert.equal(1, r("42"))
    assert.equal(0, r("42 apples"))
  end)

  it("wants a pattern", function()
    local _, err = pcall(function() format.regex(3) end)
    assert.matches("format_test%.lua:%d+: .*wants a pattern", tostring(err))
  end)
end)

describe("format.steps and format.code", function()
  it("count steps up to the number wanted", function()
    assert.near(2 / 3, format.steps {}("1. one\n- two"), 1e-12)
    assert.equal(1, format.steps { full = 2 }("First, a. Then b. Finally, c."))
    assert.equal(1, format.steps {}(("Step 1: "):rep(100000)))
  end)

  it("want fenced code in the last block", function()
    local r = format.code { language = "lua" }
    assert.equal(1, r("<think>\nx\n</think>\n<answer>\n```lua\nreturn 1\n```\n</answer>"))
    assert.equal(0, r("<think>\nx\n</think>\n<answer>\n```python\npass\n```\n</answer>"))
    assert.equal(0, r("<think>\n```lua\n```\n</think>\n<answer>\n1\n</answer>"))
  end)
end)

describe("a tag that the chat template has put into the prompt", function()
  local qwen = { prompt = "<|im_start|>user\n2+2=?<|im_end|>\n<|im_start|>assistant\n<think>\n" }
  local text = "four\n</think>\n<answer>\n4\n</answer>"

  it("counts as the completion's first", function()
    assert.equal(1, format.tags { "think", "answer" }(text, {}, qwen))
    assert.equal(1, format.tags { "think", "answer", newlines = true }(text, {}, qwen))
    assert.equal(1, format.tags { "think", rest = true }("four</think> 4", {}, qwen))
    assert.equal(1, format.partial { tags = { "think", "answer" } }(text, {}, qwen))
    assert.equal(1, format.code { language = "lua" }(
      "x\n</think>\n<answer>\n```lua\nreturn 4\n```\n</answer>", {}, qwen))
    local tags = { tags = { "think", "answer" } }
    assert.equal(0.5, format.xml_count(tags)(text .. "\n", {}, qwen))
    assert.equal(1, format.incremental(tags)(text, {}, qwen))
    local published = format.regex(
      "\\A<think>\\n.*?\\n</think>\\n<answer>\\n.*?\\n</answer>\\z", "s")
    assert.equal(1, published(text, {}, qwen))
    assert.equal(1, format.regex "\\Afour"(text, {}, qwen)) -- for who has known it
    assert.equal(0, format.regex "\\A4"(text, {}, qwen))
  end)

  it("may be written without an end of line, or closed at once", function()
    local tags = format.tags { "think", "answer" }
    assert.equal(1, tags(text, {}, { prompt = "<｜Assistant｜><think>" }))
    assert.equal(1, tags("<answer>4</answer>", {},
      { prompt = "<|im_start|>assistant\n<think>\n\n</think>\n\n" }))
  end)

  it("counts once: another one is too much", function()
    assert.equal(0, format.tags { "think", "answer" }("<think>\n" .. text, {}, qwen))
  end)

  it("must end the prompt and be one of the reward's own", function()
    local tags = format.tags { "think", "answer" }
    for _, prompt in ipairs { "", "Write <think> first: ", "<think>well,", "user\n<reasoning>\n",
      "<think>\n</think>\n<assistant>", "<s>" } do
      assert.equal(0, tags(text, {}, { prompt = prompt }))
      assert.equal(1, tags("<think>x</think><answer>4</answer>", {}, { prompt = prompt }))
    end
    assert.equal(0, tags(text))
    assert.equal(1, format.tags { "reasoning" }("x</reasoning>", {}, { prompt = "a<reasoning>" }))
  end)
end)
