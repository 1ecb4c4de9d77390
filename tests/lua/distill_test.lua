-- kind = "distill", and train.distill in a grpo stage: what is learned from whom, and what is
-- refused.

local core = require "grpo.core"
local grpo = require "grpo"
local preflight = require "grpo.loop.preflight"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local shape = tiny.llama { hidden_size = 16, intermediate_size = 32, initializer_range = 0.3,
  eos_token_id = 8 }
local letters = "abcdefgh "

local rows = {}
for i = 1, 8 do rows[i] = { prompt = "ab", number = i } end

local experiment, run = tiny.experiments(function()
  return {
    name = "tiny", seed = 3,
    model = { config = shape, tokenizer = grpo.tokenizer.chars(letters) },
    data = { train = grpo.data.list(rows), max_prompt_tokens = 4,
      target = function() return "gg" end },
    sampling = { group_size = 2, max_new_tokens = 6 },
    train = { steps = 2, prompts_per_step = 4, lr = 1e-2 },
    stages = { { kind = "distill" } },
  }
end)

local function refused(pattern, change) tiny.refused(pattern, experiment, change) end

-- Calls f(path) with the directory of a model of other weights; changes: of its shape; text: its
-- letters.
local function with_teacher(f, changes, text)
  tiny.temporary(function(path)
    local tokenizer = grpo.tokenizer.chars(text or letters)
    local model = grpo.model.new(tiny.with(shape, changes), { seed = 9, tokenizer = tokenizer })
    model:save(path)
    f(path)
  end)
end

local function hinted(_, c) return "aa" .. (c.index == 1 and "b" or "e") end

