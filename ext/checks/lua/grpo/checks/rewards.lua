-- Tries the rewards of every stage, on what the model writes and on other texts.

local careful = require "grpo.scoring.reward_checks.careful"
local core = require "grpo.core"
local counted = require "grpo.base.counted"
local data_checks = require "grpo.data_checks"
local display = require "grpo.base.display"
local probes = require "grpo.scoring.reward_checks.probes"
local reward_entries = require "grpo.options.reward_entries"
local rollout = require "grpo.scoring.rollout"
local stage_kinds = require "grpo.options.stage_kinds"
local sorted_pairs = require "grpo.base.sorted"

local rewards = {}

-- Scores the same completions twice, the second time backwards: rewards must not depend on order.
-- Returns the seconds that each reward took for one of them.
local function compare_rewards(config, cs, findings)
  local first, failed, told = {}, {}, {}
  local score = careful.scorer(config.reward_entries, config.limits.reward)
  local seconds = score(cs)
  for i, c in ipairs(cs) do
    first[i] = c.rewards
    for name, message in sorted_pairs(c.errors or {}) do
      if not told[name] then
        findings[#findings + 1] = ("reward %s: %s"):format(name, display.clean(message))
      end
      told[name] = true
    end
    failed[i], c.rewards, c.errors = c.errors, {}, nil
  end
  for i = #cs, 1, -1 do
    score { cs[i] }
    for _, entry in ipairs(config.reward_entries) do
      local again = cs[i].rewards[entry.name]
      if entry.fn and again ~= nil and again ~= first[i][entry.name] then
        findings[#findings + 1] = ("reward %s gave %s and then %s for the same completion"):format(
          entry.name, tostring(first[i][entry.name]), tostring(again))
      end
    end
    cs[i].rewards, cs[i].errors = first[i], failed[i]
  end
  for name, taken in pairs(seconds) do seconds[name] = taken / #cs end
  return seconds
end

local function show_samples(check, stage, findings)
  local tr, config = check.tr, stage.config
  local list = { stage.source:next() }
  local count = math.min(2, config.sampling.group_size)
  local context = { seed = config.seed, step = 0, tokens_seen = 0, state = tr.state,
    tokenizer = tr.tokenizer }
  local o, ids = rollout.options(config, list, count, context, "eval")
  o.prompts = ids
  check.say("sampling %d completions of up to %d tokens", count, config.sampling.max_new_tokens)
  local batch = stage.engine:rollout(o)
  local cs = rollout.all(batch, list, #batch, context)
  local seconds = compare_rewards(config, cs, findings)
  for i, c in ipairs(cs) do
    check.out("\nsampled completion %d (%s, finish %s):\n%s", i, counted(c.length, "token"),
      c.finish, display.turns_text(c))
    for _, entry in ipairs(config.reward_entries) do
      local r = c.rewards[entry.name]
      check.out("  %-16s %s", entry.name, c.errors and c.errors[entry.name] and "fails"
        or r == core.none and "does not apply" or ("%.4g"):format(r))
    end
  end
  return seconds
end

-- Shows the mean reward of demonstrations beside their own rows and beside other rows.  If both are
-- equal for a reward of the right answer, then it never asks for the answer.
local function show_demonstrations(check, beside)
  if #beside == 0 then return end
  local names, any = {}, false
  check.out("\n%-18s %10s %14s", "demonstrations", "own row", "another row")
  for i, e in ipairs(beside) do
    check.out("  %-16s %10s %14s", e.name, e.own and ("%.4g"):format(e.own) or "-",
      e.other and ("%.4g"):format(e.other) or "-")
    names[i], any = e.name, any or e.differs
  end
  if any then return end
  check.out("note: %s %s a text the same reward whatever the row, so no reward asks for the answer "
    .. "to the question", table.concat(names, ", "), #names == 1 and "gives" or "give")
end

-- A group's config without the reward that other programs post: where a stage waits for them, none
-- is here.
local function without_posted(group)
  if not stage_kinds[group.kind].waits then return group.config end
  local kept = {}
  for _, entry in ipairs(group.config.reward_entries) do
    if entry.fn ~= reward_entries.of_environment then kept[#kept + 1] = entry end
  end
  return setmetatable({ reward_entries = kept }, { __index = group.config })
end

local function probe_rewards(check, config, findings)
  local target = config.data.target
  for _, stage in ipairs(check.e.stages) do target = target or stage.config.data.target end
  check.say("trying the rewards on texts that no model sampled")
  local count, beside, suspects = probes.run(config, check.tr.tokenizer, target, findings)
  if count > 0 then check.out("\nrewards tried on %d texts that no model sampled", count) end
  show_demonstrations(check, beside)
  return suspects
end

-- Rewards of every stage: { { stages = their numbers, config=, kind=, suspects=, sampled= }, ... }.
-- Stages with the same rewards and rows are one.
function rewards.groups(e)
  return data_checks.groups(e, function(a, b)
    return reward_entries.same(a.config.reward_entries, b.config.reward_entries)
      and a.config.data.train == b.config.data.train
  end)
end

local SLOW = 0.5 -- seconds for one completion

-- Adds the rewards that are slow on what the model writes, and that no other finding calls slow.
local function note_slow(seconds, findings)
  local known = table.concat(findings, "\n")
  for name, taken in sorted_pairs(seconds) do
    if taken > SLOW and not known:find(("reward %s is slow"):format(name), 1, true) then
      findings[#findings + 1] = ("reward %s is slow: it takes %.1f s on a completion that the "
        .. "model wrote"):format(name, taken)
    end
  end
end

-- Tries the rewards of each group: on what the model writes, and on other texts.
function rewards.try(check, groups)
  for _, group in ipairs(groups) do
    local config, found = group.config, {}
    group.suspects, group.sampled = {}, {}
    if #config.reward_entries > 0 then
      if #groups > 1 then check.out("\nrewards of %s:", data_checks.named(group.stages)) end
      local seconds = {}
      if check:begin_stage(group.stages[#group.stages], found) then
        check.attempt(found, "sampling", function()
          seconds = show_samples(check, check.tr.stage, found)
        end)
      end
      check.attempt(found, "rewards", function()
        group.suspects = probe_rewards(check, without_posted(group), found)
      end)
      note_slow(seconds, found)
    end
    group.findings = found
  end
end

-- Adds the findings of each group, with the names of its stages if there are several groups.
function rewards.collect(groups, findings)
  for _, group in ipairs(groups) do
    for _, line in ipairs(group.findings) do
      findings[#findings + 1] = #groups > 1
        and ("%s: %s"):format(data_checks.named(group.stages), line) or line
    end
  end
end

-- Adds findings about those suspects that give their value to all sampled completions too.
-- sampled: { [name] = { count =, [value] = true, ... } }
function rewards.judge(suspects, sampled, findings)
  for _, suspect in ipairs(suspects) do
    local seen = sampled[suspect.name] or { count = 0 }
    local others = false
    for value in pairs(seen) do
      others = others or (value ~= "count" and value ~= suspect.value)
    end
    if not others then
      findings[#findings + 1] = probes.constant_finding(suspect.name, suspect.value,
        ("%s, and %d sampled completions%s%s"):format(suspect.what, seen.count, suspect.hint,
        (suspect.value == core.none or suspect.value <= 0)
        and "; if a right answer gets more, show one with data.target" or ""))
    end
  end
end

return rewards
