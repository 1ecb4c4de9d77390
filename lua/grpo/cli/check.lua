local careful = require "grpo.reward_checks.careful"
local core = require "grpo.core"
local counted = require "grpo.base.counted"
local data = require "grpo.data"
local data_checks = require "grpo.data_checks"
local sorted_pairs = require "grpo.base.sorted"
local display = require "grpo.runs.display"
local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"
local flags = require "grpo.cli.flags"
local planned_steps = require "grpo.train.planned_steps"
local probes = require "grpo.reward_checks.probes"
local prompts = require "grpo.train.prompts"
local rank_cost = require "grpo.train.rank_cost"
local reward_entries = require "grpo.experiment.reward_entries"
local rollout = require "grpo.train.rollout"
local row_check = require "grpo.train.row_check"
local schedule_check = require "grpo.train.schedule_check"
local script = require "grpo.scripts.script"
local step_times = require "grpo.reward_checks.step_times"
local trainer = require "grpo.train.trainer"
local truncated = require "grpo.train.truncated"

local command = {
  name = "check",
  summary = "check an experiment, show prompts and scored samples, estimate memory and time",
  arguments = { flags.script, flags.override },
  flags = { flags.arg, flags.memory, flags.threads,
    { name = "ranks", type = "integer", min = 1, max = 4096,
      doc = "estimate too what a step costs on 1, 2, 4 ... N processes of mpirun or srun, each on "
        .. "a machine like this one: seconds, bytes that a process sends, its memory" },
    { name = "link", type = "number", value = "GBIT", min = 0.001, max = 100000,
      doc = "assume for --ranks a network of GBIT Gbit/s in each direction (default: 10)" } },
  about = {
    "Loads SCRIPT, checks every option, and shows what a run would do: two rendered prompts with "
      .. "their token counts, the distribution of prompt lengths over all rows, two sampled "
      .. "completions with every reward of every stage, and estimates of the peak memory and of "
      .. "the time of a step. The time comes from a few steps at learning rate 0, or from one "
      .. "group where a step takes long; their results are thrown away. Nothing is trained or "
      .. "written.",
    "Whatever fails or takes too long is a finding, and the check continues. The peak memory is "
      .. "what a run needs when every prompt and completion is as long as is allowed.",
  },
  notes = {
    "Every row of data.train and data.eval is read. A row that a run stumbles over or cannot learn "
      .. "from is reported as a finding: its prompt or target cannot be made or is empty, its "
      .. "answer (data.target, or the field `answer`) is missing, empty or without a number after "
      .. "\"####\", or a reward fails on that answer. So is a held-out prompt that is in "
      .. "data.train too (a note where data.train is generated), and a row that is another one "
      .. "when it is asked for again. Notes tell of prompts that are longer than "
      .. "data.max_prompt_tokens, of rows that repeat a prompt, and of rewards that give nil for a "
      .. "row's own answer. Steps are tried with the rows that have no fault. Further notes say "
      .. "what sampling.top_p, top_k, min_p and repetition_penalty mean for training.",
    "Prompts that may not be what was meant are findings: a plain string for a model with a chat "
      .. "template, two begin tokens, a last message of the assistant behind which the model "
      .. "begins another one, and messages, tools or model.chat_template_kwargs that the template "
      .. "does not show.",
    "Every schedule is evaluated over its whole stage: a value that its option cannot have, and a "
      .. "warm-up that the stage has no time for, are findings.",
    "A reward is reported as a finding if it answers differently when it is called again or in "
      .. "another order; if it fails or is slow on degenerate text (empty, as long as "
      .. "sampling.max_new_tokens allows, invalid UTF-8, nested tags, control "
      .. "characters); if it changes its row; if it gives the same to "
      .. "everything (degenerate text and demonstrations, or without these what rows hold and what "
      .. "the model writes); if it prefers degenerate text to every demonstration (data.target); "
      .. "or if it gives nil instead of 0. The exit status is 1 when there is a finding.",
    "data.sampler is asked twice for the first rows of its stage, which are shown. If the answers "
      .. "differ, that is a finding, because a resume would not continue with the same rows.",
    "If there are demonstrations, a table shows the reward of each beside its own row and beside "
      .. "another row. A reward that asks for the right answer is lower beside another row.",
  },
}

