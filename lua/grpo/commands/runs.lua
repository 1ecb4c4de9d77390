local core = require "grpo.core"
local display = require "grpo.base.display"
local flags = require "grpo.commands.flags"
local rundir = require "grpo.runs.directory"

local command = {
  name = "runs",
  summary = "list runs and their state, newest first",
  arguments = {},
  flags = { flags.dir, flags.json },
  about = {
    "Lists the runs in a directory, newest first: name, state, steps, start, and accuracy or "
      .. "held-out loss, with the step of the evaluation if that is not the last one. A run whose "
      .. "run.json cannot be read is shown as 'damaged', and one whose lock cannot be read, on "
      .. "another machine, as 'unknown'.",
  },
}

-- The run's result in words.  summary.step: of the evaluation; step: the run's last one.
local function outcome(summary, step)
  for _, one in ipairs { { "eval/accuracy", "accuracy %.3f" },
    { "eval/loss", "held-out loss %.3f" }, { "eval/masked_loss", "masked loss %.3f" } } do
    local value = summary[one[1]]
    if type(value) == "number" then
      local stale = summary.step and step and summary.step < step
      return one[2]:format(value) .. (stale and (" (of step %d)"):format(summary.step) or "")
    end
  end
  return ""
end

function command.run(o)
  local list = rundir.list(o.flags.dir)
  if o.flags.json then
    for _, one in ipairs(list) do core.out(core.json_encode(one) .. "\n") end
    return 0
  end
  if #list == 0 then core.err(("no runs in %s\n"):format(o.flags.dir)) end
  for _, one in ipairs(list) do
    local step = one.step and ("%d/%s"):format(one.step, one.steps or "?") or "-"
    local started = one.started and os.date("%Y-%m-%d %H:%M", math.floor(one.started)) or "-"
    core.out(("%-24s %-12s step %-12s %s  %s\n"):format(display.name(one.name), one.state, step,
      started, outcome(one.summary or {}, one.step)))
  end
end

return command
