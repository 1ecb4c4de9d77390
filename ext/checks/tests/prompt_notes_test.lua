-- Notes on prompts, from `grpo check` and the start of a run, and variables of chat templates.

local grpo = require "grpo"
local core = require "grpo.core"
local data_checks = require "grpo.data_checks"
local preflight = require "grpo.loop.preflight"
local prompts = require "grpo.scoring.prompts"
local start = require "grpo.runs.start"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local shape = tiny.llama { hidden_size = 16, intermediate_size = 32, num_hidden_layers = 1,
  max_position_embeddings = 512 }
local SHOWS_ROLES = "{% for m in messages %}<|endoftext|>{{ m.role }}:{{ m.content }}{% endfor %}"
  .. "{% if add_generation_prompt %}<|endoftext|>assistant:{% endif %}"
local USER = { role = "user", content = "q" }

-- The rows are { prompt = } with these prompts.
local function experiment_of(list, template, change)
  local rows = {}
  for i, prompt in ipairs(list) do rows[i] = { prompt = prompt } end
  local t = {
    name = "tiny", model = { config = shape, tokenizer = grpo.tokenizer.bytes(),
      chat_template = template },
    data = { train = grpo.data.list(rows), max_prompt_tokens = 300, shuffle = false },
    sampling = { group_size = 2, max_new_tokens = 2 }, rewards = { as = tiny.count_a },
    train = { steps = 1, prompts_per_step = 1 },
  }
  if change then change(t) end
  return grpo.experiment(t)
end

