-- Parquet: rows are read when they are asked for, and the row groups that were decoded are kept
-- while they take no more than a bound, over all files together.

local columns = require "grpo.data.data_files.columns"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local files_read = require "grpo.base.files_read"
local foreign = require "grpo.data.data_files.foreign"
local options = require "grpo.options"

local parquet = { name = "Parquet" }

local KEPT = 256 << 20 -- bytes of decoded row groups beside the one that is read
local files = setmetatable({}, { __mode = "k" }) -- file -> when a row group of it was read last
local clock = 0

local function forget_oldest(current)
  local oldest, total = nil, 0
  for file, at in next, files do
    local bytes = file ~= current and file:cached() or 0
    total = total + bytes
    if bytes > 0 and (not oldest or at < files[oldest]) then oldest = file end
  end
  if total <= KEPT then return false end
  oldest:forget()
  return true
end

-- Returns a function that reads row i.
local function reader(file)
  local cached = 0
  return function(i)
    local row = file:row(i)
    if file:cached() ~= cached then
      clock = clock + 1
      files[file] = clock
      while forget_oldest(file) do end
      cached = file:cached()
    end
    return row
  end
end

local function open(path)
  local file, message, code = core.parquet(path)
  if file then return file end
  local f = code == "EFORMAT" and io.open(path, "rb")
  local kind, way_out, format = foreign.of(f and f:read(2048) or "", path)
  if f then f:close() end
  if kind and format ~= "parquet" then
    errors.raise("EFORMAT", "%s: it is %s, not Parquet; %s", path, kind, way_out)
  end
  return errors.raise(code, "%s", message)
end

-- opts.columns: with names to keep, the other columns are never read.
function parquet.open(path, opts)
  local file = open(path)
  files_read.add(path)
  files[file] = 0
  file:set_cache(KEPT)
  local names = file:columns()
  local kept, renamed = columns.parse(opts.columns or {}, function(...)
    errors.raise("EARG", "grpo.data.parquet: columns: %s", (...))
  end)
  local wanted = columns.wanted(kept, renamed)
  for i, name in ipairs(names) do
    if kept and not options.among(name, wanted) then file:leave_out(i) end
  end
  return { n = file:rows(), get = reader(file), columns = function() return names end }
end

return parquet
