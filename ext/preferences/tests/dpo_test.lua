-- kind = "dpo": its gradient against one written with tensors, what a run learns, and refusals.

local core = require "grpo.core"
local grpo = require "grpo"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local tok = grpo.tokenizer.chars("0123456789+=")
local shape = tiny.llama { max_position_embeddings = 24 }

-- Pairs whose chosen text is the sum and whose rejected one is longer and wrong.
local rows = {}
for a = 0, 9 do
  for b = 0, 4 do
    rows[#rows + 1] = { prompt = ("%d+%d="):format(a, b), chosen = tostring(a + b),
      rejected = tostring((a + b + 3) % 10) .. "00" }
  end
end

-- The rows that have one of these texts and a label each.
local labelled = {}
for _, row in ipairs(rows) do
  labelled[#labelled + 1] = { prompt = row.prompt, completion = row.chosen, label = true }
  labelled[#labelled + 1] = { prompt = row.prompt, completion = row.rejected, label = false }
end

local experiment, run = tiny.experiments(function()
  return {
    model = { config = shape, tokenizer = tok },
    data = { train = grpo.data.list(rows), max_prompt_tokens = 8 },
    sampling = { max_new_tokens = 6 },
    train = { steps = 12, prompts_per_step = 8, lr = 3e-3 },
    stages = { { kind = "dpo" } },
    log = { tensorboard = false },
  }
end)

local function refused(pattern, change, f)
  tiny.refused(pattern, f or experiment, change)
end

-- ---- the gradient -------------------------------------------------------------------------------

-- The sum of log p over the tokens of a text behind a prompt, with a gradient if `grad`.
local function logp(model, prompt, text, grad)
  local ids = tok:encode(text)
  ids[#ids + 1] = tok.eos
  local scored = model:score({ tok:encode(prompt, { special = true }) }, { ids }, { grad = grad })
  return scored.logp:sum()
end

describe("a step of preferences", function()
  it("has the gradient of the loss in tensors", function()
    local beta, n = 0.5, 3
    local function new()
      local tr = trainer.new(experiment(function(t)
        t.data.shuffle, t.train.prompts_per_step, t.train.lr = false, n, 0
        t.train.max_grad_norm, t.reference, t.train.dpo = 0, "random", { beta = beta }
      end))
      tr:begin_stage(1)
      return tr
    end
    local tr, other, loss, got = new(), new(), 0, {}
    local m = tr:step()
    for name, t in tr.model:parameters() do got[name] = t.grad:totable() end
    for i = 1, n do
      local row = rows[i]
      local function difference(model, grad)
        return logp(model, row.prompt, row.chosen, grad)
          - logp(model, row.prompt, row.rejected, grad)
      end
      local ref = grpo.no_grad(function()
        return difference(other.stage.reference, false):item()
      end)
      local z = (difference(other.model, true) - ref) * beta
      loss = ((-z):exp() + 1):log() / n + loss
    end
    assert.near(loss:item(), m.loss, 1e-5)
    loss:backward()
    local function compare(name, a, b)
      if type(a) ~= "table" then return assert.near(a, b, 1e-5, name) end
      for i = 1, #a do compare(name, a[i], b[i]) end
    end
    for name, t in other.model:parameters() do compare(name, t.grad:totable(), got[name]) end
  end)

  it("has a loss of log 2 where the policy is the reference", function()
    local _, list = run(function(t) t.train.steps = 1 end)
    assert.near(math.log(2), list[1].loss, 1e-12)
    assert.equal(0, list[1]["rewards/margins"])
    assert.equal(0, list[1].ratio_max_deviation)
  end)

  for _, name in ipairs(require("grpo.preferences.losses").names) do
    it("learns to tell texts apart: " .. name, function()
      local unpaired = name == "kto" or name == "apo_zero_unpaired"
      local tr, list = run(function(t)
        t.train.dpo = { loss_type = name, beta = 0.5, label_smoothing = 0.05 }
        if unpaired then t.data.train = grpo.data.list(labelled) end
      end)
      local first, last = list[1], list[#list]
      assert.is_true(last.loss < first.loss, ("%g, %g"):format(first.loss, last.loss))
      if not unpaired then assert.is_true(last["rewards/accuracies"] >= 0.8) end
      assert.is_true(last["logps/chosen"] > last["logps/rejected"])
      local alone = name == "sft" or name == "simpo" or name == "orpo"
      assert.equal(alone, tr.stage.reference == nil)
      assert.equal(0.5, last.beta)
    end)
  end

  it("shows the tokens of a step in a second, not those of the run", function()
    for _, name in ipairs { "dpo", "reward" } do
      local line = require("grpo.steps." .. name).line(nil, { loss = 1.0, accuracy = 1.0,
        margin = 0.5, num_tokens = 9000, trained_tokens = 30, step_time = 0.5 })
      assert.matches("| 60 tokens/s$", line)
    end
  end)

  it("adds several losses", function()
    local function first(dpo)
      return select(2, run(function(t) t.train.steps, t.train.dpo = 1, dpo end))[1]
    end
    local both = first { loss_type = { "sigmoid", "sft" }, loss_weights = { 0.5, 2 } }
    local one, other = first {}, first { loss_type = "sft" }
    assert.near(0.5 * one.loss + 2 * other.loss, both.loss, 1e-9)
  end)

  it("weighs pairs as WPO does", function()
    local tr = trainer.new(experiment(function(t)
      t.data.shuffle, t.train.prompts_per_step, t.train.lr = false, 1, 0
      t.train.dpo = { use_weighting = true }
    end))
    local row, weight = rows[1], 1.0
    for _, text in ipairs { row.chosen, row.rejected } do
      local ids = tok:encode(text)
      ids[#ids + 1] = tok.eos
      local prompt = tok:encode(row.prompt, { special = true })
      local whole = table.move(ids, 1, #ids, #prompt + 1, table.move(prompt, 1, #prompt, 1, {}))
      local logits = grpo.no_grad(function() return tr.model:logits(whole) end)
      local sum = 0.0
      for t, id in ipairs(ids) do
        local p = logits:narrow(1, #prompt + t - 1, 1):softmax(-1):reshape { #tok }:totable()
        local squares = 0.0
        for _, q in ipairs(p) do squares = squares + q * q end
        sum = sum + math.log(p[id + 1]) - math.log(squares)
      end
      weight = weight * math.exp(sum / #ids)
    end
    assert.near(weight * math.log(2), tr:step().loss, 1e-5)
  end)

  it("measures held-out pairs", function()
    local tr = trainer.new(experiment(function(t)
      t.data.eval, t.train.steps, t.train.dpo = grpo.data.list(rows), 30, { beta = 0.5 }
    end))
    local before = tr:evaluate()
    assert.near(math.log(2), before["eval/loss"], 1e-12)
    tiny.steps(tr)
    local after = tr:evaluate()
    assert.is_true(after["eval/loss"] < 0.4 and after["eval/rewards/accuracies"] > 0.9)
    assert.equal(#rows, after.n)
  end)

  it("resumes from a checkpoint bit for bit", function()
    for _, loss in ipairs { "sigmoid", "kto" } do
      local dir = tiny.path()
      local function change(t)
        t.train.steps, t.train.dpo = 4, { loss_type = loss, beta = function(p)
          return 0.1 + p.step / 10
        end }
        if loss == "kto" then t.data.train = grpo.data.list(labelled) end
      end
      local straight = trainer.new(experiment(change))
      straight:step()
      straight:step()
      straight:save(dir)
      local resumed = trainer.new(experiment(change), { from = dir })
      for _ = 3, 4 do
        local a, b = straight:step(), resumed:step()
        for _, name in ipairs { "loss", "grad_norm", "rewards/margins", "beta" } do
          assert.equal(a[name], b[name], name)
        end
      end
      assert.equal(tiny.weights(straight), tiny.weights(resumed))
      core.fs.remove_tree(dir)
    end
  end)

  it("takes the base of an adapter as its reference", function()
    tiny.temporary(function(dir)
      local base = tiny.with(shape, { vocab_size = #tok })
      grpo.model.new(base, { seed = 3, tokenizer = tok }):save(dir)
      local tr, list = run(function(t)
        t.model, t.train.dpo = { path = dir, lora = { rank = 4 } }, { beta = 0.5 }
      end)
      assert.near(math.log(2), list[1].loss, 1e-12)
      assert.is_true(list[#list].loss < 0.6)
      assert.is_false(tr.stage.keeps_reference)
    end)
  end)
end)

-- ---- rows ---------------------------------------------------------------------------------------

describe("a row of preferences", function()
  local chat = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
    .. "{% if add_generation_prompt %}<assistant>{% endif %}"

  local function first_loss(list, change)
    local _, steps = run(function(t)
      t.data.train, t.train.steps, t.train.prompts_per_step = grpo.data.list(list), 1, 1
      t.train.dpo = { loss_type = "sft" }
      if change then change(t) end
    end)
    return steps[1].loss
  end

  it("may be ids, strings, or the answer of a function", function()
    local text = first_loss { { prompt = "1+1=", chosen = "2", rejected = "3" } }
    local two = tok:encode("2")[1]
    assert.equal(text, first_loss { { prompt = "1+1=", chosen = { two, tok.eos },
      rejected = { two } } })
    assert.equal(text, first_loss({ { prompt = "1+1=", good = "2", bad = "3" } }, function(t)
      t.data.pair = function(row) return { chosen = row.good, rejected = row.bad } end
    end))
  end)

  it("may be messages, with the prompt within them", function()
    local bytes = core.tokenizer_bytes()
    local function loss(row)
      return first_loss({ row }, function(t)
        t.model.tokenizer, t.model.chat_template = bytes, chat
        t.model.config = tiny.llama { max_position_embeddings = 64 }
        t.data.max_prompt_tokens = 50
      end)
    end
    local prompt = { { role = "user", content = "1+1=" } }
    local function whole(answer) return { prompt[1], { role = "assistant", content = answer } } end
    local want = loss { prompt = prompt, chosen = "2", rejected = "3" }
    assert.equal(want, loss { prompt = prompt, chosen = { { role = "assistant", content = "2" } },
      rejected = { { role = "assistant", content = "3" } } })
    assert.equal(want, loss { chosen = whole "2", rejected = whole "3" })
    assert.equal(want, loss { prompt = "1+1=", chosen = whole "2", rejected = whole "3" })
    tiny.refused("differ before their last message", loss, { chosen = whole "2",
      rejected = { { role = "user", content = "1+2=" }, { role = "assistant", content = "2" } } })
    tiny.refused("chosen does not end with a message of the assistant", loss, { prompt = prompt,
      chosen = prompt, rejected = whole "2" })
  end)

  it("is refused in one line, with its number", function()
    local function fails(words, row, change)
      tiny.fails("EARG", words, first_loss, { row }, change)
    end
    fails("data.pair: a row has no chosen text (it has prompt, rejected) (row 1 of data.train)",
      { prompt = "1=", rejected = "2" })
    fails("data.pair: a row has no rejected text (it has chosen, prompt) (row 1 of data.train)",
      { prompt = "1=", chosen = "2" })
    fails("data.pair: the chosen text of a row is empty", { prompt = "1=", chosen = "",
      rejected = "2" })
    fails("chosen and rejected are the same text, which says nothing; leave the row out (row 1",
      { prompt = "1=", chosen = "2", rejected = "2" })
    fails("chosen is a list of strings, the turns of a conversation; want one text (row 1",
      { prompt = "1=", chosen = { "1", "2", "3" }, rejected = "3" })
    fails("margin is a string, want a number",
      { prompt = "1=", chosen = "2", rejected = "3", margin = "much" })
    fails("data.pair: returned a nil for a row, want { chosen =, rejected = }",
      { prompt = "1=", chosen = "2", rejected = "3" }, function(t)
        t.data.pair = function() end
      end)
    fails("the chosen text of a row has 9 tokens, the limit is 6; raise it",
      { prompt = "1=", chosen = "12345678", rejected = "3" }, function(t)
        t.data.too_long = "error"
      end)
    fails("label is a nil, want true for a desirable text, or false (it has chosen, prompt",
      { prompt = "1=", chosen = "2", rejected = "3" }, function(t)
        t.train.prompts_per_step, t.train.dpo = 2, { loss_type = "kto" }
      end)
  end)

  it("that is too long is left out, or cut", function()
    local list = { { prompt = "1=", chosen = "12345678", rejected = "3" },
      { prompt = "1=", chosen = "2", rejected = "3" } }
    local function steps(too_long)
      return select(2, run(function(t)
        t.data.train, t.data.too_long = grpo.data.list(list), too_long
        t.train.steps, t.train.prompts_per_step = 2, 2
      end))
    end
    assert.is_true(steps("drop")[2].prompts_dropped >= 1)
    assert.is_true(steps("truncate_left")[2].targets_truncated >= 1)
  end)
end)

-- ---- options ------------------------------------------------------------------------------------

describe("options of a dpo stage", function()
  it("that are wrong are refused", function()
    local function dpo(pattern, o)
      refused(pattern, function(t) t.train.dpo = o end)
    end
    dpo("train%.dpo%.loss_type: got 'sigmod', .* did you mean 'sigmoid'", { loss_type = "sigmod" })
    dpo("train%.dpo%.loss_type: item 2 is 'hing', .* did you mean 'hinge'",
      { loss_type = { "ipo", "hing" } })
    dpo("train%.dpo%.loss_type: is empty", { loss_type = {} })
    dpo("take losses of one kind", { loss_type = { "kto", "sigmoid" } })
    dpo("loss_weights: has 1 numbers for 2 losses",
      { loss_type = { "ipo", "sft" }, loss_weights = { 1 } })
    dpo("loss_weights: item 1 is x, want a number", { loss_weights = { "x" } })
    dpo("train%.dpo%.beta: got 0", { beta = 0 })
    dpo("label_smoothing: exo_pair needs more than 0", { loss_type = "exo_pair" })
    dpo("label_smoothing: exo_pair needs .* less than 1", { loss_type = "exo_pair",
      label_smoothing = 1 })
    dpo("label_smoothing: got 0%.5, but robust", { loss_type = "robust", label_smoothing = 0.5 })
    dpo("f_divergence_type: only losses of the difference",
      { loss_type = "bco_pair", f_divergence_type = "forward_kl" })
    dpo("use_weighting: weighs each pair", { loss_type = "aot", use_weighting = true })
    dpo("ld_alpha: compares the lengths", { loss_type = "kto", ld_alpha = 0.5 })
  end)

  it("that have no effect are refused", function()
    refused("rewards: have no say in a dpo stage", function(t)
      t.rewards = { function() return 1 end }
    end)
    refused("train%.kl: has no effect in a stage of kind \"dpo\"", function(t) t.train.kl = 0.1 end)
    refused("data%.target: a dpo stage learns from pairs", function(t)
      t.data.target = function(row) return row.chosen end
    end)
    refused("eval%.group_size: is not used", function(t) t.eval = { group_size = 2 } end)
    refused("reference: is not read by simpo", function(t)
      t.reference, t.train.dpo = "random", { loss_type = "simpo" }
    end)
    refused("train%.prompts_per_step: kto compares", function(t)
      t.train.prompts_per_step, t.train.dpo = 1, { loss_type = "kto" }
    end)
  end)
end)

-- ---- pairs of its own completions ---------------------------------------------------------------

describe("a stage of kind online_dpo", function()
  local function digits(text) return select(2, text:gsub("%d", "")) end
  local online, go = tiny.experiments(function()
    return {
      model = { config = shape, tokenizer = tok },
      data = { train = grpo.data.list(rows), max_prompt_tokens = 8 },
      sampling = { max_new_tokens = 6, group_size = 4 },
      rewards = { digits = digits },
      train = { steps = 25, prompts_per_step = 8, lr = 3e-3, dpo = { beta = 0.3 } },
      stages = { { kind = "online_dpo" } },
      log = { tensorboard = false },
    }
  end)

  it("learns what the rewards prefer", function()
    local _, list = go()
    assert.is_true(list[25].reward > list[1].reward + 1)
    assert.near(math.log(2), list[1].loss, 1e-12)
    assert.is_true(list[25]["rewards/margins"] > 0 and list[1].pairs > 0)
  end)

  it("has the gradient of kind dpo on the same pairs", function()
    local tr = trainer.new(online(function(t)
      t.train.lr, t.train.max_grad_norm, t.reference = 0, 0, "random"
      t.train.dpo = { loss_type = "ipo", ld_alpha = 0.5 }
    end))
    local m, pairs_of_step = tr:step(), {}
    for _, c in ipairs(tr.batch.completions) do
      if c.index == 1 then
        local best, worst = c, c
        for _, other in ipairs(c.group) do
          if other.reward > best.reward then best = other end
          if other.reward < worst.reward then worst = other end
        end
        if best.reward > worst.reward then
          pairs_of_step[#pairs_of_step + 1] = { prompt = tok:encode(c.prompt), chosen = best.ids,
            rejected = worst.ids }
        end
      end
    end
    assert.equal(m.pairs, #pairs_of_step)
    local other = select(2, run(function(t)
      t.train.lr, t.train.max_grad_norm, t.reference, t.train.steps = 0, 0, "random", 1
      t.data.train, t.data.shuffle = grpo.data.list(pairs_of_step), false
      t.train.prompts_per_step = #pairs_of_step
      t.train.dpo = { loss_type = "ipo", ld_alpha = 0.5 }
    end))[1]
    assert.near(other.loss, m.loss, 1e-9)
    assert.near(other.grad_norm, m.grad_norm, 1e-5 * m.grad_norm)
    assert.near(other["logps/chosen"], m["logps/chosen"], 1e-9)
  end)

  it("refuses what it does not read", function()
    refused("train%.loss: has no effect in a stage of kind \"online_dpo\"",
      function(t) t.train.loss = "dapo" end, online)
    refused("train%.advantage%.scale: has no effect in a stage of kind \"online_dpo\"",
      function(t) t.train.advantage = { scale = "none" } end, online)
    refused("rewards: none given", function(t) t.rewards = nil end, online)
    refused("sampling%.group_size: 1 makes no pairs", function(t)
      t.sampling.group_size = 1
    end, online)
    refused("take a loss of pairs", function(t) t.train.dpo.loss_type = "kto" end, online)
  end)
end)
