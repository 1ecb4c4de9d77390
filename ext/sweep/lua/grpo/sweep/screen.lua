-- The screen of a sweep while it runs: on a terminal a line for each run that trains, renewed in
-- its place; elsewhere a plain line when a run begins and when it ends.

local core = require "grpo.core"
local display = require "grpo.base.display"
local log_lines = require "grpo.runs.lines"

local Screen = {}
Screen.__index = Screen

local screen = {}

local INTERVAL = 0.5 -- seconds between two looks at the runs
local MOST = 20 -- lines of runs at once
local END_BYTES = 1 << 16 -- of a log, which hold its last row

-- options: { quiet = nothing but failures }
function screen.new(options)
  local live = core.isatty(2) and os.getenv("TERM") ~= "dumb" and not options.quiet
  return setmetatable({ live = live, quiet = options.quiet, height = 0, drawn = -math.huge },
    Screen)
end

-- The last whole row of a run's metrics, or nil.
local function last_metrics(dir)
  local file <close> = io.open(dir .. "/metrics.jsonl", "rb")
  if not file then return nil end
  file:seek("set", math.max(0, file:seek("end") - END_BYTES))
  local list = log_lines.whole(file:read("a") or "")
  local ok, row = pcall(core.json_decode, list[#list] or "")
  return ok and type(row) == "table" and row or nil
end

function Screen:erase()
  if self.height > 0 then core.draw(2, ("\27[%dA\r\27[J"):format(self.height)) end
  self.height = 0
end

-- Prints a line that stays.
function Screen:line(text)
  self:erase()
  core.err(display.clean(text) .. "\n")
  self.drawn = -math.huge
end

-- Prints such a line, which --quiet leaves out.
function Screen:info(text)
  if not self.quiet then self:line(text) end
end

-- job: { name =, dir =, began = its time, first_step = where it began }
local function progress(job)
  local row = last_metrics(job.dir)
  local step = row and math.tointeger(row.step)
  if not step then return job.name .. "  starting" end
  local steps, text = job.steps(), ("%s  step %d"):format(job.name, step)
  job.first_step = job.first_step or step
  if steps then text = ("%s of %d"):format(text, steps) end
  if type(row.reward) == "number" then text = ("%s  reward %.4g"):format(text, row.reward) end
  local done, seconds = step - job.first_step, core.clock() - job.began
  if steps and done > 0 then
    text = ("%s  ETA %s"):format(text,
      display.seconds_text(math.floor(seconds / done * (steps - step))))
  end
  return text
end

-- jobs: those that run; count: the text of the line above them.
function Screen:draw(jobs, count)
  if not self.live or core.clock() - self.drawn < INTERVAL then return end
  local width, lines = core.term_width() - 1, { count }
  for i, job in ipairs(jobs) do
    if i > MOST then
      lines[#lines + 1] = ("and %d more"):format(#jobs - MOST)
      break
    end
    lines[#lines + 1] = "  " .. progress(job)
  end
  self:erase()
  for i, line in ipairs(lines) do lines[i] = display.clean(line):sub(1, width) .. "\n" end
  core.err(table.concat(lines))
  self.height, self.drawn = #lines, core.clock()
end

return screen
