-- Models and their tokenizers as GGUF files, from Lua.
local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local config = tiny.llama { vocab_size = 258, num_hidden_layers = 2, num_attention_heads = 4,
  num_key_value_heads = 2, max_position_embeddings = 96, tie_word_embeddings = false,
  rms_norm_eps = 1e-5, initializer_range = 0.2, eos_token_id = 256 }
local user = { role = "user", content = "q" }

local function new(seed)
  return grpo.model.new(config, { seed = seed, tokenizer = grpo.tokenizer.bytes() })
end

describe("a model as one GGUF file", function()
  local fs = core.fs
  local dir = tiny.path()
  local path = dir .. "/deep/m.gguf"
  local m = new(3)
  it("is saved with its tokenizer and loaded by its path", function()
    m:save(path, { format = "gguf" })
    local back = grpo.model.load(path)
    assert.same(m:logits("hello"):totable(), back:logits("hello"):totable())
    assert.equal(258, #back.tokenizer)
    assert.equal(258, #grpo.tokenizer.load(path))
    back:save(path .. "2", { format = "gguf" })
    assert.equal(fs.read(path), fs.read(path .. "2"))
    assert.equal(32, grpo.model.load(path .. "2").config.hidden_size)
  end)
  it("keeps the templates of its tokenizer", function()
    tiny.temporary(function(place)
      grpo.tokenizer.bytes():save(place)
      local own = place .. "/additional_chat_templates"
      core.fs.mkdirs(own)
      assert(core.fs.write(own .. "/tool_use.jinja", "tools{# #}"))
      assert(core.fs.write(own .. "/rag.jinja", "rag{# #}"))
      assert(core.fs.write(place .. "/chat_template.jinja", "default{# #}"))
      local shape = tiny.llama { hidden_size = 32, intermediate_size = 32, vocab_size = 258 }
      grpo.model.new(shape, { tokenizer = grpo.tokenizer.load(place) }):save(place .. "/m.gguf",
        { format = "gguf" })
      local tok = grpo.tokenizer.load(place .. "/m.gguf")
      assert.equal("default", tok:chat { user })
      assert.equal("tools", tok:chat({ user }, { tools = { {} } }))
      tok.chat_template = "rag"
      assert.equal("rag", tok:chat { user })
    end)
  end)
  it("comes in smaller types", function()
    local size = {}
    for _, dtype in ipairs { "f32", "f16", "bf16", "q8_0", "q4_0" } do
      m:save(path, { format = "gguf", dtype = dtype })
      size[dtype] = fs.size(path)
      local worst = (m:logprobs("hello, world") - grpo.model.load(path):logprobs("hello, world"))
        :abs():max():item()
      assert.is_true(worst < (dtype == "q4_0" and 2 or 0.2), dtype .. " " .. worst)
    end
    assert.is_true(size.f32 > size.f16 and size.f16 == size.bf16 and size.bf16 > size.q8_0
      and size.q8_0 > size.q4_0)
  end)
  it("refuses what it has no form for", function()
    assert.error_matches(function() m:save(path, { format = "gguf", dtype = "nf4" }) end,
      "'nf4' is not a type of format 'gguf'")
    tiny.refused("'q8_0' is not a type of format 'hf'", m.save, m, dir, { dtype = "q8_0" })
    tiny.refused("is a directory, but format 'gguf' is one file", m.save, m, dir,
      { format = "gguf" })
    local chars = grpo.model.new(config, { tokenizer = grpo.tokenizer.chars("abc") })
    tiny.refused("no form for a 'chars' tokenizer", chars.save, chars, path .. "3",
      { format = "gguf" })
    fs.write(path, "GGUX")
    assert.error_matches(function() grpo.model.load(path) end, "m.gguf: not a GGUF file")
    fs.remove_tree(dir)
  end)
  it("refuses a pointer of Git LFS", function()
    tiny.temporary(function(place)
      assert(fs.mkdirs(place))
      assert(fs.write(place .. "/x.gguf", "version https://git-lfs.github.com/spec/v1\noid sha256:"
        .. ("0"):rep(64) .. "\nsize 9\n"))
      assert.error_matches(function() grpo.model.load(place .. "/x.gguf") end,
        "x.gguf: it is a pointer of Git LFS")
    end)
  end)
end)
