-- Follows a log that a run writes: each read gives the rows that are new, and the work does not
-- depend on how many there were before.
--
-- A resume cuts a log.  So the line that was read last is compared with what is in its place now;
-- if they differ, reading begins again with the first row.

local history = require "grpo.runs.history"
local lines = require "grpo.runs.lines"
local segments = require "grpo.runs.segments"

local Follower = {}
Follower.__index = Follower

local follow = {}

-- segment: how many segments are read to their end (the number of the last one); bytes, lines: of
-- the file behind it that were read; last: the line that was read last of this file;
-- wanted: the number that the next row of it has to have, if that is known
local function begin(self)
  self.segment, self.bytes, self.lines, self.last = 0, 0, 0, nil
  self.wanted = nil
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

-- Have segments become the file again?
local function lost_segments(self)
  if self.segment == 0 then return false end
  local numbers = segments.numbers(self.dir, self.name)
  return math.max(numbers[#numbers] or 0, segments.last_counted(self.dir, self.name)) < self.segment
end

-- Gives the rows of an open file to each(row); returns how many of `most` are left.
local function read_file(self, file, path, is_finished, each, most)
  file:seek("set", self.bytes)
  local next_line = lines.reader(file, path, self.lines)
  while most > 0 do
    local line = next_line()
    if not line or line:sub(-1) ~= "\n" and not is_finished then return most end
    self.bytes, self.lines, self.last = self.bytes + #line, self.lines + 1, line
    local row
    row, self.wanted = history.checked_row(self.name, line, path, self.lines, is_finished,
      self.wanted)
    if row then each(row) end
    most = most - 1
  end
  return most
end

-- Calls restart() if the log was cut, and then each(row) for every row that is new, at most `most`
-- (default: all).  Returns whether there may be more.
function Follower:read(each, restart, most)
  local left = most or math.huge
  if lost_segments(self) then
    begin(self)
    restart()
  end
  while true do
    local file <close>, path, number = segments.open_next(self.dir, self.name, self.segment)
    if not file then
      if self.segment > 0 or self.bytes == 0 then return false end
      begin(self)
      restart()
      return false
    end
    if not still_there(self, file) then
      begin(self)
      restart()
      return true
    end
    left = read_file(self, file, path, number ~= nil, each, left)
    if left <= 0 then return true end
    if not number then return false end
    self.segment, self.bytes, self.lines, self.last = number, 0, 0, nil
    self.wanted = nil
  end
end

return follow
