-- The trainer's ways: every option that changes what a step does, on a model small enough for
-- milliseconds.

local grpo = require "grpo"
local option_rows = require "grpo.options.option_rows"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local shape = tiny.llama { num_attention_heads = 4, num_key_value_heads = 2,
  max_position_embeddings = 48, tie_word_embeddings = true, initializer_range = 0.3 }
local count_a, weights = tiny.count_a, tiny.weights

local experiment = tiny.experiments(function()
  return {
    name = "tiny", seed = 3,
    model = { config = shape, tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = {
      train = grpo.data.generate(function(rng)
        return { prompt = "ab", answer = rng() < 0.5 and "a" or "b" }
      end, { n = 64 }),
      max_prompt_tokens = 8,
    },
    sampling = { group_size = 4, max_new_tokens = 8 },
    rewards = { { name = "as", fn = count_a } },
    train = { steps = 3, prompts_per_step = 2, lr = 1e-3 },
  }
end)

local function run(change) return tiny.steps(grpo.trainer(experiment(change))) end

describe("tr:step", function()
  it("gives nil after the last step and counts steps and tokens", function()
    local tr, list = run()
    assert.equal(3, #list)
    assert.equal(3, tr.step_count)
    assert.is_true(tr.tokens_seen > 0)
    assert.equal(tr.tokens_seen, list[3].num_tokens)
  end)

  it("starts every step with a ratio of exactly 1", function()
    local _, list = run()
    for _, m in ipairs(list) do assert.equal(0, m.ratio_max_deviation) end
  end)

  it("gives the same weights twice, and others for another seed", function()
    local a, b, c = run(), run(), run(function(t) t.seed = 4 end)
    assert.equal(weights(a), weights(b))
    assert.is_false(weights(a) == weights(c))
  end)

  it("raises the reward it is given", function()
    local _, list = run(function(t)
      t.train.steps, t.train.lr, t.train.prompts_per_step = 40, 5e-3, 8
    end)
    assert.is_true(list[40].reward > list[1].reward + 1)
  end)

  it("learns nothing from groups that are all equal", function()
    local tr, list = run(function(t) t.rewards = { function() return 1 end } end)
    local fresh = grpo.trainer(experiment())
    assert.equal(1, list[1].frac_reward_zero_std)
    assert.equal(0, list[1].grad_norm)
    assert.equal(weights(fresh), weights(tr))
  end)
end)

describe("rewards in a step", function()
  it("may be nil, boolean, of a group or of tokens", function()
    local tr, list = run(function(t)
      t.train.steps = 1
      t.rewards = {
        { name = "sometimes", fn = function(_, _, c) if c.index % 2 == 1 then return true end end },
        { name = "unlike", group_fn = function(texts)
          local values = {}
          for i, text in ipairs(texts) do values[i] = #text / 10 end
          return values
        end },
        { name = "dense", weight = 0.5, token_fn = function(c)
          local values = {}
          for i, id in ipairs(c.ids) do values[i] = id == 0 and 1 or 0 end
          return values
        end },
      }
    end)
    assert.equal(1, list[1]["rewards/sometimes/mean"])
    local c = tr.batch.completions[2]
    assert.equal(core.none, c.rewards.sometimes)
    assert.equal(#c.text / 10, c.rewards.unlike)
    assert.equal("table", type(c.advantage))
    assert.equal(c.length, #c.advantage)
  end)

  it("draw the same random numbers in every run", function()
    local seen = {}
    for i = 1, 2 do
      seen[i] = {}
      run(function(t)
        t.rewards = { function(_, _, c)
          seen[i][#seen[i] + 1] = ("%.17g %.17g"):format(c.rng(), math.random())
          return 0
        end }
      end)
    end
    assert.same(seen[1], seen[2])
    assert.is_false(seen[1][1] == seen[1][2])
  end)

  it("see the state but cannot change it", function()
    tiny.refused("read%-only", run, function(t)
      t.rewards = { function(_, _, c)
        c.state.level = 1
        return 0
      end }
    end)
  end)

  it("that fail are zero or left out when the experiment says so", function()
    for _, policy in ipairs { "zero", "skip" } do
      local _, list = run(function(t)
        t.train.steps = 1
        t.reward = { on_error = policy }
        t.rewards = { as = count_a, bad = function(text)
          if #text > 4 then error("no") end return 1
        end }
      end)
      assert.is_true(list[1].reward_errors > 0)
    end
  end)

  it("may have weights that are schedules", function()
    local asked = {}
    local tr = run(function(t)
      t.rewards = { { name = "as", fn = count_a, weight = function(p)
        asked[#asked + 1] = p.step
        return p.step + 1
      end } }
    end)
    assert.same({ 0, 1, 2 }, asked)
    local c = tr.batch.completions[1]
    assert.equal(3 * c.rewards.as, c.reward)
  end)
end)

describe("options of a step", function()
  local options = {
    { "a KL to the initial policy", function(t) t.train.kl = 0.1 end },
    { "a KL in the reward", function(t)
      t.train.kl, t.train.kl_in, t.train.kl_estimator = 0.1, "reward", "k1"
    end },
    { "the full KL", function(t) t.train.kl, t.train.kl_estimator = 0.1, "full" end },
    { "a random reference", function(t) t.train.kl, t.reference = 0.1, "random" end },
    { "a reference that follows", function(t)
      t.train.kl, t.train.sync_reference = 0.1, { every = 1, mixup = 0.5 }
    end },
    { "two iterations", function(t) t.train.iterations = 2 end },
    { "an entropy bonus", function(t) t.train.entropy = 0.01 end },
    { "the top entropy tokens", function(t) t.train.top_entropy_quantile = 0.3 end },
    { "tokens chosen by their covariance", function(t)
      t.train.iterations, t.train.clip_cov, t.train.kl_cov = 2, { ratio = 0.1, low = 0 },
        { ratio = 0.1 }
    end },
    { "masked truncations", function(t) t.train.mask_truncated = true end },
    { "dynamic sampling", function(t) t.train.skip_zero_std_groups = true end },
    { "normalize_then_sum", function(t) t.reward = { aggregate = "normalize_then_sum" } end },
    { "a batch scale", function(t) t.train.advantage = { scale = "batch", normalize = true } end },
    { "clipped rewards", function(t) t.reward = { clip = { 0, 1 } } end },
    { "sampling filters", function(t)
      t.sampling.top_k, t.sampling.top_p, t.sampling.min_p, t.sampling.temperature = 5, 0.9, 0.01,
        0.8
    end },
    { "stop strings", function(t) t.sampling.stop = { "b" } end },
    { "a stop regex", function(t) t.sampling.stop_regex = "[cd]{2}" end },
  }
  for _, loss in ipairs(option_rows.losses) do
    options[#options + 1] = { "the loss " .. loss, function(t) t.train.loss = loss end }
  end
  for _, case in ipairs(options) do
    it("work: " .. case[1], function()
      local tr, list = run(case[2])
      assert.equal(3, #list)
      for _, m in ipairs(list) do
        assert.is_true(m.loss == m.loss and m.grad_norm == m.grad_norm)
        assert.equal(0, m.ratio_max_deviation or 0)
      end
      assert.is_false(weights(tr) == weights(grpo.trainer(experiment())))
    end)
  end

  it("count sampled tokens once, whatever the iterations: tokens_per_second times time", function()
    local _, list = run(function(t) t.train.iterations = 3 end)
    for _, m in ipairs(list) do
      local tokens = m["completions/mean_length"] * m.num_sequences
      assert.near(tokens, m["tokens_per_second/train"] * m["time/train"], 1e-6 * tokens)
      assert.near(tokens, m["tokens_per_second/generate"] * m["time/generate"], 1e-6 * tokens)
    end
  end)

  it("a KL to the initial policy is 0 at first and then not", function()
    local _, list = run(function(t) t.train.kl, t.train.lr = 0.1, 1e-2 end)
    assert.near(0, list[1].kl, 1e-9)
    assert.is_true(list[3].kl > 0)
  end)

  it("a loss written in Lua gives the weights of the built-in one", function()
    local function mine(t)
      local ratio = (t.logp - t.old_logp):exp()
      local l = -((ratio * t.advantage):minimum(ratio:clamp(0.8, 1.2) * t.advantage))
      return (l * t.mask):segment_mean(t.sequence, #t.lengths):sum() / t.num_sequences
    end
    local a, b = run(), run(function(t) t.train.loss = mine end)
    for name, tensor in a.model:parameters() do
      for other, twin in b.model:parameters() do
        if name == other then assert.near(0, (tensor - twin):abs():max():item(), 2e-6) end
      end
    end
  end)
end)

describe("hooks", function()
  it("are called in order, may log, stop and change rewards and live options", function()
    local calls = {}
    local tr = grpo.trainer(experiment(function(t)
      t.train.steps = 10
      t.hooks = {
        on_start = function() calls[#calls + 1] = "start" end,
        on_rollout = function(batch)
          calls[#calls + 1] = "rollout"
          for i, c in ipairs(batch.completions) do c.reward = i end
        end,
        on_step = function(m, trainer)
          calls[#calls + 1] = "step"
          trainer:log("mine", 7)
          trainer.config.train.lr = 0.5
          trainer.state.seen = (trainer.state.seen or 0) + 1
          if m.step == 2 then return "stop" end
        end,
        on_end = function(trainer, why)
          calls[#calls + 1] = "end " .. why .. " " .. trainer.step_count
        end,
      }
    end))
    assert.equal("stopped", tr:run())
    assert.same({ "start", "rollout", "step", "rollout", "step", "end stopped 2" }, calls)
    assert.equal(7, tr.metrics.mine)
    assert.equal(0.5, tr.metrics.learning_rate)
    assert.equal(2, tr.state.seen)
    assert.near(4.5, tr.metrics.reward, 1e-9)
  end)
end)

describe("stages and evaluation", function()
  it("run in order with their own options, and evaluate before, between and after", function()
    local labels = {}
    local tr = grpo.trainer(experiment(function(t)
      t.data.eval = grpo.data.list { { prompt = "ab" }, { prompt = "ba" } }
      t.data.target = function(row) return row.answer .. "a" end
      t.eval = { group_size = 4, pass_at = { 1, 2 }, metric = function(text)
        return count_a(text) >= 1
      end }
      t.stages = { { kind = "sft", train = { steps = 2, lr = 1e-2 } },
        { kind = "grpo", train = { steps = 1 } } }
      t.hooks = { on_eval = function(report)
        labels[#labels + 1] = report.label
        assert.equal(2, report.n)
        assert.is_true(report["eval/pass@2"] >= report["eval/pass@1"])
        assert.is_true(report["eval/accuracy"] >= 0 and report["eval/accuracy"] <= 1)
      end }
    end))
    assert.equal("finished", tr:run())
    assert.same({ "before", "after sft", "after grpo" }, labels)
    assert.equal(3, tr.step_count)
  end)

  it("supervised steps lower the loss", function()
    local _, list = run(function(t)
      t.data.target = function() return "abcabc" end
      t.stages = { { kind = "sft", train = { steps = 30, lr = 1e-2, prompts_per_step = 4 } } }
    end)
    assert.is_true(list[30].loss < list[1].loss / 4)
  end)
end)
