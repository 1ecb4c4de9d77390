-- kind = "reward": its loss against TRL's, its gradient against one written with tensors, and the
-- checkpoint that it leaves.

local bradley_terry = require "grpo.preferences.bradley_terry"
local core = require "grpo.core"
local grpo = require "grpo"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local tok = grpo.tokenizer.chars("0123456789+=")
local shape = tiny.llama { max_position_embeddings = 24, vocab_size = #tok }
local rows = {}
for a = 0, 9 do
  for b = 0, 4 do
    rows[#rows + 1] = { prompt = ("%d+%d="):format(a, b), chosen = tostring(a + b),
      rejected = tostring((a + b + 3) % 10) .. "00", margin = b / 10 }
  end
end

local experiment, run = tiny.experiments(function()
  return {
    model = { config = shape, tokenizer = tok },
    data = { train = grpo.data.list(rows), eval = grpo.data.list(rows), max_prompt_tokens = 8 },
    sampling = { max_new_tokens = 6 },
    train = { steps = 15, prompts_per_step = 8, lr = 3e-3 },
    stages = { { kind = "reward" } },
    log = { tensorboard = false },
  }
end)

describe("the loss of a reward model", function()
  local cases = core.json_decode(core.fs.read("ext/preferences/tests/cases/losses.json")).rewards
  for i, case in ipairs(cases) do
    it("is TRL's, with its gradient and metrics: " .. i, function()
      local rewards, margins = {}, {}
      for k = 1, 4 do -- TRL has the chosen ones first
        rewards[2 * k - 1], rewards[2 * k] = case.rewards[k], case.rewards[k + 4]
        margins[k] = case.margin ~= core.json_null and case.margin[k] or 0
      end
      local center = case.center_rewards_coefficient
      local loss, slopes, metrics = bradley_terry(rewards, margins,
        center ~= core.json_null and center or nil)
      assert.near(case.loss, loss, 1e-11)
      for k = 1, 4 do
        assert.near(case.gradient[k], slopes[2 * k - 1], 1e-11)
        assert.near(case.gradient[k + 4], slopes[2 * k], 1e-11)
      end
      for name, want in pairs(case.metrics) do assert.near(want, metrics[name], 1e-11, name) end
    end)
  end

  it("has the derivative that finite differences give", function()
    local rewards, margins = { 0.5, -1, 2, 0.25 }, { 0.5, 0 }
    local _, slopes = bradley_terry(rewards, margins, 0.1)
    for i = 1, 4 do
      local at = rewards[i]
      rewards[i] = at + 1e-5
      local above = bradley_terry(rewards, margins, 0.1)
      rewards[i] = at - 1e-5
      local below = bradley_terry(rewards, margins, 0.1)
      rewards[i] = at
      assert.near((above - below) / 2e-5, slopes[i], 1e-8)
    end
  end)
end)

describe("a stage of kind reward", function()
  -- The reward of a text in the loaded checkpoint.
  local function rewards_of(dir, row)
    local c = core.classifier_load(dir)
    local list = {}
    for i, text in ipairs { row.chosen, row.rejected } do
      list[i] = tok:encode(row.prompt .. text)
    end
    local logits = c:logits(list)
    return logits[1][1], logits[2][1]
  end

  it("learns, and saves what grpo.reward_model loads", function()
    tiny.temporary(function(dir)
      local tr, list = run()
      assert.is_true(list[15].loss < list[1].loss and list[15].accuracy == 1)
      for _, name in ipairs { "margin", "min_reward", "max_reward", "mean_reward", "grad_norm" } do
        assert.equal("number", type(list[15][name]), name)
      end
      local report = tr:evaluate()
      assert.is_true(report["eval/accuracy"] == 1 and report["eval/loss"] < list[1].loss)
      tr:save(dir)
      local config = core.json_decode(core.fs.read(dir .. "/config.json"))
      assert.equal("LlamaForSequenceClassification", config.architectures[1])
      assert.equal(1, config.num_labels)
      local chosen, rejected = rewards_of(dir, rows[7])
      local texts = {}
      for i, text in ipairs { rows[7].chosen, rows[7].rejected } do
        texts[i] = { prompt = tok:encode(rows[7].prompt), target = tok:encode(text) }
      end
      local own = tr.engine:rewards(texts)
      assert.near(own[1], chosen, 1e-5)
      assert.near(own[2], rejected, 1e-5)
      assert.is_true(chosen > rejected)
      local rm = grpo.reward_model(dir)
      local scores = rm:score { rows[7].prompt .. rows[7].chosen, rows[7].prompt
        .. rows[7].rejected }
      assert.near(chosen, scores[1], 1e-6)
      assert.near(rejected, scores[2], 1e-6)
      tiny.refused("grpo%.reward_model loads it", grpo.model.load, dir)
    end)
  end)

  -- The first step of AdamW moves every weight by the rate against its gradient's sign, so that
  -- the loss falls by the rate times the sum of the gradient's sizes.
  it("has the gradient that its loss falls along", function()
    local RATE = 2e-6
    local tr = trainer.new(experiment(function(t)
      t.data.shuffle, t.train.prompts_per_step, t.train.lr = false, #rows, RATE
      t.train.max_grad_norm, t.train.reward = 0, { center_rewards_coefficient = 0.1 }
      t.train.optimizer = { weight_decay = 0, eps = 1e-20 }
    end))
    local before, sum = tr:step().loss, 0.0
    for _, t in tr.model:parameters() do sum = sum + t.grad:abs():sum():item() end
    assert.near(sum, (before - tr:step().loss) / RATE, 0.03 * sum)
  end)

  it("resumes from a checkpoint bit for bit, and continues another's model", function()
    tiny.temporary(function(dir)
      local function change(t) t.train.steps = 4 end
      local straight = trainer.new(experiment(change))
      straight:step()
      straight:step()
      straight:save(dir)
      local resumed = trainer.new(experiment(change), { from = dir })
      for _ = 3, 4 do
        local a, b = straight:step(), resumed:step()
        for _, name in ipairs { "loss", "grad_norm", "margin" } do
          assert.equal(a[name], b[name], name)
        end
      end
      assert.equal(tiny.weights(straight), tiny.weights(resumed))
      local again = trainer.new(experiment(function(t)
        t.model, t.train.steps = { path = dir, tokenizer = tok }, 1
      end))
      assert.is_true(again:step().loss < 0.69)
    end)
  end)

  it("has methods of the engine, which refuse texts that make no pairs", function()
    local tr = trainer.new(experiment())
    tr:begin_stage(1)
    local one = { prompt = { 1, 2 }, target = { 3 } }
    local function fails(words, texts)
      tiny.fails("EARG", words, tr.engine.rewards, tr.engine, texts)
    end
    fails("reward: 1 texts, want pairs", { one })
    fails("reward: text 2 or its prompt is empty", { one, { prompt = {}, target = { 3 } } })
    fails("outside the vocabulary", { one, { prompt = { 1, 2 }, target = { 99 } } })
    local long = {}
    for i = 1, 23 do long[i] = 1 end
    fails("reward: text 1 has 25 tokens, but the model's context is 24",
      { { prompt = { 1, 2 }, target = long }, one })
    tiny.fails("EARG", "reward_step.slopes: 1 numbers for 2 texts", tr.engine.reward_step,
      tr.engine, { one, one }, { slopes = { 0 } })
    local plain = core.engine { model = core.model_new(shape), prompts_per_step = 1, group_size = 2,
      max_prompt_tokens = 4, max_new_tokens = 4 }
    tiny.fails("EARG", "reward: the model has no head for rewards", plain.rewards, plain,
      { one, one })
  end)

  it("refuses what it has no use for", function()
    tiny.refused("rewards: have no say in a reward stage", experiment, function(t)
      t.rewards = { function() return 1 end }
    end)
    tiny.refused("stages: a stage of kind \"sft\" cannot train a model that has a head", function()
      trainer.new(experiment(function(t)
        t.stages = { { kind = "sft", data = { target = function() return "1" end } },
          { kind = "reward" } }
      end))
    end)
    tiny.temporary(function(dir)
      grpo.model.new(shape, { tokenizer = tok }):save(dir)
      tiny.refused("model%.lora: a reward stage trains the head with all weights", experiment,
        function(t) t.model = { path = dir, lora = {} } end)
    end)
  end)
end)
