-- reference = "bigram": what it counts, and the KL to it, held to a second implementation in Lua.

local grpo = require "grpo"
local core = require "grpo.core"
local dense = require "rewards.dense"
local losses = require "grpo.losses"
local tiny = require "tests.lua.tiny"

local text = ("the cat sat on the mat and the dog sat on the log. "):rep(40)

local path = tiny.file(text)

local tokenizer = grpo.tokenizer.chars(text, { special = false })

local function experiment(changes)
  local options = {
    name = "bigram",
    model = {
      config = { model_type = "gpt2", n_embd = 32, n_layer = 2, n_head = 4, n_positions = 64,
        layer_norm_epsilon = 1e-5, initializer_range = 0.2, activation_function = "gelu_new" },
      tokenizer = tokenizer,
    },
    reference = "bigram",
    data = {
      train = grpo.data.text(path, { window = 12, prompt = 4, stride = 3, to = 0.8 }),
      target = function(row) return row.target end, max_prompt_tokens = 4,
    },
    sampling = { group_size = 4, max_new_tokens = 8 },
    rewards = { { name = "match", token_fn = dense.match() } },
    train = { steps = 3, prompts_per_step = 4, lr = 1e-3, kl = 0.1, kl_estimator = "full" },
  }
  for section, fields in pairs(changes or {}) do
    if type(fields) == "table" and type(options[section]) == "table" and section ~= "rewards" then
      for k, v in pairs(fields) do options[section][k] = v end
    else
      options[section] = fields
    end
  end
  return grpo.experiment(options)
end

-- log-softmax of a row of logits, in double
local function log_softmax(z)
  local sum, out = 0.0, {}
  for _, v in ipairs(z) do sum = sum + math.exp(v) end
  for j, v in ipairs(z) do out[j] = v - math.log(sum) end
  return out
end

-- Counted again: P(next | token before) with one added.
local function counted(ids)
  local n, rows = #tokenizer, {}
  for i = 1, n do
    rows[i] = {}
    for j = 1, n do rows[i][j] = 1 end
  end
  for k = 2, #ids do
    local row = rows[ids[k - 1] + 1]
    row[ids[k] + 1] = row[ids[k] + 1] + 1
  end
  for i = 1, n do
    local total = 0
    for j = 1, n do total = total + rows[i][j] end
    for j = 1, n do rows[i][j] = math.log(rows[i][j] / total) end
  end
  return rows
end

