-- Held-out evaluation: greedy accuracy, pass@k from samples when asked for, the likelihood of
-- held-out targets.

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
      prompt.row, prompt.number, prompt.target = row, i, target_of(tr, config, row, i)
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
    local o, ids = rollout.options(config, part, n, context, "eval", sampling)
    local batch = rollout.sample(tr, part, o, ids)
    local cs = rollout.all(batch, part, n, context)
    if kl then add_kl(tr, batch, cs, kl) end
    ranks.score(config.reward_entries, cs, function(own)
      return scoring.score(config.reward_entries, own, config.limits.reward, "skip")
    end)
    for _, c in ipairs(cs) do visit(c) end
    tr:check_interrupt()
  end
end

-- Mean of each reward entry over completions where it applies; nothing where it applies to none.
local function reward_means(config, cs, report)
  for _, entry in ipairs(config.reward_entries) do
    local values = scoring.column(cs, entry.name)
    if #values > 0 then report["eval/rewards/" .. entry.name] = statistics.mean(values) end
  end
end

-- The mean of total rewards; nothing where no reward applies.
local function report_reward(report, name, rewards)
  if #rewards > 0 then report[name] = statistics.mean(rewards) end
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
  generate(tr, config, list, 1, 0, kl, function(c)
    local value, pass = measure(config, c, weights)
    values[#values + 1] = value
    passed = passed + (pass and 1 or 0)
    c.passed = pass
    cs[#cs + 1] = c
    if c.errors and not report.failure then report.failure = first_of(c.errors) end
  end)
  report_accuracy(report, passed, values)
  reward_means(config, cs, report)
  local lengths = {}
  for i, c in ipairs(cs) do lengths[i] = turns.sampled_length(c) end
  turns.measure(config, cs, report, "eval/")
  report["eval/mean_length"] = statistics.mean(lengths)
  for _, c in ipairs(cs) do
    c.reward = total_of(config, c, weights)
    rewards[#rewards + 1] = c.reward
  end
  report_reward(report, "eval/reward", rewards)
  report.samples = cs
end

-- pass@k of the rows of which at least k samples were judged.
local function report_pass_at(report, config, counts, judged)
  for _, k in ipairs(config.eval.pass_at) do
    local e = pass_at_k.estimate(counts, config.eval.group_size, k, judged)
    if e.n > 0 then
      local name = ("eval/pass@%d"):format(k)
      report[name], report[name .. "/low"], report[name .. "/high"] = e.value, e.low, e.high
    end
  end
end

local function sampled(tr, config, list, weights, kl, report)
  local n, counts, judged, means, rewards = config.eval.group_size, {}, {}, {}, {}
  local passed_here, judged_here, sum = 0, 0, 0.0
  generate(tr, config, list, n, config.eval.temperature, kl, function(c)
    rewards[#rewards + 1] = total_of(config, c, weights)
    local value, pass = measure(config, c, weights)
    passed_here, sum = passed_here + (pass and 1 or 0), sum + (value or 0.0)
    judged_here = judged_here + (value and 1 or 0)
    if c.index ~= n then return end
    counts[#counts + 1], judged[#judged + 1] = passed_here, judged_here
    if judged_here > 0 then means[#means + 1] = sum / judged_here end
    passed_here, judged_here, sum = 0, 0, 0.0
  end)
  if #means > 0 then report["eval/sampled/metric"] = statistics.mean(means) end
  report_reward(report, "eval/sampled/reward", rewards)
  report.per_row = means
  report_pass_at(report, config, counts, judged)
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

-- A report: "eval/accuracy", "eval/pass@K" with /low and /high (95 %), "eval/sampled/metric", means
-- of the rewards, "eval/reward" (their weighted sum), "eval/sampled/reward", "eval/kl",
-- "eval/loss", "eval/bits_per_character"; n, the rows that count, skipped, the others, unjudged,
-- those among the others whose metric is nil, targets_truncated, if there are any; samples
-- (greedy), per_row (the metric's mean over each row's samples that are judged).
function evaluate.run(tr, n)
  local config = tr.settings
  if not config.data.eval then
    errors.raise("EARG", "data.eval: missing; an evaluation needs held-out rows")
  end
  local started = core.clock()
  local list, count = held_out(tr, config, n or config.eval.samples)
  if #list == 0 then errors.raise("ENOENT", "data.eval: no usable row") end
  local report = { step = tr.step_count, n = #list, skipped = count.dropped,
    truncated = count.truncated }
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
