-- The lines of a log.  None is longer than a row can be, so that neither time nor memory depends on
-- what follows the rows of a damaged file.

local errors = require "grpo.base.errors"

local lines = {}

-- Bytes that one of Lua's buffers (LUAL_BUFFERSIZE) holds in itself.  Lua allocates more without
-- collecting garbage first, so a limit of memory would refuse it where garbage could be freed.
local BLOCK = 1024

lines.LONGEST = 1 << 26 -- no row has more bytes

-- Raises for the file at a path, or for a line of it: "PATH:LINE".
function lines.refuse(place)
  errors.raise_plain("EFORMAT", "%s: a line has more than %d MiB, and no row has; the file is "
    .. "damaged: restore it from a copy, or cut off what stands behind its last row", place,
    lines.LONGEST >> 20)
end

-- Returns a function that gives the next line of an open file, with its newline, which the last one
-- may lack; nil at the end.  number: of the line before the first one.
function lines.reader(file, path, number)
  local text, at = "", 1 -- the block that was read last, and the place in it
  return function()
    number = number + 1
    local stop = text:find("\n", at, true)
    if stop then
      local line = text:sub(at, stop)
      at = stop + 1
      return line
    end
    local pieces, size = { text:sub(at) }, #text - at + 1
    repeat
      if size > lines.LONGEST then lines.refuse(("%s:%d"):format(path, number)) end
      text, at = file:read(BLOCK) or "", 1
      stop = text:find("\n", 1, true)
      pieces[#pieces + 1], size = text:sub(1, stop), size + #text
    until stop or text == ""
    at = stop and stop + 1 or 1
    local line = table.concat(pieces)
    return line ~= "" and line or nil
  end
end

-- The lines of a text that have their end, without it, in time proportional to its length.
function lines.whole(text)
  local list, at = {}, 1
  local stop = text:find("\n", at, true)
  while stop do
    list[#list + 1] = text:sub(at, stop - 1)
    at = stop + 1
    stop = text:find("\n", at, true)
  end
  return list
end

return lines
