-- A step is a rollout with all its updates: what counts updates, and schedules over them.

local core = require "grpo.core"
local grpo = require "grpo"
local planned_steps = require "grpo.loop.planned_steps"
local schedule = require "grpo.schedule"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local shape = tiny.llama { hidden_size = 16, intermediate_size = 32, initializer_range = 0.3,
  eos_token_id = 8 }

local experiment, run = tiny.experiments(function()
  return {
    name = "tiny", seed = 3,
    model = { config = shape, tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = { train = grpo.data.generate(function() return { prompt = "ab" } end, { n = 8 }),
      max_prompt_tokens = 4 },
    sampling = { group_size = 2, max_new_tokens = 6 },
    rewards = { { name = "as", fn = tiny.count_a } },
    train = { steps = 3, prompts_per_step = 4, lr = 1e-2, iterations = 4 },
  }
end)

local function column(list, name)
  local values = {}
  for i, m in ipairs(list) do values[i] = m[name] end
  return values
end

local function ppo(t)
  t.stages = { { kind = "ppo" } }
  t.train.iterations, t.train.ppo = 2, { minibatches = 2 }
end

local function sft(t)
  t.stages = { { kind = "sft" } }
  t.data.target = function() return "cd" end
end

describe("the metric update", function()
  it("counts the updates of all steps so far, and update_tokens what they trained on", function()
    local _, list = run()
    assert.same({ 1, 2, 3 }, column(list, "step"))
    assert.same({ 4, 8, 12 }, column(list, "update"))
    local tokens = 0
    for _, m in ipairs(list) do
      tokens = tokens + 4 * m.trained_tokens
      assert.equal(tokens, m.update_tokens)
    end
  end)

  it("counts minibatches of a ppo step", function()
    local _, list = run(ppo)
    assert.same({ 4, 8, 12 }, column(list, "update"))
    local tokens, trained = 0, 0
    for _, m in ipairs(list) do
      tokens, trained = tokens + 2 * m.trained_tokens, trained + m.trained_tokens
      assert.equal(tokens, m.update_tokens)
    end
    assert.near(3 * 8 * list[1]["completions/mean_length"], trained, 40)
    assert.equal(8 * list[1]["completions/mean_length"], list[1].trained_tokens)
  end)

  it("goes on over stages, and is 1 in each step of demonstrations", function()
    local _, list = run(function(t)
      sft(t)
      t.stages = { { kind = "sft", train = { steps = 2 } }, { kind = "grpo" } }
    end)
    assert.same({ 1, 2, 6, 10, 14 }, column(list, "update"))
    assert.equal(list[1].trained_tokens + list[2].trained_tokens, list[2].update_tokens)
    assert.equal(list[2].update_tokens + 4 * list[3].trained_tokens, list[3].update_tokens)
  end)

  it("continues after a resume", function()
    for _, change in ipairs { function() end, ppo } do
      local dir = tiny.path()
      local straight = trainer.new(experiment(change))
      straight:step()
      straight:save(dir)
      local resumed = trainer.new(experiment(change), { from = dir })
      assert.equal(8, resumed:step().update)
      assert.equal(12, resumed:step().update)
      local a, b = straight:step(), trainer.new(experiment(change), { from = dir }):step()
      assert.equal(a.update_tokens, b.update_tokens)
      assert.equal(a.loss, b.loss)
      core.fs.remove_tree(dir)
    end
  end)
end)

describe("a schedule over updates", function()
  it("is asked before each update of a rollout, with what was done before", function()
    for name, change in pairs { grpo = function() end, ppo = ppo } do
      local seen, tokens, steps = {}, {}, {}
      local _, list = run(function(t)
        change(t)
        t.train.steps = 2
        t.train.lr = schedule.over("update", function(p)
          seen[#seen + 1], tokens[#tokens + 1], steps[#steps + 1] = p.update, p.update_tokens,
            p.step
          assert(p.updates == 8)
          return p.update / 1000
        end)
      end)
      assert.same({ 0, 1, 2, 3, 4, 5, 6, 7 }, seen, name)
      assert.same({ 0, 0, 0, 0, 1, 1, 1, 1 }, steps, name)
      assert.equal(list[1].update_tokens, tokens[5])
      assert.is_true(tokens[2] > 0 and tokens[3] > tokens[2])
      assert.same({ 0.003, 0.007 }, column(list, "learning_rate"))
    end
  end)

  it("gives each update its rate", function()
    local function weights(iterations, lr)
      return tiny.weights((run(function(t)
        t.train.steps, t.train.iterations, t.train.lr = 1, iterations, lr
      end)))
    end
    local once = weights(1, 1e-2)
    local first_only = schedule.piecewise { { at = 0, value = 1e-2 }, { at = 1, value = 0 },
      over = "update" }
    assert.equal(once, weights(4, first_only))
    assert.is_true(once ~= weights(4, 1e-2))
    assert.equal(weights(4, 1e-2), weights(4, schedule.over("update", function() return 1e-2 end)))
    -- tokens are known after the first update only
    assert.equal(once, weights(4, schedule.piecewise { { at = 0, value = 1e-2 },
      { at = 1, value = 0 }, over = "tokens" }))
    local last_of_ppo = function(lr)
      return tiny.weights((run(function(t)
        ppo(t)
        t.train.steps, t.train.lr = 1, lr
      end)))
    end
    assert.is_true(last_of_ppo(1e-2) ~= last_of_ppo(first_only))
  end)

  it("gives each update its KL, and a loss written in Lua its place", function()
    local betas, places = {}, {}
    local _, list = run(function(t)
      t.train.steps, t.reference = 2, "initial"
      t.train.kl = schedule.linear { from = 0, to = 0.8, over = "update" }
      t.train.loss = function(x) -- is called for each micro-batch
        if places[#places] ~= x.p.update then
          betas[#betas + 1], places[#places + 1] = x.beta, x.p.update
        end
        local off = x.logp - x.ref_logp
        return -(x.logp * x.advantage):sum() + (off * off):sum() * x.beta
      end
    end)
    for i, beta in ipairs(betas) do assert.near((i - 1) / 10, beta, 1e-12) end
    assert.same({ 0, 1, 2, 3, 4, 5, 6, 7 }, places)
    assert.near(0.3, list[1].beta, 1e-12)
    assert.near(0.7, list[2].beta, 1e-12)
  end)

  it("is like one over steps where a step has one update", function()
    local function weights(over)
      return tiny.weights((run(function(t)
        t.train.iterations = 1
        t.train.lr = schedule.cosine { peak = 1e-2, warmup_ratio = 0.3, over = over }
      end)))
    end
    assert.equal(weights("step"), weights("update"))
  end)

  it("stops the run where it raises or gives a rate that cannot be", function()
    for pattern, f in pairs {
      ["update_count_test%.lua:%d+: no rate"] = function(p)
        if p.update == 2 then error("no rate") end
        return 1e-3
      end,
      ["train%.lr: the schedule returned %-?nan for p.step = 0"] = function(p)
        return p.update == 2 and 0 / 0 or 1e-3
      end,
      ["train%.lr: "] = function(p) return p.update == 2 and -1 or 1e-3 end,
    } do
      for _, change in ipairs { function() end, ppo } do
        tiny.refused(pattern, run, function(t)
          change(t)
          t.train.lr = schedule.over("update", f)
        end)
      end
    end
  end)

  it("resumes with the same bits", function()
    local dir = tiny.path()
    local function change(t)
      t.train.lr = schedule.cosine { peak = 1e-2, warmup = 3, over = "update" }
    end
    local straight = trainer.new(experiment(change))
    straight:step()
    straight:save(dir)
    local resumed = trainer.new(experiment(change), { from = dir })
    for _ = 2, 3 do
      local a, b = straight:step(), resumed:step()
      for _, name in ipairs { "loss", "grad_norm", "learning_rate", "update" } do
        assert.equal(a[name], b[name], name)
      end
    end
    assert.equal(tiny.weights(straight), tiny.weights(resumed))
    core.fs.remove_tree(dir)
  end)
end)

describe("groups of a step", function()
  it("takes totals that differ by rounding for tied: no gradient, and other prompts if asked for",
    function()
      local function split(t)
        t.train.optimizer = { name = "lion" }
        t.rewards = {
          a = function(_, _, c) return c.index % 2 == 1 and 0.1 or 0 end,
          b = function(_, _, c) return c.index % 2 == 1 and 0.2 or 0.3 end }
      end
      local untouched = tiny.weights(run(function(t) split(t); t.train.steps = 0 end))
      local tr, list = run(split)
      assert.equal(untouched, tiny.weights(tr))
      for _, m in ipairs(list) do
        assert.equal("1.0 0.0 0.0", ("%s %s %s"):format(m.frac_reward_zero_std, m.reward_std,
          m.grad_norm))
      end
      list = select(2, run(function(t) split(t); t.train.skip_zero_std_groups = true end))
      assert.equal(12, list[1].groups_replaced) -- 4 groups in 3 rounds
    end)
end)

describe("train.epochs", function()
  it("takes all rows: a last step that they do not fill has rows of the next pass", function()
    for _, case in ipairs { { 5, 2, 1, 3 }, { 3, 8, 1, 1 }, { 15, 8, 2, 4 }, { 30, 1, 0.1, 3 },
      { 7, 2, 3, 11 }, { 7, 7, 3, 3 } } do
      local n, at_once, epochs, steps = table.unpack(case)
      local prompts = {}
      for i = 1, n do prompts[i] = "a" end
      assert.equal(steps, planned_steps { train = { epochs = epochs, prompts_per_step = at_once },
        data = { train = grpo.data.list(prompts) } })
    end
    local seen = {}
    run(function(t)
      t.train.steps, t.train.epochs, t.train.prompts_per_step = nil, 1, 3
      t.data.train = grpo.data.list { { prompt = "a" }, { prompt = "b" }, { prompt = "ab" },
        { prompt = "ba" } }
      t.hooks = { on_rollout = function(batch)
        for _, c in ipairs(batch.completions) do
          if c.index == 1 then seen[c.prompt] = (seen[c.prompt] or 0) + 1 end
        end
      end }
    end)
    local counts = {}
    for _, count in pairs(seen) do counts[#counts + 1] = count end
    table.sort(counts)
    assert.same({ 1, 1, 2, 2 }, counts)
  end)
end)
