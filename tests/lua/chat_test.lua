-- Conversations as texts.  The script tests/oracles/chat_rendering.py wrote tests/cases/chat, with
-- what transformers makes of each case.

local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local dir = "tests/cases/chat/"
local USER = { role = "user", content = "q" }

local function with_template(template)
  local tok = grpo.tokenizer.bytes()
  tok.chat_template = template
  return tok
end

-- The options of tok:chat that transformers' are.
local function options_of(given)
  return { continue_final_message = given.continue_final_message, tools = given.tools,
    generation_prompt = given.add_generation_prompt, documents = given.documents,
    vars = given.kwargs }
end

local function each(name, f)
  local n = 0
  for line in io.lines(dir .. name) do
    n = n + 1
    f(grpo.json.decode(line), n)
  end
  return n
end

describe("conversations as transformers renders them", function()
  it("continued, with switches, reasoning, tools and documents", function()
    local templates
    local n = each("cases.jsonl", function(case, line)
      if line == 1 then templates = case return end
      local name, messages, given, rendered = table.unpack(case)
      local tok = with_template(templates[name])
      local ok, text = pcall(tok.chat, tok, messages, options_of(given))
      assert.equal(rendered, ok and text, ("line %d: %s"):format(line, tostring(text)))
    end)
    assert.is_true(n > 200)
  end)

  it("with the templates of a directory, a list and an object", function()
    local n = each("loaded.jsonl", function(case)
      local tok = grpo.tokenizer.load(dir .. "templates/" .. case.directory)
      if case.template ~= core.json_null then tok.chat_template = case.template end
      assert.equal(case.rendered, tok:chat({ USER }, { tools = case.tools }))
    end)
    assert.is_true(n > 10)
  end)
end)

describe("the templates of a tokenizer", function()
  it("are saved with it", function()
    tiny.temporary(function(path)
      local tok = grpo.tokenizer.load(dir .. "templates/files")
      tok:save(path)
      local again = grpo.tokenizer.load(path)
      assert.equal("<s>Tq", again:chat({ USER }, { tools = { {} } }))
      assert.equal(core.fs.read(dir .. "templates/files/additional_chat_templates/rag.jinja"),
        core.fs.read(path .. "/additional_chat_templates/rag.jinja"))
      assert.is_false(core.fs.exists(path .. "/additional_chat_templates/notes.txt"))
    end)
  end)
  it("are saved with it where a script has set one", function()
    tiny.temporary(function(path)
      local tok = with_template("set {{ messages[0].content }}")
      tok:save(path .. "/set")
      assert.equal("set q", grpo.tokenizer.load(path .. "/set"):chat { USER })
      tok.chat_template = nil
      tok:save(path .. "/none")
      assert.is_nil(grpo.tokenizer.load(path .. "/none").chat_template)
      local own = grpo.tokenizer.load(dir .. "templates/files")
      own.chat_template = "chatml"
      own:save(path .. "/own")
      assert.equal("<|im_start|>user\nq<|im_end|>\n",
        grpo.tokenizer.load(path .. "/own"):chat { USER })
    end)
  end)
  it("may have no default", function()
    tiny.temporary(function(path)
      grpo.tokenizer.load(dir .. "templates/object"):save(path)
      assert(core.fs.write(path .. "/tokenizer_config.json",
        '{"chat_template": {"rag": "r{# #}"}}'))
      local tok = grpo.tokenizer.load(path)
      assert.error_matches(function() tok:chat { USER } end, "no default chat template")
      tok.chat_template = "rag"
      assert.equal("r", tok:chat { USER })
    end)
  end)
  it("are set by name, and a wrong name is refused", function()
    local tok = with_template("chatml")
    assert.equal("<|im_start|>user\nq<|im_end|>\n", tok:chat { USER })
    for name, advice in pairs { chatnl = "did you mean 'chatml'", ["{ x }"] = "known: chatml",
        [""] = "known: chatml" } do
      assert.error_matches(function() tok.chat_template = name end,
        "chat_template: %S.* is no Jinja template, nor the name of one, " .. advice)
    end
    assert.equal("<|im_start|>user\nq<|im_end|>\n", tok:chat { USER })
    tok.chat_template = nil
    assert.error_matches(function() tok:chat { USER } end,
      "no chat template; set tok.chat_template")
  end)
end)

