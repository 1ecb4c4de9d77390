-- The files of a log.  NAME.jsonl is being written; when it is full (log.segment_mib) it is renamed
-- to NAME.000001.jsonl, later ones to NAME.000002.jsonl and so on, and NAME.jsonl is begun again.
-- The steps of a file are later than those of the one before, and no step is in two of them.
--
-- `segments` in run.json has the numbers of the first and the last segment that must be there.
-- A segment gets its name before run.json counts it, and run.json counts it no more before it is
-- removed, or renamed back by a resume.  So a segment that is counted and is not there has been
-- lost, whenever the run died.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local schema = require "grpo.runs.schema"

local fs, must = core.fs, errors.must
local segments = {}

-- The logs that are written so.
segments.logs = { "metrics", "completions", "eval" }

local is_log = {}
for _, name in ipairs(segments.logs) do is_log[name] = true end

-- Is it one of these?
function segments.is_log(name)
  return is_log[name]
end

-- number: of a segment; nil: the file that is being written.
function segments.path(dir, name, number)
  return number and ("%s/%s.%06d.jsonl"):format(dir, name, number)
    or ("%s/%s.jsonl"):format(dir, name)
end

-- Returns the numbers of the segments that are there, in order.
function segments.numbers(dir, name)
  local list = {}
  for _, file in ipairs(fs.list(dir) or {}) do
    local number = math.tointeger(tonumber(file:match("^" .. name .. "%.(%d+)%.jsonl$")))
    if number and number > 0 and segments.path("", name, number) == "/" .. file then
      list[#list + 1] = number
    end
  end
  table.sort(list)
  return list
end

-- Returns the numbers of the first and the last segment that `info`, the contents of run.json,
-- counts; 1 and 0 if it counts none.
function segments.counted(info, name)
  local counted = info and info.segments and info.segments[name]
  if counted then return counted.first, counted.last end
  return 1, 0
end

-- Returns the paths of segments that run.json counts and that are not there.
function segments.lost(dir, name, info)
  local first, last = segments.counted(info, name)
  local there, list = {}, {}
  for _, number in ipairs(segments.numbers(dir, name)) do there[number] = true end
  for number = first, last do
    if not there[number] then list[#list + 1] = segments.path(dir, name, number) end
  end
  return list
end

-- Returns what is wrong with a log whose last row has the number `last` (0: it has none, nil: it is
-- not known) if `info`, the contents of run.json, counts more rows since the run has ended; nil
-- otherwise.
function segments.cut_short(dir, name, info, last)
  local written = info and info.log_lines and info.log_lines[name]
  if not written or not last or last >= written then return nil end
  local has = last > 0 and ("ends with row %d"):format(last) or "has no row"
  return ("%s: it %s, but the run wrote %d, which run.json counts"):format(
    segments.path(dir, name), has, written)
end

-- ---- reading ------------------------------------------------------------------------------------

-- Opens a file of a run for reading; nil if there is none.
function segments.open(path)
  local ok, message, code = fs.check_input(path)
  local file = ok
  if ok then file, message, code = io.open(path, "rb") end
  if file or not fs.exists(path) then return file end
  return must(nil, message, code)
end

local function info_of(dir)
  return schema.read(dir .. "/run.json", schema.shapes.run)
end

-- Returns the number of the last segment that run.json of a directory counts.
function segments.last_counted(dir, name)
  local _, last = segments.counted(info_of(dir), name)
  return last
end

-- Returns the number of the segment that follows segment `last`, or the open file that is being
-- written, or neither if there are no more rows; third: the number of a segment that should follow
-- and is not there.
--
-- The run may fill a file meanwhile.  So the file is opened first: if there is no next segment
-- then, the file has not been renamed before it was opened.  What has to be there is read before,
-- and what has been removed after the look at the names.
local function next_of(dir, name, last)
  local counted = segments.last_counted(dir, name)
  local file = segments.open(segments.path(dir, name))
  local numbers = segments.numbers(dir, name)
  last = math.max(last, segments.counted(info_of(dir), name) - 1)
  local wanted, greatest = last + 1, math.max(counted, numbers[#numbers] or 0)
  for _, number in ipairs(numbers) do
    if number == wanted then
      if file then file:close() end
      return wanted
    end
  end
  if greatest <= last then return nil, file end
  if file then file:close() end
  return nil, nil, wanted
end

local LOOKS = 3 -- a resume that cuts the logs meanwhile removes files, too

-- Opens the file behind segment `last` (0: the first file) of a log.  Returns file, path, and its
-- number, which is nil for the file that is being written; nothing if there are no more rows.
function segments.open_next(dir, name, last)
  local path = segments.path(dir, name)
  if not is_log[name] then return segments.open(path), path end
  for _ = 1, LOOKS do
    local number, file, lost = next_of(dir, name, last)
    if not number and not lost then return file, path end
    path = segments.path(dir, name, number or lost)
    file = number and segments.open(path)
    if file then return file, path, number end
  end
  return errors.raise_plain("EFORMAT", "%s: it is missing; restore it from a copy, or make an "
    .. "empty file of this name to read the others without it", path)
end

return segments
