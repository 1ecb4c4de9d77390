local core = require "grpo.core"
local flags = require "grpo.cli.flags"
local history = require "grpo.runs.history"

local command = {
  usage = "report RUN [--out FILE] [--completions N]",
  words = 1,
  summary = "one self-contained HTML file: curves and a browser of completions",
  flags = { out = "value", completions = "value" },
  help = [[
Writes RUN/report.html (RUN: a run's directory, or its name in runs/) and prints its path: the run's facts, curves of
its metrics, its notes, its options, and a table of completions with search and sorting.  The file needs nothing
beside it; a run that goes on may be reported at any time.

  --out FILE        another file
  --completions N   about N completions at most, of evenly spaced steps (default 3000; 0: one step's)]],
}

function command.run(o)
  local word = o.words[1]
  if not word then error(core.error("EARG", "report: which run? usage: grpo " .. command.usage), 0) end
  local most = flags.integer(o, "completions", 0, 3000)
  local run = history.open(word)
  local path = o.flags.out or run.dir .. "/report.html"
  local ok, message = core.fs.write(path, require("grpo.report.html").page(run, most))
  if not ok then error(core.error("EIO", tostring(message)), 0) end
  core.out(path .. "\n")
end

return command
