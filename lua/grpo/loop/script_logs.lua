-- Files that a run's script writes (tr:append, tr:csv): logs/NAME, which a resume cuts to its
-- checkpoint.
--
-- log_sizes.json has their sizes when they were first opened, and at each checkpoint, there with
-- the sum of these bytes.  Files that it does not name are somebody else's.  The sizes are not in
-- the checkpoints themselves, which have the same bytes whatever times or names a script writes.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local schema = require "grpo.loop.schema"
local sorted_pairs = require "grpo.base.sorted"
local sums = require "grpo.loop.sums"

local fs = core.fs
local must = errors.must
local script_logs = {}

local function path_of(dir, name)
  return ("%s/logs/%s"):format(dir, name)
end

local function size_of(dir, name)
  return fs.size(path_of(dir, name)) or 0
end

-- Each file that has a sum at a checkpoint must have a size there.
local function check_sizes(sizes, path)
  for step, of_step in sorted_pairs(sizes.sums) do
    for name in sorted_pairs(of_step) do
      if not (sizes.checkpoints[step] or {})[name] then
        errors.raise_plain("EFORMAT", "%s: it has a checksum of %s at step %s, but no size; the "
          .. "file is damaged; restore it from a copy", path, name, step)
      end
    end
  end
end

-- { begun = { [name] = bytes }, checkpoints = { [step as text] = { [name] = bytes } },
--   sums = { [step as text] = { [name] = sum } } }
local function read_sizes(dir)
  local path = dir .. "/log_sizes.json"
  local sizes = schema.read(path, schema.shapes.log_sizes) or { begun = {}, checkpoints = {} }
  sizes.sums = sizes.sums or {}
  check_sizes(sizes, path)
  return sizes
end

local function write_sizes(dir, sizes)
  must(fs.write(dir .. "/log_sizes.json", sums.pages(sizes)))
end

local function open(run, name)
  local dir = run.dir
  run:check_place()
  must(fs.mkdirs(dir .. "/logs"))
  local sizes = read_sizes(dir)
  if not sizes.begun[name] then
    sizes.begun[name] = size_of(dir, name)
    write_sizes(dir, sizes)
  end
  return must(fs.append(path_of(dir, name)))
end

-- Adds text to the file NAME of a run whose logs are open.
function script_logs.append(run, name, text)
  local writers = run.script_logs
  writers[name] = writers[name] or open(run, name)
  must(writers[name]:put(text))
end

local BLOCK, OUT_OF_MEMORY = 1 << 20, 12 -- the errno ENOMEM

-- Opens a file for reading; nil if it is not there.
local function reader(path)
  local file, message, errno = io.open(path, "rb")
  if file or not fs.exists(path) then return file end
  return errors.raise_plain(errno == OUT_OF_MEMORY and "ENOMEM" or "EIO", "%s", message)
end

-- The first line of the file NAME; nil if the file is not there or empty.
function script_logs.first_line(run, name)
  local file <close> = reader(path_of(run.dir, name))
  return file and file:read("L")
end

-- The sum of the first `size` bytes of a file; nil if it has fewer.  known, optional: { size =,
-- sum = } of its beginning.
local function sum_of(path, size, known)
  local file <close> = reader(path)
  local sum, left = 0, size
  if file and known and known.size <= size then
    file:seek("set", known.size)
    sum, left = known.sum, size - known.size
  end
  while file and left > 0 do
    local text, message = file:read(math.min(BLOCK, left))
    if message then errors.raise_plain("EIO", "%s: %s", path, message) end
    if not text then break end
    sum, left = fs.crc32c(text, sum), left - #text
  end
  return left == 0 and sum or nil
end

local function hex(sum)
  return sum and ("%08x"):format(sum)
end

local summed = {} -- [path] = { size =, sum = } at the last checkpoint of this process

-- Writes down the present sizes, before the checkpoint of this step is written; forgets those of
-- checkpoints that are gone.
function script_logs.keep_sizes(dir, step)
  local sizes, kept, kept_sums = read_sizes(dir), {}, {}
  if next(sizes.begun) == nil then return end
  for _, at in ipairs(core.checkpoint_steps(dir)) do
    kept[tostring(at)], kept_sums[tostring(at)] = sizes.checkpoints[tostring(at)],
      sizes.sums[tostring(at)]
  end
  local now, now_sums = {}, {}
  for name in pairs(sizes.begun) do
    local path, size = path_of(dir, name), size_of(dir, name)
    local sum = sum_of(path, size, summed[path])
    summed[path] = sum and { size = size, sum = sum }
    now[name], now_sums[name] = size, hex(sum)
  end
  kept[tostring(step)], kept_sums[tostring(step)] = now, now_sums
  sizes.checkpoints, sizes.sums = kept, kept_sums
  write_sizes(dir, sizes)
end

-- Sentences about files that are not what they were at the run's newest checkpoint, as far as they
-- had been written then.
function script_logs.damage(dir)
  local steps, list = core.checkpoint_steps(dir), {}
  local step = steps[#steps]
  local sizes = step and read_sizes(dir)
  for name, sum in sorted_pairs(sizes and sizes.sums[tostring(step)] or {}) do
    local now = hex(sum_of(path_of(dir, name), sizes.checkpoints[tostring(step)][name]))
    if now ~= sum then
      list[#list + 1] = ("%s: %s; restore it from a copy"):format(path_of(dir, name),
        now and ("it is damaged, because what was written until step %d has another checksum now")
        :format(step) or ("what was written until step %d is not there any more"):format(step))
    end
  end
  return list
end

-- Are there files whose sizes are not known?  Damaged ones have been named already.
local function sizes_are_missing(dir)
  if fs.exists(dir .. "/log_sizes.json") or fs.exists(dir .. "/log_sizes.json.damaged") then
    return false
  end
  return fs.isdir(dir .. "/logs") and #(fs.list(dir .. "/logs") or {}) > 0
end

local function bytes(n)
  return n == 1 and "1 byte" or ("%d bytes"):format(n)
end

-- Cuts the files to what they were at the checkpoint of a step; nil: the run begins again.
-- Returns a list of sentences about files that could not be brought back to that.
function script_logs.cut(dir, step)
  local sizes, list = read_sizes(dir), {}
  local then_ = sizes.checkpoints[tostring(step)] or {}
  for name, begun in sorted_pairs(sizes.begun) do
    summed[path_of(dir, name)] = nil
    local want, size = then_[name] or begun, size_of(dir, name)
    if size > want then must(fs.truncate(path_of(dir, name), want)) end
    if size < want then
      list[#list + 1] = ("%s has %s, but had %d %s, so that text of it is missing"):format(
        path_of(dir, name), bytes(size), want,
        then_[name] and ("at the checkpoint of step %d"):format(step) or "when the run began")
    end
  end
  if sizes_are_missing(dir) then
    list[#list + 1] = ("%s/log_sizes.json is missing, so files in %s/logs that tr:append wrote are "
      .. "not cut to step %d; text of later steps may be in them twice"):format(dir, dir, step or 0)
  end
  return list
end

return script_logs
