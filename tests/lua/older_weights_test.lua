-- workers.staleness: the rollout of a step is sampled with the weights of an earlier one, and
-- learned from with the sampler's correction.  What weighs a token is computed here a second time,
-- by scoring with the two checkpoints.

local grpo = require "grpo"
local core = require "grpo.core"
local losses = require "grpo.losses"
local tiny = require "tests.lua.tiny"

local shape = tiny.llama { num_attention_heads = 4, num_key_value_heads = 2,
  max_position_embeddings = 48, tie_word_embeddings = true, initializer_range = 0.3 }
local STEPS = 5

local experiment = tiny.experiments(function()
  return {
    name = "tiny", seed = 3,
    model = { config = shape, tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = { train = grpo.data.list { { prompt = "ab" }, { prompt = "cab" }, { prompt = "h" } },
      max_prompt_tokens = 8 },
    sampling = { group_size = 4, max_new_tokens = 8 },
    rewards = { { name = "as", fn = tiny.count_a } },
    train = { steps = STEPS, prompts_per_step = 2, lr = 3e-3, loss = "dapo",
      sampler_correction = { max = 1.1, min = 0.9 } },
    workers = { staleness = 1 },
  }
end)

-- The trainer, the metrics, the completions and a checkpoint dir/N of every step.
local function run_into(dir, change)
  local tr, list, batches = grpo.trainer(experiment(change)), {}, {}
  tr:current_stage()
  tr:save(dir .. "/0")
  for m in tr.step, tr do
    list[#list + 1], batches[#batches + 1] = m, tr.batch
    if not tr.stage.done then tr:save(("%s/%d"):format(dir, #list)) end
  end
  return tr, list, batches
end

local function scores(dir, step, batch, temperature)
  local model = grpo.model.load(("%s/%d"):format(dir, step))
  local prompts, texts = {}, {}
  for i, c in ipairs(batch.completions) do
    prompts[i], texts[i] = batch.prompts[c.prompt_index].ids, c.ids
  end
  return model:score(prompts, texts, { temperature = temperature }).logp:totable()
end

local function each_token(batch, f)
  local at = 0
  for _, c in ipairs(batch.completions) do
    for t = 1, c.length do
      at = at + 1
      f(at, c, t)
    end
  end
  return at
end

describe("workers.staleness", function()
  it("samples step s with the weights after step s - 1 - k, or the first ones", function()
    for k = 1, 3 do
      tiny.temporary(function(dir)
        local _, _, batches = run_into(dir, function(t) t.workers.staleness = k end)
        for s = 1, STEPS do
          local by = scores(dir, math.max(0, s - 1 - k), batches[s])
          each_token(batches[s], function(at, c, t) assert.equal(by[at], c.logprobs[t]) end)
        end
      end)
    end
  end)

  it("weighs tokens by exp(log p before the update - log p when sampled), bounded", function()
    tiny.temporary(function(dir)
      local _, list, batches = run_into(dir)
      for s = 1, STEPS do
        local batch, sum, bounded, least, most = batches[s], 0.0, 0, math.huge, 0.0
        local old = scores(dir, s - 1, batch)
        local sampler = scores(dir, math.max(0, s - 2), batch)
        local n = each_token(batch, function(at, c)
          local w = math.exp(old[at] - sampler[at])
          least, most = math.min(least, w), math.max(most, w)
          if w < 0.9 or w > 1.1 then bounded = bounded + 1 end
          sum = sum - math.max(0.9, math.min(1.1, w)) * c.advantage -- the ratio is 1
        end)
        assert.near(sum / n, list[s].loss, 1e-6)
        assert.near(most, list[s]["sampler_ratio/max"], 1e-12)
        assert.near(least, list[s]["sampler_ratio/min"], 1e-12)
        assert.is_true(s == 1 or bounded > 0)
        assert.equal(s == 1 and 0 or nil, list[s].ratio_max_deviation)
      end
    end)
  end)

  it("gives the loss of a script both log-probabilities", function()
    local function own(t)
      local w = (t.old_logp - t.sampler_logp):exp():clamp(0.9, 1.1)
      return losses.dapo(setmetatable({ advantage = t.advantage * w }, { __index = t }),
        { clip = 0.2, clip_high = 0.28 })
    end
    local by_name, by_function = {}, {}
    for lists, loss in pairs { [by_name] = "dapo", [by_function] = own } do
      local _, list = tiny.steps(grpo.trainer(experiment(function(t)
        t.train.loss, t.train.iterations = loss, 2
        if loss == own then t.train.sampler_correction = nil end
      end)))
      for i, m in ipairs(list) do lists[i] = m.loss end
    end
    for s = 1, STEPS do assert.near(by_name[s], by_function[s], 1e-5) end
  end)

  it("gives the same weights for any threads, micro-batches, and a resume at any step", function()
    tiny.temporary(function(dir)
      local tr = run_into(dir, function(t) t.workers.staleness = 2 end)
      local wanted = tiny.weights(tr)
      assert.equal(wanted, tiny.weights(tiny.steps(grpo.trainer(experiment(function(t)
        t.workers.staleness, t.train.micro_batch_tokens = 2, 1
      end)))))
      local trainer = require "grpo.train.trainer"
      for s = 0, STEPS - 1 do
        local again = trainer.new(experiment(function(t) t.workers.staleness = 2 end),
          { from = ("%s/%d"):format(dir, s) })
        assert.equal(wanted, tiny.weights(tiny.steps(again)))
      end
    end)
  end)

  it("is not felt in evaluations and checkpoints, which have the weights of now", function()
    tiny.temporary(function(dir)
      local tr = grpo.trainer(experiment())
      tr:step()
      local now = tiny.weights(tr)
      tr:save(dir)
      assert.equal(now, tiny.weights(tr))
      assert.equal(now, tiny.weights { model = grpo.model.load(dir) })
      assert.is_true(core.fs.isdir(dir .. "/older-1"))
      assert.is_false(now == tiny.weights { model = grpo.model.load(dir .. "/older-1") })
    end)
  end)

  it("leaves the weights of now behind when sampling fails", function()
    local tr = grpo.trainer(experiment())
    tr:step()
    local now, engine = tiny.weights(tr), tr.engine
    tr.workers = { rollout = function()
      assert.is_false(now == tiny.weights(tr))
      error("no rollout")
    end }
    tiny.refused("no rollout", tr.step, tr)
    assert.equal(now, tiny.weights(tr))
    assert.equal(engine, tr.engine)
  end)
end)

describe("a copy of weights", function()
  it("has the numbers and the version that a model had", function()
    local model = core.model_new(shape, { seed = 1 })
    local weights = core.weights
    local copy, version = weights.snapshot(model), weights.version(model)
    local n = weights.trained(model)
    local first = weights.get(model, 0, n)
    weights.set(model, 0, ("\0"):rep(4 * n))
    weights.changed(model)
    assert.is_true(weights.version(model) ~= version)
    assert.equal(first:sub(9, 20), copy:get(2, 3))
    copy:restore(model)
    assert.equal(version, weights.version(model))
    assert.equal(first, weights.get(model, 0, n))
    copy:load(model)
    assert.is_true(weights.version(model) ~= version)
    local other = core.model_new(tiny.llama(), { seed = 1 })
    tiny.refused("the copy is of another model", copy.load, copy, other)
    tiny.refused("the copy is of another model", copy.restore, copy, other)
    copy:close()
    tiny.refused("", copy.get, copy, 0, 1)
  end)
end)
