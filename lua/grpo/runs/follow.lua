-- Follows a log that a run writes: each read gives the rows that are new, and the work does not
-- depend on how many there were before.
--
-- A resume cuts a log.  So the line that was read last is compared with what is in its place now;
-- if they differ, reading begins again with the first row.

local history = require "grpo.runs.history"
local lines = require "grpo.runs.lines"
local row_log = require "grpo.runs.row_log"

local Follower = {}
Follower.__index = Follower

local follow = {}

-- bytes, lines: of the file that were read; last: the line that was read last; wanted: the number
-- that the next row has to have, if that is known
local function begin(self)
  self.bytes, self.lines, self.last, self.wanted = 0, 0, nil, nil
end

-- name: "metrics", "eval" or "completions"
function follow.new(dir, name)
  local self = setmetatable({ dir = dir, name = name }, Follower)
  begin(self)
  return self
end

-- Is what was read last still there?
local function still_there(self, file)
  if not self.last then return true end
  file:seek("set", self.bytes - #self.last)
  return file:read(#self.last) == self.last
end

-- Gives the rows of an open file to each(row); returns how many of `most` are left.
local function read_file(self, file, path, each, most)
  file:seek("set", self.bytes)
  local next_line = lines.reader(file, path, self.lines)
  while most > 0 do
    local line = next_line()
    if not line or line:sub(-1) ~= "\n" then return most end
    self.bytes, self.lines, self.last = self.bytes + #line, self.lines + 1, line
    local row
    row, self.wanted = history.checked_row(self.name, line, path, self.lines, self.wanted)
    if row then each(row) end
    most = most - 1
  end
  return most
end

-- Calls restart() if the log was cut, and then each(row) for every row that is new, at most `most`
-- (default: all).  Returns whether there may be more.
function Follower:read(each, restart, most)
  local path = row_log.path(self.dir, self.name)
  local file <close> = row_log.reader(path)
  if not file and self.bytes == 0 then return false end
  if not file or not still_there(self, file) then
    begin(self)
    restart()
    return file ~= nil
  end
  return read_file(self, file, path, each, most or math.huge) <= 0
end

return follow
