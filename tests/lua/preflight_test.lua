-- Faults that are found before a run begins: schedules over their whole stage, rows that are other
-- ones when they are asked for again.  And the metrics that say what was in force.

local core = require "grpo.core"
local grpo = require "grpo"
local preflight = require "grpo.loop.preflight"
local row_check = require "grpo.loop.row_check"
local schedule = require "grpo.schedule"
local schedule_check = require "grpo.loop.schedule_check"
local start = require "grpo.runs.start"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local shape = tiny.llama { hidden_size = 16, intermediate_size = 32, eos_token_id = 8 }

local experiment, run = tiny.experiments(function()
  return {
    name = "tiny",
    model = { config = shape, tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = { train = grpo.data.list { { prompt = "a" }, { prompt = "b" } }, max_prompt_tokens = 4 },
    sampling = { group_size = 2, max_new_tokens = 2 },
    rewards = { as = tiny.count_a },
    train = { steps = 10, prompts_per_step = 1 },
  }
end)

local function with(path, value)
  return function(t)
    local node, last = t, nil
    for part in path:gmatch("[^.]+") do
      if last then
        node[last] = node[last] or {}
        node = node[last]
      end
      last = part
    end
    node[last] = value
  end
end

local function notes_of(change)
  return schedule_check.stage(experiment(change).stages[1])
end

describe("a schedule is refused before its stage begins", function()
  it("where it leaves the bounds of its option", function()
    local falls = schedule.linear { from = 1e-3, to = -1e-3 }
    tiny.refused("preflight_test.lua:%d+: train.lr: the schedule returns %-.* for p.step = 6 "
      .. "and p.steps = 10, want 0 or more", function() notes_of(with("train.lr", falls)) end)
    tiny.refused("train.kl: the schedule returns %-1 for p.step = 9 and p.steps = 10", function()
      notes_of(with("train.kl", schedule.piecewise { { at = 0, value = 0.1 },
        { at = 9, value = -1 } }))
    end)
    tiny.refused("train.ppo.kl_coef: the schedule returns", function()
      notes_of(function(t)
        t.stages = { { kind = "ppo", train = { ppo = { kl_coef = falls } } } }
      end)
    end)
    assert.same({}, notes_of(with("rewards.as", { fn = tiny.count_a, weight = falls })))
  end)

  it("where it is not finite, fails or is not a function of p", function()
    local infinite = "train.lr: the schedule returned inf for p.step = 5, want a finite number"
    tiny.refused(infinite, function()
      notes_of(with("train.lr", function(p) return 1 / (5 - p.step) end))
    end)
    tiny.refused("preflight_test.lua:%d+: no", function()
      notes_of(with("train.lr", function(p) return p.step < 7 and 1 or error("no") end))
    end)
    local calls = 0
    tiny.refused("train.lr: the schedule returned 1 and then 2 for p.step = 0; make it a function "
      .. "of p", function()
      notes_of(with("train.lr", function()
        calls = calls + 1
        return calls
      end))
    end)
  end)

  it("and none that depends on what is not known yet", function()
    for _, f in ipairs {
      function(p) return p.metrics.reward and 1 or -1 end,
      function(p) return p.metrics.reward + 1 end,
      function(p) return 1 - p.tokens end,
      function(p)
        for _, v in pairs(p) do if type(v) == "number" and v > 5 then return -1 end end
        return 1
      end,
      schedule.adaptive_kl { initial = 0.1, target = 1, horizon = 100 },
      schedule.cosine { peak = 1, over = "tokens", tokens = 100 },
    } do
      assert.same({}, notes_of(with("train.kl", f)))
    end
  end)

  it("in few calls where the stage is long", function()
    local calls, last = 0, nil
    notes_of(function(t)
      t.train.steps = 1000000
      t.train.lr = function(p)
        calls, last = calls + 1, p.step
        return p.fraction
      end
    end)
    assert.equal(2000, calls)
    assert.equal(999999, last)
  end)

  it("with a sentence about a warm-up that never ends", function()
    local function warned(f, unit, long, time)
      assert.same({ ("train.lr: its warm-up takes %s %s, but the stage has %s, so it never ends; "
        .. "make it shorter, or give warmup_ratio"):format(long, unit, time) },
        notes_of(with("train.lr", f)))
    end
    warned(schedule.cosine { peak = 1, warmup = 20 }, "steps", "20", "10")
    warned(schedule.linear { from = 1, to = 0, warmup = 11 }, "steps", "11", "10")
    warned(schedule.warmup { to = 1, steps = 12 }, "steps", "12", "10")
    warned(schedule.inverse_sqrt { peak = 1, warmup = 13 }, "steps", "13", "10")
    warned(schedule.cosine { peak = 1, warmup = 14, over = "update" }, "updates", "14", "10")
    warned(schedule.chain { { schedule.warmup { to = 1, steps = 9 }, steps = 4 }, { 1 } }, "steps",
      "9", "4")
    assert.same({}, notes_of(with("train.lr", schedule.cosine { peak = 1, warmup = 10 })))
    assert.same({}, notes_of(with("train.lr", schedule.cosine { peak = 1, warmup_ratio = 0.5 })))
  end)

  it("and no run directory is left", function()
    tiny.temporary(function(dir)
      tiny.refused("train.lr: the schedule returns", function()
        preflight.run(trainer.new(experiment(with("train.lr",
          schedule.linear { from = 1, to = -1 }))))
      end)
      assert(core.fs.write(dir .. ".lua", [[
        local grpo = require "grpo"
        return grpo.experiment {
          model = { config = { model_type = "llama", hidden_size = 16, intermediate_size = 16,
            num_hidden_layers = 1, num_attention_heads = 2, max_position_embeddings = 24 },
            tokenizer = grpo.tokenizer.chars("ab") },
          data = { train = grpo.data.list { { prompt = "a" } }, max_prompt_tokens = 4 },
          sampling = { group_size = 2, max_new_tokens = 2 }, rewards = { function() return 1 end },
          train = { steps = 4, lr = function(p) return 2 - p.step end },
        }]]))
      tiny.refused("train.lr: the schedule returns %-1 for p.step = 3 and p.steps = 4", function()
        start.trainer { script = dir .. ".lua", args = {}, overrides = {}, root = dir,
          view = function() return nil end }
      end)
      os.remove(dir .. ".lua")
      assert.is_false(core.fs.exists(dir))
    end)
  end)
end)

describe("rows", function()
  local function made(f, n)
    return experiment(with("data.train", grpo.data.generate(f, { n = n or 100 })))
  end

  it("that depend on their number, their random numbers and math.random are the same again",
    function()
    local e = made(function(rng, i) return { prompt = "a", n = i, x = rng() } end)
    local kept, notes = row_check.first(e)
    assert.same({}, notes)
    local count = 0
    for place in pairs(kept) do
      count = count + 1
      assert.matches("^1/%d+$", place)
    end
    assert.equal(8, count)
    assert.is_true(kept["1/1"] ~= nil and kept["1/100"] ~= nil)
    assert.is_nil(row_check.change(e, kept))
    e = experiment(with("data.train", grpo.data.list { { prompt = "a" } }:map(function(row)
      return { prompt = row.prompt, x = math.random() }
    end)))
    assert.same({}, (select(2, row_check.first(e))))
  end)

  it("that depend on the calls before are named", function()
    local calls = 0
    local e = made(function()
      calls = calls + 1
      return { prompt = "a", n = calls }
    end)
    local kept, notes = row_check.first(e)
    assert.same({}, kept)
    assert.matches("^data.train: row 1 was another one when it was asked for again; make rows from",
      notes[1])
    assert.equal(notes[1], preflight.run(trainer.new(e))[1])
  end)

  it("that another process makes otherwise are named", function()
    local seed = 1
    local e = made(function() return { prompt = "a", seed = seed } end)
    local kept = row_check.first(e)
    seed = 2
    assert.matches("^data.train: row 1 is not the one that the run began with, because",
      row_check.change(e, kept))
  end)

  it("that cannot be made are left to others", function()
    local e = made(function(_, i) return i ~= 100 and { prompt = "a" } or error("no") end)
    local kept, notes = row_check.first(e)
    assert.same({}, notes)
    assert.is_nil(kept["1/100"])
  end)
end)

describe("the metrics of a step", function()
  it("have the weight of each reward as it was in force", function()
    local _, list = run(function(t)
      t.train.steps = 3
      t.rewards = {
        { name = "as", fn = tiny.count_a, weight = schedule.linear { from = 1, to = 0 } },
        { name = "bs", fn = tiny.count_a } }
    end)
    assert.near(2 / 3, list[2]["rewards/as/weight"], 1e-12)
    assert.equal(1.0, list[2]["rewards/bs/weight"])
    local _, of_ppo = run(function(t)
      t.train.steps, t.stages = 1, { { kind = "ppo" } }
      t.rewards = { { name = "as", fn = tiny.count_a, weight = 0.25 } }
    end)
    assert.equal(0.25, of_ppo[1]["rewards/as/weight"])
  end)

  it("have nothing of times without time/ in its name", function()
    local tr, list = run(function(t) t.train.steps = 1 end)
    assert.equal("as", list[1]["time/slowest_reward"])
    for name, value in pairs(tr:repeatable_metrics()) do
      assert.is_true(type(value) == "number" or name == "kind", name)
      assert.is_nil(name:find("time/", 1, true))
    end
  end)

  it("have the values of schedules", function()
    local _, list = run(function(t)
      t.train.steps, t.train.kl = 2, schedule.linear { from = 0.5, to = 0 }
      t.train.lr = schedule.linear { from = 1e-3, to = 0 }
    end)
    assert.near(0.25, list[2].beta, 1e-12)
    assert.near(5e-4, list[2].learning_rate, 1e-12)
  end)
end)

describe("default lengths that do not fit the model's context of 32 tokens", function()
  -- prompt, room: what the experiment sets, or nil.  Returns the lengths of its first stage, and
  -- the notes of a run.
  local function lengths(prompt, room, change)
    local e = experiment(function(t)
      t.data.max_prompt_tokens, t.sampling.max_new_tokens = prompt, room
      if change then change(t) end
    end)
    local tr = trainer.new(e)
    local config = e.stages[1].config
    return ("%d and %d"):format(config.data.max_prompt_tokens, config.sampling.max_new_tokens),
      table.concat(preflight.run(tr), "\n"), e
  end

  local function supervised(t)
    t.rewards, t.data.target = {}, function() return "abc" end
    t.stages = { { kind = "sft" } }
  end

  it("are lowered, and a note says so", function()
    local text, notes, e = lengths(nil, nil)
    assert.equal("16 and 16", text)
    assert.equal("data.max_prompt_tokens is 16 instead of 512 (the default), because the model's "
      .. "context has 32 tokens\nsampling.max_new_tokens is 16 instead of 256 (the default), "
      .. "because the model's context has 32 tokens", notes)
    local described = start.described(e)
    for _, options in ipairs { described.options, described.stages[1].options } do
      assert.same({ value = 16, origin = "default" }, options["data.max_prompt_tokens"])
      assert.same({ value = 16, origin = "default" }, options["sampling.max_new_tokens"])
    end
    assert.equal("26 and 6", (lengths(nil, 6)))
    assert.equal("4 and 28", (lengths(4, nil)))
    assert.equal("4 and 28", (lengths(4, nil, supervised)))
    assert.equal("16 and 16", (lengths(nil, nil, supervised)))
  end)

  it("stay where they fit", function()
    local function wide(t) t.model.config = tiny.with(shape, { max_position_embeddings = 1024 }) end
    local text, notes = lengths(nil, nil, wide)
    assert.equal("512 and 256", text)
    assert.equal("", notes)
  end)

  it("are never lowered where the experiment sets them and samples", function()
    tiny.refused("data.max_prompt_tokens: 30 and sampling.max_new_tokens 8 together exceed",
      lengths, 30, 8)
    tiny.refused("data.max_prompt_tokens: 32 does not leave room", lengths, 32, nil)
    tiny.refused("sampling.max_new_tokens 40 together exceed", lengths, 4, 40)
  end)

  it("are lowered in a supervised stage, which samples nothing, in any case", function()
    local text, notes = lengths(4, 40, supervised)
    assert.equal("4 and 28", text)
    assert.equal("sampling.max_new_tokens is 28 instead of 40, because the model's context has 32 "
      .. "tokens", notes)
    assert.equal("16 and 16", (lengths(nil, 40, supervised)))
  end)
end)
