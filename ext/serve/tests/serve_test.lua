-- The parts of grpo serve that need no server: requests, calls of tools, stop strings, the feed.

local Choice = require "grpo.serve.choice"
local calls = require "grpo.serve.calls"
local core = require "grpo.core"
local fields = require "grpo.serve.fields"
local grpo = require "grpo"
local prompt = require "grpo.serve.prompt"
local refusal = require "grpo.serve.refusal"
local schema = require "grpo.serve.schema"
local tiny = require "tests.lua.tiny"

local limits = { max_new_tokens = 64, max_prompt_tokens = 100 }

local function refused(kind, body)
  local ok, err = pcall(fields.read, kind, body, limits)
  assert.is_false(ok)
  local status, answer = refusal.answer(err)
  local made = core.json_decode(answer).error
  assert.equal(400, status)
  assert.equal("invalid_request_error", made.type)
  return made
end

describe("a request", function()
  it("has values of the right types", function()
    local read = fields.read("chat", '{"messages":[{"role":"user","content":"a"}],"stop":"x",'
      .. '"max_completion_tokens":7,"temperature":0.00001,"top_k":-1,"seed":-5,"tools":null}',
      limits)
    assert.same({ "x" }, read.stop)
    assert.equal(7, read.max_completion_tokens)
    assert.equal(0, read.temperature)
    assert.equal(0, read.top_k)
    assert.is_true(read.seed >= 0)
    assert.is_nil(read.tools)
  end)

  it("is refused with the name of the field", function()
    assert.equal("max_tokens", refused("text", '{"prompt":"a","max_tokens":65}').param)
    assert.equal("invalid_json", refused("text", "{").code)
    assert.equal("unknown_field", refused("text", '{"messages":[]}').code)
    assert.matches("did you mean 'temperature'", refused("chat", '{"temprature":1}').message)
    assert.matches("does not have it", refused("chat", '{"presence_penalty":1}').message)
    assert.equal("response_format",
      refused("chat", '{"response_format":{"type":"json_schema"}}').param)
    assert.equal("tool_choice", refused("chat", '{"tool_choice":"any"}').param)
    assert.equal("grammar", refused("text", '{"grammar":1}').param)
  end)

  it("may have no field beyond those", function()
    for _, body in ipairs { "1", '"a"', "[1]", "null", "true" } do refused("text", body) end
  end)
end)

