-- Held-out evaluation: greedy accuracy, pass@k from samples when asked for, the likelihood of
-- held-out targets.

local answer = require "grpo.answer"
local number_text = require "grpo.base.number_text"
local row_random = require "grpo.scoring.row_random"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local eval_names = require "grpo.options.eval_names"
local origins = require "grpo.options.origins"
local pass_at_k = require "grpo.loop.pass_at_k"
local prompts = require "grpo.scoring.prompts"
local ranks = require "grpo.base.ranks"
local scoring = require "grpo.scoring.scoring"
local rollout = require "grpo.scoring.rollout"
local statistics = require "grpo.statistics"
local turns = require "grpo.scoring.turns"
local verdict = require "grpo.base.verdict"

local evaluate = {}

local function total_of(config, c, weights)
  return core.total_reward(c.rewards, config.reward_entries, weights, config.reward.clip)
end

-- The held-out measure of one completion: a number, and whether it passed.  nil where the measure
-- does not apply, so that the completion cannot be judged.
local function measure(config, c, weights)
  local metric = config.eval.metric
  local value
  if metric then
    local ok, result = core.limited(config.limits.hook, "eval.metric", metric, c.text, c.row, c)
    if not ok then error(errors.naming("eval.metric", result), 0) end
    value = result
  elseif c.rewards.correct ~= nil then
    value = c.rewards.correct
  elseif c.errors then
    return nil -- a reward has failed, which says nothing about the completion
  else
    value = total_of(config, c, weights)
  end
  if value == nil or value == core.none then return nil end
  if type(value) == "boolean" then return value and 1.0 or 0.0, value end
  if type(value) ~= "number" or value - value ~= 0 then
    errors.raise_at(origins.position(config, "eval.metric"), "ESCRIPT",
      "eval.metric: the function returned %s, want a finite number, a boolean or nil",
      type(value) == "number" and number_text(value) or "a " .. type(value))
  end
  return value, value >= verdict.PASS
end

-- A stage's data.target is made for its own rows; a held-out row for which it gives nothing is left
-- out.
local function target_of(tr, config, row, number)
  local ok, ids = errors.try(row_random.during, config, "target", number, true, prompts.target,
    config, tr.tokenizer, row)
  return ok and ids or nil
end

