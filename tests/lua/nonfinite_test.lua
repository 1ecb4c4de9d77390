-- A value that is not finite: the step is not taken, the weights stay, and the message names where
-- it came from.  The operations themselves: tests/rl/test_nonfinite.c; the batch that is kept:
-- tests/cli/nonfinite.sh.

local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local NAN <const>, INF <const> = 0 / 0, math.huge

-- An adapter needs a base in a directory.
local base <const> = tiny.path()
local tokenizer <const> = grpo.tokenizer.chars("abcdefgh ")

local experiment = tiny.experiments(function()
  return {
    name = "tiny", seed = 3, model = { path = base },
    data = { train = grpo.data.generate(function(rng)
      return { prompt = rng() < 0.5 and "ab" or "cd" }
    end, { n = 8 }), target = function() return "abc" end, max_prompt_tokens = 4 },
    sampling = { group_size = 4, max_new_tokens = 6 },
    rewards = { { name = "as", fn = tiny.count_a } },
    train = { steps = 4, prompts_per_step = 2, lr = 1e-2 },
  }
end)

before_each(function()
  grpo.model.new(tiny.llama { hidden_size = 16, intermediate_size = 32, initializer_range = 0.3,
    vocab_size = #tokenizer }, { seed = 5, tokenizer = tokenizer }):save(base)
end)

after_each(function() core.fs.remove_tree(base) end)

-- Sets c.reward of one completion in the batch after `step` steps, `times` times.
local function spoil_reward(value, step, times)
  local left = times or 1
  return function(batch)
    if batch.step ~= step or left == 0 then return end
    left = left - 1
    batch.completions[6].reward = value
  end
end

-- A run that must diverge in its step number `step`, and leave the weights as the step before did.
local function diverges(step, change)
  local before
  local tr = trainer.new(experiment(function(t)
    t.hooks = { on_step = function(_, tr) before = tiny.weights(tr) end }
    change(t)
  end))
  if step == 1 then before = tiny.weights(tr) end
  local ok, err = pcall(tr.run, tr)
  assert.is_false(ok)
  assert.equal("EDIVERGED", err.code, tostring(err))
  assert.equal(step - 1, tr.step_count)
  assert.equal(before, tiny.weights(tr))
  return tostring(err)
end

local function names(message, ...)
  for _, text in ipairs { ... } do
    assert.is_truthy(message:find(text, 1, true), ("%q is not in: %s"):format(text, message))
  end
end

-- Other ways to train.
local ways = {
  f32 = function() end,
  bf16 = function(t) t.compute = "bf16" end,
  lora = function(t) t.model.lora = { rank = 2 } end,
  ppo = function(t) t.stages = { { kind = "ppo" } } end,
}

describe("a reward that is not finite", function()
  it("is named with its completion", function()
    for name, change in pairs(ways) do
      for _, value in ipairs { NAN, INF } do
        names(diverges(3, function(t)
          change(t)
          t.hooks.on_rollout = spoil_reward(value, 2)
        end), "the reward of prompt 2, completion 2 is", value ~= value and "nan" or "inf",
          "look at the rewards")
        assert.is_truthy(name)
      end
    end
  end)

  it("from a function is refused with its name and completion", function()
    for _, value in ipairs { NAN, INF, -INF } do
      tiny.refused("rewards%.as: .*a reward must be finite %(completion: ", function()
        trainer.new(experiment(function(t)
          t.rewards[1].fn = function() return value end
        end)):run()
      end)
    end
  end)
end)

describe("a loss in Lua", function()
  local function with_loss(way, loss)
    return diverges(1, function(t)
      ways[way](t)
      t.train.loss = loss
    end)
  end

  it("that is not finite is named", function()
    for _, way in ipairs { "f32", "bf16", "lora" } do
      for _, value in ipairs { NAN, INF } do
        names(with_loss(way, function(t) return (t.logp * t.advantage):sum() * value end),
          "the loss is", "the loss's gradient by the log-probability at prompt 1, completion 1, "
          .. "token 1", "look at train.loss")
      end
    end
  end)

  it("whose gradient alone is not finite is named", function()
    names(with_loss("f32", function(t) return (t.logp - t.old_logp):abs():sqrt():sum() end),
      "the gradient norm is", "the loss's gradient by the log-probability at prompt 1",
      "look at train.loss")
  end)
end)

describe("a learning rate that is too large", function()
  it("is named with the operation", function()
    for name, change in pairs(ways) do
      local ok, err = pcall(function()
        trainer.new(experiment(function(t)
          change(t)
          t.train.lr, t.train.steps = 1e38, 20
        end)):run()
      end)
      assert.is_false(ok, name)
      assert.equal("EDIVERGED", err.code, name .. ": " .. tostring(err))
      names(tostring(err), "the first such value is ", " (model.", " at prompt ", "lower train.lr")
    end
  end)

  it("is found in demonstrations", function()
    local ok, err = pcall(function()
      trainer.new(experiment(function(t)
        t.stages = { { kind = "sft", train = { lr = 1e38, steps = 20 } } }
      end)):run()
    end)
    assert.is_false(ok)
    names(tostring(err), "training diverged at step ", "the first such value is ", " (model.",
      " example ")
  end)
end)

describe('train.on_nonfinite = "skip"', function()
  local function skipping(change)
    return function(t)
      t.train.on_nonfinite = "skip"
      change(t)
    end
  end

  -- The metrics of all steps, and the weights.
  local function run(change)
    local list = {}
    local tr = trainer.new(experiment(skipping(function(t)
      t.hooks = { on_step = function(m) list[#list + 1] = m end }
      change(t)
    end)))
    tr:run()
    return list, tiny.weights(tr)
  end

  it("takes the next batch, and counts", function()
    for _, change in pairs(ways) do
      local list = run(function(t)
        change(t)
        t.hooks.on_rollout = spoil_reward(NAN, 1, 3)
      end)
      assert.equal(4, #list)
      assert.is_nil(list[1].batches_skipped)
      assert.equal(3, list[2].batches_skipped)
      assert.is_nil(list[3].batches_skipped)
    end
  end)

  it("is another batch than the one that is skipped", function()
    local prompts = {}
    run(function(t)
      t.data.train, t.data.shuffle = grpo.data.list { { prompt = "a" }, { prompt = "b" },
        { prompt = "c" }, { prompt = "d" } }, false
      t.train.steps, t.train.prompts_per_step = 2, 1
      local spoil = spoil_reward(INF, 0)
      t.sampling.group_size = 8
      t.hooks.on_rollout = function(batch)
        prompts[#prompts + 1] = batch.completions[1].prompt
        spoil(batch)
      end
    end)
    assert.same({ "a", "b", "c" }, prompts)
  end)

  it("ends after 10 in a row", function()
    names(diverges(2, skipping(function(t) t.hooks.on_rollout = spoil_reward(NAN, 1, 1000) end)),
      "10 batches before it were skipped")
  end)

  -- A loss that is not finite in the optimizer step of that number, of three from the second
  -- rollout.
  local function third_of(number)
    local calls = 0
    return function(t)
      t.train.iterations, t.train.steps, t.train.prompts_per_step = 3, 3, 1
      t.train.loss = function(x)
        calls = calls + 1
        local spoilt = calls == 3 + number or calls == 3 + number + 1 -- which is looked at again
        return (x.logp * x.advantage):sum() * (spoilt and NAN or -1)
      end
    end
  end

  it("counts optimizer steps of a skipped batch that were taken before", function()
    for number, taken in ipairs { false, 1, 2 } do
      local list = run(third_of(number))
      assert.equal(3, #list)
      assert.equal(1, list[2].batches_skipped)
      assert.equal(taken or nil, list[2].updates_of_skipped_batches)
      assert.is_nil(list[1].updates_of_skipped_batches)
      assert.is_nil(list[3].updates_of_skipped_batches)
    end
  end)

  it("and without it the message says how many were taken and stay", function()
    local ends = {
      "so the weights were not changed; ",
      "so optimizer step 2 from this rollout was not taken, but the one before it was, and stays; ",
      "so optimizer step 3 from this rollout was not taken, but the 2 before it were, and stay; ",
    }
    for number, text in ipairs(ends) do
      local tr = trainer.new(experiment(third_of(number)))
      local ok, err = pcall(tr.run, tr)
      assert.is_false(ok)
      names(tostring(err), "training diverged at step 2: the loss is nan, " .. text)
    end
  end)
end)