-- Random texts of a grammar that a feed has sampled to their ends.
local function sampled(grammar, n)
  local tok = grpo.tokenizer.bytes()
  local model = grpo.model.new(tiny.llama { max_position_embeddings = 500 },
    { tokenizer = tok, seed = 1 })
  local feed <close> = core.feed(model, { sequences = 8, max_prompt_tokens = 4,
    max_new_tokens = 400 })
  local texts, o = {}, { max_new_tokens = 400, n = n, seed = 5, grammar = grammar }
  local job = feed:add({ 1 }, o)
  while feed:step() do end
  for k = 1, n do
    if job:finish(k) == "eos" then
      local ids = {}
      for i = 1, job:length(k) do ids[i] = job:token(k, i) end
      texts[#texts + 1] = tok:decode(ids, { skip_special = true })
    end
  end
  return texts
end

local function grammar_of(text)
  return assert(schema.grammar { schema = core.json_decode(text) })
end

describe("a schema", function()
  it("binds what is sampled", function()
    local texts = sampled(grammar_of [[{"type": "object", "title": "T", "required": ["z", "kind"],
      "properties": {"z": {"type": "integer"}, "a": {"type": ["boolean", "null"]},
        "kind": {"enum": ["x\"y", "\\", 3]}, "list": {"type": "array", "minItems": 1, "maxItems": 2,
        "items": {"anyOf": [{"type": "number"}, {"$ref": "#/$defs/word"}]}}},
      "$defs": {"word": {"type": "string", "minLength": 1, "maxLength": 3}}}]], 60)
    assert.is_true(#texts > 20, #texts .. " ended")
    local lists, without = 0, 0
    for _, text in ipairs(texts) do
      local value = core.json_decode(text)
      assert.equal("integer", math.type(value.z), text)
      assert.is_true(value.kind == 'x"y' or value.kind == "\\" or value.kind == 3, text)
      if value.list then
        lists = lists + 1
        assert.is_true(#value.list == 1 or #value.list == 2, text)
      else
        without = without + 1
      end
    end
    assert.is_true(lists > 0 and without > 0)
  end)

  it("may be any object, and lead to itself", function()
    for _, text in ipairs(sampled(assert(schema.grammar { object = true }), 40)) do
      assert.equal("{", text:sub(1, 1))
      core.json_decode(text)
    end
    for _, text in ipairs(sampled(grammar_of [[{"$ref": "#/$defs/n", "$defs": {"n": {
      "type": "object",
      "properties": {"next": {"$ref": "#/$defs/n"}}, "additionalProperties": false}}}]], 40)) do
      assert.is_nil((text:gsub("[%s{}:]", ""):gsub('"next"', ""):find "."), text)
    end
  end)

  it("is refused by the word that a grammar cannot hold to", function()
    for text, pattern in pairs {
      ['{"type": "string", "pattern": "a"}'] = "schema: 'pattern' is not supported",
      ['{"properties": {"a": {"minimum": 1}}}'] = "schema%.a: 'minimum' is not supported",
      ['{"type": "text"}'] = "type: 'text' is not a type of JSON",
      ['{"$ref": "#/x"}'] = "'#/x' is not a definition",
      ['{"anyOf": [{}], "type": "object"}'] = "'type' stands beside 'anyOf'",
      ['{"enum": []}'] = "enum: want a list", ['{"allOf": [{}, {}]}'] = "allOf: want one schema",
      ['{"required": ["a"]}'] = "'a' is none of its properties",
      ['{"type": "array", "minItems": -1}'] = "minItems: want an integer",
      ['{"type": "string", "maxLength": "0"}'] = "maxLength: want an integer",
      ['{"type": "array", "minItems": 2, "maxItems": 1}'] = "maxItems is below minItems",
      ['{"type": "string", "maxLength": "a"}'] = "maxLength: want an integer",
      ['{"items": 3}'] = "schema%.items: want a schema",
      ['{"type": null}'] = "'null' is not a type", ['{"required": [[1]]}'] = "'%[1%]' is none of",
      ['{"required": 3}'] = "required: want a list",
      ['{"anyOf": 3}'] = "anyOf: want a list", ['{"allOf": 3}'] = "allOf: want",
      ['{"properties": [1]}'] = "properties: want an object", ['{"type": []}'] = "type: the list",
      ['{"type": {}}'] = "type: the list", ['{"enum": 3}'] = "enum: want a list",
      [('{"items":'):rep(70) .. "{}" .. ("}"):rep(70)] = "nested more than 64 deep",
    } do
      local grammar, problem = schema.grammar { schema = core.json_decode(text) }
      assert.is_nil(grammar, text)
      assert.matches(pattern, problem)
    end
  end)

  it("of a tool's parameters makes a call that can be read", function()
    local tools = core.json_decode [[ [{"function": {"name": "add", "parameters": {
      "type": "object",
      "properties": {"a": {"type": "integer"}}, "required": ["a"]}}},
      {"function": {"name": "no"}}] ]]
    local texts, seen = sampled(assert(schema.grammar { tools = tools }), 40), {}
    for _, text in ipairs(texts) do
      local made = assert(calls.read(text, text, "x"), text)
      seen[made[1]["function"].name] = true
      assert.equal(1, #made)
    end
    assert.is_true(seen.add and seen.no)
  end)
end)

describe("calls of tools", function()
  it("become calls of the protocol, with the text before them", function()
    local text = 'Let me see. <tool_call>\n{"name": "add", "arguments": {"b": 2, "a": 1}}\n'
      .. "</tool_call>"
    local made, before = calls.read(text, text, "x")
    assert.equal("Let me see.", before)
    assert.equal("add", made[1]["function"].name)
    assert.same({ a = 1, b = 2 }, core.json_decode(made[1]["function"].arguments))
    assert.equal("call_x_1", made[1].id)
  end)

  it("may be several, and without arguments", function()
    local text = '<tool_call>{"name":"a"}</tool_call>'
      .. '<tool_call>{"name":"b","arguments":{}}</tool_call>'
    local made, before = calls.read(text, text, "x")
    assert.equal(2, #made)
    assert.equal("{}", made[1]["function"].arguments)
    assert.equal("", before)
    assert.equal("{}", made[2]["function"].arguments)
  end)

  it("are text where one cannot be read", function()
    for _, text in ipairs { "no call", "<tool_call>{</tool_call>", "<tool_call>",
      '<tool_call>{"name":1}</tool_call>' } do
      assert.is_nil((calls.read(text, text, "x")))
    end
  end)
end)

-- A job whose tokens are the bytes of a text.
local function job_of(text)
  local job = { n = 0, text = text }
  function job:length() return self.n end
  function job:token(_, i) return self.text:byte(i), -1.0 end
  function job:finish() return self.n == #self.text and "stop" or nil end
  return job
end

describe("a completion", function()
  local tok = grpo.tokenizer.bytes()

  -- The pieces that a client gets, one for each token.
  local function pieces(text, stop)
    local job, list = job_of(text), {}
    local choice = Choice.new(tok, job, 1, stop)
    for n = 1, #text do
      job.n = n
      list[n] = choice:advance()
    end
    return list, choice
  end

  it("is held back where a stop string may begin", function()
    local list, choice = pieces("abXYcXYZd", { "XYZ" })
    assert.same({ "a", "b", "", "", "XYc", "", "", "", "" }, list)
    assert.equal("abXYc", choice:text())
  end)

  it("shows what was held back at its end", function()
    local list = pieces("abXY", { "XYZ", "Y?" })
    assert.equal("abXY", table.concat(list))
  end)

  it("is cut at the first of several stop strings", function()
    local _, choice = pieces("one two three", { "three", "two" })
    assert.equal("one ", choice:text())
  end)

  it("has whole characters in its pieces", function()
    local list = pieces("a\u{20ac}b", {})
    assert.same({ "a", "", "", "\u{20ac}", "b" }, list)
  end)
end)

describe("a prompt", function()
  local tok = grpo.tokenizer.bytes()
  tok.chat_template = "chatml"
  local server = { tokenizer = tok, template = tok.chat_template, variables = {}, vocab_size = 258,
    limits = limits }

  it("is ids, a text, or a list of either", function()
    assert.same({ { 97 } }, prompt.text(server, { prompt = "a" }))
    assert.same({ { 1, 2 } }, prompt.text(server, { prompt = { 1, 2 } }))
    assert.same({ { 97 }, { 3 } }, prompt.text(server, { prompt = { "a", { 3 } } }))
    assert.has_error(function() prompt.text(server, { prompt = { 258 } }) end)
  end)

  it("is rendered from messages, whose calls have their arguments as texts", function()
    local message = { role = "assistant", content = "x", tool_calls = {
      { ["function"] = { name = "f", arguments = '{"a":1}' } } } }
    local ids = prompt.chat(server, { messages = { { role = "user", content = "hi" }, message } })
    assert.matches("<|im_start|>assistant\n$", tok:decode(ids, { skip_special = false }))
    assert.same({ a = 1 }, message.tool_calls[1]["function"].arguments)
  end)
end)

describe("core.feed", function()
  local tok = grpo.tokenizer.bytes()
  local model = grpo.model.new({ model_type = "llama", hidden_size = 16, intermediate_size = 16,
    num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 64,
    initializer_range = 0.5 }, { tokenizer = tok, seed = 1 })

  local function drain(feed) while feed:step() do end end

  it("gives what generate gives, for requests of different kinds", function()
    local feed <close> = core.feed(model, { sequences = 4, max_prompt_tokens = 20,
      max_new_tokens = 16 })
    local first = feed:add({ 1, 2, 3 }, { max_new_tokens = 9, seed = 5, n = 2, top_logprobs = 3 })
    feed:step()
    local second = feed:add({ 7 }, { max_new_tokens = 4, temperature = 0 })
    drain(feed)
    for job, o in pairs { [first] = { { 1, 2, 3 }, { max_new_tokens = 9, seed = 5, n = 2 } },
      [second] = { { 7 }, { max_new_tokens = 4, temperature = 0 } } } do
      for k, c in ipairs(model:generate(o[1], o[2])) do
        assert.equal(#c.ids, job:length(k))
        assert.equal(c.finish, job:finish(k))
        for i, id in ipairs(c.ids) do
          local got, logprob = job:token(k, i)
          assert.equal(id, got)
          assert.equal(c.logprobs[i], logprob)
        end
      end
    end
    local ids, logprobs = first:top(1, 1)
    assert.equal(3, #ids)
    assert.is_true(logprobs[1] >= logprobs[2] and logprobs[2] >= logprobs[3])
  end)

  it("has places for as many prompts as sequences", function()
    local feed <close> = core.feed(model, { sequences = 2, max_prompt_tokens = 20,
      max_new_tokens = 16 })
    local a = feed:add({ 1 }, { max_new_tokens = 8 })
    assert.is_truthy(a and feed:add({ 2 }, { max_new_tokens = 8 }))
    assert.is_nil(feed:add({ 3 }, { max_new_tokens = 8 }))
    feed:drop(a)
    feed:drop(a)
    assert.is_truthy(feed:add({ 3 }, { max_new_tokens = 8 }))
    drain(feed)
  end)

  it("binds a request to its grammar, as alone, and no other", function()
    local letters = grpo.tokenizer.chars "abc"
    local of_letters = grpo.model.new(tiny.llama(), { tokenizer = letters, seed = 1 })
    local feed <close> = core.feed(of_letters, { sequences = 4, max_prompt_tokens = 4,
      max_new_tokens = 16 })
    local jobs, options = {}, {}
    for i, grammar in ipairs { 'root ::= "a" | "b"+ "c"', 'root ::= "a" "d"', false } do
      options[i] = { max_new_tokens = 6, seed = i, grammar = grammar or nil }
      jobs[i] = feed:add({ 1 }, options[i])
    end
    drain(feed)
    assert.equal("length", jobs[2]:finish(1)) -- no token has a d
    assert.equal(1, jobs[2]:length(1))
    for i = 1, 3, 2 do
      local alone = of_letters:generate({ { 1 } }, options[i])[1]
      assert.equal(#alone.ids, jobs[i]:length(1))
      for k, id in ipairs(alone.ids) do assert.equal(id, (jobs[i]:token(1, k))) end
    end
  end)

  it("refuses what does not fit, and is closed once", function()
    local feed = core.feed(model, { sequences = 1, max_prompt_tokens = 4, max_new_tokens = 4 })
    assert.has_error(function() feed:add({ 1, 2, 3, 4, 5 }, {}) end)
    assert.has_error(function() feed:add({}, { max_new_tokens = 2 }) end)
    assert.has_error(function() feed:add({ 1 }, { max_new_tokens = 5 }) end)
    assert.has_error(function() feed:add({ 1 }, { max_new_tokens = 2, grammar = "x" }) end)
    assert.has_error(function() feed:add({ 1 }, { max_new_tokens = 2, presence = 1 }) end)
    assert.has_error(function() feed:add({ 300 }, { max_new_tokens = 2 }) end)
    local job = feed:add({ 1 }, { max_new_tokens = 2 })
    feed:close()
    feed:close()
    assert.has_error(function() feed:step() end)
    assert.equal(0, job:length(1))
  end)
end)
