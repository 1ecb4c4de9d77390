-- Measures what a step of a stage costs, for `grpo check`, at learning rate 0.  Where a whole step
-- takes long, one or two groups of it are enough.

local core = require "grpo.core"
local reward_entries = require "grpo.options.reward_entries"
local trainer = require "grpo.loop.trainer"

local step_times = {}

local BUDGET, STEPS = 10, 6 -- seconds of whole steps; their number at most

-- A reward that has failed once is not called again while steps are timed, because a thousand calls
-- that end at their limits take an hour.  `failed` gets the text on which each one failed.
function step_times.once(entries, failed)
  for _, entry in ipairs(entries) do
    local kind, f = reward_entries.kind_of(entry)
    local broken = false
    entry[kind] = function(...)
      if broken then return nil end
      broken, failed[entry.name] = true, kind == "fn" and (...) or ""
      local results = table.pack(f(...))
      broken, failed[entry.name] = false, nil
      return table.unpack(results, 1, results.n)
    end
  end
end

-- Makes a step of `count` groups or rows; returns its seconds and metrics.
local function step(stage, count, seen)
  local train = stage.config.train
  local before, started = train.prompts_per_step, core.clock()
  train.prompts_per_step = count
  local ok, metrics = core.protected(stage.advance, stage)
  train.prompts_per_step = before
  if not ok then error(metrics, 0) end
  if stage.method.samples then seen(stage.tr.batch.completions) end
  trainer.set(stage.tr, "step_count", stage.tr.step_count + 1)
  return core.clock() - started, metrics
end

-- The numbers of a whole step, from those of one of its groups.
local function scaled(seconds, metrics, groups)
  local optimizer = metrics["time/optimizer"] or 0.0
  local function whole(v) return v and optimizer + (v - optimizer) * groups end
  return whole(seconds), { ["time/optimizer"] = optimizer,
    ["time/train"] = whole(metrics["time/train"]), num_tokens = metrics.num_tokens
      and metrics.num_tokens * groups // 1,
    ["time/reward"] = (metrics["time/reward"] or 0.0) * groups,
    ["time/slowest_reward"] = metrics["time/slowest_reward"] }
end

-- Estimates a step of n times as many groups from steps of `few` and of twice as many, because
-- groups that are sampled together take less time than one after the other.  first: the seconds of
-- the first step of `few`, which warmed up; if that took long, it is all that is known, and each
-- group is taken to cost as much.  Returns seconds, metrics.
local function estimated(stage, few, n, first, part, seen)
  if first > 3 * BUDGET or n < 2 then return scaled(first, part, n) end
  local one, metrics = step(stage, few, seen)
  local two = step(stage, 2 * few, seen)
  local _, whole = scaled(one, metrics, n)
  return one + math.max(two - one, 0.0) * (n - 1), whole
end

-- Times a stage that has begun.  seen(completions) is called with what its steps sample; say(text)
-- shows what is being done.  Returns { seconds = of a step, metrics =, few = the groups from which
-- they are estimated, if no whole step was made }.  A minibatch takes whole groups.
function step_times.of(stage, seen, say)
  local train = stage.config.train
  local groups, few = train.prompts_per_step, stage.method.critic and train.ppo.minibatches or 1
  say("timing a step")
  if groups > few and stage.method.samples and not stage.source.sampler:is_used() then
    local first, part = step(stage, few, seen)
    if first * groups / few > BUDGET then
      local seconds, whole = estimated(stage, few, groups / few, first, part, seen)
      if seconds > BUDGET then return { seconds = seconds, metrics = whole, few = few } end
    end
  end
  local timed, begun = {}, core.clock()
  repeat
    local seconds, metrics = step(stage, groups, seen)
    timed[#timed + 1] = { seconds = seconds, metrics = metrics }
  until #timed == STEPS or core.clock() - begun > BUDGET
  if #timed > 1 then table.remove(timed, 1) end -- the first one warms up
  table.sort(timed, function(a, b) return a.seconds < b.seconds end)
  return timed[(#timed + 1) // 2] -- one step's, so that its parts are not more than the whole
end

return step_times
