local core = require "grpo.core"
local grpo = require "grpo"
local text_stream = require "grpo.models.text_stream"
local tiny = require "tests.lua.tiny"

-- The pieces of a completion put together, and whether every one of them was whole characters.
local function streamed(tok, ids)
  local stream, pieces = text_stream.new(tok), {}
  for i, id in ipairs(ids) do pieces[i] = stream:put(id) end
  local held = stream:finish()
  return table.concat(pieces) .. held, pieces
end

describe("streaming", function()
  it("holds back the bytes of an unfinished character", function()
    local tok = grpo.tokenizer.bytes()
    local text, pieces = streamed(tok, tok:encode("aé\u{1F389}b"))
    assert.equal("aé\u{1F389}b", text)
    assert.same({ "a", "", "é", "", "", "", "\u{1F389}", "b" }, pieces)
  end)
  it("gives what was held back at the end", function()
    local tok = grpo.tokenizer.bytes()
    assert.equal("a\xe2\x82", (streamed(tok, tok:encode("a\xe2\x82"))))
  end)
  it("gives what decoding the whole gives where the decoder takes the first space away", function()
    local rng = core.rng(2, "user", 0, 0, 0)
    for _, name in ipairs { "tokenizer/tokenizer", "unigram/bytes", "unigram/metaspace",
      "unigram/plain" } do
      local tok = grpo.tokenizer.load("tests/cases/" .. name .. ".json")
      for _ = 1, 100 do
        local ids = {}
        for i = 1, 12 do ids[i] = math.floor(rng() * #tok) end
        assert.equal(tok:decode(ids, { skip_special = true }), (streamed(tok, ids)))
      end
    end
  end)
  it("gives what decoding the whole gives, for every tokenizer and for random ids", function()
    if not tiny.shared then return pending("no oracles: GRPO_SHARED is not set") end
    local rng = core.rng(1, "user", 0, 0, 0)
    for _, name in ipairs { "gemma2_small", "gpt2", "llama2", "llama3_small", "qwen2_5_small",
      "smollm" } do
      local tok = grpo.tokenizer.load(tiny.shared .. "/oracles/tokenizers/" .. name)
      for _ = 1, 100 do
        local ids = {}
        for i = 1, 12 do ids[i] = math.floor(rng() * math.min(#tok, 400)) end
        assert.equal(tok:decode(ids, { skip_special = true }), (streamed(tok, ids)))
      end
    end
  end)
end)
