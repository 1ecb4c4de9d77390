-- The parts that the extension adds to `grpo check`: it tries all rows, rewards on many texts, and
-- steps.

local costs = require "grpo.checks.costs"
local data = require "grpo.data"
local data_checks = require "grpo.data_checks"
local errors = require "grpo.base.errors"
local planned_steps = require "grpo.loop.planned_steps"
local prompts = require "grpo.scoring.prompts"
local rewards = require "grpo.checks.rewards"
local row_check = require "grpo.loop.row_check"
local schedule_check = require "grpo.loop.schedule_check"

local checks = {}

-- Returns the dataset without these rows; the dataset itself if the list is empty or names every
-- row.
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
local function try_samplers(check, findings)
  for i, spec in ipairs(check.e.stages) do
    local config = spec.config
    local source = prompts.source(config, check.tr.tokenizer, planned_steps(config))
    if source.sampler:is_used() then
      local picks, problem = source.sampler:rehearse(config.train.prompts_per_step, 0)
      local names = {}
      for k, pick in ipairs(picks) do names[k] = k <= 8 and (pick.index or "its own") or nil end
      check.out("\ndata.sampler of stage %d begins with rows %s%s", i, table.concat(names, ", "),
        #picks > 8 and ", ..." or "")
      findings[#findings + 1] = problem
    end
  end
end

-- Tries rows, schedules and rewards.
function checks.start(check)
  local e, findings = check.e, check.findings
  check.attempt(findings, "rows", function()
    leave_out(e, data_checks.run(e, check.tr.tokenizer, check.out, findings))
  end)
  check.attempt(findings, "rows", try_rows, e, findings)
  check.attempt(findings, "schedules", try_schedules, e, findings)
  check.attempt(findings, "data.sampler", try_samplers, check, findings)
  check.groups = rewards.groups(e)
  rewards.try(check, check.groups)
  check.costs = costs.begin(check, check.groups)
end

function checks.stage(check, index)
  costs.stage(check, index, check.costs)
end

-- Adds what rewards have shown to the findings.
function checks.finish(check)
  local findings, groups = check.findings, check.groups
  if #check.e.stages > 1 then
    check.out("A later stage is timed with the untrained model, whose completions are as long as "
      .. "is allowed, so that its real steps are shorter.")
  end
  costs.judge(check.costs, groups, check.failures)
  for _, group in ipairs(groups) do
    rewards.judge(group.suspects, group.sampled, group.findings)
    findings.wrong_option = findings.wrong_option or group.findings.wrong_option
  end
  rewards.collect(groups, findings)
end

return checks
