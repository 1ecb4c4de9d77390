-- Code of a script as Python, TRL or C have it: the message says what Lua or this program has.

local advice = require "grpo.options.scripts.advice"
local annotations = require "grpo.base.annotations"
local core = require "grpo.core"
local foreign_arguments = require "grpo.options.scripts.foreign_arguments"
local foreign_functions = require "grpo.base.foreign_functions"
local foreign_syntax = require "grpo.options.scripts.foreign_syntax"
local data = require "grpo.data"
local grpo = require "grpo"

-- Returns what is said behind Lua's own message about a text that does not compile.
local function hint_of(text)
  local chunk, problem = load(text, "=my.lua", "t")
  if chunk then error("it compiles: " .. text) end
  local explained = foreign_syntax.explained(problem, text)
  assert.equal(problem, explained:sub(1, #problem))
  return explained:sub(#problem + 1)
end

local function block(form) return ("a block is %s ... end in Lua, without a colon"):format(form) end

local else_if = '"else if" is one word in Lua, elseif, or needs an end of its own'
local named = "named arguments are a table in Lua: f { a = 1 }"

describe("a text that does not compile", function()
  local cases = {
    ["if a != 1 then b() end"] = '"!=" is ~= in Lua',
    ["return a != 1 && b"] = '"!=" is ~= in Lua',
    ["if a && b then c() end"] = '"&&" is and in Lua',
    ["return a || b"] = '"||" is or in Lua',
    ["if !done then c() end"] = '"!" is not in Lua',
    ["return !f(x)"] = '"!" is not in Lua',
    ["f(a = 1)"] = named,
    ["return f(1, b = 2)"] = named,
    ["return grpo.experiment(\n  lr = 1,\n  steps = 2\n)"] = named,
    ["x += 1"] = 'Lua has no "+="; write x = x + 1',
    ["t.x[1] -= f(2)"] = 'Lua has no "+="; write x = x + 1',
    ["total /= #list"] = 'Lua has no "+="; write x = x + 1',
    ["i++"] = 'Lua has no "++"; write x = x + 1',
    ["if a then b() else if c then d() end"] = else_if,
    ["if a then\n  b()\nelse if c then\n  d()\nend"] = "line 3: " .. else_if,
    ["if a then b() elif c then d() end"] = '"elif" is elseif in Lua',
    ["# the reward"] = "a comment begins with -- in Lua",
    ["x = 1 # one"] = "a comment begins with -- in Lua",
    ["x = 1 // one two"] = "a comment begins with -- in Lua",
    ["// one two"] = "a comment begins with -- in Lua",
    ["/* one */ x = 1"] = "a comment of several lines is --[[ ... ]] in Lua",
    ["import torch"] = 'Lua loads a module with local name = require "name"',
    ["import numpy as np"] = 'Lua loads a module with local name = require "name"',
    ["from trl import GRPOTrainer"] = 'Lua loads a module with local name = require "name"',
    ["def f(x):\n  return x"] = "a function is function name(x) ... end in Lua",
    ["def f(x) -> int:\n  return x"] = "a function is function name(x) ... end in Lua",
    ["def f(x): return x"] = "a function is function name(x) ... end in Lua",
    ["class A:\n  pass"] = "Lua has tables and functions instead of classes",
    ["print x"] = "print is a function; write print(x)",
    ["x = [1, 2]"] = "a list is { 1, 2 } in Lua",
    ["f([a])"] = "a list is { 1, 2 } in Lua",
    ['x = {"a": 1}'] = "a table of names is { name = value } in Lua",
    ["x = {\n  a: 1,\n}"] = "a table of names is { name = value } in Lua",
    ["x = { a: 1 }"] = "a table of names is { name = value } in Lua",
    ["x = a if b else c"] = '"a if c else b" is c and a or b in Lua',
    ["x = b ? 1 : 2"] = '"c ? a : b" is c and a or b in Lua',
    ["f = lambda x: x + 1"] = '"lambda x: y" is function(x) return y end in Lua',
    ["return x is None"] = '"is None" is == nil in Lua',
    ["if x is not None then f() end"] = '"is not None" is ~= nil in Lua',
    ["x = '''a'''"] = "a text of several lines is [[ ... ]] in Lua",
    ['"""A docstring."""'] = "a text of several lines is [[ ... ]] in Lua",
    ["x = \u{201c}a\u{201d}"] = 'a text is in plain quotation marks, "..."',
    ["let x = 1"] = "a variable is local x = ... in Lua",
    ["float x = 1"] = "a variable is local x = ... in Lua",
    ["function f(x) {\n  return x\n}"] = "a function is function name(x) ... end in Lua",
    ["try:\n  x = 1\nexcept:\n  y = 2"] = "Lua catches errors with local ok, result = pcall(f, x)",
    ["for i in range(3): print(i)"] = block "for i, x in ipairs(list) do",
    ["while true:\n  f(1)\n  break"] = block "while x do",
    ["if x == 1:\n  f(1)\n"] = block "if x then",
  }
  for text, wanted in require("grpo.base.sorted")(cases) do
    it("is led to Lua: " .. text:gsub("\n", " "), function()
      local hint = hint_of(text)
      assert.equal("; " .. wanted, (hint:gsub("^; line %d+: ",
      wanted:find("^line") and "%0" or "; ")))
    end)
  end
  it("gets no hint where none is sure", function()
    for _, text in ipairs { "x = = 1", "local 1 = 2", "if a then b()", "x = 'open", "return )",
      "x = 1 2", "goto", "f(", "for i = 1 do end", "local function end", "x = 3 +", "a.b:c = 1",
      "return return", "local x <const = 1", "x = [[", "end" } do
      assert.equal("", hint_of(text))
    end
  end)
  it("is named at its own line in a long one", function()
    local text = ("f()\n"):rep(500) .. "if x != 2 then f() end\n" .. ("f()\n"):rep(500)
    assert.equal('; "!=" is ~= in Lua', hint_of(text))
  end)
  it("may be anything", function()
    local rng = core.rng(1, "user", 0, 0, 0)
    local pieces = { "if", "else", " ", "\n", "(", ")", "{", "}", "[", "]", "=", "!=", "x", "1",
    "'",
      '"', "#", "def f(x):", "print", ":", "lambda", "GRPOConfig(", "+=", "--", "//", "\0", "\xff" }
    for _ = 1, 300 do
      local parts = {}
      for i = 1, 1 + rng() * 20 // 1 do parts[i] = pieces[1 + rng() * #pieces // 1] end
      local text = table.concat(parts)
      local chunk, problem = load(text, "=my.lua", "t")
      if not chunk then assert.is_string((foreign_syntax.explained(problem, text))) end
    end
    local deep = "x = " .. ("GRPOConfig("):rep(15000)
    assert.is_string((foreign_syntax.explained(select(2, load(deep)), deep)))
    local wide = "x != " .. (" "):rep(150000)
    assert.is_string((foreign_syntax.explained(select(2, load(wide)), wide)))
  end)
end)

describe("a script of TRL", function()
  it("has its arguments answered in one go", function()
    local lines = foreign_arguments.block [==[
from trl import GRPOConfig, GRPOTrainer
args = GRPOConfig(
    output_dir="runs",       # where
    learning_rate=5e-6, lr_scheduler_type='constant_with_warmup', warmup_steps=10,
    per_device_train_batch_size=8, gradient_accumulation_steps=4, num_generations=16,
    bf16=True, fp16=False, report_to="none", seed=3, max_steps=None,
)
peft_config = LoraConfig(r=16, lora_alpha=64, target_modules=["q_proj", "k_proj"])
trainer = GRPOTrainer(model="Qwen/Qwen3-0.6B", reward_funcs=[f], args=args, train_dataset=dataset)
]==]
    local text = lines:match("in their place:\n(.*)\nand remove or write by hand:")
    assert.same({ name = "runs", seed = 3, compute = "bf16",
      model = { path = "Qwen/Qwen3-0.6B",
        lora = { rank = 16, alpha = 64, targets = { "q_proj", "k_proj" } } },
      sampling = { group_size = 16 }, log = { tensorboard = false },
      train = { prompts_per_step = 2, lr = "warmup:to=5e-6,steps=10" } },
      load("return {" .. text .. "}")())
    assert.matches("train_dataset: it is data.train here", lines)
    assert.matches("reward_funcs: write rewards = ", lines)
  end)
  it("says nothing of other classes", function()
    assert.is_nil(foreign_arguments.block "x = Other(learning_rate=1, beta=2)")
    assert.is_nil(foreign_arguments.block "x = 1")
  end)
end)

describe("a name that is not there", function()
  -- Runs a line as a script's and returns what is said of its error.
  local function said(code, env)
    local chunk = assert(load(code, "@no-such-file.lua", "t", core.strict(env or {}, _G)))
    local ok, err = core.protected(chunk)
    assert.is_false(ok)
    return advice.on(tostring(err))
  end
  local names = { "GRPOTrainer", "GRPOConfig", "AutoModelForCausalLM", "AutoTokenizer",
    "FastLanguageModel", "LoraConfig", "PeftModel", "get_peft_model", "BitsAndBytesConfig",
    "load_dataset", "Dataset", "TrainingArguments", "SFTTrainer", "torch", "np", "wandb", "None",
    "True", "False", "len", "range", "str", "int", "enumerate", "isinstance", "trainer", "model",
    "tokenizer", "dataset", "re", "json", "open", "pipeline", "set_seed", "LLM", "SamplingParams" }
  for _, name in ipairs(names) do
    it("is led to ours: " .. name, function()
      assert.matches("undefined global '" .. name .. "'; " .. name .. " is .* here$",
        said("return " .. name))
    end)
  end
  it("is led to a method", function()
    local model = grpo.model.new({ model_type = "llama", hidden_size = 8, intermediate_size = 8,
      num_hidden_layers = 1, num_attention_heads = 1, vocab_size = 10 }, {})
    local handles = { m = model, t = grpo.tokenizer.bytes(), x = grpo.zeros { 3 },
      d = data.list { { a = 1 } }, s = "text", o = grpo.optim.adamw }
    local cases = {
      ["m:save_pretrained('x')"] = "; save_pretrained is :save(directory) here",
      ["m:merge_and_unload()"] = "; merge_and_unload is :save(directory, { merge = true }) here",
      ["m:push_to_hub('x')"] = "; push_to_hub is 'grpo export', ",
      ["m:generat('x')"] = ", did you mean 'generate'?", ["m:sav('x')"] = ", did you mean 'save'?",
      ["m:ad_lora()"] = ", did you mean 'add_lora'?",
      ["t:apply_chat_template {}"] = "; apply_chat_template is tokenizer:chat(messages) here",
      ["t:batch_decode {}"] = "; batch_decode is ", ["t:encod('x')"] = ", did you mean 'encode'?",
      ["return t.eos_token_id"] = "; eos_token_id is tokenizer.eos here",
      ["x:bakward()"] = ", did you mean 'backward'?",
      ["x:tolist()"] = "; tolist is tensor:totable()",
      ["d:filtr(f)"] = ", did you mean 'filter'?", ["d:shufle(1)"] = ", did you mean 'shuffle'?",
      ["return s:strip()"] = '; strip is s:match("^%s*(.-)%s*$") here',
      ["return s:startswith('t')"] = "; startswith is s:sub(1, #p) == p here",
      ["return s:split(',')"] = "; split is for part in s:gmatch",
      ["return s + s"] = "; texts are joined with ..",
    }
    for code, wanted in pairs(cases) do
      local text = said(code:gsub("%f[%w_]f%f[^%w_]", "print"), handles)
      if not text:find(wanted, 1, true) then error(code .. ": " .. text) end
    end
  end)
  it("is the same message where nothing is known", function()
    for _, text in ipairs { "x.lua:1: boom", "undefined global 'zzzqqq'", "", "a\nb",
      "attempt to call a nil value (method 'zzzqqqxxx')",
      "attempt to index a nil value (field '?')" }
    do
      assert.equal(text, advice.on(text))
    end
  end)
  it("is not one that is there", function()
    for _, class in ipairs { "grpo.Model", "grpo.Tokenizer", "grpo.Tensor", "grpo.Dataset",
      "grpo.Trainer" } do
      local members = annotations.members(class)
      assert.is_not_nil(next(members))
      for name, m in pairs(members) do
        if m.f and foreign_functions.called_here(name) then
          assert.is_true(class ~= "grpo.Tensor" or name == "sum" or name == "abs" or name == "max"
            or name == "min" or name == "item", name)
        end
      end
    end
  end)
end)
