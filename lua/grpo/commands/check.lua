-- `grpo check`: shows what a run would do, its memory, and what its start would say or refuse.
--
-- Extensions add to it by rows of the kind `checks` (base/extensions.lua), whose functions take a
-- check: { tr =, e = the experiment, flags =, findings =, failures = } with the methods below.
-- findings and failures are lists of lines; failures are those of what stages cost, and come last.

local core = require "grpo.core"
local counted = require "grpo.base.counted"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"
local flags = require "grpo.commands.flags"
local preflight = require "grpo.loop.preflight"
local prompts = require "grpo.scoring.prompts"
local script = require "grpo.loop.script"
local trainer = require "grpo.loop.trainer"
local truncated = require "grpo.options.truncated"

local command = flags.extend {
  name = "check",
  summary = "check an experiment, show prompts, estimate memory",
  arguments = { flags.script, flags.override },
  flags = { flags.arg, flags.memory, flags.threads },
  about = {
    "Loads SCRIPT, checks every option, and shows what a run would do: two rendered prompts with "
      .. "their token counts, and an estimate of the peak memory, which is what a run needs when "
      .. "every prompt and completion is as long as is allowed. Nothing is trained or written.",
    "Whatever fails or takes too long is a finding, and the check continues. The exit status is 1 "
      .. "when there is a finding.",
  },
  notes = {
    "What the start of a run would refuse is a finding. Notes say what it would say, and what "
      .. "sampling.top_p, top_k, min_p and repetition_penalty mean for training.",
  },
}

local Check = {}
Check.__index = Check

function Check.out(format, ...)
  core.out(format:format(...) .. "\n")
end

-- Shows what is being done, which may take long.
function Check.say(format, ...)
  core.err(("check: " .. format .. "\n"):format(...))
end

-- Calls f; what it raises becomes a finding.  Returns whether it raised nothing.  Ctrl-C ends the
-- check.
function Check.attempt(findings, what, f, ...)
  local ok, err = core.protected(f, ...)
  if not ok and core.signal_waits() then error(err, 0) end
  if not ok then
    findings[#findings + 1] = ("%s: %s"):format(what, display.clean(errors.line(err)))
  end
  return ok, err
end

-- Calls f as Check.attempt does; a wrong option that it raises is raised again after the check.
function Check:attempt_start(findings, what, f, ...)
  local ok, err = self.attempt(findings, what, f, ...)
  if not ok and type(err) == "table" and core.status_exit(err) == 2 then
    findings.wrong_option, findings[#findings] = findings.wrong_option or err, nil
  end
  return ok
end

-- Begins a stage; what stops it is a finding.
function Check:begin_stage(index, findings)
  self.say("taking the memory of stage %d", index)
  return self:attempt_start(findings, "stage " .. index, self.tr.begin_stage, self.tr, index)
end

-- Calls the function `part` of each extension that has one; returns whether there is any.
function Check:extend(part, ...)
  local any = false
  for _, row in ipairs(extensions.rows "checks") do
    if row[part] then row[part](self, ...) end
    any = any or row[part] ~= nil
  end
  return any
end

local function show_prompts(check)
  local tr, config = check.tr, check.e.stages[#check.e.stages].config
  local dataset = config.data.train
  for i = 1, math.min(2, #dataset) do
    local ok, prompt = errors.try(function()
      return prompts.render(config, tr.tokenizer, dataset[i], i - 1)
    end)
    if ok then
      check.out("\nprompt %d (%d tokens):\n%s", i, #prompt.ids, display.clean(prompt.text))
    end
  end
end

-- Shows what extensions say of the script.
local function show_others(check)
  for _, row in ipairs(extensions.rows "checks") do
    for _, line in ipairs(row.lines and row.lines() or {}) do
      check.out("%s: %s", row.name, line)
    end
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
local function show_memory(check, list)
  if #list == 0 then return end
  local most = 0
  for _, one in ipairs(list) do most = math.max(most, one.bytes) end
  check.out("\npeak memory: %d MiB of %d MiB that are available; it is an estimate for a run with "
    .. "the longest prompts and completions:", most >> 20, check.available >> 20)
  for _, one in ipairs(list) do check.out("%s", one.line) end
end

-- Returns notes about training on completions that the stage samples.
local function sampling_notes(stage)
  if not stage.method.samples then return {} end
  return truncated.notes(stage.config, stage.engine:estimate().masks)
end

-- Begins every stage and shows the memory that it needs.
local function estimate(check)
  local memory, notes = {}, {}
  for index in ipairs(check.e.stages) do
    if check:begin_stage(index, check.failures) then
      memory[#memory + 1] = memory_of(check.tr.stage)
      for _, note in ipairs(sampling_notes(check.tr.stage)) do
        if not notes[note] then notes[#notes + 1], notes[note] = note, true end
      end
      check:extend("stage", index)
    end
  end
  for _, note in ipairs(notes) do check.out("note: %s", note) end
  show_memory(check, memory)
end

-- Shows what the start of a run would say; its lengths are shown already.
local function try_start(check)
  local shown = {}
  for _, note in ipairs(check.tr.about.lengths) do shown[note] = true end
  for _, note in ipairs((preflight.run(check.tr))) do
    if not shown[note] then check.out("note: %s", note) end
  end
end

-- Tries what a run would do, and adds what is wrong to the findings.
local function try(check)
  local findings, failures = check.findings, check.failures
  show_prompts(check)
  if not check:extend "start" then
    check:attempt_start(findings, "the start of a run", try_start, check)
  end
  check.attempt(failures, "estimates", estimate, check)
  check:extend "finish"
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
  local check = setmetatable({ e = e, flags = o.flags, findings = findings, failures = {},
    available = available }, Check)
  check.say("loading the model of %s", o.words[1])
  local tr = new_trainer(e, findings)
  if tr then
    check.tr = tr
    check.out("%s: %s, model of %d parameters, vocabulary of %d tokens", e.config.name,
      counted(#e.stages, "stage"), tr.model:count(), #tr.tokenizer)
    check.out("key/value cache: %d bytes a token (%d if every head kept its own)",
      tr.model:cache_bytes_per_token())
    for _, note in ipairs(tr.about.lengths) do check.out("note: %s", note) end
    show_others(check)
    problem = try(check)
  end
  for _, line in ipairs(findings) do check.out("finding: %s", line) end
  if problem then error(problem, 0) end
  check.out("%s", #findings == 0 and "no findings" or counted(#findings, "finding"))
  return #findings > 0 and 1 or 0
end

return command
