local counted = require "grpo.base.counted"
local core = require "grpo.core"
local data = require "grpo.data"
local data_checks = require "grpo.data_checks"
local sorted_pairs = require "grpo.base.sorted"
local display = require "grpo.runs.display"
local errors = require "grpo.base.errors"
local flags = require "grpo.cli.flags"
local planned_steps = require "grpo.train.planned_steps"
local probes = require "grpo.reward_checks.probes"
local prompts = require "grpo.train.prompts"
local rank_cost = require "grpo.train.rank_cost"
local scoring = require "grpo.train.scoring"
local rollout = require "grpo.train.rollout"
local row_check = require "grpo.train.row_check"
local schedule_check = require "grpo.train.schedule_check"
local script = require "grpo.scripts.script"
local statistics = require "grpo.statistics"
local trainer = require "grpo.train.trainer"
local truncated = require "grpo.train.truncated"
local workers = require "grpo.workers"

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
      .. "the time of a step. The estimates come from a few steps at learning rate 0, whose "
      .. "results are thrown away. Nothing is trained or written.",
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
      .. "another order; if it fails or is slow on degenerate text (empty, huge, invalid UTF-8, "
      .. "nested tags, control characters); if it changes its row; if it gives the same to "
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
local function compare_rewards(config, cs, findings)
  local first = {}
  scoring.score(config.reward_entries, cs, config.limits.reward, "skip")
  for i, c in ipairs(cs) do
    first[i] = c.rewards
    for name, message in sorted_pairs(c.errors or {}) do
      findings[#findings + 1] = ("reward %s: %s"):format(name, message)
    end
    c.rewards, c.errors = {}, nil
  end
  for i = #cs, 1, -1 do
    scoring.score(config.reward_entries, { cs[i] }, config.limits.reward, "skip")
    for _, entry in ipairs(config.reward_entries) do
      if entry.fn and cs[i].rewards[entry.name] ~= first[i][entry.name] then
        findings[#findings + 1] = ("reward %s gave %s and then %s for the same completion"):format(
          entry.name, tostring(first[i][entry.name]), tostring(cs[i].rewards[entry.name]))
      end
    end
    cs[i].rewards = first[i]
  end
end

local function show_samples(tr, stage, findings)
  local config = stage.config
  local list = { stage.source:next() }
  local count = math.min(2, config.sampling.group_size)
  local context = { seed = config.seed, step = 0, tokens_seen = 0, state = tr.state,
    tokenizer = tr.tokenizer }
  local o, ids = rollout.options(config, list, count, context, "eval")
  o.prompts = ids
  local batch = stage.engine:rollout(o)
  local cs = rollout.all(batch, list, #batch, context)
  compare_rewards(config, cs, findings)
  for i, c in ipairs(cs) do
    out("\nsampled completion %d (%s, finish %s):\n%s", i, counted(c.length, "token"), c.finish,
      display.turns_text(c))
    for _, entry in ipairs(config.reward_entries) do
      local r = c.rewards[entry.name]
      out("  %-16s %s", entry.name, r == core.none and "does not apply" or ("%.4g"):format(r))
    end
  end
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
  local count, beside, suspects = probes.run(config, tr.tokenizer, target, findings)
  if count > 0 then out("\nrewards tried on %d texts that no model sampled", count) end
  show_demonstrations(beside)
  return suspects
end

-- Rewards of every stage: { { stages = their numbers, config=, kind=, suspects=, sampled= }, ... }.
-- Stages with the same rewards and rows are one.
local function reward_groups(e)
  return data_checks.groups(e, function(a, b)
    return scoring.same(a.config.reward_entries, b.config.reward_entries)
      and a.config.data.train == b.config.data.train
  end)
end

-- Tries the rewards of each group: on what the model writes, and on other texts.
local function try_rewards(tr, e, groups)
  for _, group in ipairs(groups) do
    local config, found = group.config, {}
    group.suspects, group.sampled = {}, {}
    if #config.reward_entries > 0 then
      if #groups > 1 then out("\nrewards of %s:", data_checks.named(group.stages)) end
      tr:begin_stage(group.stages[#group.stages])
      show_samples(tr, tr.stage, found)
      group.suspects = probe_rewards(tr, e, config, found)
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

-- A reward that has failed once is not called again while steps are timed, because a thousand calls
-- that end at their limits take an hour.  `failed` gets the text on which each one failed.
local function once(entries, failed)
  for _, entry in ipairs(entries) do
    local kind, f = scoring.kind_of(entry)
    local broken = false
    entry[kind] = function(...)
      if broken then return nil end
      broken, failed[entry.name] = true, kind == "fn" and display.clean((...)) or ""
      local results = table.pack(f(...))
      broken, failed[entry.name] = false, nil
      return table.unpack(results, 1, results.n)
    end
  end
end

-- Makes a few real steps at learning rate 0.  Returns the median of their times and the metrics of
-- the last.  sampled: see judge.
local function time_steps(tr, stage, count, sampled)
  local times, metrics = {}, nil
  for i = 1, count do
    local started = core.clock()
    metrics = stage:advance()
    times[i] = core.clock() - started
    if stage.method.samples then note_rewards(tr.batch.completions, sampled) end
    trainer.set(tr, "step_count", tr.step_count + 1)
  end
  table.remove(times, 1) -- the first one warms up
  return statistics.median(times), metrics
end

local function configs_of(e)
  local list = {}
  for i, spec in ipairs(e.stages) do list[i] = spec.config end
  return list
end

-- Shows the programs that rewards run.
local function show_programs()
  local jail = package.loaded["grpo.jail"] or { needed = {} }
  for _, line in ipairs(jail.needed) do out("rewards run in a jail: %s", line) end
end

-- The memory that the stage needs when every prompt and completion is as long as is allowed.
local function memory_line(stage)
  local need = stage.engine:estimate()
  local parts = {}
  need.older = stage.older and stage.older:bytes() or 0
  need.total = need.total + need.older
  for _, name in ipairs { "weights", "older", "reference", "optimizer", "critic", "cache", "batch",
    "masks", "kept", "activations" } do
    if need[name] > 0 then parts[#parts + 1] = ("%s %d"):format(name, need[name] >> 20) end
  end
  return ("%d MiB (%s)"):format(need.total >> 20, table.concat(parts, ", "))
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
    tokens = samples and m.num_tokens or 0, link = o.flags.link or 10 }
  out("\n%-8s %6s %14s %14s %14s %10s", stage.kind, "ranks", "seconds a step", "on the wire",
    "sent by a rank", "MiB a rank")
  local n = 1
  while n <= o.flags.ranks do
    local c = rank_cost.of(s, n)
    out("%-8s %6d %14.3f %14.3f %14s %10d", "", n, c.seconds, c.wire,
      rank_cost.size_text(math.max(c.sent, c.received)), c.memory // 2^20)
    n = n < o.flags.ranks and math.min(2 * n, o.flags.ranks) or n + 1
  end
end

-- Notes in group.sampled what rewards gave to completions, as judge takes it.
local function estimate(tr, e, groups, findings, o)
  local memory, failed, wrapped, sampled, notes = {}, {}, {}, {}, {}
  for _, group in ipairs(groups) do
    for _, index in ipairs(group.stages) do sampled[index] = group.sampled end
  end
  for _, config in ipairs { e.config, table.unpack(configs_of(e)) } do
    if not wrapped[config.reward_entries] then once(config.reward_entries, failed) end
    wrapped[config.reward_entries] = true
  end
  out("\n%-8s %10s %16s %14s", "stage", "steps", "seconds a step", "in all")
  for index, spec in ipairs(e.stages) do
    spec.config.train.lr = 0.0
    spec.config.hooks = {}
    spec.config.reward.on_error = "skip" -- an error is a finding by now
    tr:begin_stage(index)
    tr.stage.steps = 6
    memory[index] = ("%-8s %s"):format(spec.kind, memory_line(tr.stage))
    for _, note in ipairs(sampling_notes(tr.stage)) do
      if not notes[note] then notes[#notes + 1], notes[note] = note, true end
    end
    local planned = planned_steps(spec.config)
    local seconds, metrics = time_steps(tr, tr.stage, 6, sampled[index])
    out("%-8s %10d %16.3f %14s", spec.kind, planned, seconds,
      display.seconds_text(math.floor(seconds * planned)))
    if o.flags.ranks then show_ranks(tr.stage, seconds, metrics, o) end
    if index == 1 and e.config.data.eval then tr:evaluate(math.min(64, #e.config.data.eval)) end
  end
  out("\nmemory at the longest prompts and completions:\n%s", table.concat(memory, "\n"))
  for _, note in ipairs(notes) do out("note: %s", note) end
  local known = {}
  for _, group in ipairs(groups) do
    table.move(group.findings, 1, #group.findings, #known + 1, known)
  end
  known = table.concat(known, "\n")
  for name, text in sorted_pairs(failed) do
    if not known:find(("reward %s fails"):format(name), 1, true) then
      findings[#findings + 1] = ("reward %s fails on a completion that the model wrote: \"%s\"")
        :format(name, text)
    end
  end
  local mem = core.mem()
  out("\npeak memory: %d MiB (of %d MiB available now)", mem.peak_rss >> 20, mem.available >> 20)
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
local function try(tr, e, findings, o)
  show_prompts(tr, e.stages[#e.stages].config)
  leave_out(e, data_checks.run(e, tr.tokenizer, out, findings))
  try_rows(e, findings)
  try_schedules(e, findings)
  try_samplers(tr, e, findings)
  local groups, failures = reward_groups(e), {}
  try_rewards(tr, e, groups)
  estimate(tr, e, groups, failures, o)
  for _, group in ipairs(groups) do judge(group.suspects, group.sampled, group.findings) end
  collect(groups, findings)
  table.move(failures, 1, #failures, #findings + 1, findings)
end

function command.run(o)
  local e = script.load(o.words[1], o)
  local findings = {}
  workers.refuse_ranks(e.config.workers, o.flags.ranks or 1, "--ranks asks for")
  local tr = trainer.new(e, {})
  out("%s: %s, model of %d parameters, vocabulary of %d tokens", e.config.name,
    counted(#e.stages, "stage"), tr.model:count(), #tr.tokenizer)
  out("key/value cache: %d bytes a token (%d if every head kept its own)",
    tr.model:cache_bytes_per_token())
  for _, note in ipairs(tr.about.lengths) do out("note: %s", note) end
  show_programs()
  local ok, problem = core.protected(try, tr, e, findings, o)
  for _, line in ipairs(findings) do out("finding: %s", line) end
  if not ok then error(problem, 0) end -- a row with a fault may stop a step
  return #findings > 0 and 1 or 0
end

return command
