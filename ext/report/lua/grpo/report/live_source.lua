-- A run that is still training, read a piece at a time for the page that follows it: each look
-- reads the rows and notes that are new, and the end of the completions.

local columns = require "grpo.base.curves.columns"
local core = require "grpo.core"
local follow = require "grpo.runs.follow"
local history = require "grpo.runs.history"
local row_log = require "grpo.runs.row_log"
local rundir = require "grpo.runs.directory"

local fs = core.fs

local MOST_ROWS = 20000 -- of a log in one look
local MOST_NOTES = 500 -- lines
local END_OF_COMPLETIONS = 1 << 18 -- bytes
local MOST_COMPLETIONS = 200

local Source = {}
Source.__index = Source

local live_source = {}

-- run: from history.open
function live_source.new(run)
  local self = setmetatable({ run = run, metrics = columns.new(), evals = columns.new(),
    rows = {}, version = 1, notes_read = 0,
    followers = { metrics = follow.new(run.dir, "metrics"), evals = follow.new(run.dir, "eval") } },
    Source)
  run.notes = {}
  return self
end

-- Reads what is new of a log; returns whether there was something, and whether there is more.
local function read_rows(self, name)
  local changed = false
  local more = self.followers[name]:read(function(row)
    columns.add(self[name], row)
    changed = true
  end, function()
    self[name], changed = columns.new(), true
  end, MOST_ROWS)
  return changed, more
end

-- Reads the lines of run.log that are new.
local function read_notes(self)
  local path = self.run.dir .. "/run.log"
  local size = fs.exists(path) and fs.size(path) or 0
  if size == self.notes_read then return false end
  if size < self.notes_read then self.run.notes, self.notes_read = {}, 0 end
  local file <close> = row_log.reader(path)
  if not file then return false end
  file:seek("set", self.notes_read)
  local notes, text = self.run.notes, file:read("a") or ""
  local whole = text:match("^.*\n") or ""
  self.notes_read = self.notes_read + #whole
  for line in whole:gmatch("[^\n]+") do notes[#notes + 1] = line end
  if #notes > MOST_NOTES then
    self.run.notes = table.move(notes, #notes - MOST_NOTES + 1, #notes, 1, {})
  end
  return whole ~= ""
end

-- Returns the rows in the end of a file.  A line that cannot be read is left out; other commands
-- name it.
local function rows_at_end(path)
  local file <close> = row_log.reader(path)
  if not file then return {} end
  local size = file:seek("end")
  file:seek("set", math.max(0, size - END_OF_COMPLETIONS))
  if size > END_OF_COMPLETIONS then file:read("L") end -- the rest of a line
  local list = {}
  for line in file:lines("L") do
    local ok, row = pcall(history.checked_row, "completions", line, path, 0)
    if ok and row and line:sub(-1) == "\n" then list[#list + 1] = row end
  end
  return table.move(list, math.max(1, #list - MOST_COMPLETIONS + 1), #list, 1, {})
end

-- Reads the newest completions if there are new ones.
local function read_completions(self)
  local path = row_log.path(self.run.dir, "completions")
  local size = fs.exists(path) and fs.size(path) or 0
  if size == self.completions_size then return false end
  self.completions_size = size
  self.rows = rows_at_end(path)
  return true
end

local function read_state(self)
  local run, now = self.run, rundir.describe(self.run.dir)
  if not now then return false end
  local changed = now.state ~= run.state or now.step ~= run.step
  run.state, run.step, run.steps = now.state, now.step, now.steps or run.steps
  if changed and now.state ~= "damaged" then
    run.info = rundir.read(run.dir, "run") or run.info
  end
  return changed
end

-- Looks once; adds one to self.version if something has changed.  Returns whether there is more to
-- read at once.
function Source:look()
  local state = read_state(self)
  local metrics, more_metrics = read_rows(self, "metrics")
  local evals, more_evals = read_rows(self, "evals")
  local notes, completions = read_notes(self), read_completions(self)
  if state or metrics or evals or notes or completions then self.version = self.version + 1 end
  return more_metrics or more_evals
end

return live_source
