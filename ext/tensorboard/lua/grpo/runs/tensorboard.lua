-- TensorBoard event files: records of (length, masked CRC-32C, protobuf message, masked CRC-32C).

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local sorted_pairs = require "grpo.base.sorted"

local fs, must = core.fs, errors.must

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

-- ---- the files of a run --------------------------------------------------------------------

local Sink = {}
Sink.__index = Sink

-- Opens an event file of a run, as a sink of its numbers and texts (the kind log_sinks of
-- base/extensions.lua).  TensorBoard reads a run's files in the order of their names.
function tensorboard.open(run)
  run:check_place()
  local time = math.floor(core.wall())
  for _, name in ipairs(must(fs.list(run.dir))) do
    local before = name:match("^events%.out%.tfevents%.(%d+)%.")
    time = math.max(time, before and tonumber(before) + 1 or 0)
  end
  local writer = must(fs.append(("%s/events.out.tfevents.%d.%s.%d"):format(run.dir, time,
    core.hostname(), core.getpid())))
  writer:put(tensorboard.header(core.wall()))
  if run.last_kept then writer:put(tensorboard.restart(core.wall(), run.last_kept + 1)) end
  return setmetatable({ writer = writer }, Sink)
end

function Sink:scalars(step, numbers)
  self.writer:put(tensorboard.scalars(core.wall(), step, numbers))
end

function Sink:text(step, name, s)
  self.writer:put(tensorboard.text(core.wall(), step, name, s))
end

function Sink:close() self.writer:close() end

return tensorboard
