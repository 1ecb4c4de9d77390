-- Held-out measures of a GRPO stage: likelihood of targets, total reward and KL, each against a
-- direct computation with the public functions.

local grpo = require "grpo"
local pass_at_k = require "grpo.loop.pass_at_k"
local statistics = require "grpo.statistics"
local tiny = require "tests.lua.tiny"
local verdict = require "grpo.base.verdict"

local held_out = {}
for i, prompt in ipairs { "ab", "ba", "aa", "b" } do
  held_out[i] = { prompt = prompt, answer = ("ba"):rep(i) }
end

local experiment, run = tiny.experiments(function()
  return {
    seed = 5,
    model = { config = tiny.llama { initializer_range = 0.3 },
      tokenizer = grpo.tokenizer.chars("ab") },
    data = { train = grpo.data.list(held_out), eval = grpo.data.list(held_out),
      target = function(row) return row.answer end, max_prompt_tokens = 4 },
    sampling = { group_size = 4, max_new_tokens = 6 },
    rewards = { as = { fn = tiny.count_a, weight = 0.5 }, long = function(text) return #text end },
    train = { steps = 4, prompts_per_step = 4, lr = 3e-2, kl = 0.01 },
    eval = { group_size = 3 },
  }
end)

-- The mean of -log p over all tokens of the held-out targets.
local function likelihood(tr)
  local nats, tokens = 0, 0
  for _, row in ipairs(held_out) do
    local target = tr.tokenizer:encode(row.answer)
    if tr.tokenizer.eos then target[#target + 1] = tr.tokenizer.eos end
    target = table.move(target, 1, math.min(#target, 6), 1, {})
    local logp = tr.model:score({ tr.tokenizer:encode(row.prompt) }, { target }).logp
    nats, tokens = nats - logp:sum():item(), tokens + #target
  end
  return nats / tokens
end

-- The mean of exp(-d) + d - 1 over the tokens of completions, d = log p - log p_initial.
local function divergence(initial, policy, tokenizer, samples)
  local sum, tokens = 0, 0
  for _, c in ipairs(samples) do
    local prompt, ids = { tokenizer:encode(c.prompt) }, { c.ids }
    local p = policy:score(prompt, ids).logp:totable()
    local q = initial:score(prompt, ids).logp:totable()
    for t = 1, c.length do
      local d = p[t] - q[t]
      sum, tokens = sum + math.exp(-d) + d - 1, tokens + 1
    end
  end
  return sum / tokens
end

describe("an evaluation of a stage that samples", function()
  it("measures targets, reward and KL", function()
    local initial = grpo.model.clone(grpo.trainer(experiment()).model)
    local reports = {}
    local tr = run(function(t)
      t.eval.group_size = 0
      t.hooks = { on_eval = function(report) reports[#reports + 1] = report end }
    end)
    local before, after = reports[1], reports[#reports]
    assert.equal(0, before["eval/kl"])
    assert.is_true(after["eval/kl"] > 1e-4)
    assert.near(divergence(initial, tr.model, tr.tokenizer, after.samples), after["eval/kl"],
      1e-4 * after["eval/kl"])
    assert.near(likelihood(tr), after["eval/loss"], 1e-5)
    local rewards = {}
    for i, c in ipairs(after.samples) do rewards[i] = 0.5 * tiny.count_a(c.text) + #c.text end
    assert.near(statistics.mean(rewards), after["eval/reward"], 1e-12)
    assert.is_nil(after["eval/sampled/reward"])
  end)

  it("takes the samples for the KL and their mean reward, where there are any", function()
    local seen = {}
    local tr = run(function(t)
      t.rewards = { long = function(text, _, c)
        if c.group[2] then seen[#seen + 1] = c end
        return #text
      end }
    end)
    seen = {}
    local report = tr:evaluate()
    local lengths = {}
    for i, c in ipairs(seen) do lengths[i] = #c.text end
    assert.equal(12, #lengths)
    assert.near(statistics.mean(lengths), report["eval/sampled/reward"], 1e-12)
    assert.is_true(report["eval/kl"] > 0)
  end)

  it("has no KL without a reference, and changes no step", function()
    local plain = run(function(t) t.data.eval, t.eval = nil, nil end)
    assert.equal(tiny.weights(plain), tiny.weights((run())))
    local report = run(function(t) t.train.kl = 0 end):evaluate()
    assert.is_nil(report["eval/kl"])
    assert.is_true(report["eval/reward"] > 0)
    report = run(function(t) t.data.target = nil end):evaluate()
    assert.is_nil(report["eval/loss"])
  end)
end)

describe("bits a character", function()
  -- The bits of the targets' tokens, and the characters of their texts.
  local function measured(rows, tokenizer)
    local e = experiment(function(t)
      t.model.tokenizer, t.rewards = tokenizer, {}
      t.train.kl, t.reference, t.eval = 0, false, nil
      t.data.train, t.data.eval = grpo.data.list(rows), grpo.data.list(rows)
      t.stages = { { kind = "sft", train = { steps = 1 } } }
    end)
    local tr = grpo.trainer(e)
    local nats = 0
    for _, row in ipairs(rows) do
      local target = row.answer
      if type(target) == "string" then
        target = tr.tokenizer:encode(target)
        target[#target + 1] = tr.tokenizer.eos
      end
      local logp = tr.model:score({ tr.tokenizer:encode(row.prompt) }, { target }).logp
      nats = nats - logp:sum():item()
    end
    return tr:evaluate()["eval/bits_per_character"], nats / math.log(2)
  end

  it("are of the text, in which special tokens have no characters", function()
    local chars = grpo.tokenizer.chars("ab")
    local rows = { { prompt = "a", answer = "ab" }, { prompt = "b", answer = "bab" } }
    local got, bits = measured(rows, chars)
    assert.near(bits / 5, got, 1e-5)
    local b = chars:encode("b")[1]
    got, bits = measured({ { prompt = "a", answer = { b, chars.eos, b, chars.eos } } }, chars)
    assert.near(bits / 2, got, 1e-5)
  end)
end)

describe("targets that are cut", function()
  local long, short = { prompt = "ab", answer = "bababab" }, { prompt = "ba", answer = "babab" }

  it("are counted by steps and evaluations", function()
    local reports = {}
    local tr, list = run(function(t)
      t.rewards, t.train.kl, t.reference = {}, 0, false
      t.data.train, t.data.eval = grpo.data.list { long, short }, grpo.data.list { short, long }
      t.train.prompts_per_step, t.train.steps, t.eval = 2, nil, nil
      t.stages = { { kind = "sft", train = { steps = 2 } } }
      t.hooks = { on_eval = function(report) reports[#reports + 1] = report end }
    end)
    assert.equal("1 2", ("%s %s"):format(list[1].targets_truncated, list[2].targets_truncated))
    assert.equal(1, reports[1].targets_truncated)
    assert.equal(2, tr.stage.source.targets_truncated)
  end)
end)

describe("held-out rows that cannot be judged", function()
  -- Rows 1 and 2 are judged, and right; 3 and 4 are not.
  local function of_row(row, value)
    if row.number > 2 then return nil end
    return value
  end

  local function evaluated(change)
    local rows = {}
    for i = 1, 4 do rows[i] = { prompt = "ab", answer = "b", number = i } end
    local e = experiment(function(t)
      t.data.eval = grpo.data.list(rows)
      t.rewards = {
        correct = function(_, row) return of_row(row, 1) end, layout = function() return 1 end }
      t.eval.pass_at = { 1, 3 }
      if change then change(t) end
    end)
    return grpo.trainer(e):evaluate()
  end

  it("leave n, the accuracy, its interval and pass@k", function()
    for _, report in ipairs {
      evaluated(),
      evaluated(function(t) t.eval.metric = function(_, row) return of_row(row, 3.0) end end),
      evaluated(function(t) t.rewards = { one = function(_, row) return of_row(row, 1) end } end),
    } do
      assert.equal("2 rows, 2 not judged, 2 skipped", ("%d rows, %d not judged, %d skipped"):format(
        report.n, report.unjudged, report.skipped))
      local low, high = pass_at_k.wilson(2, 2)
      assert.equal(1, report["eval/accuracy"])
      assert.equal(low, report["eval/accuracy/low"])
      assert.equal(high, report["eval/accuracy/high"])
      assert.equal(1, report["eval/pass@3"])
      assert.equal(low, report["eval/pass@3/low"])
      assert.equal(2, #report.per_row)
    end
  end)

  it("are those of a reward that fails, which is named", function()
    for _, on_error in ipairs { "stop", "zero", "skip" } do
      for _, value in ipairs { 0 / 0, "1", {}, error } do
        local report = evaluated(function(t)
          t.reward = { on_error = on_error }
          t.rewards.correct = function(_, row)
            if row.number <= 2 then return 1 end
            return value == error and error("cannot judge") or value
          end
        end)
        assert.equal(2, report.n)
        assert.equal(2, report.unjudged)
        assert.equal(1, report["eval/accuracy"])
        assert.matches("rewards.correct: ", report.failure)
      end
    end
  end)

  it("are not those where another reward fails", function()
    local report = evaluated(function(t)
      t.rewards.correct = function() return 1 end
      t.rewards.layout = function() error("no layout") end
    end)
    assert.equal(4, report.n)
    assert.matches("no layout", report.failure)
    assert.equal(nil, report["eval/rewards/layout"])
  end)

  it("pass from 1 on, also where shares add up to a little less", function()
    local report = evaluated(function(t)
      t.rewards.correct = function() return 0.7 + 0.2 + 0.1 end
    end)
    assert.equal(1, report["eval/accuracy"])
    report = evaluated(function(t) t.rewards.correct = function() return 0.999 end end)
    assert.equal(0, report["eval/accuracy"])
  end)

  it("differ from rows with the value false", function()
    local report = evaluated(function(t) t.eval.metric = function() return false end end)
    assert.equal(4, report.n)
    assert.equal(0, report.unjudged)
    assert.equal(0, report["eval/accuracy"])
  end)

  it("may be all, so that there is no accuracy", function()
    local report = evaluated(function(t) t.eval.metric = function() return nil end end)
    assert.equal(0, report.n)
    assert.equal(4, report.unjudged)
    for _, name in ipairs { "accuracy", "accuracy/low", "metric", "pass@1", "sampled/metric" } do
      assert.is_nil(report["eval/" .. name])
    end
    assert.is_true(report["eval/reward"] > 0)
  end)

  it("may be some samples of a row, which the others are measured without", function()
    local report = evaluated(function(t)
      t.eval.metric = function(_, row, c)
        if #c.group > 1 and (row.number == 1 or c.index == 3) then return nil end
        return c.index == 1
      end
    end)
    assert.equal(4, report.n)
    assert.equal(3, #report.per_row)
    assert.equal(0.5, report["eval/sampled/metric"])
    assert.equal(0.5, report["eval/pass@1"])
    assert.is_nil(report["eval/pass@3"]) -- two samples of each row are judged
  end)
end)

describe("the verdict on a sample", function()
  local function line(text, row, more)
    return verdict.line(tiny.with({ text = text, row = row }, more))
  end

  it("is given on bytes that are not UTF-8", function()
    assert.matches("^prediction .*, gold 3", line("\x85\x90", { answer = "3" },
      { extra = { ["x.prediction"] = "\x85\x90" .. ("a"):rep(80) } }))
  end)

  it("has prediction, gold and whether it was right", function()
    assert.equal("prediction 42, gold 42: right",
      line("<answer>42</answer>", { answer = "so\n#### 42" }, { passed = true }))
    assert.equal("prediction 41, gold 42: wrong",
      line("it is 41", { answer = 42 }, { rewards = { correct = 0 } }))
    assert.equal("prediction none, gold 42", line("I do not know", { answer = "42" }))
    assert.equal("prediction B, gold C: wrong", line("so B", { answer = "C" },
      { passed = false, extra = { ["choice.prediction"] = "B" } }))
  end)

  it("is right from 1 on, and says which reward a right answer has failed", function()
    local function rewarded(rewards, passed)
      return (line("#### 42", { answer = 42 }, { rewards = rewards, passed = passed })
        :gsub("^prediction 42, gold 42: ", ""))
    end
    assert.equal("right", rewarded { correct = 1 })
    assert.equal("right", rewarded { correct = 2, layout = 0 })
    assert.equal("wrong: correct is 0.1", rewarded { correct = 0.1 })
    assert.equal("wrong: layout", rewarded { correct = 0.1, layout = 0, style = 1 })
    assert.equal("wrong: layout", rewarded({ answer = 1, layout = -1, after = 0 }, false))
    assert.equal("wrong: layout, style", rewarded({ style = 0.5, layout = 0 }, false))
    assert.equal("wrong", rewarded({ answer = 1 }, false))
    assert.equal("prediction 41, gold 42: wrong",
      line("41", { answer = 42 }, { rewards = { correct = 0.5, layout = 0 } }))
    assert.equal("prediction 42, gold 42", line("42", { answer = 42 },
      { rewards = { correct = grpo.none, layout = 0 } }))
  end)

  it("is short, and not there for rows without an answer", function()
    local text = line("x", { answer = ("long answer "):rep(20) })
    assert.is_true(#text < 120)
    assert.matches("%.%.%.$", text)
    assert.is_nil(line("x", { prompt = "x" }))
    assert.is_nil(line("x", "a text"))
  end)
end)

describe("eval.max_new_tokens", function()
  local function evaluated(change)
    local longest = 0
    run(function(t)
      t.eval.max_new_tokens = 2
      if change then change(t) end
      t.hooks = { on_eval = function(report)
        for _, c in ipairs(report.samples) do longest = math.max(longest, #c.ids) end
      end }
    end)
    return longest
  end

  it("bounds the completions of evaluations alone", function()
    assert.equal(2, evaluated())
    assert.equal(6, evaluated(function(t) t.eval.max_new_tokens = nil end))
  end)

  it("is at most sampling.max_new_tokens, for which there is memory", function()
    tiny.refused("eval%.max_new_tokens: got 7, want at most sampling%.max_new_tokens, which is 6",
      experiment, function(t) t.eval = { max_new_tokens = 7 } end)
  end)
end)

describe("measures of K samples", function()
  -- The report and the completions, in rollouts of at most `capacity` completions.
  local function evaluated(capacity, change)
    local seen = {}
    local e = experiment(function(t)
      t.rewards = {
        correct = function(text, _, c)
          if #c.group > 1 then seen[#seen + 1] = c end
          return tiny.count_a(text) % 2
        end,
        order = { group_fn = function(texts)
          local list = {}
          for i, text in ipairs(texts) do list[i] = #text + #texts / 100 end
          return list
        end },
        random = function(_, _, c) return c.rng() + math.random() end,
      }
      t.eval = { group_size = 13, pass_at = { 1, 3, 13 }, majority = true, best_of = "order" }
      if change then change(t) end
    end)
    local tr = grpo.trainer(e)
    tr:evaluate(1) -- begins the stage
    local engine = tr.stage.engine
    if capacity then
      local function method(_, name)
        return function(_, ...) return engine[name](engine, ...) end
      end
      tr.stage.engine = setmetatable({ eval_capacity = function() return capacity end },
        { __index = method })
    end
    seen = {}
    local report = tr:evaluate()
    tr.stage.engine = engine
    report.seconds = nil
    return report, seen
  end

  local function flat(report)
    local list = {}
    for name, value in pairs(report) do
      if type(value) == "number" then list[name] = value end
    end
    return list
  end

  it("are the same for any size of a rollout", function()
    local report, seen = evaluated()
    assert.equal(4 * 13, #seen)
    for _, capacity in ipairs { 1, 5, 13, 26, 51 } do
      local other, again = evaluated(capacity)
      assert.same(flat(report), flat(other))
      assert.same(report.by_row, other.by_row)
      for i, c in ipairs(seen) do
        assert.same({ c.text, c.index, #c.group }, { again[i].text, again[i].index,
          #again[i].group })
      end
    end
  end)

  it("are what the samples say", function()
    local report = evaluated(nil, function(t)
      t.rewards.correct = function(text)
        return tiny.count_a(text) % 3 == 1, { prediction = tostring(tiny.count_a(text) % 3) }
      end
    end)
    for _, of_k in ipairs { "pass", "maj", "best" } do
      for _, k in ipairs { 1, 3, 13 } do
        local value = report[("eval/%s@%d"):format(of_k, k)]
        assert.is_true(value >= report[("eval/%s@%d/low"):format(of_k, k)])
        assert.is_true(value <= report[("eval/%s@%d/high"):format(of_k, k)])
      end
    end
    -- one sample is its own majority and the best of one
    assert.near(report["eval/pass@1"], report["eval/maj@1"], 1e-12)
    assert.near(report["eval/pass@1"], report["eval/best@1"], 1e-12)
    assert.is_true(report["eval/best@13"] <= report["eval/pass@13"])
  end)

  it("choose by a reward, and leave samples without it to the end", function()
    local report = evaluated(nil, function(t)
      t.rewards = {
        correct = function(_, _, c) return c.index == 2 end,
        judge = function(_, _, c)
          if c.index % 2 == 1 then return nil end
          return -c.index
        end,
      }
      t.eval.best_of = "judge"
    end)
    assert.equal(1, report["eval/best@13"])
    assert.near(1 / 13, report["eval/best@1"], 1e-12)
    report = evaluated(nil, function(t)
      t.rewards = { correct = function(_, _, c) return c.index == 2 end }
      t.eval.best_of = "reward"
    end)
    assert.near(report["eval/pass@3"], report["eval/best@3"], 1e-12)
  end)

  it("count votes by the value of an answer", function()
    local report = evaluated(nil, function(t)
      local texts = { "1/2", "0.5", "2", "2", "\\frac{1}{2}" }
      t.eval.metric = function(_, _, c) return texts[(c.index - 1) % 5 + 1] ~= "2" end
      t.rewards = { vote = function(_, _, c)
        return 0, { prediction = texts[(c.index - 1) % 5 + 1] }
      end }
      t.eval.best_of, t.eval.group_size, t.eval.pass_at = nil, 5, { 5, 1 }
    end)
    assert.equal(1, report["eval/maj@5"])
    assert.near(3 / 5, report["eval/maj@1"], 1e-12)
  end)

  it("need a reward that is there", function()
    tiny.refused("eval%.best_of: there is no reward 'judg', did you mean 'judge'", experiment,
      function(t)
        t.rewards = { judge = function() return 1 end }
        t.eval.best_of = "judg"
      end)
  end)
end)

describe("two evaluations", function()
  local paired = require "grpo.loop.paired"

  local function evaluated(change)
    return grpo.trainer(experiment(function(t)
      t.rewards = { correct = function(text) return tiny.count_a(text) % 2 end }
      t.eval = { group_size = 4, pass_at = { 2 } }
      if change then change(t) end
    end)):evaluate()
  end

  it("are compared row by row", function()
    local a = evaluated()
    local b = evaluated(function(t)
      t.rewards.correct = function(_, row) return row.prompt ~= "b" and 1 or 0 end
    end)
    local list = paired.compare(a, b)
    local by_name = {}
    for _, one in ipairs(list) do by_name[one.name] = one end
    local accuracy = by_name["eval/accuracy"]
    assert.equal(a["eval/accuracy"], accuracy.a)
    assert.equal(0.75, accuracy.b)
    assert.near(0.75 - a["eval/accuracy"], accuracy.difference, 1e-12)
    assert.is_true(accuracy.low <= accuracy.difference and accuracy.difference <= accuracy.high)
    assert.is_true(accuracy.exact)
    assert.near(b["eval/pass@2"], by_name["eval/pass@2"].b, 1e-12)
    assert.same(list, paired.compare(a, b))
    for _, one in ipairs(paired.compare(a, a)) do
      assert.same({ 0.0, 1.0 }, { one.difference, one.p })
    end
  end)

  it("leave out rows that one of them cannot judge", function()
    local b = evaluated(function(t)
      t.rewards.correct = function(_, row)
        if row.prompt == "b" then return nil end
        return 1
      end
    end)
    for _, one in ipairs(paired.compare(evaluated(), b)) do
      if one.name ~= "eval/reward" then assert.equal(3, one.n) end
    end
  end)

  it("of other rows are refused", function()
    local other = evaluated(function(t)
      t.data.eval = grpo.data.list { held_out[1], { prompt = "bb", answer = "ba" } }
    end)
    tiny.refused("row 2 of data%.eval is not the same for both", paired.compare, evaluated(), other)
  end)
end)
