-- Cuts a log (JSONL) back to the rows of a checkpoint.
--
-- Rows are appended in the order of their steps, so what is cut stands at the end.  The file is
-- read from there, block by block, and truncated: time depends on what is cut, memory on the
-- longest row.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local fs = core.fs

local BLOCK = 1 << 16
local LONGEST = 1 << 26 -- no row has more bytes

local function read(file, path, first, stop)
  file:seek("set", first)
  local text, message = file:read(stop - first)
  if text and #text == stop - first then return text end
  return errors.raise_plain("EIO", "%s: cannot be read: %s", path, message or "it became shorter")
end

-- Iterates over the places behind newlines, from the last one to the first.
local function line_ends(file, path, stop)
  local places, n = {}, 0
  return function()
    while n == 0 and stop > 0 do
      local first = math.max(0, stop - BLOCK)
      local text = read(file, path, first, stop)
      local at = text:find("\n", 1, true)
      while at do
        n = n + 1
        places[n] = first + at
        at = text:find("\n", at + 1, true)
      end
      stop = first
    end
    if n == 0 then return nil end
    n = n - 1
    return places[n + 1]
  end
end

-- The step of the row that these bytes hold; nil if they are not a row.
local function step_of(file, path, first, stop)
  if stop - first > LONGEST then return nil end
  local ok, row = pcall(core.json_decode, read(file, path, first, stop))
  return ok and type(row) == "table" and tonumber(row.step) or nil
end

-- Where the file ends when it is cut, and how many lines before that place cannot be read.
local function place_to_cut(file, path, size, last, rows)
  local next_end = line_ends(file, path, size)
  local stop = next_end() or 0 -- an incomplete last line is cut
  local place, unreadable = stop, 0
  local of_last = {} -- where the rows of step `last` begin, from the last one to the first
  while stop > 0 do
    local first = next_end() or 0
    local step = step_of(file, path, first, stop)
    if step and (step < last or step == last and not rows) then break end
    if not step then
      unreadable = unreadable + 1
    elseif step == last then
      of_last[#of_last + 1] = first
    else
      place, unreadable = first, 0
    end
    stop = first
  end
  return of_last[#of_last - (rows or 0)] or place, unreadable
end

-- Removes the rows of the file at `path` that are of steps after `last`, those of step `last` after
-- the first `rows` ones (nil: none of them), and an incomplete last line.  Unreadable lines go with
-- rows before them that go; others stay, and their number is returned.
return function(path, last, rows)
  if not fs.exists(path) then return 0 end
  local file <close> = errors.must(io.open(path, "rb"))
  file:setvbuf("no") -- rows are read exactly
  local size = file:seek("end")
  local place, unreadable = place_to_cut(file, path, size, last, rows)
  if place < size then errors.must(fs.truncate(path, place)) end
  return unreadable
end
