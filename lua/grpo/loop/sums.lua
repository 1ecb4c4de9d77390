-- Checksums (CRC-32C) of what a run consists of, without those of its checkpoints, which have a
-- manifest.
--
-- A JSON object that is written more than once, and each row of a log, ends in the sum of its own
-- bytes before: ..., "crc32c": "0a1b2c3d"}.  Files that are written once (config.json, inputs.json,
-- the saved sources ...) are in the field `sums` of run.json.  A file or row without a sum is not
-- checked.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local sorted_pairs = require "grpo.base.sorted"

local fs = core.fs
local sums = {}

-- ---- objects that hold their own sum ---------------------------------------------------------

local ENDING = ',%s*"crc32c": "(%x%x%x%x%x%x%x%x)"%s*}%s*$'
local LONGEST_ENDING = 40

local function with_sum(object, open, close)
  return ('%s,%s"crc32c": "%08x"%s\n'):format(object, open, fs.crc32c(object), close)
end

-- The object as one line, with its sum; number, optional: of the line in its log.
function sums.line(object, number)
  local text = core.json_encode(object):sub(1, -2)
  if number then text = ('%s, "log_line": %d'):format(text, number) end
  return with_sum(text, " ", "}")
end

-- The object on indented lines, with its sum.
function sums.pages(object)
  return with_sum(core.json_encode(object, { indent = 2 }):sub(1, -3), "\n  ", "\n}")
end

-- Returns "intact" or "damaged" by the sum at the end of an object's text, "unknown" without one.
function sums.state(text)
  local at, _, sum = text:find(ENDING, math.max(1, #text - LONGEST_ENDING))
  if not at then return "unknown" end
  return tonumber(sum, 16) == fs.crc32c(text:sub(1, at - 1)) and "intact" or "damaged"
end

-- ---- files of which run.json has the sums ----------------------------------------------------

-- Adds the sums of a file, or of all files in a directory, to the table `list`; name: the path
-- within the run.
function sums.add(list, dir, name)
  local path = dir .. "/" .. name
  if not fs.isdir(path) then
    list[name] = ("%08x"):format((errors.must(fs.checksum(path))))
    return
  end
  for _, entry in ipairs(errors.must(fs.list(path))) do
    sums.add(list, dir, name .. "/" .. entry)
  end
end

-- Removes the sums of a directory's files; returns whether there were any.
function sums.remove(list, name)
  local found = false
  for file in sorted_pairs(list) do
    if file:sub(1, #name + 1) == name .. "/" then list[file], found = nil, true end
  end
  return found
end

-- Returns what to say if a file of the run is not what `list` says; nil if it is, or is not listed.
function sums.damage(list, dir, name)
  if not list[name] then return nil end
  local path = dir .. "/" .. name
  if not fs.exists(path) then return path .. ": it is missing; restore it from a copy" end
  local sum, message, code = fs.checksum(path)
  if code == "ENOMEM" then errors.raise_plain(code, "%s", message) end
  if not sum then return message end
  sum = ("%08x"):format(sum)
  return sum ~= list[name] and ("%s: it is damaged, because its checksum is %s, but run.json says "
    .. "%s; restore it from a copy"):format(path, sum, list[name]) or nil
end

-- Raises if one of the files is not what `info`, the contents of run.json, says; under: only of
-- those whose name begins with this.
function sums.verify(dir, info, under)
  for name in sorted_pairs(info.sums or {}) do
    local asked = name:sub(1, #(under or "")) == (under or "")
    local message = asked and sums.damage(info.sums, dir, name)
    if message then errors.raise_plain("EFORMAT", "%s", message) end
  end
end

return sums
