-- Objects that a callback or a metamethod closes or changes while a method of theirs runs: they are
-- left to the collector, or the change is refused; nothing is read that is gone.  Under a sanitizer
-- these tests say more.

local grpo = require "grpo"
local tiny = require "tests.lua.tiny"

local shape = tiny.llama { hidden_size = 8, intermediate_size = 16 }
local message_of = tiny.message_of

local function close(object)
  local _ <close> = object
end

local function tokenizer(letters)
  return grpo.tokenizer.chars(letters or "abcdefghij")
end

local function model()
  return grpo.model.new(shape, { tokenizer = tokenizer() })
end

-- A table whose every use calls f.
local function lazy(n, f)
  return setmetatable({},
    { __len = function() return n end, __index = function(_, key) return f(key) end,
    __pairs = function()
      f()
      return next, {}, nil
    end })
end

describe("closing what is in use", function()
  it("a regex, in a replacement", function()
    local re = grpo.regex("b")
    assert.equal("axax", (re:gsub("abab", function()
      close(re)
      return "x"
    end)))
    close(re)
    assert.matches("the regex was closed", message_of(re.gsub, re, "abab", "x"))
  end)

  it("a regex, in a table of replacements", function()
    local re = grpo.regex("b")
    assert.equal("aqaq", (re:gsub("abab", setmetatable({}, { __index = function()
      close(re)
      return "q"
    end }))))
  end)

  it("a tokenizer, in on_token", function()
    local tok = tokenizer()
    local m = grpo.model.new(shape, { tokenizer = tok })
    local list = m:generate("abc", { n = 4, max_new_tokens = 8, on_token = function()
      close(tok)
      collectgarbage()
    end })
    assert.equal(4, #list)
    assert.equal("string", type(list[4].text))
  end)

  it("a model and a regex to stop at, in on_token", function()
    local m, re = model(), grpo.regex("zz")
    local list = m:generate("abc", { max_new_tokens = 8, stop_regex = re, on_token = function()
      close(m)
      close(re)
      collectgarbage()
    end })
    assert.equal(1, #list)
  end)

  it("a model, in without_adapter", function()
    local m = model()
    m:add_lora { rank = 2 }
    m:without_adapter(function() close(m) end)
    assert.equal(#m.tokenizer, #m:logits("a"):totable()[1])
  end)

  it("what reads its options through a metamethod", function()
    local tok, m = tokenizer(), model()
    tok:encode("abc", lazy(0, function() close(tok) end))
    m:add_lora(lazy(0, function() close(m) end))
    pcall(m.save, m, os.tmpname(), lazy(0, function() close(m) end))
    assert.equal(3, #tok:encode("abc"))
    assert.equal(#m.tokenizer, #m:logits("a"):totable()[1])
  end)

  it("is left to the collector in a coroutine", function()
    local re = grpo.regex("b")
    coroutine.wrap(function() close(re) end)()
    assert.is_true(re:find("ab") ~= nil)
  end)

  it("is seen through limited calls", function()
    local core = require "grpo.core"
    local function limited(f) assert(core.limited({ instructions = 1e6 }, "it", f)) end
    local re = grpo.regex("b")
    assert.equal("axa", (re:gsub("aba", function()
      limited(function() limited(function() close(re) end) end)
      return "x"
    end)))
    assert.is_true(re:find("b") ~= nil)
    limited(function() limited(function() close(re) end) end)
    assert.matches("the regex was closed", message_of(re.find, re, "b"))
  end)

  it("is at once where nobody uses it", function()
    local regex, tok, m, tensor = grpo.regex("b"), tokenizer(), model(), grpo.zeros { 2 }
    for object, method in pairs { [regex] = regex.find, [tok] = tok.encode, [m] = m.logits,
        [tensor] = tensor.sum } do
      close(object)
      assert.matches("closed", message_of(method, object, "a"))
    end
  end)

  it("has no finalizer to call", function()
    for _, object in ipairs { grpo.regex("b"), tokenizer(), model(), grpo.zeros { 2 } } do
      assert.is_nil(getmetatable(object).__gc)
      assert.matches("^grpo%.", getmetatable(object).__name)
    end
  end)
end)

describe("changing what is in use", function()
  it("an adapter, in on_token", function()
    local m = model()
    for _, change in ipairs { "add_lora", "merge_lora", "without_adapter" } do
      assert.matches(change .. ": the model is generating, so on_token cannot change it",
          message_of(function()
        m:generate("abc", { max_new_tokens = 3, on_token = function()
          m[change](m, change == "without_adapter" and print or nil)
        end })
      end))
    end
    assert.equal(1, #m:generate("abc", { max_new_tokens = 3 }))
  end)

  it("options, in on_token", function()
    local m, other = model(), model()
    local options = { max_new_tokens = 20, stop = { ("ab"):rep(40), ("cd"):rep(30) },
      stop_regex = "zz+q" }
    function options.on_token()
      options.on_token, options.stop, options.stop_regex = nil, { "x" }, nil
      other:generate("abc", options)
      collectgarbage()
      collectgarbage()
    end
    assert.equal(1, #m:generate("abc", options))
  end)

  it("a tokenizer, between two generations", function()
    local m = model()
    for round = 1, 20 do -- one may come to lie where the last one was
      m.tokenizer = nil
      collectgarbage()
      m.tokenizer = tokenizer(round % 2 == 0 and "abcdefghij" or "jihgfedcba")
      local one = m:generate("abc", { max_new_tokens = 8, stop = { "aaaa" } })[1]
      assert.equal(m.tokenizer:decode(one.ids):sub(1, #one.text), one.text)
    end
  end)

  local function trained(change)
    local tr
    tr = grpo.trainer(grpo.experiment {
      name = "tiny", seed = 3, model = { config = shape, tokenizer = tokenizer() },
      data = { train = grpo.data.list { { prompt = "ab" }, { prompt = "ba" } },
        max_prompt_tokens = 8 }, sampling = { group_size = 4, max_new_tokens = 6 },
      rewards = { function(text) return select(2, text:gsub("[a-e]", "")) end },
      train = { steps = 2, prompts_per_step = 2, loss = function(t)
        change(tr)
        return -(t.logp * t.advantage):sum() / t.normalizer
      end },
    })
    return tr
  end

  it("a model that is trained", function()
    local tr = trained(function() end)
    tr:step()
    tr.model:add_lora { rank = 2 }
    assert.matches("the model was given an adapter, or lost one, since its training began",
      message_of(tr.step, tr))
  end)

  it("an engine, in train.loss", function()
    assert.equal(1, trained(function(tr) tr.engine:close() end):step().step)
    for _, name in ipairs { "rollout", "update", "load" } do
      local tr = trained(function(tr) tr.engine[name](tr.engine, {}, {}, {}) end)
      assert.matches("the engine is at work, so what it calls cannot start it again",
        message_of(tr.step, tr))
    end
  end)
end)