-- Returns the findings of check about all rows, and its lines that begin with "note:".
local function check(e)
  local tr, findings, notes = trainer.new(e), {}, {}
  data_checks.run(e, tr.tokenizer, function(format, ...)
    local line = format:format(...)
    if line:find("^note:") then notes[#notes + 1] = line end
  end, findings)
  return table.concat(findings, "\n"), table.concat(notes, "\n")
end

local function at_start(e) return table.concat((preflight.run(trainer.new(e))), "\n") end

-- Both say this of the first row with the fault.
local function says(pattern, ...)
  local e = experiment_of(...)
  assert.matches(pattern, (check(e)))
  assert.matches(pattern, at_start(e))
end

local function silent(...)
  local e = experiment_of(...)
  assert.equal("", (check(e)))
  assert.equal("", at_start(e))
end

describe("a plain string for a model with a chat template", function()
  local plain = "data.train: the prompt of row 1.* is a plain string, but the model has a chat "
    .. "template"
  it("is said, by data.prompt and by a column", function()
    says(plain, { "hi", "ho" }, SHOWS_ROLES)
    says(plain, { "hi" }, "chatml")
    says(plain, { "hi" }, function() return "<< hi >>" end)
    says(plain, { "hi" }, SHOWS_ROLES, function(t)
      t.data.prompt = function(row) return row.prompt .. "?" end
    end)
    says(plain, { "hi" }, nil, function(t) t.model.tokenizer.chat_template = "mistral" end)
  end)
  it("is said of held-out rows and of supervised stages", function()
    says("data.eval: the prompt of row 1 is a plain string", { { USER } }, "chatml", function(t)
      t.data.eval = grpo.data.list { { prompt = "z" } }
    end)
    says(plain, { "hi" }, "chatml", function(t)
      t.data.target, t.stages = function() return "x" end, { { kind = "sft" } }
    end)
  end)
  it("is what was meant: no template, rendered text, ids, messages", function()
    silent({ "hi" })
    silent({ "hi" }, false, function(t) t.model.tokenizer.chat_template = "chatml" end)
    silent({ "<|endoftext|>user:hi<|endoftext|>assistant:" }, SHOWS_ROLES)
    silent({ "[INST] hi [/INST]" }, "mistral")
    silent({ { 104, 105 }, { USER } }, SHOWS_ROLES)
    silent({ "hi" }, "{% for m in messages %}{{ m.content }}{% endfor %}")
  end)
end)

describe("the end of a conversation", function()
  local second = "the prompt of row 2.* ends with a message of the assistant, behind which"
  it("is the assistant's, and the model begins a second message", function()
    says(second, { { USER }, { USER, { role = "assistant", content = "so" } } }, SHOWS_ROLES)
    says(second, { { USER }, { { from = "human", value = "q" }, { from = "gpt", value = "a" } } },
      "chatml")
    silent({ { USER, { role = "assistant", content = "so" } } },
      "{% for m in messages %}{{ m.role }}:{{ m.content }}{% endfor %}")
  end)
  it("is continued where the prompt is what tok:chat gives", function()
    silent({ "x" }, nil, function(t)
      local tok = t.model.tokenizer
      tok.chat_template = SHOWS_ROLES
      t.data.prompt = function(row)
        return tok:encode(tok:chat({ USER, { role = "assistant", content = row.prompt } },
          { continue_final_message = true }))
      end
    end)
  end)
end)

describe("messages", function()
  it("that the template leaves out are said", function()
    local some = "{% for m in messages %}{% if m.role == 'user' %}u:{{ m.content | trim }}"
      .. "{% elif m.role == 'system' %}s:{{ m.content }}{% endif %}{% endfor %}"
    says("row 2.* does not show message 1, because the chat template leaves out the role critic",
      { { USER }, { { role = "critic", content = "c" }, USER } }, some)
    silent({ { { role = "system", content = "s" }, { role = "user", content = " q " } } }, some)
  end)
  it("with a picture are said", function()
    says("has a part of type image in message 1, of which the model sees nothing",
      { { { role = "user", content = { { type = "image" }, { type = "text", text = "x" } } } } },
      "{% for m in messages %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endfor %}")
  end)
  it("of ShareGPT are converted with a note", function()
    local e = experiment_of({ { USER }, { { from = "human", value = "q" } } }, "chatml")
    local findings, notes = check(e)
    assert.equal("", findings)
    local converted = "data.train: the prompt of row 2 has messages of another form: message 1 is "
      .. "{ from, value }"
    assert.matches(converted, notes)
    assert.matches(converted, at_start(e))
  end)
  it("that cannot be read fail, with the number of the row", function()
    local bad = { { role = "user", content = core.json_null } }
    local e = experiment_of({ { USER }, bad, {} }, "chatml", function(t) t.train.steps = 2 end)
    assert.matches("data.prompt fails on 2 rows; the first is row 2: .*message 1 %(role user%) has "
      .. "no content", (check(e)))
    assert.matches("row 2 cannot be made, so that a step with it stops the run: data.prompt: "
      .. ".*message 1", at_start(e))
    local tr = trainer.new(e)
    tr:step()
    assert.error_matches(function() tr:step() end,
      "data.prompt: .*message 1 %(role user%) has no content, want {.*} %(row 2 of data.train%)")
  end)
  it("in a column of another name are led to", function()
    local e = experiment_of({ "x" }, "chatml", function(t)
      t.data.train = grpo.data.list { { conversations = { USER } } }
    end)
    assert.matches("write data.prompt = function%(row%) return row.conversations end", (check(e)))
  end)
  it("are refused as targets", function()
    for _, target in ipairs { { role = "assistant", content = "x" },
        { { role = "assistant", content = "x" } } } do
      local e = experiment_of({ { USER }, { USER } }, "chatml", function(t)
        t.data.target, t.stages = function() return target end, { { kind = "sft" } }
      end)
      assert.error_matches(function() trainer.new(e):step() end,
        "data.target: returned a message for a row, want its text: the content of the answer "
        .. "%(row 1 of data.train%)")
    end
  end)
  it("on which the template fails are named, also when they are held out", function()
    local e = experiment_of({ { USER } }, "{{ messages[0].content + messages[0].x }}", function(t)
      t.data.train = grpo.data.list { { prompt = { { role = "user", content = "q", x = "x" } } } }
      t.data.eval = grpo.data.list { { prompt = { { role = "user", content = "q", x = "x" } } },
        { prompt = { USER } } }
    end)
    local tr = trainer.new(e)
    tr:step()
    assert.error_matches(function() tr:evaluate() end, "%(row 2 of data.eval%)")
  end)
end)

describe("tools", function()
  local function with_tool(t)
    t.tools = { calc = { description = "computes", parameters = { x = "string" },
      fn = function() return "1" end } }
    t.turns = { format = "json" }
  end
  it("that nobody tells of are said", function()
    says("tools: the model is never told of calc, because the chat template does not show tools",
      { { { role = "user", content = "how to calc 1 + 1?" } } }, "chatml", with_tool)
    says("tools: the model is never told of calc, because the prompt is not a list of messages",
      { "what is 1 + 1?" }, nil, with_tool)
  end)
  it("that the template or the script tells of are not", function()
    silent({ { USER } }, "{{ tools | tojson }}{% for m in messages %}{{ m.content }}{% endfor %}",
      with_tool)
    silent({ { { role = "system", content = "Use calc." }, USER } }, SHOWS_ROLES, with_tool)
    silent({ { { role = "user", content = "Write calc(1) to compute." } } }, SHOWS_ROLES, with_tool)
    silent({ "You have calc. What is 1 + 1?" }, nil, with_tool)
    silent({ "what is 1 + 1?" }, nil, function(t)
      with_tool(t)
      t.data.target = function() return "<<calc 1+1>>" end
    end)
  end)
end)

describe("model.chat_template_kwargs", function()
  local thinks = "{{ x | tojson if x is defined }}{% if enable_thinking is defined and "
    .. "enable_thinking is false %}<no>{% endif %}{% for m in messages %}{{ m.content }}"
    .. "{% endfor %}"
  local function text_of(e, part)
    local tr, config = trainer.new(e), e.stages[1].config
    return prompts.render(config, tr.tokenizer, config.data[part or "train"][1], 1).text
  end
  local function set(kwargs)
    return function(t) t.model.chat_template_kwargs = kwargs end
  end
  it("reach the template, also as a function", function()
    assert.equal("q", text_of(experiment_of({ { USER } }, thinks)))
    assert.equal("<no>q", text_of(experiment_of({ { USER } }, thinks,
      set { enable_thinking = false })))
    assert.equal('{"a": [1, 2.5]}q', text_of(experiment_of({ { USER } }, thinks,
      set { x = { a = { 1, 2.5 } } })))
    assert.equal("v", text_of(experiment_of({ { USER } }, function(_, opts) return opts.vars.x end,
      set { x = "v" })))
    local own = experiment_of({ { USER } }, nil, function(t)
      t.model.tokenizer.chat_template = thinks
      t.model.chat_template_kwargs = { enable_thinking = false }
    end)
    assert.equal("<no>q", text_of(own))
  end)
  it("are refused where a value is not plain or has another place", function()
    for _, case in ipairs {
      { "chat_template_kwargs.x: got a function, want a string", { x = print } },
      { "chat_template_kwargs.x: got a table, want a string", { x = { print } } },
      { "chat_template_kwargs.x: got nan", { x = 0 / 0 } },
      { "chat_template_kwargs.1: does not name a variable", { "x" } },
      { "chat_template_kwargs.a.b: does not name a variable", { ["a.b"] = 1 } },
      { "chat_template_kwargs.tools: is not set here; set tools", { tools = {} } },
      { "chat_template_kwargs.messages: is not set here", { messages = {} } },
      { "chat_template_kwargs.continue_final_message: is not set here",
        { continue_final_message = true } },
      { "chat_template_kwargs: got 'x', want a table", "x" },
    } do
      assert.error_matches(function() experiment_of({ { USER } }, thinks, set(case[2])) end,
        case[1])
    end
    assert.error_matches(function() experiment_of({ { USER } }, true) end,
      "chat_template: got true")
  end)
  it("without an effect are said", function()
    says("model.chat_template_kwargs.y: has no effect, because the chat template does not read it",
      { { USER } }, thinks, set { y = 1 })
    says("model.chat_template_kwargs.x: has no effect, because data.prompt gives no messages",
      { "q" }, false, set { x = 1 })
    silent({ { USER } }, thinks, set { x = 1 })
  end)
  it("are recorded", function()
    local e = experiment_of({ { USER } }, thinks, set { enable_thinking = false })
    assert.same({ value = { enable_thinking = false }, origin = "script" },
      start.described(e).stages[1].options["model.chat_template_kwargs"])
  end)
  it("may differ from stage to stage, and one of a stage wins", function()
    local e = experiment_of({ { USER } }, thinks, function(t)
      t.model.chat_template_kwargs = { enable_thinking = false, x = 1 }
      t.stages = { { kind = "grpo" }, { kind = "grpo",
        model = { chat_template_kwargs = { enable_thinking = true } } } }
    end)
    assert.same({ enable_thinking = false, x = 1 }, e.stages[1].config.model.chat_template_kwargs)
    assert.same({ enable_thinking = true, x = 1 }, e.stages[2].config.model.chat_template_kwargs)
  end)
  it("false as a template refuses messages", function()
    assert.error_matches(function() text_of(experiment_of({ { USER } }, false)) end,
      "model.chat_template: is false, but data.prompt gives messages")
  end)
end)

-- A tokenizer that puts <s> before every text, in a directory.
local function with_begin_token()
  local vocab, added, n = { ["<s>"] = 0, ["<e>"] = 1, ["<unk>"] = 2 }, {}, 3
  for c in ("abcdefghijklmnopqrstuvwxyz :?\n"):gmatch(".") do
    vocab[c], n = n, n + 1
  end
  for i, text in ipairs { "<s>", "<e>", "<unk>" } do
    added[i] = { id = i - 1, content = text, single_word = false, lstrip = false, rstrip = false,
      normalized = false, special = true }
  end
  local null = core.json_null
  local path = tiny.path()
  core.fs.mkdirs(path)
  core.fs.write(path .. "/tokenizer.json", core.json_encode { version = "1.0", truncation = null,
    padding = null, added_tokens = added, normalizer = null, pre_tokenizer = { type = "Split",
      pattern = { Regex = "(?s)." }, behavior = "Isolated", invert = false },
    post_processor = { type = "TemplateProcessing",
      single = { { SpecialToken = { id = "<s>", type_id = 0 } }, { Sequence = { id = "A",
        type_id = 0 } }, { SpecialToken = { id = "<e>", type_id = 0 } } }, pair = {},
      special_tokens = { ["<s>"] = { id = "<s>", ids = { 0 }, tokens = { "<s>" } },
        ["<e>"] = { id = "<e>", ids = { 1 }, tokens = { "<e>" } } } },
    decoder = { type = "Fuse" }, model = { type = "WordLevel", vocab = vocab,
      unk_token = "<unk>" } })
  core.fs.write(path .. "/tokenizer_config.json",
    '{"bos_token": "<s>", "eos_token": "<e>", "unk_token": "<unk>"}')
  local tok = grpo.tokenizer.load(path)
  core.fs.remove_tree(path)
  return tok
end

describe("the tokens around a plain string", function()
  local tok = with_begin_token()
  local function seen(list, template)
    local e, shown = experiment_of(list, template, function(t)
      t.model.tokenizer = tok
      t.model.config = tiny.llama { hidden_size = 16, intermediate_size = 32, vocab_size = #tok,
        num_hidden_layers = 1, max_position_embeddings = 512, eos_token_id = 1 }
    end), {}
    e.stages[1].config.hooks = { on_rollout = function(b)
      local c = b.completions[1]
      shown = { c.prompt, c.plain_prompt }
    end }
    trainer.new(e):step()
    return e, shown
  end
  it("are in c.prompt, which is as the model saw it", function()
    local _, shown = seen { "hi" }
    assert.same({ "<s>hi<e>", "hi" }, shown)
    _, shown = seen { "" }
    assert.same({ "<s><e>", "" }, shown)
    _, shown = seen({ { USER } }, "<s>{% for m in messages %}{{ m.content }}{% endfor %}")
    assert.same({ "<s>q" }, shown)
    _, shown = seen { { 3, 4 } }
    assert.same({ "ab" }, shown)
  end)
  it("are two where the text has one already, which is said", function()
    local twice = "data.train: the prompt of row 1 begins with <s> twice, because "
    for _, case in ipairs { { "the text has it already", { "<s>hi" } },
        { "its ids have it twice", { { 0, 0, 5 } } },
        { "the chat template writes it twice", { { USER } },
          "<s>{% for m in messages %}<s>{{ m.content }}{% endfor %}" } } do
      local e = seen(case[2], case[3])
      assert.matches(twice .. case[1], (check(e)))
      assert.matches(twice .. case[1], at_start(e))
    end
    local _, shown = seen { "<s>hi" }
    assert.same({ "<s><s>hi<e>", "<s>hi" }, shown)
    assert.equal("", (check((seen { "hi" }))))
  end)
end)
