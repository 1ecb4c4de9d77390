-- Cuts a log (JSONL) back to the rows of a checkpoint.
--
-- Rows are appended in the order of their steps, so what is cut stands at the end.  The file is
-- read from there, block by block, and truncated: time depends on what is cut, memory on the
-- longest row.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local interrupt = require "grpo.base.interrupt"
local lines = require "grpo.runs.lines"
local sums = require "grpo.loop.sums"

local fs, must = core.fs, errors.must

local BLOCK = 1 << 16

local function read(file, path, first, stop)
  file:seek("set", first)
  local text, message = file:read(stop - first)
  if text and #text == stop - first then return text end
  return errors.raise_plain("EIO", "%s: cannot be read: %s", path, message or "it became shorter")
end

-- Iterates over the places behind newlines, from the last one to the first.  A signal does not wait
-- for it: nothing has been changed yet.
local function line_ends(file, path, stop)
  local places, n, last = {}, 0, stop
  return function()
    while n == 0 and stop > 0 do
      if core.signal_waits() then error(interrupt.RAISED, 0) end
      if last - stop > lines.LONGEST then lines.refuse(path) end
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
    last = places[n + 1]
    return last
  end
end

-- The step of the row that these bytes hold, and the number of its line; nil if they are not a row,
-- or a damaged one.
local function step_of(file, path, first, stop)
  if stop - first > lines.LONGEST then return nil end
  local text = read(file, path, first, stop)
  if sums.state(text) == "damaged" then return nil end
  local ok, row = errors.try(core.json_decode, text)
  if not ok or type(row) ~= "table" then return nil end
  return tonumber(row.step), math.tointeger(row.log_line)
end

-- A whole row whose newline has become another byte, and not one that was being written.
local function has_lost_its_end(file, path, first, stop)
  return stop - first < lines.LONGEST and stop > first
    and sums.state(read(file, path, first, stop - 1)) == "intact"
end

-- Returns where the file ends when it is cut; unreadable lines in the part that was looked at,
-- { first =, stop = } from the last one to the first; the step and the number of the last row that
-- stays; and how many rows of step `last` are cut, where `rows` says how many of them stay.
local function place_to_cut(file, path, size, last, rows)
  local next_end = line_ends(file, path, size)
  local stop = next_end() or 0
  local place, unreadable, kept = stop, {}, nil
  local numbers = { [0] = 0 } -- by where their rows end
  local of_last = {} -- where the rows of step `last` begin, from the last one to the first
  if has_lost_its_end(file, path, stop, size) then unreadable[1] = { first = stop, stop = size } end
  while stop > 0 do
    local first = next_end() or 0
    local step, number = step_of(file, path, first, stop)
    numbers[stop] = number
    if step and (step < last or step == last and not rows) then
      kept = step
      break
    end
    if not step then
      unreadable[#unreadable + 1] = { first = first, stop = stop }
    elseif step == last then
      of_last[#of_last + 1] = first
    else
      place = first
    end
    stop = first
  end
  place = of_last[#of_last - (rows or 0)] or place
  for _, line in ipairs(unreadable) do
    if line.stop == place then place = line.first end
  end
  return place, unreadable, #of_last > 0 and (rows or 0) > 0 and last or kept, numbers[place],
    math.max(0, #of_last - (rows or 0))
end

-- ---- unreadable lines -----------------------------------------------------------------------

-- Iterates over the blocks of a part of the file.
local function blocks(file, path, first, stop)
  return function()
    if first >= stop then return nil end
    local text = read(file, path, first, math.min(stop, first + BLOCK))
    first = first + #text
    return text
  end
end

-- The number of the line that begins at a place.
local function line_number(file, path, place)
  local number = 1
  for text in blocks(file, path, 0, place) do
    number = number + select(2, text:gsub("\n", ""))
  end
  return number
end

-- Adds the lines behind `place`, which will be cut, to another file; returns how many they are.
local function put_aside(file, path, place, unreadable)
  local moved, writer <close> = 0, must(fs.append(path .. ".damaged"))
  for i = #unreadable, 1, -1 do
    local line = unreadable[i]
    if line.first >= place then
      moved = moved + 1
      for text in blocks(file, path, line.first, line.stop) do must(writer:put(text)) end
      if read(file, path, line.stop - 1, line.stop) ~= "\n" then must(writer:put("\n")) end
    end
  end
  must(writer:sync())
  return moved
end

local function said(file, path, unreadable, moved)
  local name, count = path:match("[^/]+$"), #unreadable
  return ("%s: %d line%s cannot be read, the first is line %d; %s"):format(name, count,
    count == 1 and "" or "s", line_number(file, path, unreadable[count].first),
    moved == 0 and "nothing of it was changed"
    or ("%s moved to %s.damaged"):format(moved == count and "all were" or moved .. " were", name))
end

-- Removes the rows of the file at `path` that are of steps after `last`, those of step `last` after
-- the first `rows` ones (nil: none of them), and an incomplete last line.  Lines that cannot be
-- read are moved to PATH.damaged if they stand behind the rows that stay.  Returns sentences about
-- lines that were not as they should be, step and number of the last row, and, with `rows`, how
-- many rows of step `last` were removed.
return function(path, last, rows)
  if not fs.exists(path) then return {}, nil, 0, 0 end
  local file <close> = must(io.open(path, "rb"))
  file:setvbuf("no") -- rows are read exactly
  local size = file:seek("end")
  local place, unreadable, kept, number, of_last = place_to_cut(file, path, size, last, rows)
  local remarks = {}
  if #unreadable > 0 then
    remarks[1] = said(file, path, unreadable, put_aside(file, path, place, unreadable))
  end
  local incomplete = size > 0 and read(file, path, size - 1, size) ~= "\n"
  if incomplete and not (unreadable[1] and unreadable[1].stop == size) then
    remarks[#remarks + 1] = path:match("[^/]+$") .. ": the last line is incomplete and was cut"
  end
  if place < size then must(fs.truncate(path, place)) end
  return remarks, kept, number, of_last
end
