-- Models and tokenizers as other programs leave them: files beside a tokenizer.json, and files that
-- are not read, which are named with the way out.

local core = require "grpo.core"
local grpo = require "grpo"
local tiny = require "tests.lua.tiny"

local dir

local function put(name, text) tiny.put(dir, name, text) end
local function refused(words, f, ...) tiny.fails(nil, words, f, ...) end

local function each(test)
  dir = tiny.path()
  assert(core.fs.mkdirs(dir))
  local ok, err = pcall(test)
  core.fs.remove_tree(dir)
  if not ok then error(err, 0) end
end

-- A tokenizer of bytes with these texts beside its tokenizer.json.
local function beside(files)
  grpo.tokenizer.bytes():save(dir)
  os.remove(dir .. "/added_tokens.json")
  for name, text in pairs(files) do put(name, text) end
  return grpo.tokenizer.load(dir)
end

describe("files beside a tokenizer.json", function()
  local config, map = "tokenizer_config.json", "special_tokens_map.json"

  it("special_tokens_map.json and added_tokens.json come before a config without a decoder",
    function() each(function()
      local tok = beside { [config] = '{"eos_token": "<|endoftext|>"}',
        [map] = '{"eos_token": {"content": "<|pad|>"}}' }
      assert.equal(257, tok.eos)
      tok = beside { [config] = '{"eos_token": "<|endoftext|>", "added_tokens_decoder": {"256": '
        .. '{"content": "<|endoftext|>", "special": true}}}', [map] = '{"eos_token": "<|pad|>"}',
        ["added_tokens.json"] = '{"<|x|>": 258}' }
      assert.equal(256, tok.eos)
      assert.is_nil(tok:id("<|x|>"))
      tok = beside { [config] = '{"eos_token": "<|x|>"}', [map] = "{}",
        ["added_tokens.json"] = '{"<|x|>": 258, "<|pad|>": 300, "<|y|>": 259}' }
      assert.same({ 258, 257, 259 }, tok:encode("<|x|><|pad|><|y|>"))
      assert.equal(258, tok.eos)
      assert.equal("<|y|>", tok:decode({ 258, 259 }, { skip_special = true }))
      tok:save(dir .. "/again")
      assert.equal(259, grpo.tokenizer.load(dir .. "/again"):id("<|y|>"))
      refused("added_tokens.json: \"<|x|>\": want an id", beside,
        { [config] = "{}", ["added_tokens.json"] = '{"<|x|>": "258"}' })
      refused("added_tokens.json: want an object", beside,
        { [config] = "{}", ["added_tokens.json"] = "[1]" })
    end) end)

  it("additional_special_tokens are special, and new ones get the next ids", function()
    each(function()
      local tok = beside { [config] = '{"additional_special_tokens": ["<|pad|>", "<|a|>", '
        .. '{"content": "<|b|>"}], "extra_special_tokens": {"image_token": "<image>"}}',
        [map] = "{}" }
      assert.same({ 258, 259, 257, 260 }, tok:encode("<|a|><|b|><|pad|><image>"))
      assert.is_true(tok:is_special(258) and tok:is_special(257) and tok:is_special(260))
      tok = beside { [config] = '{"additional_special_tokens": ["<|a|>"]}',
        [map] = '{"additional_special_tokens": ["<|c|>"]}' }
      assert.is_nil(tok:id("<|a|>"))
      assert.equal(258, tok:id("<|c|>"))
    end)
  end)
end)

