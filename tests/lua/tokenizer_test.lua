local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local HI = { { role = "user", content = "hi" } }

describe("a tokenizer", function()
  local tok = grpo.tokenizer.bytes()
  it("of bytes is exact both ways", function()
    local s = "h\0i \xff ä"
    assert.equal(258, #tok)
    assert.same({ 104, 0, 105, 32, 255, 32, 195, 164 }, tok:encode(s))
    assert.equal(s, tok:decode(tok:encode(s)))
    assert.equal("bytes", tok.kind)
    assert.equal(256, tok.eos)
    assert.equal(257, tok.pad)
    assert.is_nil(tok.bos)
  end)
  it("knows special tokens", function()
    assert.equal(256, tok:id("<|endoftext|>"))
    assert.equal("<|endoftext|>", tok:token(256))
    assert.is_nil(tok:id("<nothing>"))
    assert.is_nil(tok:token(-1))
    assert.is_nil(tok:token(1 << 40))
    assert.is_true(tok:is_special(256))
    assert.is_false(tok:is_special(65))
    assert.same({ 97, 256 }, tok:encode("a<|endoftext|>"))
    assert.equal(14, #tok:encode("a<|endoftext|>", { parse_special = false }))
    assert.equal("a", tok:decode({ 97, 256 }, { skip_special = true }))
    assert.equal("a<|endoftext|>", tok:decode({ 97, 256 }))
  end)
  it("of characters has what the text has", function()
    local t = grpo.tokenizer.chars("hello wörld")
    assert.equal("wörld", t:decode(t:encode("wörld")))
    assert.error_matches(function() t:encode("z") end, "z")
  end)
  it("can be trained, saved and loaded", function()
    local texts = {}
    for i = 1, 50 do texts[i] = "the quick brown fox number " .. i .. " jumps over the lazy dog" end
    local t = grpo.tokenizer.train(texts,
      { vocab_size = 320, special_tokens = { "<|end|>", "<|pad|>", "<a>" }, eos = "<|end|>" })
    assert.equal("<|end|>", t:token(t.eos))
    assert.is_true(#t:encode("the quick brown fox") < 12)
    local dir = tiny.path()
    t:save(dir)
    local u = grpo.tokenizer.load(dir)
    assert.same(t:encode("the lazy fox 12 ä"), u:encode("the lazy fox 12 ä"))
    assert.equal(#t, #u)
    core.fs.remove_tree(dir)
  end)
  it("renders chats by a Lua function or Jinja", function()
    assert.error_matches(function() tok:chat { { role = "user", content = "hi" } } end,
      "no chat template")
    local t = grpo.tokenizer.bytes()
    t.chat_template = function(messages, opts)
      return messages[1].content .. (opts.generation_prompt and ">" or "")
    end
    assert.equal("hi>", t:chat({ { role = "user", content = "hi" } }, { generation_prompt = true }))
    assert.equal("hi", t:chat({ { role = "user", content = "hi" } }))
    t.chat_template = function() return 1 end
    assert.error_matches(function() t:chat(HI) end, "returned a number")
    assert.error_matches(function() t.chat_template = 1 end, "want a Jinja string")
    t.chat_template = "{{ eos_token }}{{ bos_token is defined }}"
      .. "{% for m in messages %}{{ m.content }}{% endfor %}{{ x }}"
      .. "{% if add_generation_prompt %}>{% endif %}"
    assert.equal("<|endoftext|>Falsehi5",
      t:chat({ { role = "user", content = "hi" } }, { vars = { x = 5 } }))
    assert.equal("<|endoftext|>Falsehi>",
      t:chat(HI, { generation_prompt = true }))
    assert.error_matches(function() t:chat(HI, { typo = 1 }) end, "no option 'typo'")
    t.chat_template = "\n{{ 1 + 'a' }}"
    assert.error_matches(function() t:chat(HI) end, "template:2: ")
  end)
  local function loaded(config)
    local dir = tiny.path()
    tok:save(dir)
    core.fs.write(dir .. "/tokenizer_config.json", config)
    local t = grpo.tokenizer.load(dir)
    core.fs.remove_tree(dir)
    return t
  end
  it("takes the template for tools when there are tools", function()
    local t = loaded [[{"chat_template": [{"name": "default", "template": "d"},
      {"name": "rag", "template": "r"},
      {"name": "tool_use", "template": "{{ tools | length }}"}]}]]
    assert.equal("d", t:chat(HI))
    assert.equal("2", t:chat(HI, { tools = { {}, {} } }))
    assert.equal("d", t.chat_template)
    t.chat_template = "own{# #}"
    assert.equal("own", t:chat(HI, { tools = { {}, {} } }))
    t.chat_template = "rag" -- of its own templates
    assert.equal("r", t:chat(HI))
  end)
  it("gives a template every special token", function()
    local t = loaded [[{"sep_token": "a", "cls_token": {"content": "b"}, "mask_token": "c",
      "pad_token": null,
      "chat_template": "{{ sep_token }}{{ cls_token }}{{ mask_token }}{{ unk_token is defined }}"}]]
    assert.equal("abcFalse", t:chat(HI))
    assert.equal(97, t.sep)
    assert.equal(98, t.cls)
    assert.equal(99, t.mask)
  end)
  it("continues the last message", function()
    local t = grpo.tokenizer.bytes()
    local function cut(template, content)
      t.chat_template = template
      return t:chat({ { role = "user", content = "hi" },
        { role = "assistant", content = content } },
        { continue_final_message = true })
    end
    local plain = "{% for m in messages %}[{{ m.content }}]{% endfor %}"
    local trims = "{% for m in messages %}[{{ m.content | trim }}]{% endfor %}"
    assert.equal("[hi][hi", cut(plain, "hi"))
    assert.equal("[hi][a ", cut(plain, "a "))
    assert.equal("[hi][a", cut(trims, "a "))
    assert.equal("[hi][ a ", cut(plain, " a "))
    assert.equal("[hi][b",
      cut("{% for m in messages %}[{{ m.content if m.content is string else m.content[0].text }}]"
      .. "{% endfor %}", { { type = "text", text = "b" } }))
    assert.error_matches(function() cut("x{# content #}", "hi") end, "does not show")
    assert.error_matches(function() cut("x{{ y }}", "hi") end, "does not read 'content'")
    assert.error_matches(function() cut(plain, 5) end, "has a number as its content")
    assert.error_matches(function()
      t:chat({ { role = "a", content = "x" } },
        { continue_final_message = true, generation_prompt = true })
    end, "set only one of them")
  end)
  it("names what is wrong", function()
    assert.error_matches(function() tok:encode() end,
      "tokenizer_test%.lua:%d+: bad argument #1 to 'encode'")
    assert.error_matches(function() tok:encode("a", { specail = true }) end,
      "did you mean 'special'")
    assert.error_matches(function() tok:decode { -1 } end, "a token id")
    assert.error_matches(function() tok:decode { 1.5 } end, "a token id")
    assert.error_matches(function() tok:decode "x" end, "list of token ids")
    assert.error_matches(function() return tok.nothing end, "no field 'nothing'")
    assert.error_matches(function() tok.eos = 1 end, "cannot be set")
    assert.error_matches(function() grpo.tokenizer.load("/no/such/place") end, "/no/such/place")
    assert.error_matches(function() grpo.tokenizer.train({ 1 }, {}) end, "texts%[1%]")
    assert.error_matches(function() grpo.tokenizer.train({ "a" }, { vocabsize = 300 }) end,
      "did you mean 'vocab_size'")
    assert.error_matches(function() grpo.tokenizer.train({ "a" }, { kind = "unigram" }) end,
      "want 'bpe'")
  end)
  it("says what it is", function()
    assert.equal("grpo.Tokenizer: bytes, 258 tokens", tostring(tok))
    local t = grpo.tokenizer.bytes()
    do local _ <close> = t end
    assert.equal("grpo.Tokenizer (closed)", tostring(t))
    assert.error_matches(function() t:encode("a") end, "was closed")
  end)
end)
