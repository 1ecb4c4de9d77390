-- Files that a run's script writes (tr:append): logs/NAME, which a resume cuts to its checkpoint.
--
-- log_sizes.json has their sizes when they were first opened, and at each checkpoint.  Files that
-- it does not name are somebody else's.  The sizes are not in the checkpoints themselves, which
-- have the same bytes whatever times or names a script writes.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local rundir = require "grpo.runs.directory"
local sorted_pairs = require "grpo.base.sorted"
local sums = require "grpo.runs.sums"

local fs = core.fs
local must = errors.must
local script_logs = {}

local function path_of(dir, name)
  return ("%s/logs/%s"):format(dir, name)
end

local function size_of(dir, name)
  return fs.size(path_of(dir, name)) or 0
end

-- { begun = { [name] = bytes }, checkpoints = { [step as text] = { [name] = bytes } } }
local function read_sizes(dir)
  return rundir.read(dir, "log_sizes") or { begun = {}, checkpoints = {} }
end

local function write_sizes(dir, sizes)
  must(fs.write(dir .. "/log_sizes.json", sums.pages(sizes)))
end

local function open(dir, name)
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
  writers[name] = writers[name] or open(run.dir, name)
  must(writers[name]:put(text))
end

-- Writes down the sizes of now, before the checkpoint of this step is written; forgets those of
-- checkpoints that are gone.
function script_logs.keep_sizes(dir, step)
  local sizes, kept = read_sizes(dir), {}
  if next(sizes.begun) == nil then return end
  for _, at in ipairs(core.checkpoint_steps(dir)) do
    kept[tostring(at)] = sizes.checkpoints[tostring(at)]
  end
  kept[tostring(step)] = {}
  for name in pairs(sizes.begun) do kept[tostring(step)][name] = size_of(dir, name) end
  sizes.checkpoints = kept
  write_sizes(dir, sizes)
end

-- Are there files, but no sizes of theirs?  Those that were damaged have been spoken of.
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