describe("messages", function()
  local tok = with_template("{% for m in messages %}{{ m.role }}={{ m.content }};{% endfor %}")
  local function refused(messages, what)
    assert.error_matches(function() tok:chat(messages) end, what)
  end
  it("that no template can show are refused", function()
    refused({}, "messages: the list is empty")
    refused({ role = "user", content = "x" }, "messages: got one mapping, want a list")
    refused({ USER, {} }, "message 2 is a list, want {")
    refused({ USER, "x" }, "message 2 is a string, want {")
    refused({ core.json_null }, "message 1 is null, want {")
    refused({ { content = "x" } }, "message 1 has no role")
    refused({ { role = 5, content = "x" } }, "message 1 has no role")
    refused({ { role = "", content = "x" } }, "message 1 has no role")
    refused({ { role = "user" } }, "message 1 %(role user%) has no content")
    refused({ { role = "user", content = core.json_null } },
      "message 1 %(role user%) has no content")
    refused({ { role = "user", content = {} } }, "message 1 %(role user%) has no content")
    refused({ { role = "assistant" } }, "message 1 %(role assistant%) has no content")
    refused({ { role = "user", content = 5 } }, "has a number as its content")
    refused({ { role = "user", content = true } }, "has a boolean as its content")
    refused({ { role = "user", content = { text = "x" } } }, "has a table as its content")
    refused({ { role = "user", content = { { type = "text" } } } }, "whose part 1 has no text")
    refused({ { role = "user", content = { "x", 5 } } }, "whose part 2 is a number")
    refused({ { role = "user", content = print } }, "messages: a template cannot use a function")
    refused({ { from = "human" } }, "message 1 %(role user%) has no content")
    refused({ { value = "x" } }, "message 1 has no role")
  end)
  it("of ShareGPT are converted", function()
    assert.equal("system=s;user=a;assistant=b;tool=c;", tok:chat { { from = "system", value = "s" },
      { from = "human", value = "a" }, { from = "gpt", value = "b" },
      { from = "observation", value = "c" } })
    assert.equal("user=a;assistant=b;", tok:chat { { role = "human", content = "a" },
      { role = "gpt", content = "b" } })
    local own = with_template("{% for m in messages %}{{ 'H' if m.role == 'human' }}{% endfor %}")
    assert.equal("H", own:chat { { role = "human", content = "a" } })
  end)
  it("may have fields of their own, and calls in place of a content", function()
    local calls = { { type = "function", ["function"] = { name = "f", arguments = {} } } }
    assert.equal("user=q;assistant=;tool=1;", tok:chat {
      { role = "user", content = "q", weight = 1 },
      { role = "assistant", content = core.json_null, tool_calls = calls },
      { role = "tool", content = "1", tool_call_id = "x" } })
    assert.equal("assistant=;", tok:chat { { role = "assistant", reasoning = "r" } })
    assert.equal("tool={'a': 1};", tok:chat { { role = "tool", content = { a = 1 } } })
    assert.equal("user=;", tok:chat { { role = "user", content = "" } })
  end)
  it("are not changed by rendering", function()
    local message = { role = "assistant", content = { { type = "text", text = "x" } },
      thinking = "r" }
    tok:chat({ USER, message }, { continue_final_message = true })
    assert.same({ role = "assistant", content = { { type = "text", text = "x" } },
      thinking = "r" }, message)
  end)
  it("in parts are texts where the template takes them for texts", function()
    local parts = { { role = "user", content = { { type = "text", text = "a" }, { text = "b" },
      "c" } } }
    assert.equal("user=abc;", tok:chat(parts))
    assert.equal("user=xy;", tok:chat { { role = "user", content = { "x", "y" } } })
    local adds = with_template("{% for m in messages %}{{ '>' + m.content }}{% endfor %}")
    assert.equal(">abc", adds:chat(parts))
    local dumps = with_template("{% for m in messages %}{{ m.content | tojson }}{% endfor %}")
    assert.equal('"abc"', dumps:chat(parts))
    local knows = with_template(
      "{% for m in messages %}{% for p in m.content %}({{ p.text }}){% endfor %}{% endfor %}")
    assert.equal("(a)(b)(c)", knows:chat(parts))
    assert.equal("user=q;assistant=a", tok:chat({ USER, { role = "assistant",
      content = { { type = "text", text = "a" } } } }, { continue_final_message = true }))
  end)
  it("of a function are its own", function()
    local f = with_template(function(messages, opts) return messages.x .. (opts.vars.y or "") end)
    assert.equal("12", f:chat({ x = "1" }, { vars = { y = "2" } }))
  end)

  it("are those of one call, where it gives a template", function()
    local once = with_template "A{{ messages[0].content }}"
    assert.equal("Bq", once:chat({ USER }, { chat_template = "B{{ messages[0].content }}" }))
    assert.equal("Aq", once:chat { USER })
    assert.error_matches(function() once:chat({ USER }, { chat_template = 1 }) end,
      "is not a string")
  end)
end)
