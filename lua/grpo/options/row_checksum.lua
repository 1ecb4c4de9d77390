-- A checksum of a dataset's row, kept with each completion: whoever makes the row again later can
-- tell whether it is still the same.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local row_checksum = {}

local DEEPEST = 20 -- tables in tables that are looked at

local function is_key(key)
  local kind = type(key)
  return kind == "string" or kind == "number" or kind == "boolean"
end

-- A copy that holds plain values only; any other one is its type's name.
local function plain(v, depth)
  local kind = type(v)
  if kind == "table" and depth < DEEPEST then
    local copy = {}
    for key, field in next, v do
      if is_key(key) then copy[key] = plain(field, depth + 1) end
    end
    return copy
  end
  if v == nil or is_key(v) then return v end
  return kind
end

-- The CRC-32C of a row's value: equal values have equal ones, whatever the order of their keys.
function row_checksum.of(row)
  local ok, bytes = errors.try(core.state_encode, row, "row", true)
  return core.fs.crc32c(ok and bytes or core.state_encode(plain(row, 0), "row", true))
end

return row_checksum
