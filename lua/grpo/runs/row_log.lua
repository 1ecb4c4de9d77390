-- The logs of a run, NAME.jsonl: rows are appended to them, and a resume cuts them back.

local core = require "grpo.core"
local cut_log = require "grpo.runs.cut_log"
local errors = require "grpo.base.errors"
local sums = require "grpo.loop.sums"

local fs, must = core.fs, errors.must

-- { run =, name =, writer =, number = how many rows there were, step = of the last row behind which
-- the log was cut }
local Log = {}
Log.__index = Log

local row_log = {}

row_log.names = { "metrics", "completions", "eval" }

local is_log = {}
for _, name in ipairs(row_log.names) do is_log[name] = true end

-- Is it one of these?
function row_log.is_log(name)
  return is_log[name]
end

function row_log.path(dir, name)
  return ("%s/%s.jsonl"):format(dir, name)
end

-- Opens a file of a run for reading; nil if there is none.
function row_log.reader(path)
  local ok, message, code = fs.check_input(path)
  local file = ok
  if ok then file, message, code = io.open(path, "rb") end
  if file or not fs.exists(path) then return file end
  return must(nil, message, code)
end

-- Returns what is wrong with a log whose last row has the number `last` (0: it has none, nil: it is
-- not known) if `info`, the contents of run.json, counts more rows since the run has ended; nil
-- otherwise.
function row_log.cut_short(dir, name, info, last)
  local written = info and info.log_lines and info.log_lines[name]
  if not written or not last or last >= written then return nil end
  local has = last > 0 and ("ends with row %d"):format(last) or "has no row"
  return ("%s: it %s, but the run wrote %d, which run.json counts"):format(
    row_log.path(dir, name), has, written)
end

-- ---- writing ------------------------------------------------------------------------------------

-- Opens the file of a log again, or for the first time; a run gets its own directory when its files
-- are there.
local function open(log)
  if log.writer then log.writer:close() end
  log.writer = must(fs.append(row_log.path(log.run.dir, log.name)))
end

-- run: the object of directory.lua
function row_log.open(run, name)
  local log = setmetatable({ run = run, name = name, number = 0 }, Log)
  open(log)
  return log
end

function Log:append(row)
  local number = self.number and self.number + 1
  must(self.writer:put(sums.line(row, number)))
  self.number = number
end

function Log:sync()
  return self.writer:sync()
end

function Log:close()
  self.writer:close()
end

-- Removes the rows that a resumed run will write again: those of steps after `last_step`, and those
-- of last_step after the first `rows` ones (nil: none of them).  Returns whether all that stays can
-- be read, and how many rows of last_step are gone.
function Log:cut(last_step, rows)
  local remarks, step, number, removed =
    cut_log(row_log.path(self.run.dir, self.name), last_step, rows)
  self.step, self.number = step, number
  for _, line in ipairs(remarks) do self.run:remark(line) end
  open(self)
  return #remarks == 0, removed
end

return row_log
