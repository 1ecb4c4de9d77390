-- The extension prompt without a terminal: views of values, completion, rows of .help.

local attach_server = require "grpo.commands.repl.attach_server"
local complete = require "grpo.commands.repl.complete"
local core = require "grpo.core"
local grpo = require "grpo"
local pretty = require "grpo.commands.repl.pretty"
local session = require "grpo.commands.repl.session"
local tiny = require "tests.lua.tiny"
local values = require "tests.lua.prompt_values"

local plain = values.plain
local tok = values.tok
local model = values.model
local trainer = values.trainer
local completion = values.completion

describe("a value at the prompt", function()
  it("of a tensor: shape, statistics, corners", function()
    local rows = {}
    for i = 1, 20 do
      rows[i] = {}
      for k = 1, 20 do rows[i][k] = 20 * (i - 1) + k end
    end
    local text = pretty.format(grpo.tensor(rows), plain)
    assert.matches("^tensor %[20, 20%] min 1 mean 200%.5 max 400\n", text)
    assert.matches("\n +1 +2 +3 +%.%.%. +18 +19 +20\n", text)
    assert.matches("\n +381 +382 +383 +%.%.%. +398 +399 +400$", text)
    assert.equal("tensor [0, 3]", pretty.format(grpo.zeros { 0, 3 }, plain))
    assert.matches("%[1, :, :%]", pretty.format(grpo.zeros { 2, 3, 4 }, plain))
    for line in pretty.format(grpo.zeros { 100, 100 }, { width = 40 }):gmatch("[^\n]+") do
      assert.is_true(#line <= 60, line)
    end
  end)

  it("of metrics, models, tokenizers, trainers, datasets", function()
    local tr = trainer()
    assert.matches("trainer of tiny at step 0\n  stage 1 of 1 %(grpo%), not begun",
      pretty.format(tr, plain))
    local text = pretty.format(tr:step(), plain)
    assert.matches("\nreward  ", text)
    assert.matches("rewards/digits/mean", text)
    local _, lines = text:gsub("\n", "")
    assert.is_true(select(2, pretty.format(tr.metrics, { width = 200 }):gsub("\n", "")) < lines)
    assert.matches("\n    layers %(2%)\n      self_attn\n        q_proj%.weight %[16, 16%]\n",
      pretty.format(model, plain))
    assert.matches("eos %d+ \"<|endoftext|>\"", pretty.format(tok, plain))
    assert.matches("%[1%] = { prompt = \"p\" }",
      pretty.format(grpo.data.list { { prompt = "p" } }, plain))
  end)

  it("of a completion: colours by probability, marks without them", function()
    local c = completion("12+3", { 0.95, 0.6, 0.1, 0.01 })
    local look = { width = 80, colour = true, tokenizer = tok }
    assert.matches("  1\27%[32m2\27%[0m\27%[35m%+\27%[0m\27%[31m3\27%[0m", pretty.format(c, look))
    local text = pretty.format(c, { width = 80, colour = false, tokenizer = tok })
    assert.matches("\n  12‹%+›‹3›\n", text)
    assert.matches("eos, 4 tokens | mean log%-probability", text)
    assert.is_nil(text:find("\27", 1, true))
  end)

  it("of a completion whose tokens are others', or of no tokenizer: the text", function()
    local c = completion("12", { 0.01, 0.01 })
    c.ids = { 0, 0 }
    assert.matches("\n  12$", pretty.format(c, { width = 80, tokenizer = tok }))
    assert.matches("\n  12$", pretty.format(completion("12", { 0.01, 0.01 }), plain))
  end)

  it("of a group: reward columns, total, advantage, length, finish, text", function()
    local group = {}
    for i = 1, 3 do
      group[i] = completion("1" .. i, { 0.5, 0.5 },
        { index = i, group = group, reward = i / 2, advantage = i - 2.0,
        rewards = { right = i == 3 and 1 or 0, format = i == 1 and grpo.none or 0.5 } })
    end
    local text = pretty.format(group, plain)
    assert.matches("#  format  right  total  advantage  length  finish  text\n", text)
    assert.matches("\n1 +%- +0 +0%.5 +%-1%.000 +2 +eos +11\n", text)
    assert.matches("\n3 +0%.5 +1 +1%.5 +%+1%.000 +2 +eos +13$", text)
    assert.matches("batch of step 5: 3 completions of 1 prompts",
      pretty.format({ completions = group, step = 4 }, plain))
  end)

  it("of ids: their pieces", function()
    local tokens = require("grpo.commands.repl.tokens").lister(nil, function() return tok end)
    assert.equal("2 tokens\n  id  piece\n   4  \"1\"\n   2  \"+\"",
      pretty.format(tokens("1+"), plain))
    assert.error_matches(function() tokens(5) end, "want a text, a list of ids")
  end)

  it("of a step's intermediates, and of what was scored again", function()
    local tr = trainer()
    tr:step()
    assert.matches("d loss/d logp", pretty.format(tr:inspect(2), { width = 120 }))
    assert.matches("tr:inspect%(i%) shows the tokens", pretty.format(tr:inspect(), { width = 120 }))
    local other = tr:rescore(function(text) return -select(2, text:gsub("%d", "")) end)
    assert.matches("^8 completions of step 1 scored again", pretty.format(other, plain))
    local dense = tr:rescore { d = { token_fn = function(c)
      local list = {}
      for k = 1, c.length do list[k] = k end
      return list
    end } }
    assert.equal("string", type(pretty.format(dense, plain)))
  end)

  it("of a step of ppo", function()
    local tr = trainer(function(t)
      t.train = nil
      t.stages = { { kind = "ppo", train = { steps = 2, prompts_per_step = 2, lr = 1e-3 } } }
    end)
    tr:step()
    assert.matches("completion 3 of step 1", pretty.format(tr:inspect(3), plain))
    assert.equal("string", type(pretty.format(tr:rescore(function(text) return #text end), plain)))
  end)
end)

describe("rows of .help", function()
  local function at(rows, name)
    for i, row in ipairs(rows) do
      if row[1] == name then return i end
    end
  end

  it("stand before the rows that they name", function()
    local own, attached = session.rows, attach_server.rows
    assert.equal(at(own, "tr:inspect(i)") - 1, at(own, "plot(name, ...)"))
    assert.equal(at(own, "Ctrl-C") - 1, at(own, "TAB"))
    assert.equal(at(attached, "weight(\"name\", x)") - 1, at(attached, "plot(name, ...)"))
    assert.equal("explains NAME; TAB completes a name", attached[at(attached, "?NAME")][2])
  end)
end)

describe("the annotation of plot", function()
  it("is there, and so is the function", function()
    assert(load(core.embedded "lua/grpo/meta/plot.lua"))
    assert.matches("\nfunction plot%(", core.embedded "lua/grpo/meta/plot.lua")
    local env = {}
    session.new { env = env }
    assert.equal("function", type(env.plot))
  end)
end)

describe("completion", function()
  local env = setmetatable({ grpo = grpo, m = model, tok = tok,
    list = { alpha = 1, beta = { gamma = 2 } } },
    { __index = _G })
  local function at(line, classes)
    local first, found = complete.at(line, env, classes)
    return table.concat(found, " "), line:sub(1, first - 1)
  end
  for line, wanted in pairs {
    ["m:gen"] = "generate",
    ["m.conf"] = "config",
    ["m.tokenizer:enc"] = "encode",
    ["x = m:co"] = "count",
    ["?m:scor"] = "score",
    ["list.beta.g"] = "gamma",
    ["list['al"] = "alpha",
    ["grpo.model."] = "clone load new",
    ["grpo.rand"] = "randn",
    ["schedule = grpo.schedule.cos"] = "cosine",
    ["('x'):re"] = "rep reverse",
    ["repe"] = "repeat",
    ["grpo.experiment { trai"] = "train = ",
    ["grpo.experiment { train = { cl"] = "clip =  clip_cov =  clip_high = ",
    ["grpo.experiment({ train = { clip = 1, cl"] = "clip_cov =  clip_high = ",
    ["return grpo.experiment { stages = { { kin"] = "kind = ",
    ["grpo.experiment { stages = { { train = { lr"] = "lr = ",
    ["grpo.experiment { rewards = { { wei"] = "weight = ",
    ["grpo.experiment { model = { lora = { ra"] = "rank = ",
    ["grpo.experiment { train = { loss = 'gs"] = "gspo' gspo_token'",
    ["grpo.experiment { train = { kl_in = "] = '"loss" "reward"',
    ["m:generate('x', { top"] = "top_k =  top_p = ",
    ["m:generate('x', { n = 1, temp"] = "temperature = ",
    ["m:generate('x')[1].lo"] = "logprobs",
    ["m:logits('1'):log_"] = "log_softmax",
    ["m:save('x', { format = 'ad"] = "adapter'",
    ["grpo.optim.adamw({}, { be"] = "beta1 =  beta2 = ",
    ["require 'rewards.gs"] = "rewards.gsm8k",
    ["require('grpo.sch"] = "grpo.schedule",
    ["-- m:gen"] = "",
    ["'m:gen' .. nothing.at.a"] = "",
    ["grpo.experiment { extends = 'configs/train/ds"] = "",
  } do
    it("of " .. line, function() assert.equal(wanted, (at(line))) end)
  end

  it("of what is in another process, by its class", function()
    local classes = { tr = "grpo.Trainer" }
    assert.equal("state step step_count stop", (at("tr.st", classes)))
    assert.equal("step stop", (at("tr:st", classes)))
    assert.equal("clip clip_cov clip_high", (at("tr.config.train.cl", classes)))
    assert.equal("logprobs", (at("tr.batch.completions[3].lo", classes)))
    assert.equal("completions", (at("tr.batch.co", classes)))
  end)

  it("of a trainer's live values", function()
    env.tr = trainer()
    assert.equal("clip clip_cov clip_high", (at("tr.config.train.cl")))
    env.tr:step()
    assert.equal("digits", (at("tr.batch.completions[1].rewards.di")))
    assert.equal("inspect", (at("tr:insp")))
  end)

  it("keeps what stands before the word", function()
    local found, before = at("m:generate('x', { temp")
    assert.equal("temperature = ", found)
    assert.equal("m:generate('x', { ", before)
  end)

  it("calls nothing of a script's", function()
    local called = false
    env.odd = setmetatable({}, { __index = function()
      called = true
    end, __pairs = function() called = true end })
    at("odd.x.y")
    at("odd.")
    assert.is_false(called)
  end)

  it("of file names inside strings", function()
    tiny.temporary(function(dir)
      assert(core.fs.mkdirs(dir))
      assert(core.fs.write(dir .. "/reward_one.lua", ""))
      for _, odd in ipairs { "\27]0;x\7", "\194\155", "\226\128\174", "\n" } do
        assert(core.fs.write(dir .. "/reward" .. odd .. ".lua", ""))
      end
      assert.equal(dir .. "/reward_one.lua", (at("dofile('" .. dir .. "/rew")))
    end)
  end)
end)
