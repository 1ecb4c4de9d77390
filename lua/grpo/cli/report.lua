local core = require "grpo.core"
local flags = require "grpo.cli.flags"
local history = require "grpo.runs.history"

local command = {
  name = "report",
  summary = "write one HTML file with the curves and completions of a run",
  arguments = { flags.run },
  flags = {
    { name = "out", type = "file", doc = "write FILE instead of RUN/report.html" },
    flags.with(flags.completions, { min = 0, default = 3000,
      doc = "show about N completions, of evenly spaced steps; 0 shows those of one step" }),
  },
  about = {
    "Writes RUN/report.html and prints its path. The page shows the facts of the run, the curves "
      .. "of its metrics, its notes, its options, and a table of completions that can be searched "
      .. "and sorted. The file needs no other file. A run may be reported while it is training.",
  },
}

function command.run(o)
  local word = o.words[1]
  local run = history.open(word)
  local path = o.flags.out or run.dir .. "/report.html"
  local page = require("grpo.report.html").page(run, o.flags.completions)
  local ok, message = core.fs.write(path, page)
  if not ok then error(core.error("EIO", tostring(message)), 0) end
  core.out(path .. "\n")
end

return command