local function out(format, ...)
  core.out(format:format(...) .. "\n")
end

-- Shows what is being done, which may take long.
local function say(format, ...)
  core.err(("check: " .. format .. "\n"):format(...))
end

-- Calls f; what it raises becomes a finding.  Returns whether it raised nothing.  Ctrl-C ends the
-- check.
local function attempt(findings, what, f, ...)
  local ok, err = core.protected(f, ...)
  if not ok and core.signal_waits() then error(err, 0) end
  if not ok then
    findings[#findings + 1] = ("%s: %s"):format(what, display.clean(errors.line(err)))
  end
  return ok, err
end

local function show_prompts(tr, config)
  local dataset = config.data.train
  for i = 1, math.min(2, #dataset) do
    local ok, prompt = errors.try(function()
      return prompts.render(config, tr.tokenizer, dataset[i], i - 1)
    end)
    if ok then out("\nprompt %d (%d tokens):\n%s", i, #prompt.ids, display.clean(prompt.text)) end
  end
end

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

local function show_samples(tr, stage, findings)
  local config = stage.config
  local list = { stage.source:next() }
  local count = math.min(2, config.sampling.group_size)
  local context = { seed = config.seed, step = 0, tokens_seen = 0, state = tr.state,
    tokenizer = tr.tokenizer }
  local o, ids = rollout.options(config, list, count, context, "eval")
  o.prompts = ids
  say("sampling %d completions of up to %d tokens", count, config.sampling.max_new_tokens)
  local batch = stage.engine:rollout(o)
  local cs = rollout.all(batch, list, #batch, context)
  local seconds = compare_rewards(config, cs, findings)
  for i, c in ipairs(cs) do
    out("\nsampled completion %d (%s, finish %s):\n%s", i, counted(c.length, "token"), c.finish,
      display.turns_text(c))
    for _, entry in ipairs(config.reward_entries) do
      local r = c.rewards[entry.name]
      out("  %-16s %s", entry.name, c.errors and c.errors[entry.name] and "fails"
        or r == core.none and "does not apply" or ("%.4g"):format(r))
    end
  end
  return seconds
end

-- Shows the mean reward of demonstrations beside their own rows and beside other rows.  If both are
-- equal for a reward of the right answer, then it never asks for the answer.
local function show_demonstrations(beside)
  if #beside == 0 then return end
  local names, any = {}, false
  out("\n%-18s %10s %14s", "demonstrations", "own row", "another row")
  for i, e in ipairs(beside) do
    out("  %-16s %10s %14s", e.name, e.own and ("%.4g"):format(e.own) or "-",
      e.other and ("%.4g"):format(e.other) or "-")
    names[i], any = e.name, any or e.differs
  end
  if any then return end
  out("note: %s %s a text the same reward whatever the row, so no reward asks for the answer to "
    .. "the question", table.concat(names, ", "), #names == 1 and "gives" or "give")
end

local function probe_rewards(tr, e, config, findings)
  local target = config.data.target
  for _, stage in ipairs(e.stages) do target = target or stage.config.data.target end
  say("trying the rewards on texts that no model sampled")
  local count, beside, suspects = probes.run(config, tr.tokenizer, target, findings)
  if count > 0 then out("\nrewards tried on %d texts that no model sampled", count) end
  show_demonstrations(beside)
  return suspects
end

-- Rewards of every stage: { { stages = their numbers, config=, kind=, suspects=, sampled= }, ... }.
-- Stages with the same rewards and rows are one.
local function reward_groups(e)
  return data_checks.groups(e, function(a, b)
    return reward_entries.same(a.config.reward_entries, b.config.reward_entries)
      and a.config.data.train == b.config.data.train
  end)
end

-- Begins a stage; what stops it is a finding.  A wrong option is raised again after the check.
local function begin_stage(tr, index, findings)
  say("taking the memory of stage %d", index)
  local ok, err = attempt(findings, "stage " .. index, tr.begin_stage, tr, index)
  if not ok and type(err) == "table" and core.status_exit(err) == 2 then
    findings.wrong_option, findings[#findings] = findings.wrong_option or err, nil
  end
  return ok
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
local function try_rewards(tr, e, groups)
  for _, group in ipairs(groups) do
    local config, found = group.config, {}
    group.suspects, group.sampled = {}, {}
    if #config.reward_entries > 0 then
      if #groups > 1 then out("\nrewards of %s:", data_checks.named(group.stages)) end
      local seconds = {}
      if begin_stage(tr, group.stages[#group.stages], found) then
        attempt(found, "sampling", function() seconds = show_samples(tr, tr.stage, found) end)
      end
      attempt(found, "rewards", function()
        group.suspects = probe_rewards(tr, e, config, found)
      end)
      note_slow(seconds, found)
    end
    group.findings = found
  end
end

-- Adds the findings of each group, with the names of its stages if there are several groups.
local function collect(groups, findings)
  for _, group in ipairs(groups) do
    for _, line in ipairs(group.findings) do
      findings[#findings + 1] = #groups > 1
        and ("%s: %s"):format(data_checks.named(group.stages), line) or line
    end
  end
end

-- Adds findings about those suspects that give their value to all sampled completions too.
-- sampled: { [name] = { count =, [value] = true, ... } }
local function judge(suspects, sampled, findings)
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

local function configs_of(e)
  local list = {}
  for i, spec in ipairs(e.stages) do list[i] = spec.config end
  return list
end

-- Shows what extensions say of the script.
local function show_others()
  for _, row in ipairs(extensions.rows "checks") do
    for _, line in ipairs(row[2]()) do out("%s: %s", row[1], line) end
  end
end

-- The memory that the stage needs when every prompt and completion is as long as is allowed: bytes,
-- and a line with their parts.
local function memory_of(stage)
  local need = stage.engine:estimate()
  local parts = {}
  for _, name in ipairs { "weights", "reference", "optimizer", "critic", "cache", "batch",
    "masks", "kept", "activations" } do
    if need[name] > 0 then parts[#parts + 1] = ("%s %d"):format(name, need[name] >> 20) end
  end
  return { bytes = need.total, line = ("%-8s %d MiB (%s)"):format(stage.kind, need.total >> 20,
    table.concat(parts, ", ")) }
end

-- Shows the one figure for memory, that of the stage which needs most.  list: of memory_of.
local function show_memory(list, available)
  if #list == 0 then return end
  local most = 0
  for _, one in ipairs(list) do most = math.max(most, one.bytes) end
  out("\npeak memory: %d MiB of %d MiB that are available; it is an estimate for a run with the "
    .. "longest prompts and completions:", most >> 20, available >> 20)
  for _, one in ipairs(list) do out("%s", one.line) end
end

-- Returns notes about training on completions that the stage samples.
local function sampling_notes(stage)
  if not stage.method.samples then return {} end
  return truncated.notes(stage.config, stage.engine:estimate().masks)
end

-- Shows the cost of a step of the stage on up to n ranks: see rank_cost.  `seconds` were measured.
local function show_ranks(stage, seconds, m, o)
  local config, need, samples = stage.config, stage.engine:estimate(), stage.method.samples
  local optimizer = m["time/optimizer"] or 0.0
  local groups, varies = config.train.prompts_per_step, not samples or stage.method.critic
  local s = { groups = groups, fewest = varies and 1 or groups,
    blocks = config.train.gradient_blocks or 0,
    numbers = stage.tr.model:count { trainable = true }, divided = math.max(0, seconds - optimizer),
    optimizer = optimizer, update = math.min(seconds, m["time/train"] or seconds) - optimizer,
    updates = stage.per_step or 1, memory = need.total, moments = need.optimizer,
    tokens = samples and m.num_tokens or 0, link = o.link or 10 }
  out("\n%-8s %6s %14s %14s %14s %10s", stage.kind, "ranks", "seconds a step", "on the wire",
    "sent by a rank", "MiB a rank")
  local n = 1
  while n <= o.ranks do
    local c = rank_cost.of(s, n)
    out("%-8s %6d %14.3f %14.3f %14s %10d", "", n, c.seconds, c.wire,
      rank_cost.size_text(math.max(c.sent, c.received)), c.memory // 2^20)
    n = n < o.ranks and math.min(2 * n, o.ranks) or n + 1
  end
end

-- Adds what the rewards of timed steps show.  failed: see step_times.once.
local function judge_timed(timed, failed, groups, findings)
  local known = {}
  for _, group in ipairs(groups) do
    table.move(group.findings, 1, #group.findings, #known + 1, known)
  end
  known = table.concat(known, "\n")
  for name, text in sorted_pairs(failed) do
    if not known:find(("reward %s fails"):format(name), 1, true)
      and not known:find(("rewards.%s:"):format(name), 1, true) then
      findings[#findings + 1] = ("reward %s fails on a completion that the model wrote: \"%s\"")
        :format(name, display.clean(text))
    end
  end
  for _, one in ipairs(timed) do
    local taken, name = one.metrics["time/reward"] or 0.0, one.metrics["time/slowest_reward"]
    if taken > 1 and taken > one.seconds / 2 and not known:find(name .. " is slow", 1, true) then
      findings[#findings + 1] = ("reward %s is slow: rewards take %.1f s of a step's %.1f s")
        :format(name, taken, one.seconds)
    end
  end
end

-- Times the steps of a stage and shows the line about them.  A reward that has ended a step is not
-- called in the next one.
local function time_stage(tr, index, o)
  local stage, spec = tr.stage, tr.experiment.stages[index]
  local function seen(cs) note_rewards(cs, o.sampled[index]) end
  local function tell(text) say("stage %d (%s): %s", index, spec.kind, text) end
  local ok, one = core.protected(step_times.of, stage, seen, tell)
  if not ok and not core.signal_waits() and next(o.failed) then
    ok, one = core.protected(step_times.of, stage, seen, tell)
  end
  if not ok then error(one, 0) end
  local planned = planned_steps(spec.config)
  out("%-8s %10d %16.3f %14s%s", spec.kind, planned, one.seconds,
    display.seconds_text(math.floor(one.seconds * planned)), one.few
    and (" (estimated from %d of its %d groups)"):format(one.few,
      spec.config.train.prompts_per_step) or "")
  if o.ranks then show_ranks(stage, one.seconds, one.metrics, o) end
  o.timed[#o.timed + 1] = one
  if index == 1 and spec.config.data.eval then
    say("evaluating held-out rows")
    tr:evaluate(math.min(one.few and 2 or 64, #spec.config.data.eval))
  end
end

-- Notes in group.sampled what rewards gave to completions, as judge takes it.
local function estimate(tr, e, groups, findings, given)
  local memory, wrapped, notes = {}, {}, {}
  local o = { failed = {}, sampled = {}, timed = {}, ranks = given.ranks, link = given.link }
  for _, group in ipairs(groups) do
    for _, index in ipairs(group.stages) do o.sampled[index] = group.sampled end
  end
  for _, config in ipairs { e.config, table.unpack(configs_of(e)) } do
    if not wrapped[config.reward_entries] then
      step_times.once(config.reward_entries, o.failed)
    end
    wrapped[config.reward_entries] = true
  end
  out("\n%-8s %10s %16s %14s", "stage", "steps", "seconds a step", "in all")
  for index, spec in ipairs(e.stages) do
    spec.config.train.lr = 0.0
    spec.config.hooks = {}
    spec.config.reward.on_error = "skip" -- an error is a finding by now
    if begin_stage(tr, index, findings) then
      tr.stage.steps = 7
      memory[#memory + 1] = memory_of(tr.stage)
      for _, note in ipairs(sampling_notes(tr.stage)) do
        if not notes[note] then notes[#notes + 1], notes[note] = note, true end
      end
      attempt(findings, ("a step of stage %d (%s)"):format(index, spec.kind), time_stage, tr, index,
        o)
    end
  end
  for _, note in ipairs(notes) do out("note: %s", note) end
  judge_timed(o.timed, o.failed, groups, findings)
  show_memory(memory, given.available)
  if #e.stages > 1 then
    out("A later stage is timed with the untrained model, whose completions are as long as is "
      .. "allowed, so that its real steps are shorter.")
  end
end

-- The dataset without these rows; itself if there are none, or no others.
local function without(dataset, rows)
  local kept = {}
  for i = 1, next(rows) and #dataset or 0 do
    if not rows[i] then kept[#kept + 1] = i end
  end
  if #kept == 0 then return dataset end
  return data.list(kept):map(function(i) return dataset[i] end)
end

-- Rows that stop a step are findings already: the steps that are tried leave them out.
local function leave_out(e, groups)
  for _, group in ipairs(groups) do
    for _, number in ipairs(group.stages) do
      local config = e.stages[number].config
      for part, rows in pairs(group.unusable) do
        config.data[part] = without(config.data[part], rows)
      end
    end
  end
end

-- Rows that are other ones when they are asked for again.
local function try_rows(e, findings)
  local _, notes = row_check.first(e)
  table.move(notes, 1, #notes, #findings + 1, findings)
end

-- Evaluates every schedule over its whole stage.
local function try_schedules(e, findings)
  for _, spec in ipairs(e.stages) do
    local ok, notes = errors.try(schedule_check.stage, spec)
    if not ok then notes = { errors.line(notes) } end
    table.move(notes, 1, #notes, #findings + 1, findings)
  end
end

-- Shows the rows that data.sampler takes first.  It is asked twice: another answer is a finding.
local function try_samplers(tr, e, findings)
  for i, spec in ipairs(e.stages) do
    local config = spec.config
    local source = prompts.source(config, tr.tokenizer, planned_steps(config))
    if source.sampler:is_used() then
      local picks, problem = source.sampler:rehearse(config.train.prompts_per_step, 0)
      local names = {}
      for k, pick in ipairs(picks) do names[k] = k <= 8 and (pick.index or "its own") or nil end
      out("\ndata.sampler of stage %d begins with rows %s%s", i, table.concat(names, ", "),
        #picks > 8 and ", ..." or "")
      findings[#findings + 1] = problem
    end
  end
end

-- Tries what a run would do, and adds what is wrong to `findings`.
local function try(tr, e, findings, given)
  show_prompts(tr, e.stages[#e.stages].config)
  attempt(findings, "rows", function()
    leave_out(e, data_checks.run(e, tr.tokenizer, out, findings))
  end)
  attempt(findings, "rows", try_rows, e, findings)
  attempt(findings, "schedules", try_schedules, e, findings)
  attempt(findings, "data.sampler", try_samplers, tr, e, findings)
  local groups, failures = reward_groups(e), {}
  try_rewards(tr, e, groups)
  attempt(failures, "estimates", estimate, tr, e, groups, failures, given)
  for _, group in ipairs(groups) do
    judge(group.suspects, group.sampled, group.findings)
    findings.wrong_option = findings.wrong_option or group.findings.wrong_option
  end
  collect(groups, findings)
  table.move(failures, 1, #failures, #findings + 1, findings)
  return findings.wrong_option or failures.wrong_option
end

-- The trainer; nil if it does not fit into memory, which is a finding.
local function new_trainer(e, findings)
  local ok, tr = core.protected(trainer.new, e, {})
  if ok then return tr end
  if type(tr) ~= "table" or tr.code ~= "ENOMEM" then error(tr, 0) end
  findings[#findings + 1] = "the model does not fit: " .. errors.line(tr)
end

function command.run(o)
  local available = core.mem().available
  local e = script.load(o.words[1], o)
  local findings, problem = {}, nil
  say("loading the model of %s", o.words[1])
  local tr = new_trainer(e, findings)
  if tr then
    out("%s: %s, model of %d parameters, vocabulary of %d tokens", e.config.name,
      counted(#e.stages, "stage"), tr.model:count(), #tr.tokenizer)
    out("key/value cache: %d bytes a token (%d if every head kept its own)",
      tr.model:cache_bytes_per_token())
    for _, note in ipairs(tr.about.lengths) do out("note: %s", note) end
    show_others()
    problem = try(tr, e, findings, { ranks = o.flags.ranks, link = o.flags.link,
      available = available })
  end
  for _, line in ipairs(findings) do out("finding: %s", line) end
  if problem then error(problem, 0) end
  out("%s", #findings == 0 and "no findings" or counted(#findings, "finding"))
  return #findings > 0 and 1 or 0
end

return command
