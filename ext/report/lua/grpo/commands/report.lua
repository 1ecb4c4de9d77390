local core = require "grpo.core"
local flags = require "grpo.commands.flags"
local history = require "grpo.runs.history"

local command = {
  name = "report",
  summary = "write one HTML file with the curves and completions of a run",
  arguments = { flags.with(flags.run, { repeated = true }) },
  flags = {
    { name = "out", type = "file", doc = "write FILE instead of RUN/report.html" },
    flags.with(flags.completions, { min = 0, default = 3000,
      doc = "show about N completions, of evenly spaced steps; 0 shows those of one step" }),
    { name = "smooth", type = "number", default = 0,
      doc = "show averages, in which what came before weighs N (0 to 0.99), over the values; the "
        .. "page has a slider too" },
    { name = "serve",
      doc = "serve a page that follows one run, for browsers on this machine, until Ctrl-C" },
    { name = "port", type = "integer", min = 0, max = 65535, default = 8765,
      doc = "serve at port N of 127.0.0.1; 0 takes one that is free" },
    { name = "log", doc = "begin with a logarithmic axis of values; the page can change it" },
  },
  about = {
    "Writes RUN/report.html and prints its path. The page shows the facts of the run, the curves "
      .. "of its metrics, its notes, its options, and a table of completions that can be searched "
      .. "and sorted. The file needs no other file. A run may be reported while it is training.",
    "Several runs get one page, report-overlay.html in the directory of the first one, with their "
      .. "curves in the same panels, the options that differ, and no completions.",
    "With --serve nothing is written. The address is printed, and the page at that "
      .. "address asks for new rows every two seconds; it has the newest completions. Only "
      .. "this machine can reach it, but every user of this machine can. It is a process of "
      .. "its own, so the run does not wait for it.",
  },
}

local of_sweep = { ["sweep.json"] = true, ["table.csv"] = true, ["table.json"] = true }

-- Is it a file that `grpo sweep` writes beside its runs?  `SWEEP/*` names these too.
local function is_of_sweep(word)
  return of_sweep[word:match("[^/]*$")] and not core.fs.isdir(word)
end

-- A report replaces an older one, and no other file: a run's own, named by mistake, would be lost.
local function refuse_other_file(path)
  local text = core.fs.read(path)
  if text and not text:find("^<!doctype html>") then
    error(core.error("EARG", ("report: --out: %s is a file, and not a report; give another name")
      :format(path)), 0)
  end
end

function command.run(o)
  if not (o.flags.smooth >= 0 and o.flags.smooth <= 0.99) then
    error(core.error("EARG", ("--smooth is %g, want 0 to 0.99"):format(o.flags.smooth)), 0)
  end
  local runs, html = {}, require "grpo.report.html"
  for _, word in ipairs(o.words) do
    if not (#o.words > 1 and is_of_sweep(word)) then runs[#runs + 1] = history.open(word) end
  end
  local look = { smooth = o.flags.smooth, log = o.flags.log }
  if o.flags.serve then
    if #runs > 1 or o.flags.out then
      error(core.error("EARG", "--serve follows one run and writes no file: leave out "
        .. (o.flags.out and "--out" or "the other runs")), 0)
    end
    return require("grpo.report.serve").run(runs[1], o.flags.port, look)
  end
  local path = o.flags.out
    or runs[1].dir .. (#runs > 1 and "/report-overlay.html" or "/report.html")
  refuse_other_file(path)
  local text = html.overlay(runs, look, #runs == 1 and o.flags.completions or nil)
  local ok, message = core.fs.write(path, text)
  if not ok then error(core.error("EIO", tostring(message)), 0) end
  core.out(path .. "\n")
end

return command
