local core = require "grpo.core"
local display = require "grpo.runs.display"
local flags = require "grpo.cli.flags"
local history = require "grpo.runs.history"
local rundir = require "grpo.runs.directory"

local command = {
  name = "logs",
  summary = "show the output of a run",
  arguments = { flags.run },
  flags = {
    { name = "follow", short = "f",
      doc = "show new lines until the run ends; Ctrl-C leaves, and the run continues" },
    { name = "lines", short = "n", type = "integer", min = 0, doc = "show only the last N lines" },
    flags.dir,
  },
  about = { "Shows what RUN has printed on its screen. The lines are kept in RUN/output.log." },
}

local INTERVAL = 0.2 -- seconds between two looks at the file

-- The last n lines of a text that ends with a newline.
local function tail(text, n)
  local lines = {}
  for line in text:gmatch("[^\n]*\n") do lines[#lines + 1] = line end
  return table.concat(lines, "", math.max(1, #lines - n + 1))
end

local function show(text)
  core.out(display.clean(text))
end

-- Shows new whole lines until the run is over.
local function follow(run, file, rest)
  local path = run.dir .. "/output.log"
  while true do
    -- asked before the last look, which then sees everything
    local over = rundir.describe(run.dir).state ~= "running"
    local more = file:read("a") or ""
    rest = rest .. more
    local whole = rest:match("^.*\n") or ""
    show(whole)
    rest = rest:sub(#whole + 1)
    if over and more == "" then break end
    local signal = core.signal_take()
    if signal then return ({ HUP = 129, INT = 130, TERM = 143 })[signal] or 130 end
    if more == "" then core.process.sleep(INTERVAL) end
    if file:seek("cur") > (core.fs.size(path) or math.huge) then
      error(core.error("EIO", path .. " became shorter while it was being followed"), 0)
    end
  end
  if rest ~= "" then show(rest .. "\n") end
  return 0
end

function command.run(o)
  local count = o.flags.lines
  local run = history.open(o.words[1], o.flags.dir)
  local file = history.reader(run.dir .. "/output.log")
  if o.flags.follow then core.signals_install() end
  local text = file:read("a")
  local whole = text:match("^.*\n") or ""
  show(count and tail(whole, count) or whole)
  local rest = text:sub(#whole + 1)
  if o.flags.follow then return follow(run, file, rest) end
  if rest ~= "" then show(rest .. "\n") end
end

return command
