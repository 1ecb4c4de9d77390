-- A text as environment: windows, targets beside completions, dense advantages, held to a
-- second implementation in Lua; evaluation of what was learned.

local grpo = require "grpo"
local core = require "grpo.core"
local dense = require "rewards.dense"
local eval_names = require "grpo.options.eval_names"
local losses = require "grpo.losses"
local schedule = require "grpo.schedule"
local statistics = require "grpo.statistics"
local tiny = require "tests.lua.tiny"

local text = ("the cat sat on the mat and the dog sat on the log. "):rep(40)

local file_of, message_of = tiny.file, tiny.message_of
local path = file_of(text)

local tokenizer = grpo.tokenizer.chars(text, { special = false })

local function experiment(changes)
  local options = {
    name = "dense",
    model = {
      config = { model_type = "gpt2", n_embd = 32, n_layer = 2, n_head = 4, n_positions = 64,
        layer_norm_epsilon = 1e-5, initializer_range = 0.2, activation_function = "gelu_new" },
      tokenizer = tokenizer,
    },
    reference = "random",
    data = {
      train = grpo.data.text(path, { window = 12, prompt = 4, stride = 3, to = 0.8 }),
      eval = grpo.data.text(path, { window = 12, prompt = 4, from = 0.8 }),
      target = function(row) return row.target end, max_prompt_tokens = 4,
    },
    sampling = { group_size = 4, max_new_tokens = 8 },
    rewards = {
      { name = "match", token_fn = dense.match() },
      { name = "partial", weight = 0.1, token_fn = dense.logprob() },
    },
    train = { steps = 3, prompts_per_step = 4, lr = 1e-3, kl = 0.1, kl_estimator = "full" },
    eval = { metric = dense.share, group_size = 2 },
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

describe("windows of a text", function()
  it("are characters, or a tokenizer's tokens, of the part that was asked for", function()
    local p = file_of("abcdefghij")
    local ds = grpo.data.text(p, { window = 4, prompt = 1, stride = 2 })
    assert.equal(4, #ds)
    assert.same({ prompt = "c", target = "def", text = "cdef" }, ds[2])
    local late = grpo.data.text(p, { window = 3, from = 0.7 })
    assert.equal(1, #late)
    assert.equal("hij", late[1].text)
    assert.equal(2, #grpo.data.text(p, { window = 3, to = 0.7 }))
    local tokens = grpo.data.text(p,
      { window = 3, prompt = 2, tokenizer = grpo.tokenizer.chars("abcdefghij") })
    assert.same({ prompt = { 3, 4 }, target = { 5 }, text = "def" }, tokens[2])
    assert.equal(0, #grpo.data.text(p, { window = 11 }))
    os.remove(p)
  end)

  it("never cut a character", function()
    local p = file_of("äöü€x")
    local ds = grpo.data.text(p, { window = 2 })
    assert.equal("äö", ds[1].text)
    assert.equal("ü€", ds[2].text)
    assert.equal("ü€x", grpo.data.text(p, { window = 3, from = 0.4 })[1].text)
    os.remove(p)
  end)

  it("take little beside the text, and their number is whole", function()
    for _, piece in ipairs { "abcdefgh", "a\u{e9}b\u{20ac}" } do
      local long = piece:rep(200000)
      collectgarbage()
      local before = collectgarbage "count"
      local ds = grpo.data.windows(long, { window = 100, from = 0.25, stride = 7 })
      collectgarbage()
      assert.is_true(collectgarbage "count" - before < 0.75 * #long / 1024 + 1500)
      local n = utf8.len(long) - utf8.len(long) // 4
      assert.equal((n - 100) // 7 + 1, #ds)
      for _, i in ipairs { 1, 2, 9, 10, 19, 1000, #ds } do
        local at = utf8.len(long) // 4 + (i - 1) * 7 + 1
        local a, b = utf8.offset(long, at), utf8.offset(long, at + 100) or #long + 1
        assert.equal(long:sub(a, b - 1), ds[i].text)
        assert.equal(ds[i].text, ds[i].prompt .. ds[i].target)
      end
    end
    assert.equal("integer", math.type(#grpo.data.windows("abcd", { window = 2, stride = 1e15 })))
  end)

  it("name what cannot be", function()
    assert.matches("leave nothing", message_of(grpo.data.text, path, { from = 0.5, to = 0.5 }))
    assert.matches("did you mean 'stride'", message_of(grpo.data.text, path, { strde = 2 }))
    assert.matches("from", message_of(grpo.data.text, path, { from = 1.5 }))
  end)
end)

describe("a group of one", function()
  local function one(changes)
    local t = { kl = 0, kl_estimator = "k3" }
    for k, v in pairs(changes or {}) do t[k] = v end
    return experiment { sampling = { group_size = 1 }, train = t }
  end

  it("is refused where its advantages would all be 0", function()
    assert.matches("sampling.group_size: 1 leaves nothing to compare with", message_of(one))
  end)

  it("may have no baseline, a KL or a loss of its own", function()
    one { advantage = { baseline = "none", scale = "none" } }
    one { kl = 0.1, kl_estimator = "full" }
    one { loss = function(t) return t.logp:sum() end }
  end)
end)

-- The engine's advantages of rewards of tokens alone.
local function dense_advantages(rewards, group)
  local cs, wholes, list = {}, {}, {}
  for i in ipairs(rewards) do cs[i], wholes[i] = {}, 0 end
  core.set_advantages(cs, { group = group }, wholes, rewards)
  for i, c in ipairs(cs) do list[i] = c.advantage end
  return list
end

-- The second implementation of dense advantages: lists per completion in, the same out.
describe("dense advantages", function()
  it("are the readable ones", function()
    local rng = core.rng(3, "task", 0, 0, 0)
    local rewards = {}
    for i = 1, 12 do
      rewards[i] = {}
      for t = 1, 1 + math.floor(rng() * 9) do rewards[i][t] = math.floor(rng() * 3) - 1 end
    end
    for _, group in ipairs { 1, 3, 4, 12 } do
      local c, lua = dense_advantages(rewards, group), losses.dense_advantages(rewards, group)
      for i, list in ipairs(lua) do
        assert.equal(#list, #c[i])
        for t, a in ipairs(list) do assert.near(a, c[i][t], 1e-12) end
      end
    end
  end)

  it("are 0 where nobody in a group differs", function()
    for _, list in ipairs(dense_advantages({ { 1, 1 }, { 1, 1 } }, 2)) do
      assert.same({ 0.0, 0.0 }, list)
    end
  end)
end)

describe("a stage that cannot fit the model's context", function()
  it("is refused before the stages in front of it have run", function()
    local e = experiment { stages = { { kind = "sft" },
      { kind = "grpo", sampling = { max_new_tokens = 61 } } } }
    local said = message_of(require("grpo.loop.preflight").run, grpo.trainer(e))
    assert.matches("data.max_prompt_tokens: 4 and sampling.max_new_tokens 61 together exceed the "
      .. "model's context of 64",
      said)
  end)
end)

describe("a completion with a target", function()
  it("has the target's log-probabilities under the policy, as m:score gives them", function()
    local tr = grpo.trainer(experiment { train = { lr = 0 } })
    tr:step()
    local compared = 0
    for _, c in ipairs(tr.batch.completions) do
      assert.equal(8, #c.target_ids)
      assert.equal(c.length, #c.target_logprobs)
      assert.equal(c.row.target, tokenizer:decode(c.target_ids))
      local prompt = tokenizer:encode(c.prompt)
      for t = 1, c.length do
        local ids = table.move(c.ids, 1, t - 1, 1, {})
        ids[t] = c.target_ids[t]
        assert.equal(tr.model:score({ prompt }, { ids }).logp:totable()[t], c.target_logprobs[t])
        compared = compared + 1
      end
    end
    assert.is_true(compared > 100)
  end)

  it("is rewarded token by token", function()
    local tr = grpo.trainer(experiment())
    local m = tr:step()
    local matched, partial = 0, 0
    for _, c in ipairs(tr.batch.completions) do
      for t = 1, c.length do
        if c.ids[t] == c.target_ids[t] then matched = matched + 1 end
        partial = partial + c.target_logprobs[t]
      end
      assert.equal(c.length, #c.advantage)
    end
    assert.near(matched / #tr.batch.completions, m["rewards/match/mean"], 1e-12)
    assert.near(partial / #tr.batch.completions, m["rewards/partial/mean"], 1e-9)
    assert.near(m["rewards/match/mean"] + 0.1 * m["rewards/partial/mean"], m.reward, 1e-9)
  end)

  it("is refused with a loss that has one term for a whole completion", function()
    assert.matches("rewards: the loss gmpo has one term", message_of(experiment,
      { train = { loss = "gmpo" } }))
  end)

  it("may be given as ids, and there is none where data.target gives none", function()
    local rows = grpo.data.list { { prompt = { 1, 2 }, target = { 3, 4, 5 } },
      { prompt = { 2, 1 } } }
    local tr = grpo.trainer(experiment {
      reference = false,
      data = { train = rows, shuffle = false },
      rewards = { function(_, row, c)
        assert(c.target_ids == row.target)
        return (row.target and #c.target_logprobs == 3 or c.target_logprobs == nil) and c.rng()
          or nil
      end },
      train = { prompts_per_step = 2, kl = 0 }, eval = { group_size = 0 },
    })
    local m = tr:step()
    assert.is_true(m.reward > 0)
  end)
end)

describe("the coefficient of the KL", function()
  it("grows with the tokens that were trained on", function()
    local tr = grpo.trainer(experiment { train = { steps = 5,
      kl = schedule.warmup { to = 0.5, tokens = 256 } } })
    local seen = {}
    for i = 1, 5 do seen[i] = tr:step().beta end
    assert.same({ 0.0, 0.25, 0.5, 0.5, 0.5 }, seen) -- 4 prompts x 4 completions x 8 tokens a step
  end)
end)

describe("a random reference", function()
  it("gives a KL over the whole vocabulary", function()
    local tr = grpo.trainer(experiment())
    assert.is_true(tr:step().kl > 0)
  end)
end)

describe("an evaluation of targets", function()
  it("reports the loss in nats a token and bits a character, and the metric of samples row by row",
    function()
    local tr = grpo.trainer(experiment())
    tr:step()
    local report = tr:evaluate(5)
    local nats, tokens = 0.0, 0
    for i = 1, 5 do
      local row = tr.settings.data.eval[i]
      local prompt, target = tokenizer:encode(row.prompt), tokenizer:encode(row.target)
      for _, lp in ipairs(tr.model:score({ prompt }, { target }).logp:totable()) do
        nats, tokens = nats - lp, tokens + 1
      end
    end
    assert.near(nats / tokens, report["eval/loss"], 1e-6)
    -- a token is a character
    assert.near(nats / tokens / math.log(2), report["eval/bits_per_character"], 1e-6)
    assert.equal(5, #report.per_row)
    assert.near(statistics.mean(report.per_row), report["eval/sampled/metric"], 1e-12)
  end)

  it("of a supervised stage needs no reward", function()
    local e = experiment { rewards = {}, reference = false, eval = { metric = nil },
      stages = { { kind = "sft", train = { steps = 30, lr = 1e-2, kl = 0 } } } }
    local spec = e.stages[1].config
    spec.eval.metric = nil
    assert.is_false(eval_names.has_completions(spec))
    local tr = grpo.trainer(e)
    local before = tr:evaluate()["eval/loss"]
    for _ = 1, 30 do tr:step() end
    local report = tr:evaluate()
    assert.is_true(report["eval/loss"] < before - 0.5)
    assert.is_nil(report["eval/accuracy"])
  end)
end)

describe("dense rewards", function()
  it("teach a model to match the text", function()
    local tr = grpo.trainer(experiment {
      train = { steps = 60, lr = 3e-3, kl = 0.01, prompts_per_step = 8 },
      sampling = { group_size = 8 } })
    local before = tr:evaluate()
    while tr:step() do end
    local after = tr:evaluate()
    local gain = statistics.paired_bootstrap(before.per_row, after.per_row)
    assert.is_true(gain.low > 0)
  end)
end)

describe("statistics.paired_bootstrap", function()
  it("surrounds the mean difference, as the normal approximation does", function()
    local rng = core.rng(1, "task", 0, 0, 0)
    local before, after, gain = {}, {}, {}
    for i = 1, 400 do
      before[i] = rng()
      gain[i] = rng() - 0.3
      after[i] = before[i] + gain[i]
    end
    local b = statistics.paired_bootstrap(before, after, { seed = 5 })
    local mean, se = statistics.mean(gain), statistics.std(gain) / 20
    assert.equal(400, b.n)
    assert.near(mean, b.difference, 1e-12)
    assert.near(mean - 1.96 * se, b.low, 0.2 * se)
    assert.near(mean + 1.96 * se, b.high, 0.2 * se)
    assert.same(b, statistics.paired_bootstrap(before, after, { seed = 5 }))
    local narrow = statistics.paired_bootstrap(before, after, { level = 0.5, resamples = 1000 })
    assert.is_true(narrow.high - narrow.low < 0.5 * (b.high - b.low))
  end)

  it("is exact where pairs never differ, and refuses values that are not pairs", function()
    local b = statistics.paired_bootstrap({ 1, 2, 3 }, { 2, 3, 4 }, { resamples = 100 })
    assert.same({ 1.0, 1.0, 1.0 }, { b.difference, b.low, b.high })
    assert.matches("do not form pairs", message_of(statistics.paired_bootstrap, { 1 }, { 1, 2 }))
    assert.matches("do not form pairs", message_of(statistics.paired_bootstrap, {}, {}))
    assert.matches("did you mean 'level'",
      message_of(statistics.paired_bootstrap, { 1 }, { 1 }, { levl = 0.9 }))
  end)
end)

describe("statistics.t_interval", function()
  -- scipy.stats.t.ppf(0.975, n - 1) for n = 2, 3, 4, 5, 11, 31, 101
  local factors = { [2] = 12.706204736174698, [3] = 4.302652729749462, [4] = 3.182446305283709,
    [5] = 2.776445105197793, [11] = 2.228138851964938, [31] = 2.0422724563012373,
    [101] = 1.983971518449633 }

  it("has the width of Student's t", function()
    for n, factor in pairs(factors) do
      local list = {}
      for i = 1, n do list[i] = i * i end
      local one = statistics.t_interval(list)
      local half = factor * statistics.std(list) / math.sqrt(n)
      assert.near(half, one.high - one.mean, 1e-9 * half)
      assert.near(half, one.mean - one.low, 1e-9 * half)
      assert.equal(n, one.n)
    end
    -- scipy.stats.t.ppf(0.95, 3)
    local narrow = statistics.t_interval({ 1, 2, 3, 6 }, { level = 0.9 })
    assert.near(2.3533634348018264 * statistics.std { 1, 2, 3, 6 } / 2, narrow.high - 3, 1e-9)
  end)

  it("gives one value no interval, and refuses none", function()
    assert.same({ mean = 4.0, n = 1 }, statistics.t_interval { 4 })
    assert.matches("the list is empty", message_of(statistics.t_interval, {}))
    assert.matches("level", message_of(statistics.t_interval, { 1, 2 }, { level = 1 }))
  end)
end)

describe("a generated text", function()
  local verse = require "experiments.tasks.verse"

  it("is the same for the same seed, as long as asked for, and has windows like a file's",
    function()
    local one = verse.text { n = 3000 }
    assert.equal(one, verse.text { n = 3000 })
    assert.is_true(one ~= verse.text { n = 3000, seed = 1 })
    assert.is_true(#one >= 2990 and #one < 3500)
    local ds = grpo.data.windows(one, { window = 10, prompt = 4, from = 0.5 })
    assert.equal((#one - #one // 2) // 10, #ds)
    assert.equal(one:sub(#one // 2 + 1, #one // 2 + 10), ds[1].text)
    assert.matches("want a string", message_of(grpo.data.windows, 5))
  end)
end)
