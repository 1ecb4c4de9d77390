-- A log of a run that is being written: rows are appended to NAME.jsonl, which becomes a segment
-- when it is full (segments.lua).

local core = require "grpo.core"
local cut_log = require "grpo.runs.cut_log"
local errors = require "grpo.base.errors"
local segments = require "grpo.runs.segments"
local sums = require "grpo.runs.sums"

local fs, must = core.fs, errors.must

-- { run =, name =, writer =, bytes = of the file, step = of the last row, number = how many rows
-- there were, nil if an older version began the log }
local Log = {}
Log.__index = Log

local row_log = {}

-- The path of the file, or of a segment; a run gets its own directory when its files are there.
local function path_of(log, number)
  return segments.path(log.run.dir, log.name, number)
end

-- Opens the file of a log again, or for the first time.
local function open(log)
  if log.writer then log.writer:close() end
  log.writer = must(fs.append(path_of(log)))
  log.bytes = must(fs.size(path_of(log)))
end

-- run: the object of directory.lua
function row_log.open(run, name)
  local log = setmetatable({ run = run, name = name, number = 0 }, Log)
  open(log)
  return log
end

-- Writes down in run.json which segments must be there from now on.
local function count(log, first, last)
  local info = log.run.info
  info.segments = info.segments or {}
  info.segments[log.name] = { first = first, last = last }
  log.run:set_state(info.state)
end

-- Removes segments that are not counted any more.
local function remove_old(log)
  local run, first = log.run, segments.counted(log.run.info, log.name)
  for _, number in ipairs(segments.numbers(run.dir, log.name)) do
    if number < first then must(fs.remove_tree(path_of(log, number))) end
  end
end

-- ---- appending ----------------------------------------------------------------------------------

-- Makes the file a segment, and begins the next one.  keep: how many segments stay, or nil.
local function begin_file(log, keep)
  local first, last = segments.counted(log.run.info, log.name)
  last = last + 1
  log.run:check_place()
  must(log.writer:sync())
  must(fs.rename(path_of(log), path_of(log, last)))
  open(log)
  count(log, math.max(first, keep and last - keep + 1 or 0), last)
  remove_old(log)
end

-- options: those of `log` that are for segments
function Log:append(row, options)
  local number = self.number and self.number + 1
  local line = sums.line(row, number)
  -- rows of one step stay together, so that a resume finds all of them in one file
  if self.bytes >= options.segment_mib * 2 ^ 20 and row.step ~= self.step then
    begin_file(self, options.keep_segments)
  end
  must(self.writer:put(line))
  self.bytes, self.step, self.number = self.bytes + #line, row.step, number
end

function Log:sync()
  return self.writer:sync()
end

function Log:close()
  self.writer:close()
end

-- ---- resuming -----------------------------------------------------------------------------------

-- The process may have died between two changes of the segments.
local function recover(log)
  local run, name = log.run, log.name
  local first, last = segments.counted(run.info, name)
  local numbers = segments.numbers(run.dir, name)
  local newest = numbers[#numbers] or 0
  if newest > last then count(log, first, newest) end
  remove_old(log)
end

-- Removes the rows that a resumed run will write again: those of steps after `last_step`, and those
-- of last_step after the first `rows` ones (nil: none of them).  Where nothing stays of the file,
-- the segment before it becomes the file again, so that files end where they do in a run that did
-- not die.  Returns whether all that stays can be read, and how many rows of last_step are gone.
function Log:cut(last_step, rows)
  local run, name, whole, removed = self.run, self.name, true, 0
  recover(self)
  while true do
    local remarks, left, step, number, of_last = cut_log(path_of(self), last_step, rows)
    self.step, self.number, removed = step, number, removed + of_last
    for _, line in ipairs(remarks) do run:remark(line) end
    whole = whole and #remarks == 0
    local numbers = segments.numbers(run.dir, name)
    local newest = numbers[#numbers]
    if left > 0 or not newest then break end
    count(self, segments.counted(run.info, name), newest - 1)
    must(fs.rename(path_of(self, newest), path_of(self)))
  end
  open(self)
  return whole, removed
end

return row_log