describe("the bigram reference", function()
  local ids = tokenizer:encode(text:sub(1, math.floor(0.8 * #text)))

  it("counts the training text, whatever its windows", function()
    local tr = grpo.trainer(experiment())
    tr:step()
    local rows = counted(ids)
    for i, row in ipairs(rows) do
      for j, v in ipairs(tr.stage.reference:logprobs(i - 1)) do assert.near(row[j], v, 1e-6) end
    end
  end)

  it("counts prompts and targets of rows that are not windows of a text", function()
    local rows = grpo.data.list { { prompt = "the", target = " cat" },
      { prompt = "a", target = "t" } }
    local tr = grpo.trainer(experiment { data = { train = rows },
      train = { prompts_per_step = 2 } })
    tr:step()
    local t, h = tokenizer:encode("t")[1], tokenizer:encode("h")[1]
    local n = #tokenizer
    assert.near(math.log(2 / (n + 1)), tr.stage.reference:logprobs(t)[h + 1], 1e-6)
    assert.near(math.log(3 / (n + 2)), tr.stage.reference:logprobs(tokenizer:encode("a")[1])[t + 1],
      1e-6)
  end)

  it("gives the full KL that Lua computes, at any temperature", function()
    for _, temperature in ipairs { 1.0, 0.7 } do
      local tr = grpo.trainer(experiment { train = { lr = 0 },
        sampling = { temperature = temperature } })
      local m = tr:step()
      local rows, sum, tokens = counted(ids), 0.0, 0
      for _, c in ipairs(tr.batch.completions) do
        local all = tokenizer:encode(c.prompt)
        local first = #all
        table.move(c.ids, 1, c.length, first + 1, all)
        local logits = tr.model:logits(all):totable()
        for t = 1, c.length do
          local z, q = {}, {}
          for j = 1, #tokenizer do
            z[j] = logits[first + t - 1][j] / temperature
            q[j] = rows[all[first + t - 1] + 1][j] / temperature
          end
          sum = sum + losses.full_kl(log_softmax(z), log_softmax(q))
          tokens = tokens + 1
        end
      end
      assert.near(sum / tokens, m.kl, 1e-4 * m.kl)
    end
  end)

  it("is what k3 is measured against too", function()
    local tr = grpo.trainer(experiment { train = { lr = 0, kl_estimator = "k3" } })
    local m = tr:step()
    local rows, sum, tokens = counted(ids), 0.0, 0
    for _, c in ipairs(tr.batch.completions) do
      local before = tokenizer:encode(c.prompt)[4]
      for t, id in ipairs(c.ids) do
        local d = rows[before + 1][id + 1] - c.logprobs[t]
        sum, tokens, before = sum + math.exp(math.min(d, 20)) - d - 1, tokens + 1, id
      end
    end
    assert.near(sum / tokens, m.kl, 1e-4 * m.kl)
  end)

  it("is refused where it has no meaning", function()
    assert.matches("moves a model; reference = \"bigram\" is none",
      tiny.message_of(experiment, { train = { sync_reference = { every = 2, mixup = 1 } } }))
  end)

  it("serves the vocabulary of GPT-2, in memory for what was seen", function()
    local large = { model_type = "gpt2", vocab_size = 50257, n_embd = 8, n_layer = 1, n_head = 1,
      n_positions = 16, initializer_range = 0.2, activation_function = "gelu_new" }
    for _, kind in ipairs { "full", "k3" } do
      local tr = grpo.trainer(experiment { model = { config = large },
        train = { steps = 1, prompts_per_step = 1, kl_estimator = kind } })
      local m = tr:step()
      assert.is_true(m.kl > 0 and m.kl < 100)
      assert.is_true(tr.stage.engine:estimate().reference < 2 << 20)
      local row, sum = tr.stage.reference:logprobs(tokenizer:encode("t")[1]), 0.0
      for _, v in ipairs(row) do sum = sum + math.exp(v) end
      assert.equal(50257, #row)
      assert.near(1, sum, 1e-5)
    end
  end)

  it("continues after a checkpoint as if nothing had happened", function()
    local whole = grpo.trainer(experiment())
    for _ = 1, 3 do whole:step() end
    local half = grpo.trainer(experiment())
    half:step()
    local dir = tiny.path()
    half:save(dir)
    local trainer = require "grpo.loop.trainer"
    local rest = trainer.new(experiment(), { from = dir })
    rest:step()
    local m = rest:step()
    assert.equal(whole.metrics.loss, m.loss)
    assert.equal(whole.metrics.kl, m.kl)
    core.fs.remove_tree(dir)
  end)

  it("is inspected beside completions, with its own log-probabilities", function()
    local tr = grpo.trainer(experiment { train = { lr = 0 } })
    tr:step()
    local t = tr:inspect()
    local again = require("grpo.loop.bigram_reference").of(tr.settings, tr.tokenizer, tr.model)
    local ref, at = t.ref_logp:totable(), 0
    for i, c in ipairs(tr.batch.completions) do
      local before = tr.batch.prompts[(i - 1) // 4 + 1].ids
      before = before[#before]
      for _, id in ipairs(c.ids) do
        at = at + 1
        assert.near(again:logprobs(before)[id + 1], ref[at], 1e-5)
        before = id
      end
    end
    assert.equal(#ref, at)
  end)

  it("may be far from the policy, so a KL of 1.2 nats a token is not told", function()
    local watcher = require("grpo.loop.diagnose").watcher()
    for step = 1, 60 do
      assert.same({}, watcher:step({ step = step, stage = 1, kl = 1.2,
        ["completions/mean_length"] = 100 }, { reference = "bigram" }))
    end
  end)

  it("is what an evaluation measures the KL from", function()
    local tr = grpo.trainer(experiment { data = {
      eval = grpo.data.text(path, { window = 12, prompt = 4, from = 0.8 }) } })
    assert.is_true(tr:evaluate(4)["eval/kl"] > 0)
  end)
end)
