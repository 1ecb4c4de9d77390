-- Options have an effect, or are refused: those that no other test looks at, on a model small
-- enough for milliseconds.

local grpo = require "grpo"
local core = require "grpo.core"
local context = require "grpo.options.scripts.context"
local extensions = require "grpo.base.extensions"
local layers = require "grpo.options.layers"
local tiny = require "tests.lua.tiny"

local shape = tiny.llama { hidden_size = 16, intermediate_size = 32, initializer_range = 0.3 }
local count_a, temporary = tiny.count_a, tiny.temporary

local experiment, run = tiny.experiments(function()
  return {
    name = "tiny", seed = 3,
    model = { config = shape, tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = { train = grpo.data.generate(function()
      return { prompt = "ab" }
    end, { n = 8 }), max_prompt_tokens = 4 },
    sampling = { group_size = 4, max_new_tokens = 6 },
    rewards = { { name = "as", fn = count_a } },
    train = { steps = 2, prompts_per_step = 2, lr = 1e-2 },
  }
end)

local function refused(pattern, change) tiny.refused(pattern, experiment, change) end

local function rows(list)
  for i, prompt in ipairs(list) do list[i] = { prompt = prompt } end
  return grpo.data.list(list)
end

describe("data.too_long", function()
  local long = function(t)
    t.data.train, t.data.shuffle = rows { "ab", "abcdefgh", "ba", "hgfedcba" }, false
  end

  it("drop leaves longer prompts out and counts them", function()
    local seen = {}
    local _, list = run(function(t)
      long(t)
      t.hooks = { on_rollout = function(batch) seen[#seen + 1] = batch.completions[1].prompt end }
    end)
    assert.same({ "ab", "ab" }, seen)
    assert.equal(3, list[2].prompts_dropped)
  end)

  it("truncate_left keeps the end of a prompt and counts it", function()
    local seen = {}
    local _, list = run(function(t)
      long(t)
      t.data.too_long = "truncate_left"
      t.hooks = { on_rollout = function(batch) seen[#seen + 1] = batch.completions[5].prompt end }
    end)
    assert.same({ "efgh", "dcba" }, seen)
    assert.equal(2, list[2].prompts_truncated)
  end)

  it("error stops with the remedy", function()
    tiny.refused("a prompt has 8 tokens, the limit is 4; raise it", run, function(t)
      long(t)
      t.data.too_long = "error"
    end)
  end)

  it("holds for evaluations too", function()
    for too_long, want in pairs { drop = { n = 1, skipped = 1, truncated = 0 },
      truncate_left = { n = 2, skipped = 0, truncated = 1 } } do
      local tr = grpo.trainer(experiment(function(t)
        t.data.eval, t.data.too_long = rows { "ab", "abcdefgh" }, too_long
      end))
      local report = tr:evaluate()
      for name, value in pairs(want) do
        assert.equal(value, report[name], too_long .. ": " .. name)
      end
    end
  end)
end)

describe("data.shuffle", function()
  local function order(shuffle)
    local seen = {}
    run(function(t)
      t.data.train, t.data.shuffle = rows { "a", "b", "c", "d", "e", "f", "g", "h" }, shuffle
      t.train.steps = 4
      t.hooks = { on_rollout = function(batch)
        for i = 1, #batch.completions, 4 do seen[#seen + 1] = batch.completions[i].prompt end
      end }
    end)
    return table.concat(seen)
  end

  it("is a permutation of an epoch's rows; false keeps their order", function()
    assert.equal("abcdefgh", order(false))
    local shuffled = order(true)
    assert.is_false(shuffled == "abcdefgh")
    local letters = {}
    for c in shuffled:gmatch(".") do letters[#letters + 1] = c end
    table.sort(letters)
    assert.equal("abcdefgh", table.concat(letters))
  end)
end)

describe("train", function()
  it("epochs counts passes where steps is not set", function()
    for epochs, steps in pairs { [0] = 0, [0.25] = 1, [1] = 4, [2.5] = 10 } do
      local tr = run(function(t) t.train.steps, t.train.epochs = nil, epochs end)
      assert.equal(steps, tr.step_count)
    end
  end)

  it("max_grad_norm scales the gradient, after which the weights differ; grad_norm is the one "
    .. "before", function()
    local function first(norm)
      local tr = grpo.trainer(experiment(function(t)
        -- a large eps: the gradient's size shows
        t.train.max_grad_norm, t.train.optimizer = norm, { eps = 1 }
      end))
      local before = grpo.trainer(experiment())
      local m, change = tr:step(), 0
      for name, tensor in tr.model:parameters() do
        for other, twin in before.model:parameters() do
          if name == other then change = change + (tensor - twin):abs():sum():item() end
        end
      end
      return m.grad_norm, change
    end
    local norm, free = first(0)
    local same, clipped = first(norm / 10)
    assert.equal(norm, same)
    assert.is_true(clipped < free / 2, ("%g is not well below %g"):format(clipped, free))
  end)

  it("gradient_checkpointing changes no metric", function()
    local _, a = run()
    local _, b = run(function(t) t.model.gradient_checkpointing = true end)
    for i = 1, #a do
      for _, name in ipairs { "loss", "grad_norm", "reward" } do
        assert.equal(a[i][name], b[i][name])
      end
    end
  end)

  it("reuse_rollout changes no metric", function()
    local _, a = run(function(t) t.train.reuse_rollout = false end)
    for _, how in ipairs { true, "auto" } do
      local function set(t) t.train.reuse_rollout = how end
      local _, b = run(set)
      for i = 1, #a do
        for _, name in ipairs { "loss", "grad_norm", "reward" } do
          assert.equal(a[i][name], b[i][name])
        end
      end
      local tr = grpo.trainer(experiment(set))
      tr:step()
      assert.is_true(tr.stage.engine:estimate().kept > 0)
    end
  end)

  it("micro_batch_tokens changes no metric", function()
    local _, a = run()
    local _, b = run(function(t) t.train.micro_batch_tokens = 22 end)
    for _, name in ipairs { "loss", "reward", "grad_norm", "entropy" } do
      assert.equal(a[2][name], b[2][name])
    end
  end)

  it("gradient_blocks says how the gradient is summed, and changes rounding alone", function()
    local function norm(blocks)
      local _, m = run(function(t)
        t.train.prompts_per_step, t.train.gradient_blocks = 6, blocks
      end)
      return m[1].grad_norm
    end
    local each, one = norm(nil), norm(1)
    assert.equal(each, norm(6))
    assert.is_true(each ~= one and math.abs(each - one) < 1e-5 * one, each .. " " .. one)
  end)

  it("router_aux_loss_coef adds a loss of a mixture's routers", function()
    local _, m = run(function(t)
      t.model.config = { model_type = "olmoe", hidden_size = 16, num_hidden_layers = 2,
        num_attention_heads = 2, intermediate_size = 8, num_experts = 4, num_experts_per_tok = 2,
        max_position_embeddings = 32 }
      t.train.router_aux_loss_coef = 0.5
    end)
    assert.is_true(m[1].aux_loss > 1.9 and m[1].aux_loss < 4, m[1].aux_loss)
    assert.is_true(math.abs(m[1].loss - 0.5 * m[1].aux_loss) < 1e-6)
  end)

  it("gradient_blocks is in the estimated memory", function()
    local function weights(blocks)
      local tr = grpo.trainer(experiment(function(t)
        t.train.prompts_per_step, t.train.gradient_blocks = 6, blocks
      end))
      tr:step()
      return tr.stage.engine:estimate().weights, tr.model:count()
    end
    local one, count = weights(1)
    assert.equal(one + 2 * 4 * count, (weights(nil)))
    assert.equal(one + 4 * count, (weights(3)))
  end)

  it("a KL in the reward reaches the advantages, with token rewards too", function()
    for _, dense in ipairs { false, true } do
      local function advantages(beta)
        local tr = grpo.trainer(experiment(function(t)
          t.reference, t.train.kl, t.train.kl_in, t.train.kl_estimator = "random", beta, "reward",
            "k1"
          if dense then
            t.rewards[2] = { name = "dense", token_fn = function(c)
              local list = {}
              for i = 1, c.length do list[i] = 0 end
              return list
            end }
          end
        end))
        tr:step()
        local a = tr.batch.completions[1].advantage
        return dense and a[1] or a
      end
      assert.is_false(advantages(1) == advantages(100))
    end
  end)
end)

describe("a held-out metric that falls while the reward in training rises", function()
  -- The notes of a run whose metric is 1 before and 0 after it.
  local function notes(change)
    local list, view, calls = {}, require("grpo.base.display").silent(), 0
    function view.note(_, text) list[#list + 1] = text end
    run(function(t)
      local held_out = {}
      for i = 1, 20 do held_out[i] = { prompt = "ab" } end
      t.data.eval, t.train.steps, t.train.lr = grpo.data.list(held_out), 6, 0
      t.eval = { metric = function()
        calls = calls + 1
        return calls <= 40 -- before, and after step 1
      end, every = 1 }
      change(t)
    end, { view = view })
    return table.concat(list, "\n")
  end

  it("names weights that have changed", function()
    local text = notes(function(t)
      t.rewards = { { name = "one", fn = function() return 1 end,
        weight = function(p) return p.step + 1 end } }
    end)
    assert.matches("but the reward of the held%-out rows does not rise %(%d+ to %d+%): the weights "
      .. "of the rewards have changed since step %d %(one %d to %d%)", text)
    assert.is_nil(text:find("not what you want", 1, true))
  end)

  it("names rows that are new or known", function()
    for n, want in pairs { [500] = "rows that the stage had not met before",
      [2] = "has met each of its rows about %d%.%d times" } do
      local text = notes(function(t)
        t.data.train = grpo.data.generate(function() return { prompt = "ab" } end, { n = n })
        t.rewards = { grows = function(_, _, c)
          return #c.group > 1 and c.step or 0 -- held-out rows have one completion each
        end }
      end)
      assert.matches(want, text)
    end
  end)

  it("blames the reward where the held-out rows get more of it", function()
    local text = notes(function(t) t.rewards = { grows = function(_, _, c) return c.step end } end)
    assert.matches("not what you want to measure. For instance %(reward %d%)", text)
  end)
end)

describe("train.kl with a loss written in Lua", function()
  -- The metrics of a run against a random reference, and the notes that it shows.
  local function noted(loss, change)
    local notes, view = {}, require("grpo.base.display").silent()
    function view.note(_, text) notes[#notes + 1] = text end
    local _, list = run(function(t)
      t.reference, t.train.kl, t.train.loss = "random", 0.3, loss
      if change then change(t) end
    end, { view = view })
    return list, table.concat(notes, "\n")
  end

  local function with_beta(t)
    return require("grpo.losses").grpo(t, { clip = 0.2, kl = t.beta })
  end

  local function without(t)
    return require("grpo.losses").grpo(t, { clip = 0.2 })
  end

  it("is t.beta, with which the loss is the built-in one", function()
    local own, notes = noted(with_beta)
    local built_in, plain = noted("grpo"), noted(without)
    for i = 1, #own do
      assert.near(built_in[i].loss, own[i].loss, 1e-6)
      assert.near(built_in[i].grad_norm, own[i].grad_norm, 1e-4 * own[i].grad_norm)
      assert.equal(0.3, own[i].beta)
    end
    assert.is_true(math.abs(plain[1].loss - own[1].loss) > 1e-2)
    assert.equal("", notes)
  end)

  it("follows a schedule, and is 0 where the KL is in the reward", function()
    local seen = {} -- by step
    local function loss(t)
      seen[t.p.step + 1] = t.beta
      return with_beta(t)
    end
    noted(loss, function(t) t.train.kl = function(p) return 0.1 * (p.step + 1) end end)
    assert.same({ 0.1, 0.2 }, seen)
    noted(loss, function(t) t.train.kl_in, t.train.kl_estimator = "reward", "k1" end)
    assert.same({ 0.0, 0.0 }, seen)
  end)

  it("is noted once where the loss does not read it", function()
    local _, notes = noted(without)
    assert.matches("^train%.kl has no effect on the loss: train%.loss is a function and does not "
      .. "read t%.beta; [^\n]*$", notes)
    local function in_reward(t) t.train.kl_in, t.train.kl_estimator = "reward", "k1" end
    for _, change in ipairs { in_reward, function(t) t.train.kl = 0 end } do
      _, notes = noted(without, change)
      assert.equal("", notes)
    end
    _, notes = noted(function(t) -- a copy of all fields
      local copy = {}
      for name, value in pairs(t) do copy[name] = value end
      return with_beta(copy)
    end)
    assert.equal("", notes)
  end)

  it("is what tr:inspect gives to the loss too", function()
    local tr = grpo.trainer(experiment(function(t)
      t.reference, t.train.kl, t.train.loss = "random", 0.3, with_beta
    end))
    tr:step()
    assert.is_nil(tr:inspect().problem)
  end)
end)

describe("sampling.stop", function()
  it("is a string or a list of strings", function()
    local function finishes(stop)
      local tr, count = grpo.trainer(experiment(function(t) t.sampling.stop = stop end)), 0
      tr:step()
      for _, c in ipairs(tr.batch.completions) do
        if c.finish == "stop" then
          count = count + 1
          assert.matches("[bc]$", c.text)
        end
      end
      return count
    end
    assert.is_true(finishes("b") > 0)
    assert.equal(finishes("b"), finishes { "b" })
    assert.is_true(finishes { "b", "c" } >= finishes("b"))
    refused("sampling%.stop: item 2 is a number", function(t) t.sampling.stop = { "a", 5 } end)
    refused("sampling%.stop_regex: .+", function(t) t.sampling.stop_regex = "(" end)
  end)
end)

describe("model and reference", function()
  it("paths give the same model, tokenizer and KL as the objects they were saved from", function()
    temporary(function(dir)
      local tr = grpo.trainer(experiment())
      tr:save(dir)
      local from = grpo.trainer(experiment(function(t) t.model = { path = dir } end))
      assert.equal(#tr.tokenizer, #from.tokenizer)
      local named = grpo.trainer(experiment(function(t)
        t.model = { path = dir, tokenizer = dir }
      end))
      assert.same(tr.tokenizer:encode("ab"), named.tokenizer:encode("ab"))
      local file = grpo.trainer(experiment(function(t)
        t.model = { config = shape, tokenizer = dir .. "/tokenizer.json" }
      end))
      assert.same(tr.tokenizer:encode("ab"), file.tokenizer:encode("ab"))
      local by_path = grpo.trainer(experiment(function(t) t.reference, t.train.kl = dir, 0.1 end))
      local initial = grpo.trainer(experiment(function(t) t.train.kl = 0.1 end))
      for _ = 1, 2 do assert.equal(initial:step().kl, by_path:step().kl) end
    end)
  end)
end)

describe("extends", function()
  local function write(path, value)
    assert.is_true(core.fs.write(path, core.json_encode(value)) and true)
  end

  it("lies below the script and may hold stages", function()
    temporary(function(dir)
      core.fs.mkdirs(dir)
      local path = dir .. "/base.json"
      write(path, { train = { steps = 7, clip = 0.3 }, sampling = { temperature = 0.5 } })
      local e = experiment(function(t) t.extends = path end)
      assert.equal(2, e.config.train.steps)
      assert.equal(0.3, e.config.train.clip)
      assert.equal(0.5, e.stages[1].config.sampling.temperature)
      assert.equal("extends " .. path, e.origins["train.clip"])
      write(path, { stages = { { kind = "grpo" }, { kind = "grpo", train = { steps = 9 } } } })
      e = experiment(function(t) t.extends = path end)
      assert.equal(2, #e.stages)
      assert.equal(9, e.stages[2].config.train.steps)
      write(path, { extends = path })
      refused("cannot extend another", function(t) t.extends = path end)
      refused("extends: got 5, want a string", function(t) t.extends = 5 end)
    end)
  end)
end)

describe("eval", function()
  it("every, samples, temperature and pass_at decide what is reported when", function()
    local reports = {}
    run(function(t)
      t.train.steps = 5
      t.data.eval = rows { "ab", "ba", "a", "b" }
      t.eval = { every = 2, samples = 3, group_size = 2, pass_at = { 2 }, temperature = 0 }
      t.hooks = { on_eval = function(report) reports[#reports + 1] = report end }
    end)
    local labels = {}
    for i, report in ipairs(reports) do
      labels[i] = report.label .. " " .. report.step
      assert.equal(3, report.n)
      assert.is_nil(report["eval/pass@1"])
      -- samples at temperature 0 are greedy
      assert.near(report["eval/accuracy"], report["eval/pass@2"], 1e-12)
    end
    assert.same({ "before 0", "step 2", "step 4", "after grpo 5" }, labels)
  end)

  it("measures with eval.metric, else the entry `correct`, else the clipped total", function()
    local function metric(change)
      local tr = grpo.trainer(experiment(function(t)
        t.data.eval = rows { "ab", "ba" }
        change(t)
      end))
      return tr:evaluate()["eval/metric"]
    end
    assert.equal(0.25, metric(function(t) t.eval = { metric = function() return 0.25 end } end))
    assert.equal(1, metric(function(t)
      t.rewards = { correct = function() return true end, as = count_a }
    end))
    assert.equal(6, metric(function(t)
      t.rewards = { { fn = function() return 3 end, weight = 2 } }
    end))
    assert.equal(4, metric(function(t)
      t.rewards, t.reward = { { fn = function() return 3 end, weight = 2 } }, { clip = { 0, 4 } }
    end))
  end)

  it("refuses what could not be measured", function()
    refused("eval%.pass_at: pass@8 needs eval%.group_size of 8", function(t)
      t.eval = { pass_at = { 8 } }
    end)
    refused("eval%.pass_at: got '{1,8}', want a list; write %[1,8%]", function(t)
      t.eval = { pass_at = "{1,8}" } -- as a command line gives it
    end)
    refused("eval%.pass_at: got 0", function(t) t.eval = { group_size = 4, pass_at = { 0 } } end)
    refused("data%.eval: the dataset is empty", function(t) t.data.eval = grpo.data.list {} end)
    refused("checkpoint%.best: no evaluation has 'eval/accuracy'", function(t)
      t.rewards, t.data.eval, t.data.target = nil, rows { "a" }, function() return "b" end
      t.stages, t.checkpoint = { { kind = "sft" } }, { best = "eval/accuracy" }
    end)
  end)
end)

describe("a run directory", function()
  -- Runs with a run directory and a view that keeps its lines; f(directory, lines, trainer).
  local function with_run(change, f)
    temporary(function(root)
      local lines, view = {}, require("grpo.base.display").silent()
      function view.line(_, text) lines[#lines + 1] = text end
      local directory = require("grpo.runs.directory").create(root,
        { name = "tiny", script = "none", args = {}, overrides = {},
        config = {}, env = {}, inputs = {} })
      local tr = run(change, { directory = directory, view = view })
      f(directory.dir, lines, tr)
    end)
  end

  local function checkpoints(dir)
    local names = {}
    for _, name in ipairs(core.fs.list(dir .. "/checkpoints")) do
      names[#names + 1] = tonumber(name:match("%d+"))
    end
    return names
  end

  it("counts evaluations and checkpoints in epochs", function()
    -- ten rows, two a step: an epoch is five steps
    local function labels(eval, checkpoint, steps)
      local at, kept = {}, nil
      with_run(function(t)
        t.data.train = rows { "a", "b", "a", "b", "a", "b", "a", "b", "a", "b" }
        t.data.eval = rows { "ab" }
        t.train.steps, t.train.prompts_per_step = steps, 2
        t.eval, t.checkpoint = eval, checkpoint
        t.hooks = { on_eval = function(report, tr)
          if report.label == "step" then at[#at + 1] = tr.step_count end
        end }
      end, function(dir) kept = checkpoints(dir) end)
      return at, kept
    end
    local at, kept = labels({ every_epochs = 1 }, { every_epochs = 0.5, keep = 99 }, 12)
    assert.same({ 5, 10 }, at)
    assert.same({ 3, 5, 8, 10, 12 }, kept)
    assert.same({ 1, 2, 3 }, (labels({ every_epochs = 0.01 }, {}, 4))) -- each step, but the last
    assert.same({ 2, 3, 5, 6 }, (labels({ every_epochs = 0.3 }, {}, 7)))
    refused("eval%.every_epochs: 1, but eval%.every is 5, and one of the two counts", function(t)
      t.data.eval, t.eval = rows { "a" }, { every = 5, every_epochs = 1 }
    end)
    refused("checkpoint%.every_epochs: 2, but checkpoint%.every is 1", function(t)
      t.checkpoint = { every = 1, every_epochs = 2 }
    end)
  end)

  it("keeps checkpoint.keep checkpoints and the best evaluation", function()
    local values = { 1, 5, 2, 3, 0 }
    with_run(function(t)
      t.train.steps = 4
      t.data.eval = rows { "ab" }
      local calls = 0
      t.eval = { every = 1, metric = function()
        calls = calls + 1
        return values[calls]
      end }
      t.checkpoint = { every = 1, keep = 1, best = "eval/metric" }
    end, function(dir, _, tr)
      assert.equal("checkpoints/step-000001", core.fs.readlink(dir .. "/best"))
      assert.equal("checkpoints/step-000004", core.fs.readlink(dir .. "/latest"))
      assert.same({ 1, 4 }, checkpoints(dir))
      assert.equal(5, tr.best)
    end)
  end)

  it("the best by a metric of training is looked for where checkpoints are written", function()
    local rewards = { 1, 9, 3, 2 }
    with_run(function(t)
      t.train.steps = 4
      t.hooks = { on_step = function(m, tr) tr:log("mine", rewards[m.step]) end }
      t.checkpoint = { every = 1, keep = 1, best = "mine" }
    end, function(dir)
      assert.equal("checkpoints/step-000002", core.fs.readlink(dir .. "/best"))
    end)
  end)

  it("a best that no step has is told", function()
    with_run(function(t) t.checkpoint = { best = "rewrad" } end, function(_, lines)
      assert.matches("no metric 'rewrad'", table.concat(lines, "\n"))
    end)
    refused("checkpoint%.best: no evaluation has 'eval/acuracy', did you mean 'eval/accuracy'",
      function(t)
      t.data.eval, t.checkpoint = rows { "a" }, { best = "eval/acuracy" }
    end)
    refused("checkpoint%.best: 'eval/accuracy' needs data%.eval", function(t)
      t.checkpoint = { best = "eval/accuracy" }
    end)
  end)

  it("log.tensorboard = true is refused where no extension writes it", function()
    local real = extensions.rows
    extensions.rows = function(kind) return kind == "log_sinks" and {} or real(kind) end
    local ok, err = pcall(refused, "log%.tensorboard: is true, but .*; build it with that",
      function(t) t.log = { tensorboard = true } end)
    experiment(function(t) t.log = { tensorboard = false } end)
    extensions.rows = real
    if not ok then error(err, 0) end
  end)
end)

describe("log", function()
  -- Returns the text that a view writes to standard error in a run.
  local function written(log)
    local real, text = core.draw, {}
    core.draw = function(_, s) text[#text + 1] = s end
    local ok, err = pcall(run, function(t) t.train.steps, t.log = 6, log end,
      { view = require("grpo.base.display").new {} })
    core.draw = real
    if not ok then error(err, 0) end
    return table.concat(text)
  end

  it("every counts steps between lines, completions how many are shown", function()
    local _, lines = written { every = 3, completions = 0 }:gsub("grpo %d/6", "")
    assert.equal(2, lines)
    local text = written { completions = 0 }
    assert.equal(6, select(2, text:gsub("grpo %d/6", "")))
    assert.is_nil(text:find("prompt: ", 1, true))
    assert.matches("prompt: ab", written { completions = 1 })
  end)
end)

describe("limits", function()
  it("of rewards, hooks and schedules hold", function()
    local function forever() while true do end end -- luacheck: ignore
    for section, change in pairs {
      reward = function(t) t.rewards = { forever } end,
      hook = function(t) t.hooks = { on_rollout = forever } end,
      schedule = function(t) t.train.lr = forever end,
    } do
      tiny.refused("20000", run, function(t)
        change(t)
        t.limits = { [section] = { instructions = 20000 } }
      end)
    end
  end)
end)

describe("compute", function()
  it("bf16 changes every product and nothing else about a run", function()
    local losses = {}
    for i, mode in ipairs { "f32", "bf16", "bf16" } do
      local tr, list = run(function(t)
        t.compute, t.train.kl = mode, 0.1
      end)
      assert.equal(mode == "bf16" and "bf16" or "f32", tr.model.compute)
      assert.equal(0, list[1].kl) -- the reference computes as the policy does
      assert.equal(0, list[1].ratio_max_deviation)
      losses[i] = list[2].entropy
    end
    assert.equal(losses[2], losses[3])
    assert.is_true(losses[1] ~= losses[2])
    assert.near(losses[1], losses[2], 0.05)
  end)

  it("is a matter of the whole run", function()
    refused("stages%[1%]%.compute: belongs to the whole run", function(t)
      t.stages = { { kind = "grpo", compute = "bf16" } }
    end)
  end)
end)

describe("options that would have no effect", function()
  local cases = {
    { "model%.dtype: training all weights keeps them in f32", function(t)
      t.model.dtype = "bf16"
    end },
    { "model%.chat_template: \"chatnl\" is no Jinja template, nor the name of one, did you mean "
      .. "'chatml'",
      function(t) t.model.chat_template = "chatnl" end },
    { "model%.chat_template: template:1: ", function(t) t.model.chat_template = "{% if x" end },
    { "train%.reuse_rollout: needs the activations that model%.gradient_checkpointing discards",
      function(t)
      t.train.reuse_rollout, t.model.gradient_checkpointing = true, true
    end },
    { "reference: got true", function(t) t.reference = true end },
    { "reward%.clip: want { low, high }", function(t) t.reward = { clip = { 1 } } end },
    { "reward%.clip: want { low, high }", function(t) t.reward = { clip = { 2, 1 } } end },
    { "reward%.clip: bounds the sum", function(t)
      t.reward = { clip = { 0, 1 }, aggregate = "normalize_then_sum" }
    end },
    { "reward%.aggregate: .*token_fn", function(t)
      t.rewards, t.reward = { { token_fn = print } }, { aggregate = "normalize_then_sum" }
    end },
    { "train%.kl_in: .*sum of rewards", function(t)
      t.reward, t.train.kl_in = { aggregate = "normalize_then_sum" }, "reward"
    end },
    { "train%.kl_cov%.ratio: does nothing with train%.iterations = 1",
      function(t) t.train.kl_cov = { ratio = 0.1 } end },
    { "stages: want a list", function(t) t.stages = {} end },
    { "stages%[1%]%.threads: belongs to the whole run", function(t)
      t.stages = { { kind = "grpo", threads = 2 } }
    end },
    { "stages%[1%]%.model%.path: belongs to the whole run", function(t)
      t.stages = { { kind = "grpo", model = { path = "x" } } }
    end },
  }
  for i, case in ipairs(cases) do
    it("are refused: " .. i, function() refused(case[1], case[2]) end)
  end

  it("are refused on the command line too", function()
    local restore = context.restorer()
    context.begin { overrides = { layers.parse_override("stages.1.threads=2") } }
    local ok, err = pcall(experiment)
    restore()
    assert.is_false(ok)
    assert.matches("belongs to the whole run; write threads", tostring(err))
  end)
end)

describe("a sampling table that is used again and again", function()
  it("holds its stop strings once", function()
    local tr = grpo.trainer(experiment(function(t)
      t.sampling.stop, t.sampling.stop_regex, t.train.steps = { "b", "c" }, "[cd]{2}", 60
    end))
    local function held()
      collectgarbage()
      collectgarbage()
      return collectgarbage("count") * 1024
    end
    for _ = 1, 10 do tr:step() end
    local before = held()
    for _ = 1, 50 do tr:step() end
    assert.is_true(held() - before < 2000, ("%d bytes more after 50 steps"):format(held() - before))
  end)
end)