-- The rows of data.eval that are looked at, rendered; what data.too_long does to them is counted.
local function held_out(tr, config, n)
  local dataset, list, count = config.data.eval, {}, { dropped = 0, truncated = 0 }
  local limit = math.min(n or #dataset, #dataset)
  for i = 1, limit do
    local row = row_random.during(config, "row", i, true, function() return dataset[i] end)
    local prompt = prompts.of_row(config, tr.tokenizer, row, i, i, true)
    if prompts.fit(config, tr.tokenizer, prompt, count) then
      prompt.row, prompt.number, prompt.place = row, i, i
      prompt.target = target_of(tr, config, row, i)
      list[#list + 1] = prompt
    end
  end
  return list, count
end

-- Adds the KL of a batch's sampled tokens from the reference to the sums in `kl`, in nats: as the
-- metric `kl` with k3, exp(-d) + d - 1 for d = log p - log p_reference, which is never negative.
local function add_kl(tr, batch, cs, kl)
  tr.engine:reference(batch)
  for i, c in ipairs(cs) do
    local of_reference = batch:ref_logprobs(i)
    for t = 1, c.length do
      if not c.sampled or c.sampled[t] then
        local d = c.logprobs[t] - of_reference[t]
        kl.nats, kl.tokens = kl.nats + math.exp(math.min(-d, 20)) + d - 1, kl.tokens + 1
      end
    end
  end
end

-- n completions of each prompt of `part`.  Where those of one prompt are more than a rollout holds,
-- they come in waves, and each has the bits that it has in any other wave.
local function sample(tr, config, part, n, context, sampling, kl)
  local wave, cs = n, {}
  if #part == 1 and not turns.wanted(config) then wave = math.min(n, tr.engine:eval_capacity()) end
  for before = 0, n - 1, wave do
    local count = math.min(wave, n - before)
    local o, ids = rollout.options(config, part, count, context, "eval", sampling)
    o.before = before
    local batch = rollout.sample(tr, part, o, ids)
    local here = rollout.all(batch, part, count, context, before)
    if kl then add_kl(tr, batch, here, kl) end
    table.move(here, 1, #here, #cs + 1, cs)
    tr:check_interrupt()
  end
  for _, c in ipairs(wave < n and cs or {}) do c.group = cs end
  return cs
end

-- Completions of all prompts, `n` each, in slices that the engine's evaluation memory holds.
-- kl: see add_kl; nil: it is not measured.
local function generate(tr, config, list, n, temperature, kl, visit)
  local sampling = {}
  for k, v in pairs(config.sampling) do sampling[k] = v end
  sampling.temperature = temperature
  sampling.max_new_tokens = config.eval.max_new_tokens or sampling.max_new_tokens
  local slice = math.max(1, tr.engine:eval_capacity() // n)
  local context = { seed = config.seed, step = tr.step_count, tokens_seen = tr.tokens_seen,
    state = rollout.read_only(tr.state), tokenizer = tr.tokenizer, held_out = true }
  for first = 1, #list, slice do
    local part = table.move(list, first, math.min(first + slice - 1, #list), 1, {})
    local cs = sample(tr, config, part, n, context, sampling, kl)
    ranks.score(config.reward_entries, cs, function(own)
      return scoring.score(config.reward_entries, own, config.limits.reward, "skip")
    end)
    for i, c in ipairs(cs) do visit(c, part[(i - 1) // n + 1].number) end
  end
end

-- Notes what a row gave: by_row[name][number of the row] = value, or nil.
local function note(report, name, number, value)
  local of_name = report.by_row[name] or {}
  report.by_row[name] = of_name
  of_name[number] = value
end

-- Mean of each reward entry over completions where it applies; nothing where it applies to none.
local function reward_means(config, cs, report)
  for _, entry in ipairs(config.reward_entries) do
    local values = scoring.column(cs, entry.name)
    if #values > 0 then report["eval/rewards/" .. entry.name] = statistics.mean(values) end
  end
end

-- values: of the rows that can be judged.
local function report_accuracy(report, passed, values)
  local judged = #values
  report.unjudged = report.n - judged
  report.skipped, report.n = report.skipped + report.unjudged, judged
  if judged == 0 then return end
  report["eval/accuracy"] = passed / judged
  report["eval/accuracy/low"], report["eval/accuracy/high"] = pass_at_k.wilson(passed, judged)
  report["eval/metric"] = statistics.mean(values)
end

-- The message of the first reward, by name, that has failed.
local function first_of(messages)
  local first
  for name in pairs(messages) do first = (not first or name < first) and name or first end
  return messages[first]
end

local function greedy(tr, config, list, weights, kl, report)
  local cs, passed, values, rewards = {}, 0, {}, {}
  generate(tr, config, list, 1, 0, kl, function(c, number)
    local value, pass = measure(config, c, weights)
    values[#values + 1] = value
    passed = passed + (pass and 1 or 0)
    c.passed, c.reward = pass, total_of(config, c, weights)
    note(report, "eval/accuracy", number, value and (pass and 1.0 or 0.0))
    note(report, "eval/metric", number, value)
    note(report, "eval/reward", number, c.reward)
    cs[#cs + 1] = c
    if c.errors and not report.failure then report.failure = first_of(c.errors) end
  end)
  report_accuracy(report, passed, values)
  reward_means(config, cs, report)
  local lengths = {}
  for i, c in ipairs(cs) do lengths[i] = turns.sampled_length(c) end
  turns.measure(config, cs, report, "eval/")
  report["eval/mean_length"] = statistics.mean(lengths)
  for _, c in ipairs(cs) do rewards[#rewards + 1] = c.reward end
  if #rewards > 0 then report["eval/reward"] = statistics.mean(rewards) end
  report.samples = cs
end

-- Notes what the judged samples of a row give, each { passed = 1.0 or 0.0, answer =, reward = },
-- for every K for which they are enough.
local function measure_row(report, config, number, samples)
  local values, answers, rewards, right, measures = {}, {}, {}, 0, {}
  for i, s in ipairs(samples) do
    values[i], answers[i], rewards[i], right = s.passed, s.answer, s.reward, right + s.passed
  end
  function measures.pass(k) return pass_at_k.one(#samples, right, k) end
  local answer_numbers = config.eval.majority and answer.numbered(answers)
  function measures.maj(k) return pass_at_k.majority(values, answer_numbers, k) end
  function measures.best(k) return pass_at_k.best(values, rewards, k) end
  for _, k in ipairs(config.eval.pass_at) do
    for _, of_k in ipairs(#samples >= k and eval_names.of_k(config) or {}) do
      note(report, ("eval/%s@%d"):format(of_k, k), number, measures[of_k](k))
    end
  end
end

-- The reward that best@K goes by; a sample without it comes last.
local function deciding_reward(config, c, total)
  local name = config.eval.best_of
  local value = total
  if name and name ~= "reward" then value = c.rewards[name] end
  return type(value) == "number" and value or -math.huge
end

-- The values of the rows that have one, in the order of the list.
local function column(report, name, list)
  local values = {}
  for _, prompt in ipairs(list) do
    values[#values + 1] = (report.by_row[name] or {})[prompt.number]
  end
  return values
end

-- Means over the rows, with intervals.
local function report_of_k(report, config, list)
  for _, k in ipairs(config.eval.pass_at) do
    for _, of_k in ipairs(eval_names.of_k(config)) do
      local name = ("eval/%s@%d"):format(of_k, k)
      local e = pass_at_k.mean(column(report, name, list))
      if e.n > 0 then
        report[name], report[name .. "/low"], report[name .. "/high"] = e.value, e.low, e.high
      end
    end
  end
end

local function sampled(tr, config, list, weights, kl, report)
  local n, samples, sum, rewards = config.eval.group_size, {}, 0.0, { sum = 0.0, n = 0 }
  generate(tr, config, list, n, config.eval.temperature, kl, function(c, number)
    local total = total_of(config, c, weights)
    if total then rewards.sum, rewards.n = rewards.sum + total, rewards.n + 1 end
    local value, pass = measure(config, c, weights)
    if value then
      sum = sum + value
      samples[#samples + 1] = { passed = pass and 1.0 or 0.0,
        answer = config.eval.majority and verdict.prediction(c) or false,
        reward = deciding_reward(config, c, total) }
    end
    if c.index ~= n then return end
    if #samples > 0 then note(report, "eval/sampled/metric", number, sum / #samples) end
    measure_row(report, config, number, samples)
    samples, sum = {}, 0.0
  end)
  report.per_row = column(report, "eval/sampled/metric", list)
  if #report.per_row > 0 then report["eval/sampled/metric"] = statistics.mean(report.per_row) end
  if rewards.n > 0 then report["eval/sampled/reward"] = rewards.sum / rewards.n end
  report_of_k(report, config, list)
end

local EXAMPLES = 64 -- whose likelihood is asked for at a time

-- The characters of a text: names of special tokens are none, and an unknown token stands for one.
local function characters(tokenizer, ids)
  local text, unknown = tokenizer:decode(ids, { skip_special = true }), 0
  for _, id in ipairs(tokenizer.unk and ids or {}) do
    unknown = unknown + (id == tokenizer.unk and 1 or 0)
  end
  return (utf8.len(text) or #text) + unknown
end

-- Mean negative log-likelihood of the held-out targets, in nats a token and in bits a character.
local function likelihood(tr, config, list, report)
  local examples, nats, tokens, length, cut = {}, 0.0, 0, 0, 0
  for _, prompt in ipairs(list) do
    local target = prompt.target and prompts.first(prompt.target, config.sampling.max_new_tokens)
    if target then
      cut = cut + (#target < #prompt.target and 1 or 0)
      examples[#examples + 1] = { prompt = prompt.ids, target = target }
      length = length + characters(tr.tokenizer, target)
    end
  end
  if #examples == 0 then return end
  for first = 1, #examples, EXAMPLES do
    local part = table.move(examples, first, math.min(first + EXAMPLES - 1, #examples), 1, {})
    local mean, n = tr.engine:nll(part)
    nats, tokens = nats + mean * n, tokens + n
    tr:check_interrupt()
  end
  if cut > 0 then report.targets_truncated = cut end
  report["eval/loss"] = nats / tokens
  if length > 0 then report["eval/bits_per_character"] = nats / math.log(2) / length end
end

-- The KL is that of the sampled completions; of the greedy ones where there are no others.
local function completions(tr, config, list, weights, report)
  local samples = config.eval.group_size > 0
  local kl = tr.stage.measures_kl and { nats = 0.0, tokens = 0 } or nil
  greedy(tr, config, list, weights, not samples and kl or nil, report)
  if samples then sampled(tr, config, list, weights, kl, report) end
  if kl and kl.tokens > 0 then report["eval/kl"] = kl.nats / kl.tokens end
end

local NOT_LOGGED = { samples = true, per_row = true, by_row = true, rows = true }

-- The part of a report that is written down.
function evaluate.logged(report)
  local copy = {}
  for name, value in pairs(report) do copy[name] = not NOT_LOGGED[name] and value or nil end
  return copy
end

-- A report: "eval/accuracy", "eval/pass@K", "eval/maj@K", "eval/best@K" with /low and /high (95 %),
-- "eval/sampled/metric", means of the rewards, "eval/reward" (their weighted sum),
-- "eval/sampled/reward", "eval/kl", "eval/loss", "eval/bits_per_character"; n, the rows that count,
-- skipped, the others, unjudged, those among the others whose metric is nil, targets_truncated, if
-- there are any; samples (greedy), per_row (the metric's mean over each row's samples that are
-- judged); by the number of a row: by_row[NAME], what it gave, and rows, the row itself.
function evaluate.run(tr, n)
  local config = tr.settings
  if not config.data.eval then
    errors.raise("EARG", "data.eval: missing; an evaluation needs held-out rows")
  end
  local started = core.clock()
  local list, count = held_out(tr, config, n or config.eval.samples)
  if #list == 0 then errors.raise("ENOENT", "data.eval: no usable row") end
  local report = { step = tr.step_count, n = #list, skipped = count.dropped,
    truncated = count.truncated, by_row = {}, rows = {} }
  for _, prompt in ipairs(list) do report.rows[prompt.number] = prompt.row end
  local own = tr.stage.method.evaluate
  if own then
    own(tr, list, report)
    report.samples, report.seconds = {}, core.clock() - started
    return report
  end
  -- of what has been done: the same after a resume
  local weights = scoring.weights(config, tr.stage:argument())
  tr.eval_weights = weights
  report.samples = {}
  if eval_names.has_completions(config) then
    completions(tr, config, list, weights, report)
  end
  if eval_names.has_likelihood(tr.stage.kind, config) then likelihood(tr, config, list, report) end
  report.seconds = core.clock() - started
  return report
end

return evaluate
