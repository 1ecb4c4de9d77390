local checkpoint = require "grpo.loop.checkpoint"
local core = require "grpo.core"
local counted = require "grpo.base.counted"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local events = require "grpo.loop.events"
local extensions = require "grpo.base.extensions"
local flags = require "grpo.commands.flags"
local history = require "grpo.runs.history"
local inputs = require "grpo.runs.inputs"
local kinds = require "grpo.options.stage_kinds"
local live_options = require "grpo.options.live_options"
local modules = require "grpo.options.scripts.modules"
local rescore = require "grpo.runs.rescore"
local script = require "grpo.loop.script"
local services = require "grpo.runs.services"
local sorted_pairs = require "grpo.base.sorted"
local trainer = require "grpo.loop.trainer"

local command = {
  name = "replay",
  summary = "show saved completions with their rewards, or score them again",
  arguments = {
    flags.run,
    { name = "STEP", type = "integer", optional = true,
      doc = "a step, counted over all stages (default: the last one with completions). \"step 40 "
        .. "(100 in all)\" on the screen is STEP 100" },
  },
  flags = {
    { name = "reward", type = "file",
      doc = "score saved completions again with the rewards of FILE, and show what changes: "
        .. "the rewards, and how many advantages change their sign. FILE returns a function, a "
        .. "table like the option `rewards`, or an experiment. Without STEP all steps are scored" },
    { name = "regenerate",
      doc = "sample the completions of STEP again, from the nearest checkpoint before it, and say "
        .. "whether they are the same" },
    { name = "nonfinite",
      doc = "instead of the completions that were learned from, the batches whose step was not "
        .. "taken because a value was not finite (train.on_nonfinite)" },
    { name = "count", type = "integer", min = 0, default = 4, instead_of = { "n" },
      doc = "show N prompts, or with --reward N changed completions" },
    flags.arg, flags.json,
  },
  about = {
    "Shows the completions of a step, prompt by prompt, best first, with every reward and the "
      .. "advantage.",
  },
}

local complain = errors.of "replay"

-- ---- showing -----------------------------------------------------------------------------

local function number_text(v)
  return type(v) == "number" and ("%.4g"):format(v) or "-"
end

-- A saved number; nil for null, which stands for a number that was not finite.
local function measured(v)
  return type(v) == "number" and v or nil
end

