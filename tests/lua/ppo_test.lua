-- kind = "ppo": the readable file against C, options and what a run of it leaves behind.

local core = require "grpo.core"
local engine_parts = dofile "tests/lua/engine_parts.lua"
local grpo = require "grpo"
local ppo = require "grpo.losses.ppo"
local schedule = require "grpo.schedule"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local shape = tiny.llama { hidden_size = 16, intermediate_size = 32, initializer_range = 0.3,
  eos_token_id = 8 }

local experiment, run = tiny.experiments(function()
  return {
    name = "tiny", seed = 3,
    model = { config = shape, tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = { train = grpo.data.generate(function()
      return { prompt = "ab" }
    end, { n = 8 }), max_prompt_tokens = 4 },
    sampling = { group_size = 2, max_new_tokens = 6 },
    rewards = { { name = "as", fn = tiny.count_a } },
    train = { steps = 2, prompts_per_step = 4, lr = 1e-2 },
    stages = { { kind = "ppo" } },
  }
end)

local function refused(pattern, change) tiny.refused(pattern, experiment, change) end

local function random_list(n, name)
  local list = {}
  local drawn = grpo.randn({ n }, { seed = #name }):totable()
  for i, x in ipairs(drawn) do list[i] = x / 2 end
  return list
end

local function near(want, got, tolerance)
  assert.equal(#want, #got)
  for i = 1, #want do
    assert.is_true(math.abs(want[i] - got[i]) <= tolerance, ("%d: %.17g, want %.17g")
      :format(i, got[i], want[i]))
  end
end

describe("grpo.losses.ppo", function()
  if not engine_parts then
    pending("the tests' own library is not built; make test builds it")
    return
  end
  it("gives what gae of the engine gives", function()
    for _, o in ipairs { { gamma = 1, lambda = 0.95 }, { gamma = 0.9, lambda = 0, bootstrap = 0.5 },
      {} } do
      local r, v = random_list(9, "r"), random_list(9, "value")
      local a, ret = ppo.gae(r, v, o)
      local ca, cret = engine_parts.gae(r, v, o)
      near(a, ca, 1e-15)
      near(ret, cret, 1e-15)
    end
  end)

  it("whitens as the engine does", function()
    for _, keep in ipairs { true, false } do
      near(ppo.whiten(random_list(12, "x"), { keep_mean = keep }),
        engine_parts.whiten(random_list(12, "x"),
        { keep_mean = keep }), 1e-12)
    end
    near({ 0, 0 }, ppo.whiten { 4, 4 }, 0)
  end)

  it("has the value loss and gradient of the engine", function()
    local v, old, ret = random_list(40, "values"), random_list(40, "old"),
      random_list(40, "returns")
    local values = grpo.tensor(v, { requires_grad = true })
    local loss = ppo.value_loss(values, grpo.tensor(old), grpo.tensor(ret), 0.3)
    local closs, slope, share = engine_parts.value_loss(v, old, ret, 0.3)
    loss:backward()
    assert.is_true(math.abs(loss:item() - closs) < 1e-6)
    near(values.grad:totable(), slope, 1e-7)
    assert.is_true(share > 0 and share < 1)
  end)

  it("puts the score behind the last token, or on it where nothing may follow", function()
    local o = { kl_coef = 0.5, max_new_tokens = 3 }
    near({ -0.5, 0.5, 2 }, ppo.rewards(2, { -1, -2 }, { -2, -1 }, nil, o), 0)
    near({ 0.5, -0.5, 3 }, ppo.rewards(2, { 0, 0, 0 }, { 1, -1, 0 }, { 0, 0, 1 }, o), 0)
  end)
end)

describe("a ppo stage", function()
  it("learns, with either critic", function()
    for _, critic in ipairs { "shared", "separate" } do
      local _, list = run(function(t)
        t.train.steps, t.train.iterations = 40, 2
        t.train.ppo = { critic = critic, minibatches = 2, value_coef = 0.5 }
      end)
      local first, last = list[1], list[#list]
      assert.equal("ppo", last.kind)
      assert.is_true(last.reward > first.reward + 2, ("%s: from %g to %g")
        :format(critic, first.reward, last.reward))
      assert.is_true(last["val/mean"] > 1)
      assert.equal(0, first["val/mean"])
      assert.equal(0, first.ratio_max_deviation)
      assert.equal(0.05, last.beta)
      assert.is_nil(last.frac_reward_zero_std)
      for _, name in ipairs { "loss/policy_avg", "loss/value_avg", "val/clipfrac_avg",
        "policy/approxkl_avg", "kl",
        "objective/kl", "objective/non_score_reward", "val/return_mean", "entropy",
        "clip_ratio/region_mean" } do
        assert.equal("number", type(last[name]), name)
      end
    end
  end)

  it("is inspected under its own loss: every option of it that PPO trains with", function()
    local function inspected(change)
      local tr = grpo.trainer(experiment(change))
      tr:step()
      local t = tr:inspect()
      assert.is_nil(t.problem)
      return t
    end
    local plain = inspected()
    for name, value in pairs { entropy = 0.5, delta = 0.5, top_entropy_quantile = 0.3 } do
      local t = inspected(function(e) e.train[name], e.train.lr = value, 0 end)
      local own = { clip = 0.2, [name] = value }
      local want = grpo.loss("dapo", setmetatable({ logp = t.logp }, { __index = t }), own)
      assert.near(want:item(), t.loss, 1e-6)
      assert.is_true(t.loss ~= plain.loss, name)
    end
  end)

  it("shows the advantage of each token to who inspects it", function()
    local tr = trainer.new(experiment(function(t)
      t.train.lr, t.train.ppo = 0, { gamma = 0.9, lambda = 0.8, kl_coef = 0 }
    end))
    tr:step()
    local readable = {} -- the critic is 0 at first, so these need no values
    for _, c in ipairs(tr.batch.completions) do
      local n = c.length < 6 and c.length + 1 or c.length
      local r, zero = {}, {}
      for k = 1, n do r[k], zero[k] = 0.0, 0.0 end
      r[n] = c.reward
      local a = ppo.gae(r, zero, { gamma = 0.9, lambda = 0.8 })
      table.move(a, 1, c.length, #readable + 1, readable)
    end
    local shown = tr:inspect().advantage:totable()
    near(ppo.whiten(readable), shown, 1e-5)
    local first, sum = tr.batch.completions[1], 0.0
    for k = 1, first.length do sum = sum + shown[k] end
    assert.near(first.advantage, sum / first.length, 1e-5)
  end)

  it("needs no group", function()
    local _, list = run(function(t)
      t.sampling.group_size, t.train.steps, t.train.prompts_per_step = 1, 30, 8
    end)
    assert.is_true(list[30].reward > list[1].reward)
  end)

  it("has a coefficient that may be a schedule, adaptive ones too", function()
    local seen = {}
    run(function(t)
      t.train.steps, t.train.lr = 3, 0
      t.reference = "random"
      t.train.ppo = { kl_coef = function(p)
        seen[#seen + 1] = schedule.adaptive_kl { initial = 0.1, target = 0.01, horizon = 80 } (p)
        return seen[#seen]
      end }
    end)
    near({ 0.1, 0.1 * (1 + 0.2 * 8 / 80), 0.1 * (1 + 0.2 * 8 / 80) ^ 2 }, seen, 1e-12)
  end)

  it("runs no reference when the coefficient is 0", function()
    local tr, list = run(function(t) t.train.ppo, t.reference = { kl_coef = 0 }, false end)
    assert.is_nil(tr.stage.reference)
    assert.is_nil(list[1]["objective/kl"])
  end)

  it("cannot begin to measure a KL in the middle", function()
    local tr = trainer.new(experiment(function(t) t.train.ppo = { kl_coef = 0 } end))
    tr:step()
    tr.config.train.ppo.kl_coef = 0.1
    tiny.refused("train%.ppo%.kl_coef: 0%.1, but it was 0 when the stage began", tr.step, tr)
  end)

  it("takes rewards of tokens, beside a score or alone", function()
    for _, with_score in ipairs { true, false } do
      local _, list = run(function(t)
        t.train.steps = 40
        local dense = { name = "dense", token_fn = function(c)
          local r = {}
          for i = 1, c.length do r[i] = c.ids[i] == 1 and 1 or 0 end
          return r
        end }
        local score = { name = "short", fn = function(text) return -#text / 10 end }
        t.rewards = { dense, with_score and score or nil }
      end)
      assert.is_true(list[40]["rewards/dense/mean"] > list[1]["rewards/dense/mean"])
    end
  end)

  it("leaves out completions that no reward applies to", function()
    local _, list = run(function(t)
      t.rewards = { function(_, _, c) if c.index == 2 then return nil end return 1 end }
    end)
    assert.is_true(list[1].trained_tokens < list[1]["completions/mean_length"] * 8)
  end)

  it("resumes from a checkpoint bit for bit", function()
    for _, critic in ipairs { "shared", "separate" } do
      local dir = tiny.path()
      local function change(t)
        t.train.steps = 4
        t.train.ppo = { critic = critic, minibatches = 2 }
        t.train.iterations = 2
      end
      local straight = trainer.new(experiment(change))
      straight:step()
      straight:step()
      straight:save(dir)
      assert.is_true(core.fs.exists(dir .. "/critic.safetensors"))
      assert.equal(critic == "separate", core.fs.exists(dir .. "/critic_optimizer.safetensors"))
      local resumed = trainer.new(experiment(change), { from = dir })
      for _ = 3, 4 do
        local a, b = straight:step(), resumed:step()
        for _, name in ipairs { "loss", "grad_norm", "loss/value_avg", "reward", "val/mean",
          "objective/kl" } do
          assert.equal(a[name], b[name], name)
        end
      end
      core.fs.remove_tree(dir)
    end
  end)
end)

describe("options of a ppo stage", function()
  it("that have no effect are refused", function()
    refused("train%.loss: has no effect in a stage of kind \"ppo\"", function(t)
      t.train.loss = "dapo"
    end)
    refused("train%.kl: .*train%.ppo%.kl_coef", function(t) t.train.kl = 0.1 end)
    refused("train%.advantage%.scale: .*critic", function(t)
      t.train.advantage = { scale = "batch" }
    end)
    refused("train%.skip_zero_std_groups: ", function(t) t.train.skip_zero_std_groups = true end)
    refused("reward%.aggregate: ", function(t) t.reward = { aggregate = "normalize_then_sum" } end)
    refused("train%.importance: ", function(t) t.train.importance = "sequence" end)
  end)

  it("have no effect where a file for several kinds sets them", function()
    local path = tiny.file '{ "train": { "skip_zero_std_groups": true } }'
    local _, list = run(function(t)
      t.extends, t.rewards = path, { function() return 1 end } -- every group is tied
    end)
    for _, m in ipairs(list) do assert.is_nil(m.groups_replaced) end
    os.remove(path)
  end)

  it("that contradict each other are refused", function()
    refused("train%.ppo%.minibatches: 5 are too many, because a step has 4 prompts", function(t)
      t.train.ppo = { minibatches = 5 }
    end)
    refused("train%.ppo%.kl_coef: a KL needs a reference", function(t) t.reference = false end)
    refused("train%.reuse_rollout: cannot be with a shared critic", function(t)
      t.train.reuse_rollout = true
    end)
    refused("rewards: none given; a ppo stage", function(t) t.rewards = {} end)
    refused("train%.ppo%.critic: got 'both'", function(t) t.train.ppo = { critic = "both" } end)
    refused("train%.ppo%.kl_estimator", function(t) t.train.ppo = { kl_estimator = "full" } end)
  end)

  it("may come with a file that other kinds share", function()
    local path = tiny.file '{"train": {"loss": "dapo", "kl": 0.1}}'
    local e = experiment(function(t) t.extends = path end)
    os.remove(path)
    assert.equal("ppo", e.stages[1].kind)
  end)

  it("change what is learned", function()
    local function outcome(options, train_options)
      local _, list = run(function(t)
        t.train.ppo = options
        t.train.iterations = 2
        for k, v in pairs(train_options or {}) do t.train[k] = v end
      end)
      return list[2].loss
    end
    local plain = outcome {}
    for name, value in pairs { gamma = 0.5, lambda = 0.1, value_coef = 1.0, clip_value = 0.001,
      minibatches = 4, whiten_rewards = true, kl_coef = 0.5, critic = "separate" } do
      assert.is_true(outcome { [name] = value } ~= plain, name)
    end
    assert.is_true(outcome({ kl_coef = 0.5 }) ~= outcome({ kl_coef = 0.5, kl_estimator = "k3" }),
      "kl_estimator")
    assert.is_true(outcome({}, { entropy = 0.1 }) ~= plain, "entropy")
    assert.is_true(outcome({}, { clip = 0.001 }) ~= plain, "clip")
    assert.is_true(outcome({}, { mask_truncated = true }) ~= plain, "mask_truncated")
  end)
end)