describe("a distill stage", function()
  it("comes near to a teacher of another shape, by every divergence", function()
    with_teacher(function(path)
      for _, o in ipairs { {}, { beta = 0 }, { beta = 0.5 }, { beta = 0.5, top_k = 3 },
        { sampled_token = true }, { beta = 0, lambda = 0.5 } } do
        local _, list = run(function(t)
          t.reference, t.train.distill, t.train.steps = path, o, 60
        end)
        local function mean(first)
          local sum = 0
          for i = first, first + 9 do sum = sum + list[i].kl end
          return sum / 10
        end
        assert.equal("distill", list[1].kind)
        assert.equal(1, list[1].beta)
        assert.is_nil(list[1].reward)
        assert.is_true(mean(51) < 0.5 * mean(1), ("beta %s, top_k %s: from %g to %g"):format(o.beta,
          o.top_k, mean(1), mean(51)))
      end
    end, { num_hidden_layers = 2, hidden_size = 24 })
  end)

  it("measures rewards and does not learn from them", function()
    local function weights(change)
      return tiny.weights((run(function(t)
        t.reference = "random"
        if change then change(t) end
      end)))
    end
    local _, list = run(function(t)
      t.reference, t.rewards = "random", { { name = "as", fn = tiny.count_a } }
    end)
    assert.equal("number", type(list[1].reward))
    assert.equal(weights(), weights(function(t)
      t.rewards = { { name = "as", fn = tiny.count_a } }
    end))
  end)

  it("learns on data.target where lambda says so", function()
    local seen = {}
    local _, list = run(function(t)
      t.reference, t.train.steps, t.train.distill = "random", 30, { lambda = 0.5 }
      t.hooks = { on_rollout = function(batch)
        for _, c in ipairs(batch.completions) do
          if #c.group == 1 then assert.equal("gg", c.text) end
        end
        seen[#seen + 1] = #batch.completions
      end }
    end)
    local targets = 0
    for i, n in ipairs(seen) do
      assert.is_true(n == 8 or n == 4)
      if n == 4 then targets = targets + 1 end
      assert.equal(n, list[i].num_sequences)
      assert.is_true(list[i].kl > 0 and list[i].grad_norm > 0)
    end
    assert.is_true(targets > 7 and targets < 23)
    local _, all = run(function(t)
      t.reference, t.train.distill = "random", { lambda = 0 }
    end)
    assert.equal(3, all[1]["completions/mean_length"]) -- with the end token
  end)

  it("learns on completions of the teacher", function()
    with_teacher(function(path)
      local texts = {}
      for _, weights in ipairs { 1e-2, 0 } do
        local list = {}
        run(function(t)
          t.reference, t.train.lr, t.data.target = path, weights, nil
          t.train.distill = { lambda = 0, seq_kd = true }
          t.hooks = { on_rollout = function(batch)
            for _, c in ipairs(batch.completions) do list[#list + 1] = c.text .. "|" .. c.finish end
          end }
        end)
        texts[#texts + 1] = table.concat(list, " ")
        assert.equal(16, #list)
      end
      assert.equal(texts[1], texts[2], "they do not depend on the student")
    end)
  end)

  it("does not learn what a target injects", function()
    local _, list = run(function(t)
      t.reference, t.train.distill = "random", { lambda = 0 }
      t.data.target = function() return { "g", "aaa", "h" } end
      t.environment = function() coroutine.yield("a") end
      t.rewards = { { name = "as", fn = tiny.count_a } }
    end)
    assert.equal(3 * 4, list[1].trained_tokens)
  end)

  it("asks for the teacher's prompts after the rewards", function()
    local rewards = {}
    local _, list = run(function(t)
      t.rewards = { { name = "as", fn = tiny.count_a } }
      t.train.distill = { max_prompt_tokens = 6, prompt = function(row, c)
        rewards[#rewards + 1] = c.reward
        if c.index == 1 then return nil end
        return row.number == 1 and "aaaaaaaaa" or "ab" .. ("e"):rep(row.number % 3)
      end }
    end)
    assert.equal(16, #rewards)
    assert.equal("number", type(rewards[1]))
    local dropped = 0
    for _, m in ipairs(list) do
      dropped = dropped + (m.teacher_prompts_dropped or 0)
      assert.is_true(m.frac_taught <= 0.5)
    end
    assert.equal(1, dropped)
  end)

  it("takes turns, of which it learns the model's own", function()
    local _, list = run(function(t)
      t.reference, t.sampling.max_new_tokens = "random", 12
      t.turns, t.sampling.stop = { max = 3 }, { "a", "b" }
      t.environment = function()
        while true do coroutine.yield("cc") end
      end
      t.rewards = { { name = "as", fn = tiny.count_a } }
      t.train.distill = { beta = 0.5, prompt = hinted }
    end)
    assert.is_true(list[1].kl > 0 and list[1].grad_norm > 0)
    assert.equal("number", type(list[1]["turns/mean"] or list[1]["completions/mean_length"]))
  end)

  it("is inspected, with the teacher's log-probabilities", function()
    local tr = trainer.new(experiment(function(t) t.reference = "random" end))
    tr:step()
    local t = tr:inspect()
    assert.is_nil(t.problem)
    assert.equal(#t.logp:totable(), #t.ref_logp:totable())
  end)

  it("moves the policy by its own answers to another prompt", function()
    for _, reference in ipairs { "policy", "initial" } do
      local tr, list = run(function(t)
        t.reference, t.train.distill = reference, { prompt = hinted }
      end)
      assert.is_true(list[2].kl > 0 and list[2].grad_norm > 0)
      assert.equal(reference == "policy", tr.stage.reference == tr.model)
    end
  end)

  it("has a moving average as its teacher", function()
    local tr = run(function(t)
      t.train.distill, t.train.sync_reference = { prompt = hinted }, { every = 1, mixup = 1 }
    end)
    local a, b = tr.model:parameters(), {}
    for name, tensor in tr.stage.reference:parameters() do b[name] = tensor:sum():item() end
    for name, tensor in tr.model:parameters() do assert.equal(b[name], tensor:sum():item()) end
    assert.is_true(a ~= nil)
  end)
end)

describe("train.distill in a grpo stage", function()
  local function grpo_stage(t)
    t.stages = { { kind = "grpo" } }
    t.rewards = { { name = "nothing", fn = function() return 0 end } }
  end

  it("moves groups whose rewards are all zero", function()
    local _, without = run(grpo_stage)
    assert.equal(0, without[1].grad_norm)
    local _, list = run(function(t)
      grpo_stage(t)
      t.reference, t.train.distill = "policy", { weight = 0.5, prompt = hinted }
    end)
    assert.is_true(list[1].grad_norm > 0)
    assert.equal(0.5, list[1].beta)
    assert.equal(1, list[1].frac_reward_zero_std)
  end)

  it("is the full KL where the divergence is", function()
    local function weights(change)
      return tiny.weights((run(function(t)
        grpo_stage(t)
        t.rewards = { { name = "as", fn = tiny.count_a } }
        t.reference = "random"
        change(t)
      end)))
    end
    assert.equal(weights(function(t) t.train.kl, t.train.kl_estimator = 0.3, "full" end),
      weights(function(t) t.train.distill = { weight = 0.3 } end))
  end)

  it("has a weight that may be a schedule", function()
    local _, list = run(function(t)
      grpo_stage(t)
      t.reference = "random"
      t.train.distill = { weight = function(p) return p.step / 4 end }
    end)
    assert.equal(0, list[1].beta)
    assert.equal(0.25, list[2].beta)
  end)
end)

describe("a resumed distill stage", function()
  it("has the weights of one that never stopped", function()
    with_teacher(function(path)
      for _, change in ipairs {
        function(t) t.reference, t.train.distill = path, { beta = 0.5, lambda = 0.5 } end,
        function(t) t.reference, t.train.distill = "policy", { prompt = hinted } end,
        function(t)
          t.train.distill, t.train.sync_reference = { prompt = hinted }, { every = 1, mixup = 0.1 }
        end,
      } do
        local function begin(options)
          return trainer.new(experiment(function(t)
            t.train.steps = 4
            change(t)
          end), options)
        end
        local whole = tiny.steps(begin())
        tiny.temporary(function(dir)
          local first = begin()
          first:step()
          first:step()
          first:save(dir)
          local second = tiny.steps(begin { from = dir })
          assert.equal(tiny.weights(whole), tiny.weights(second))
        end)
      end
    end)
  end)
end)

describe("a teacher", function()
  it("has the student's vocabulary, or is refused in one line", function()
    local function begin(path)
      local tr = trainer.new(experiment(function(t) t.reference = path end))
      preflight.run(tr)
      tr:step()
    end
    with_teacher(function(path)
      tiny.fails("EARG", "has a vocabulary of 12 tokens, the policy one of 11", begin, path)
    end, { vocab_size = 12 })
    with_teacher(function(path)
      tiny.fails("EARG", 'has "x" as token 8, the policy has "h"', begin, path)
    end, nil, "abcdefgx ")
  end)

  it("has room for the prompts and the completions, or is refused", function()
    with_teacher(function(path)
      tiny.fails("EARG", "data.max_prompt_tokens: 4 and sampling.max_new_tokens 6 together exceed "
        .. "the context of the reference, 8 tokens", function()
        trainer.new(experiment(function(t) t.reference = path end)):step()
      end)
    end, { max_position_embeddings = 8 })
    tiny.fails("EARG", "train.distill.max_prompt_tokens: 30 and sampling.max_new_tokens 6 together "
      .. "exceed the context of the reference, 32 tokens", function()
      trainer.new(experiment(function(t)
        t.train.distill = { prompt = hinted, max_prompt_tokens = 30 }
      end)):step()
    end)
  end)

  it("is stored as reference_dtype says", function()
    with_teacher(function(path)
      for _, dtype in ipairs { "f32", "bf16", "int8", "nf4" } do
        local tr, list = run(function(t) t.reference, t.reference_dtype = path, dtype end)
        assert.is_true(list[2].kl > 0)
        assert.is_true(tr.stage.reference ~= nil)
      end
    end, { hidden_size = 64, intermediate_size = 64 })
  end)
end)

describe("train.distill", function()
  it("is refused where it has no meaning", function()
    for pattern, change in pairs {
      ['reference: "initial" is the student itself'] = function() end,
      ['reference: "policy" is the student itself'] = function(t) t.reference = "policy" end,
      ["reference: train.distill needs a teacher"] = function(t) t.reference = false end,
      ["train.kl: the reference is the teacher"] = function(t)
        t.reference, t.train.kl = "random", 0.1
      end,
      ["train.distill.sampled_token: is the reverse KL at one token"] = function(t)
        t.reference, t.train.distill = "random", { sampled_token = true, beta = 0 }
      end,
      ["data.target: train.distill.lambda is 0.5"] = function(t)
        t.reference, t.train.distill, t.data.target = "random", { lambda = 0.5 }, nil
      end,
      ["train.distill.seq_kd: has no effect"] = function(t)
        t.reference, t.train.distill = "random", { seq_kd = true }
      end,
      ["sampling.renormalize: train.distill compares whole distributions"] = function(t)
        t.reference, t.train.distill, t.sampling.top_p = "random", { beta = 0.5 }, 0.9
      end,
      ["sampling has filters (a regular expression)"] = function(t)
        t.reference, t.train.distill, t.sampling.regex = "random", { top_k = 3 }, "[a-h]+"
      end,
      ["train.sync_reference: reference = \"policy\" moves"] = function(t)
        t.reference, t.train.distill = "policy", { prompt = hinted }
        t.train.sync_reference = {}
      end,
      ["train.skip_zero_std_groups: has no effect in a stage of kind \"distill\""] = function(t)
        t.reference, t.train.skip_zero_std_groups = "random", true
      end,
      ["train.distill: has no effect in a stage of kind \"ppo\""] = function(t)
        t.stages, t.train.distill = { { kind = "ppo" } }, {}
        t.rewards = { tiny.count_a }
      end,
      ["train.distill: a loss of your own"] = function(t)
        t.stages, t.reference, t.train.distill = { { kind = "grpo" } }, "random", {}
        t.train.loss, t.rewards = function(x) return x.logp:sum() end, { tiny.count_a }
      end,
      ["train.distill.lambda: is for stages of kind \"distill\""] = function(t)
        t.stages, t.reference = { { kind = "grpo" } }, "random"
        t.train.distill, t.rewards = { lambda = 0.5 }, { tiny.count_a }
      end,
      ["reference: \"policy\" is the policy itself"] = function(t)
        t.stages, t.reference, t.rewards = { { kind = "grpo" } }, "policy", { tiny.count_a }
      end,
    } do
      local plain = pattern:gsub("%p", "%%%0")
      refused(plain, change)
    end
  end)

  it("names what is not a prompt", function()
    tiny.fails("EARG", "train.distill.prompt: returned a number for a completion", function()
      run(function(t) t.train.distill = { prompt = function() return 3 end } end)
    end)
    tiny.fails("EARG", "train.distill.prompt: tokenizer: character \"?\"", function()
      run(function(t) t.train.distill = { prompt = function() return "?" end } end)
    end)
    tiny.fails(nil, "train.distill.prompt: ", function()
      run(function(t) t.train.distill = { prompt = function() error "no hint" end } end)
    end)
  end)
end)

describe("engine:reference_prompts", function()
  it("wants a list for each completion", function()
    local tr = trainer.new(experiment(function(t) t.train.distill = { prompt = hinted } end))
    tr:step()
    local engine, record = tr.engine, tr.batch.record
    assert.is_true(core ~= nil)
    tiny.refused("a list of 8 lists of ids", engine.reference_prompts, engine, record, { {} })
  end)
end)