describe("a model or tokenizer that is not read", function()
  local model_config = '{"model_type": "llama", "vocab_size": 8, "hidden_size": 8, '
    .. '"intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}'
  local pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:" .. ("0"):rep(64)
    .. "\nsize 12345\n"

  -- Loads the model in a directory with these files.
  local function load(files)
    core.fs.remove_tree(dir)
    assert(core.fs.mkdirs(dir))
    for name, text in pairs(files) do put(name, text) end
    return grpo.model.load(dir)
  end

  it("is named with the way out: weights", function() each(function()
    local c = { ["config.json"] = model_config }
    local function with(name, text) return { ["config.json"] = c["config.json"], [name] = text } end
    refused("model.safetensors: it is a pointer of Git LFS, not the file itself; fetch the file "
      .. "with git lfs pull", load, with("model.safetensors", pointer))
    refused("config.json: it is a pointer of Git LFS", load, { ["config.json"] = pointer })
    for _, name in ipairs { "pytorch_model.bin", "pytorch_model.bin.index.json",
      "consolidated.00.pth", "consolidated.safetensors", "tf_model.h5", "flax_model.msgpack" } do
      refused("/" .. name .. ": the weights are ", load, with(name, "PK"))
      refused("/" .. name .. ": the weights are ", load, { [name] = "PK" })
    end
    refused("a pickle, which is a program and is not read; convert it: python3", load,
      with("pytorch_model.bin", "PK"))
    refused("model-00001-of-00002.safetensors is there, but not model.safetensors.index.json",
      load, with("model-00001-of-00002.safetensors", ""))
    refused("name the file " .. dir .. "/a.gguf", load, { ["a.gguf"] = "GGUF" })
    refused("neither model.safetensors nor model.safetensors.index.json", load, c)
    refused("config.json", load, {})
    put("x.bin", "PK")
    refused("x.bin: it is neither a model directory nor a GGUF file", grpo.model.load,
      dir .. "/x.bin")
  end) end)

  it("is named with the way out: tokenizers", function() each(function()
    put("tokenizer.model", "\n\14\n\5<unk>\21\0\0\0\0\24\2")
    refused("/tokenizer.model: it is a model of SentencePiece, which is not read; make a "
      .. "tokenizer.json of it: python3", grpo.tokenizer.load, dir)
    put("tekken.json", '{"config": {"pattern": "x", "default_num_special_tokens": 0}, "vocab": '
      .. '[{"rank": 0, "token_bytes": "AA==", "token_str": "\\u0000"}]}')
    refused("it is Mistral's tekken file, which is not read; take the tokenizer.json of the same",
      grpo.tokenizer.load, dir .. "/tekken.json")
    os.remove(dir .. "/tokenizer.model")
    refused("no tokenizer.json is there, and tekken.json is not read", grpo.tokenizer.load, dir)
    os.remove(dir .. "/tekken.json")
    refused("cannot open " .. dir .. "/tokenizer.json", grpo.tokenizer.load, dir)
    for _, name in ipairs { "spiece.model", "vocab.json", "vocab.txt" } do
      put(name, "x")
      refused("and " .. name .. " is not read; make a tokenizer.json", grpo.tokenizer.load, dir)
      os.remove(dir .. "/" .. name)
    end
    put("tokenizer.json", pointer)
    refused("tokenizer.json: it is a pointer of Git LFS", grpo.tokenizer.load, dir)
  end) end)
end)

describe("a model's generation_config.json", function()
  local note = require("grpo.models.generation_options").note
  local none = { temperature = 1.0, top_p = 1.0, top_k = 0, min_p = 0.0, repetition_penalty = 1.0 }

  -- The note about a file with this text; chosen: the options that the user has given.
  local function said(text, sampling, chosen)
    put("generation_config.json", text)
    return note(dir, sampling or none, function(name) return (chosen or {})[name] end, "X")
  end

  it("has its options named that are not followed", function() each(function()
    local qwen = '{"do_sample": true, "repetition_penalty": 1.05, "temperature": 0.7, '
      .. '"top_k": 20, "top_p": 0.8, "eos_token_id": [1, 2], "transformers_version": "4.51"}'
    assert.equal("of the model's generation_config.json this is not followed: repetition_penalty "
      .. "= 1.05, temperature = 0.7, top_k = 20, top_p = 0.8; X says how tokens are sampled",
      said(qwen))
    assert.matches("followed: repetition_penalty = 1.05, top_k = 20; X", said(qwen,
      { temperature = 0.7, top_p = 0.8 }))
    assert.matches("followed: top_k = 20; X", said(qwen, none,
      { temperature = true, top_p = true, repetition_penalty = true }))
    assert.is_nil(said('{"temperature": 1.0, "top_p": 1, "top_k": 0, "num_beams": 1, '
      .. '"bos_token_id": 1, "max_length": 4096, "suppress_tokens": []}'))
    assert.matches("followed: no_repeat_ngram_size = 3, num_beams = 4, suppress_tokens; X",
      said('{"num_beams": 4, "no_repeat_ngram_size": 3, "suppress_tokens": [1]}'))
    assert.matches("followed: do_sample = false; X",
      said('{"do_sample": false, "temperature": 0.6}'))
    assert.is_nil(said('{"do_sample": false}', { temperature = 0 }))
    assert.is_nil(said("[1"))
    assert.is_nil(note(dir .. "/nowhere", none, function() end, "X"))
  end) end)
end)
