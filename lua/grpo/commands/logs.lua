local core = require "grpo.core"
local display = require "grpo.base.display"
local flags = require "grpo.commands.flags"
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

local BLOCK = 1 << 16 -- bytes that are read at once

-- Returns the place at which the last n lines of an open file begin; what stands behind the last
-- newline is not counted.
local function place_of_tail(file, n)
  local stop, left = file:seek("end"), n + 1
  while stop > 0 do
    local first = math.max(0, stop - BLOCK)
    file:seek("set", first)
    local text = file:read(stop - first) or ""
    for at = #text, 1, -1 do
      if text:byte(at) == 10 then
        left = left - 1
        if left == 0 then return first + at end
      end
    end
    stop = first
  end
  return 0
end

local function show(text)
  core.out(display.clean(text))
end

-- Shows the whole lines that are left in the file; `rest` is the beginning of the first.  Returns
-- the beginning of a line that has no end yet, and whether anything was read.
local function show_lines(file, rest)
  local found = false
  while true do
    local text = file:read(BLOCK)
    if not text then return rest, found end
    found = true
    local last = text:find("\n[^\n]*$")
    if last then
      show(table.concat(rest) .. text:sub(1, last))
      rest = {}
    end
    rest[#rest + 1] = text:sub((last or 0) + 1)
  end
end

-- Shows new whole lines until the run is over.  Returns the exit status.
local function follow(run, file, rest)
  local path = run.dir .. "/output.log"
  while true do
    -- asked before the last look, which then sees everything
    local over = rundir.describe(run.dir).state ~= "running"
    local found
    rest, found = show_lines(file, rest)
    if over and not found then return 0, rest end
    local signal = core.signal_take()
    if signal then return ({ HUP = 129, INT = 130, TERM = 143 })[signal] or 130, {} end
    if not found then core.process.sleep(INTERVAL) end
    if file:seek("cur") > (core.fs.size(path) or math.huge) then
      error(core.error("EIO", path .. " became shorter while it was being followed"), 0)
    end
  end
end

function command.run(o)
  local run, status, rest = history.open(o.words[1], o.flags.dir), 0, {}
  local file <close> = history.reader(run.dir .. "/output.log")
  if o.flags.follow then core.signals_install() end
  file:setvbuf("no") -- what is read is what is shown
  file:seek("set", o.flags.lines and place_of_tail(file, o.flags.lines) or 0)
  rest = show_lines(file, rest)
  if o.flags.follow then status, rest = follow(run, file, rest) end
  rest = table.concat(rest)
  if rest ~= "" then show(rest .. "\n") end
  return status
end

return command