local function rewards_text(rewards)
  local parts = {}
  for name, value in sorted_pairs(rewards or {}) do
    parts[#parts + 1] = ("%s %s"):format(name, number_text(value))
  end
  return table.concat(parts, ", ")
end

local function show_group(group)
  core.out(("\nprompt %d: %s\n"):format(group[1].prompt_index,
    (display.clean(group[1].prompt):gsub("\n", " "))))
  table.sort(group, function(a, b)
    local ra, rb = measured(a.reward) or -math.huge, measured(b.reward) or -math.huge
    if ra ~= rb then return ra > rb end
    return a.index < b.index
  end)
  for _, row in ipairs(group) do
    core.out(("  [%s | total %s | advantage %s | %s, %d tokens]\n    %s\n"):format(
      rewards_text(row.rewards), number_text(row.reward), number_text(row.advantage), row.finish,
      row.length or 0, (display.turns_text(row):gsub("\n", "\n    "))))
  end
end

local function show_step(rows, n, json)
  if json then
    for _, row in ipairs(rows) do core.out(core.json_encode(row) .. "\n") end
    return
  end
  local groups, by_prompt = {}, {}
  for _, row in ipairs(rows) do
    local group = by_prompt[row.prompt_index]
    if not group then
      group = {}
      by_prompt[row.prompt_index], groups[#groups + 1] = group, group
    end
    group[#group + 1] = row
  end
  core.out(("step %d: %s of %s\n"):format(rows[1].step, counted(#rows, "completion"),
    counted(#groups, "prompt")))
  for i = 1, math.min(n, #groups) do show_group(groups[i]) end
  if n < #groups then
    core.out(("\n%d more prompts; --count %d shows all\n"):format(#groups - n, #groups))
  end
end

-- ---- batches that were kept because a value was not finite ---------------------------------

-- One list of rows for each batch that was kept, in order; step: nil for all.
local function kept_batches(run, step)
  local folder, list = run.dir .. "/nonfinite", {}
  for _, file in ipairs(core.fs.isdir(folder) and core.fs.list(folder) or {}) do
    local name, number = file:match "^(step%-(%d+)%-?%d*)%.jsonl$"
    if name and (not step or tonumber(number) == step) then
      list[#list + 1] = history.list(run.dir, "nonfinite/" .. name)
    end
  end
  if #list > 0 then return list end
  complain("ENOENT", "%s has no batch%s that was kept because a value was not finite", run.dir,
    step and (" of step %d"):format(step) or "")
end

-- Shows the prompts of a step that had no completions yet, or that has none.
local function show_prompts(rows, n)
  for i = 1, math.min(n, #rows) do
    local target = rows[i].target
    core.out(("\nprompt %d: %s%s\n"):format(rows[i].prompt_index, display.clean(rows[i].prompt),
      target and "\n  target: " .. display.clean(target) or ""))
  end
end

local function show_kept(run, step, n, json)
  for _, rows in ipairs(kept_batches(run, step)) do
    if not json then core.out(display.clean(rows[1].problem) .. "\n") end
    if json or rows[1].text then
      show_step(rows, n, json)
    else
      show_prompts(rows, n)
    end
  end
end

-- The argument p of schedules at the step of a kept batch.
local function kept_argument(run, rows)
  local p, before = rows[1].p, {}
  for _, m in history.rows(run.dir, "metrics") do
    if m.step < rows[1].step then before = m end
  end
  p.metrics = before
  return p
end

-- ---- scoring again -------------------------------------------------------------------------

-- "there are those of steps 61 to 140; step 40 of stage 2 is step 100".  The screen counts the
-- steps of each stage.
local function which_steps(run, step)
  local first, last, meant
  for _, row in history.rows(run.dir, "completions") do
    first, last = first or row.step, row.step
  end
  for _, m in history.rows(run.dir, "metrics") do
    if m.stage > 1 and m.stage_step == step then meant = m end
  end
  if not first then return "it has none at all" end
  return ("there are those of steps %d to %d%s"):format(first, last, meant
    and ("; step %d of stage %d is step %d"):format(step, meant.stage, meant.step) or "")
end

local function none(run)
  complain("ENOENT", "%s has no completions; steps of kind grpo and ppo save them", run.dir)
end

-- Iterates over lists of rows, one for each step that is asked for; there is at least one.
local function steps_of(run, step)
  local next_row = history.rows(run.dir, "completions")
  local function next_wanted()
    for _, row in next_row do
      if not step or row.step == step then return row end
    end
  end
  local row = next_wanted()
  if not row and step then
    complain("EARG", "%s has no completion of step %d; %s", run.dir, step, which_steps(run, step))
  end
  if not row then none(run) end
  return function()
    local list = {}
    while row and (#list == 0 or row.step == list[1].step) do
      list[#list + 1] = row
      row = next_wanted()
    end
    return list[1] and list
  end
end

-- Returns a function that gives the argument p of schedules at a step, where p.stage is the step's
-- stage; nil if the run has no such step.  It is called for later and later steps.
local function arguments(run, e)
  local next_row = history.rows(run.dir, "metrics")
  local tokens, last, before, p = 0, {}, {}, nil
  local function advance()
    local _, m = next_row()
    if not m then return nil end
    if not e.stages[m.stage] then
      complain("EFORMAT", "%s/metrics.jsonl: step %d is of stage %d, but the run has %d", run.dir,
        m.step, m.stage, #e.stages)
    end
    local config = e.stages[m.stage].config
    local steps = config.train.steps or m.stage_step
    if m.stage_step == 1 then
      tokens, before = (m.num_tokens or 0) - (m.trained_tokens or 0), last
    end
    local per_step = kinds.updates(e.stages[m.stage].kind, config)
    p = { stage = m.stage, step = m.stage_step - 1, steps = steps,
      fraction = steps > 0 and (m.stage_step - 1) / steps or 1.0,
      tokens = (last.num_tokens or 0) - math.max(0, tokens), metrics = last,
      update = last.update and last.update - (before.update or 0) or (m.stage_step - 1) * per_step,
      updates = steps * per_step,
      update_tokens = (last.update_tokens or 0) - (before.update_tokens or 0) }
    last = m
    return m
  end
  return function(step)
    while (last.step or -1) < step and advance() do end
    return last.step == step and p or nil
  end
end

local function show_change(c)
  local saved = c.saved
  local function scores(row)
    return ("[%s | total %s | advantage %s]"):format(rewards_text(row.rewards),
      number_text(row.reward), number_text(row.advantage))
  end
  core.out(("\nstep %d, prompt %d, completion %d: %s\n  was %s\n  is  %s\n    %s\n"):format(
    saved.step, saved.prompt_index, saved.index, (display.clean(saved.prompt):gsub("\n", " ")),
    scores(saved), scores(c), (display.clean(saved.text):gsub("\n", "\n    "))))
end

local function json_row(c)
  local saved, rewards = c.saved, {}
  for name, r in pairs(c.rewards) do rewards[name] = r ~= core.none and r or core.json_null end
  local was = { rewards = saved.rewards, reward = saved.reward, advantage = saved.advantage }
  return core.json_encode { step = saved.step, prompt_index = saved.prompt_index,
    index = saved.index, prompt = saved.prompt, text = saved.text, rewards = rewards,
    reward = c.reward, advantage = c.advantage, errors = c.errors, was = was,
    flipped = c.flipped }
end

-- Keeps in `most` the n completions whose reward changes most, the biggest change first.
local function keep_most(most, c, n)
  local change = math.abs((c.reward or 0) - (measured(c.saved.reward) or 0))
  if n == 0 or change == 0 or (#most == n and change <= most[n].change) then return end
  local at = #most + 1
  while at > 1 and most[at - 1].change < change do at = at - 1 end
  table.insert(most, at, { change = change, c = c })
  most[n + 1] = nil
end

local function one_by_one(list)
  local i = 0
  return function()
    i = i + 1
    return list[i]
  end
end

local function score_again(run, step, o, n)
  local kept = o.flags.nonfinite
  local e = script.of_run(run.dir, run.info)
  extensions.run_opened(run.dir, false)
  modules.forget_saved()
  local entries = script.rewards(o.flags.reward, o.args)
  local argument_at, most = arguments(run, e), {}
  local count, changed, flipped, failed = 0, 0, 0, 0
  for rows in kept and one_by_one(kept_batches(run, step)) or steps_of(run, step) do
    if not rows[1].text then
      complain("EARG", "the batch of step %d has no completions to score", rows[1].step)
    end
    local p
    if kept then p = kept_argument(run, rows) else p = argument_at(rows[1].step) end
    if not p then complain("EFORMAT", "%s: metrics.jsonl has no step %d", run.dir, rows[1].step) end
    local stage = e.stages[p.stage]
    local config = stage.config
    if not rows[1].row then
      complain("EFORMAT", "%s: the completions of step %d do not name their rows", run.dir,
        rows[1].step)
    end
    local cs = rescore.completions(rows, config, run.dir)
    rescore.step(cs, entries, config, p, stage.kind)
    for _, c in ipairs(cs) do
      count, flipped = count + 1, flipped + (c.flipped and 1 or 0)
      failed = failed + (c.errors and 1 or 0)
      if c.reward ~= c.saved.reward then changed = changed + 1 end
      if o.flags.json then core.out(json_row(c) .. "\n") else keep_most(most, c, n) end
    end
  end
  if o.flags.json then return end
  core.out(("%d completions scored again with %s: %d have another reward, %d advantages change "
    .. "their sign\n"):format(count, o.flags.reward, changed, flipped))
  if failed > 0 then core.out(("%d of them met an error in a reward\n"):format(failed)) end
  for _, item in ipairs(most) do show_change(item.c) end
end

-- ---- sampling again ------------------------------------------------------------------------

-- The newest checkpoint before STEP; nil if there is none.
local function before(run, step)
  local found
  for _, at in ipairs(core.checkpoint_steps(run.dir)) do
    if at < step then found = { at = at, path = run.dir .. "/" .. core.checkpoint_name(at) } end
  end
  if found then checkpoint.read(found.path) end
  return found
end

-- Raises if a resume between step `at` and STEP gave an option that is not live: sampling again
-- could not set it on the way.
local function refuse_crossing(run, at, step, start)
  local words = events.words(run.dir, step - 1)
  for i = #events.words(run.dir, at) + 1, #words do
    if not live_options.is_live((words[i]:match("^(.-)="):gsub("^stages%.%d+%.", ""))) then
      complain("EARG", "step %d cannot be sampled again from %s, because a resume in between gave "
        .. "%s; keep more checkpoints with checkpoint.keep", step, start, words[i])
    end
  end
end

local function regenerate(run, step, n)
  local rows = steps_of(run, step)()
  local from = before(run, step)
  local at = from and from.at or 0
  local start = from and ("the checkpoint of step %d"):format(at) or "the beginning"
  core.err(("replay: from %s to step %d\n"):format(start, step))
  refuse_crossing(run, at, step, start)
  local changed = inputs.changed(run.dir)
  inputs.refuse_elsewhere(run.dir, run.info, changed, "replay it")
  for _, file in ipairs(changed) do
    core.notice(("note: %s, since the run began"):format(inputs.told(file)))
  end
  local e = script.of_run(run.dir, run.info, { at = at })
  local tr = trainer.new(e, { from = from and from.path })
  services.follow(tr, run.dir, run.info)
  while tr.step_count < step do
    if not tr:current_stage() then
      complain("EARG", "%s ends at step %d", run.dir, tr.step_count)
    end
    events.catch_up(tr)
    tr:step()
  end
  local same = 0
  local cs = tr.batch.completions
  for i, row in ipairs(rows) do
    if cs[i] and cs[i].text == row.text and cs[i].reward == row.reward then same = same + 1 end
  end
  show_step(rows, n)
  core.out(("\n%d of %d completions are the same again\n"):format(same, #rows))
  return same == #rows and 0 or 1
end

-- ---- the command ---------------------------------------------------------------------------

local function last_step(run)
  local last
  for _, row in history.rows(run.dir, "completions") do last = row.step end
  return last or none(run)
end

function command.run(o)
  local step, n = o.words[2], o.flags.count
  local run = history.open(o.words[1])
  if o.flags.reward and o.flags.regenerate then
    complain("EARG", "--reward and --regenerate cannot be combined; choose one")
  end
  if o.flags.reward then return score_again(run, step, o, n) end
  if o.flags.nonfinite and o.flags.regenerate then
    complain("EARG", "--nonfinite and --regenerate cannot be combined; choose one")
  end
  if o.flags.nonfinite then return show_kept(run, step, n, o.flags.json) end
  step = step or last_step(run)
  if o.flags.regenerate then return regenerate(run, step, n) end
  show_step(steps_of(run, step)(), n, o.flags.json)
end

return command
