-- grpo.reward_model: tiny checkpoints of tests/cases/classifier, whose logits transformers computed
-- (tests/oracles/classifiers.py).

local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local message_of = tiny.message_of

local function dir(name) return "tests/cases/classifier/" .. name end

local rows = {}
for line in io.lines("tests/cases/classifier/logits.jsonl") do
  local row = grpo.json.decode(line)
  rows[row.model] = rows[row.model] or {}
  table.insert(rows[row.model], row)
end

-- 40 tokens, as the checkpoints have: characters, and the special tokens that it adds
local letters = "abcdefghijklmnopqrstuvwxyz .,:!?0"
local tokenizer = grpo.tokenizer.chars(letters)

local function near(want, got)
  assert.equal(#want, #got)
  for i, x in ipairs(want) do assert.near(x, got[i], 1e-5) end
end

describe("a reward model", function()
  it("gives the logits of transformers", function()
    for name, list in pairs(rows) do
      local judge = grpo.reward_model(dir(name), { label = name == "qwen2" and "good"
        or name == "gemma2" and "LABEL_1" or nil })
      local texts = {}
      for i, row in ipairs(list) do texts[i] = row.ids end
      for i, logits in ipairs(judge:logits(texts)) do near(list[i].logits, logits) end
      assert.equal(14, #texts)
    end
  end)

  it("gives one label's logit or probability", function()
    local ids, logits = rows.qwen2[8].ids, rows.qwen2[8].logits
    local sum = 0.0
    for _, x in ipairs(logits) do sum = sum + math.exp(x) end
    for i, label in ipairs { "bad", "fair", "good" } do
      local judge = grpo.reward_model(dir "qwen2", { label = label })
      assert.same({ "bad", "fair", "good" }, judge.labels)
      near({ logits[i] }, judge:score { ids })
      judge = grpo.reward_model(dir "qwen2", { label = label, output = "probability" })
      near({ math.exp(logits[i]) / sum }, judge:score { ids })
    end
    local one = rows.llama[8]
    local judge = grpo.reward_model(dir "llama", { output = "probability" })
    assert.same({ "LABEL_0" }, judge.labels)
    near({ 1 / (1 + math.exp(-one.logits[1])) }, judge:score { one.ids })
    assert.equal("grpo.RewardModel of 1 label", tostring(judge))
  end)

  it("takes labels that do not exclude each other one by one", function()
    local copy = tiny.path()
    assert(core.fs.mkdirs(copy))
    local config = grpo.json.decode(core.fs.read(dir "qwen2" .. "/config.json"))
    config.problem_type = "multi_label_classification"
    assert(core.fs.write(copy .. "/config.json", grpo.json.encode(config)))
    assert(core.fs.write(copy .. "/model.safetensors",
      core.fs.read(dir "qwen2" .. "/model.safetensors")))
    local judge = grpo.reward_model(copy, { label = "fair", output = "probability" })
    near({ 1 / (1 + math.exp(-rows.qwen2[8].logits[2])) }, judge:score { rows.qwen2[8].ids })
    core.fs.remove_tree(copy)
  end)

  it("reads texts with its tokenizer, and messages with its chat template", function()
    local own = grpo.tokenizer.chars(letters)
    own.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}! {% endfor %}"
    local judge = grpo.reward_model(dir "llama", { tokenizer = own })
    local ids = own:encode("good day", { special = true })
    near(judge:score { ids }, judge:score { "good day" })
    local messages = { { role = "user", content = "hi" }, { role = "assistant", content = "ho" } }
    near(judge:score { own:encode("user: hi! assistant: ho! ") }, judge:score { messages })
    assert.matches("needs a tokenizer", message_of(function()
      grpo.reward_model(dir "llama"):score { "text" }
    end))
  end)

  it("says what is wrong in one line", function()
    assert.matches("qwen2 has the labels bad, fair, good; say whose logit is the reward",
      message_of(grpo.reward_model, dir "qwen2"))
    assert.matches("has no label \"god\", did you mean 'good'", message_of(grpo.reward_model,
      dir "qwen2", { label = "god" }))
    assert.matches("reward_model.lable: unknown option, did you mean 'label'",
      message_of(grpo.reward_model, dir "qwen2", { lable = "good" }))
    assert.matches("output: must be one of logit, probability",
      message_of(grpo.reward_model, dir "qwen2", { output = "logits" }))
    assert.matches("nowhere: no such model directory", message_of(grpo.reward_model, "nowhere"))
    local judge = grpo.reward_model(dir "llama")
    assert.matches("texts%[2%]: is empty", message_of(judge.logits, judge, { { 1 }, {} }))
    assert.matches("id 40", message_of(judge.logits, judge, { { 40 } }))
    local long = {}
    for i = 1, 65 do long[i] = 5 end
    assert.matches("text 2 has 65 tokens, but the classifier's context is 64",
      message_of(judge.logits, judge, { { 1 }, long }))
  end)

  it("is not taken for a policy, nor a language model for a reward model", function()
    assert.matches("is a classifier or a reward model, because it has 'score.weight'.*"
      .. "grpo.reward_model loads it", message_of(grpo.model.load, dir "llama"))
    local lm = tiny.path()
    grpo.model.new(tiny.llama { vocab_size = 40, hidden_size = 16 }, { tokenizer = tokenizer })
      :save(lm)
    assert.matches("has no 'score.weight', so it is neither a classifier nor a reward model",
      message_of(grpo.reward_model, lm))
    core.fs.remove_tree(lm)
  end)
end)

describe("a reward model's group_fn", function()
  local shape = tiny.llama { hidden_size = 16, intermediate_size = 32, initializer_range = 0.3 }
  local experiment = tiny.experiments(function()
    return {
      name = "judged", seed = 3, model = { config = shape, tokenizer = tokenizer },
      data = { train = grpo.data.list { { prompt = "hi " }, { prompt = "abc" } },
        max_prompt_tokens = 12 },
      sampling = { group_size = 4, max_new_tokens = 6 },
      train = { steps = 1, prompts_per_step = 2, lr = 1e-2 },
    }
  end)

  it("scores groups as the reward of a step: prompt and completion", function()
    local judge = grpo.reward_model(dir "llama", { tokenizer = tokenizer })
    local tr = grpo.trainer(experiment(function(t)
      t.rewards = { judge = { group_fn = judge.group_fn }, itself = judge,
        double = { fn = function(_, _, c)
          return 2 * judge:score({ c.prompt .. c.text })[1]
        end } }
    end))
    tr:step()
    assert.equal(8, #tr.batch.completions)
    for _, c in ipairs(tr.batch.completions) do
      near(judge:score { c.prompt .. c.text }, { c.rewards.judge })
      assert.equal(c.rewards.judge, c.rewards.itself)
      assert.near(2 * c.rewards.judge, c.rewards.double, 1e-5)
    end
  end)

  it("scores conversations in its own template, or what `text` makes", function()
    local judges = { answer = { text = function(c) return "is this good: " .. c.text end },
      whole = {} }
    local own = grpo.tokenizer.chars(letters)
    own.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}! {% endfor %}"
    for name, o in pairs(judges) do
      o.tokenizer = own
      judges[name] = grpo.reward_model(dir "llama", o)
    end
    local policys = grpo.tokenizer.chars(letters)
    policys.chat_template = "{% for m in messages %}{{ m.content }}{% endfor %}"
    local tr = grpo.trainer(experiment(function(t)
      t.model.tokenizer = policys
      t.data.train = grpo.data.list {
        { prompt = { { role = "user", content = "hello" } } },
        { prompt = { { role = "user", content = "a b c" } } } }
      t.rewards = { { name = "answer", group_fn = judges.answer.group_fn },
        { name = "whole", group_fn = judges.whole.group_fn } }
    end))
    tr:step()
    for _, c in ipairs(tr.batch.completions) do
      near(judges.answer:score { "is this good: " .. c.text }, { c.rewards.answer })
      near(judges.whole:score { own:encode(("user: %s! assistant: %s! ")
        :format(c.messages[1].content, c.text)) }, { c.rewards.whole })
    end
  end)
end)
