-- TensorBoard event files: records of (length, masked CRC-32C, protobuf message, masked CRC-32C).

local core = require "grpo.core"
local sorted_pairs = require "grpo.base.sorted"

local tensorboard = {}

local function varint(n)
  local bytes = {}
  while n >= 128 do
    bytes[#bytes + 1] = string.char(n & 127 | 128)
    n = n >> 7
  end
  bytes[#bytes + 1] = string.char(n)
  return table.concat(bytes)
end

local function field_bytes(number, s) return varint(number << 3 | 2) .. varint(#s) .. s end
local function field_double(number, v) return varint(number << 3 | 1) .. string.pack("<d", v) end
local function field_float(number, v) return varint(number << 3 | 5) .. string.pack("<f", v) end
local function field_int(number, n) return varint(number << 3) .. varint(n) end

local function masked_crc(s)
  local c = core.fs.crc32c(s)
  return ((c >> 15 | c << 17) + 0xa282ead8) & 0xffffffff
end

-- Returns one framed record.
function tensorboard.record(message)
  local length = string.pack("<I8", #message)
  return length .. string.pack("<I4", masked_crc(length)) .. message
    .. string.pack("<I4", masked_crc(message))
end

function tensorboard.header(wall_time)
  return tensorboard.record(field_double(1, wall_time) .. field_bytes(3, "brain.Event:2"))
end

-- Returns the event of a run that begins again at `step`: readers forget what they have of this
-- step and of later ones.
function tensorboard.restart(wall_time, step)
  return tensorboard.record(field_double(1, wall_time) .. field_int(2, step)
    .. field_bytes(7, field_int(1, 1)))
end

-- Returns the scalars of one step in one event; names in sorted order, numbers only.
function tensorboard.scalars(wall_time, step, metrics)
  local values = {}
  for name, v in sorted_pairs(metrics) do
    if type(v) == "number" and name ~= "step" then
      values[#values + 1] = field_bytes(1, field_bytes(1, name) .. field_float(2, v))
    end
  end
  return tensorboard.record(field_double(1, wall_time) .. field_int(2, step)
    .. field_bytes(5, table.concat(values)))
end

function tensorboard.text(wall_time, step, name, s)
  local tensor = field_int(1, 7) .. field_bytes(2, field_bytes(2, field_int(1, 1)))
    .. field_bytes(8, s)
  local metadata = field_bytes(1, field_bytes(1, "text"))
  local value = field_bytes(1, name .. "/text_summary") .. field_bytes(8, tensor)
    .. field_bytes(9, metadata)
  return tensorboard.record(field_double(1, wall_time) .. field_int(2, step)
    .. field_bytes(5, field_bytes(1, value)))
end

return tensorboard
