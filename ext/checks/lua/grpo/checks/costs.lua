-- Times a step of every stage, and judges what the rewards of these steps show.

local core = require "grpo.core"
local display = require "grpo.base.display"
local planned_steps = require "grpo.loop.planned_steps"
local rank_cost = require "grpo.loop.rank_cost"
local sorted_pairs = require "grpo.base.sorted"
local step_times = require "grpo.scoring.reward_checks.step_times"

local costs = {}

-- Notes what rewards gave to the completions of a step.
local function note_rewards(cs, sampled)
  for _, c in ipairs(cs) do
    for name, r in pairs(c.rewards) do
      local seen = sampled[name] or { count = 0 }
      sampled[name] = seen
      if not (c.errors and c.errors[name]) then seen.count, seen[r] = seen.count + 1, true end
    end
  end
end

-- Shows the cost of a step of the stage on up to n ranks: see rank_cost.  `seconds` were measured.
local function show_ranks(check, stage, seconds, m)
  local config, need, samples = stage.config, stage.engine:estimate(), stage.method.samples
  local optimizer = m["time/optimizer"] or 0.0
  local groups, varies = config.train.prompts_per_step, not samples or stage.method.critic
  local s = { groups = groups, fewest = varies and 1 or groups,
    blocks = config.train.gradient_blocks or 0,
    numbers = stage.tr.model:count { trainable = true }, divided = math.max(0, seconds - optimizer),
    optimizer = optimizer, update = math.min(seconds, m["time/train"] or seconds) - optimizer,
    updates = stage.per_step or 1, memory = need.total, moments = need.optimizer,
    tokens = samples and m.num_tokens or 0, link = check.flags.link or 10 }
  check.out("\n%-8s %6s %14s %14s %14s %10s", stage.kind, "ranks", "seconds a step", "on the wire",
    "sent by a rank", "MiB a rank")
  local n = 1
  while n <= check.flags.ranks do
    local c = rank_cost.of(s, n)
    check.out("%-8s %6d %14.3f %14.3f %14s %10d", "", n, c.seconds, c.wire,
      rank_cost.size_text(math.max(c.sent, c.received)), c.memory // 2^20)
    n = n < check.flags.ranks and math.min(2 * n, check.flags.ranks) or n + 1
  end
end

-- Readies the stages to be timed.  Returns { sampled = what rewards gave to completions, for each
-- stage that of its group, timed = what step_times.of returned, failed = see step_times.once }.
function costs.begin(check, groups)
  local o, wrapped = { failed = {}, sampled = {}, timed = {} }, {}
  for _, group in ipairs(groups) do
    for _, index in ipairs(group.stages) do o.sampled[index] = group.sampled end
  end
  local configs = { check.e.config }
  for i, spec in ipairs(check.e.stages) do configs[i + 1] = spec.config end
  for _, config in ipairs(configs) do
    if not wrapped[config.reward_entries] then
      step_times.once(config.reward_entries, o.failed)
    end
    wrapped[config.reward_entries] = true
  end
  for _, spec in ipairs(check.e.stages) do
    spec.config.train.lr = 0.0
    spec.config.hooks = {}
    spec.config.reward.on_error = "skip" -- an error is a finding by now
  end
  check.out("\n%-8s %10s %16s %14s", "stage", "steps", "seconds a step", "in all")
  return o
end

-- Times the steps of a stage and shows the line about them.  A reward that has ended a step is not
-- called in the next one.
local function time_stage(check, index, o)
  local tr = check.tr
  local stage, spec = tr.stage, tr.experiment.stages[index]
  local function seen(cs) note_rewards(cs, o.sampled[index]) end
  local function tell(text) check.say("stage %d (%s): %s", index, spec.kind, text) end
  local ok, one = core.protected(step_times.of, stage, seen, tell)
  if not ok and not core.signal_waits() and next(o.failed) then
    ok, one = core.protected(step_times.of, stage, seen, tell)
  end
  if not ok then error(one, 0) end
  local planned = planned_steps(spec.config)
  check.out("%-8s %10d %16.3f %14s%s", spec.kind, planned, one.seconds,
    display.seconds_text(math.floor(one.seconds * planned)), one.few
    and (" (estimated from %d of its %d groups)"):format(one.few,
      spec.config.train.prompts_per_step) or "")
  if check.flags.ranks then show_ranks(check, stage, one.seconds, one.metrics) end
  o.timed[#o.timed + 1] = one
  if index == 1 and spec.config.data.eval then
    check.say("evaluating held-out rows")
    tr:evaluate(math.min(one.few and 2 or 64, #spec.config.data.eval))
  end
end

-- Times the stage of this number, which has begun.
function costs.stage(check, index, o)
  local stage = check.tr.stage
  if stage.method.waits then
    check.out("%-8s %10d %16s", stage.kind, planned_steps(stage.config), "as its programs")
    return
  end
  check.tr.stage.steps = 7
  check.attempt(check.failures, ("a step of stage %d (%s)"):format(index,
    check.e.stages[index].kind), time_stage, check, index, o)
end

-- Adds what the rewards of timed steps show.  o: as costs.begin returns it.
function costs.judge(o, groups, findings)
  local known = {}
  for _, group in ipairs(groups) do
    table.move(group.findings, 1, #group.findings, #known + 1, known)
  end
  known = table.concat(known, "\n")
  for name, text in sorted_pairs(o.failed) do
    if not known:find(("reward %s fails"):format(name), 1, true)
      and not known:find(("rewards.%s:"):format(name), 1, true) then
      findings[#findings + 1] = ("reward %s fails on a completion that the model wrote: \"%s\"")
        :format(name, display.clean(text))
    end
  end
  for _, one in ipairs(o.timed) do
    local taken, name = one.metrics["time/reward"] or 0.0, one.metrics["time/slowest_reward"]
    if taken > 1 and taken > one.seconds / 2 and not known:find(name .. " is slow", 1, true) then
      findings[#findings + 1] = ("reward %s is slow: rewards take %.1f s of a step's %.1f s")
        :format(name, taken, one.seconds)
    end
  end
end

return costs
