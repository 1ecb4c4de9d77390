local core = require "grpo.core"
local rundir = require "grpo.rundir"

local command = {
  usage = "runs [--dir RUNS] [--json]",
  words = 0,
  summary = "list runs, newest first, with state",
  flags = { dir = "value", json = "flag" },
  help = [[
Lists the runs in RUNS (default: runs), newest first: name, state, steps, start, accuracy
or held-out loss.

  --json        JSON Lines: one object a run, each on a line of its own]],
}

function command.run(o)
  local list = rundir.list(o.flags.dir or "runs")
  if o.flags.json then
    for _, one in ipairs(list) do core.out(core.json_encode(one) .. "\n") end
    return 0
  end
  if #list == 0 then core.err(("no runs in %s\n"):format(o.flags.dir or "runs")) end
  for _, one in ipairs(list) do
    local summary = one.summary or {}
    local accuracy, loss = summary["eval/accuracy"], summary["eval/loss"]
    local masked = summary["eval/masked_loss"]
    core.out(("%-24s %-12s step %-12s %s  %s\n"):format(one.name, one.state,
      one.step and ("%d/%d"):format(one.step, one.steps or 0) or "-",
      os.date("%Y-%m-%d %H:%M", math.floor(one.started or 0)), accuracy and ("accuracy %.3f"):format(accuracy)
        or loss and ("held-out loss %.3f"):format(loss) or masked and ("masked loss %.3f"):format(masked) or ""))
  end
end

return command
