-- The files that a run reads: inputs.json has their sizes and checksums as they were when it began.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local places = require "grpo.data.places"
local schema = require "grpo.loop.schema"
local sorted_pairs = require "grpo.base.sorted"

local fs = core.fs
local inputs = {}

-- Returns the list for inputs.json.  paths: { [path] = true }
function inputs.list(paths)
  local list = {}
  for path in sorted_pairs(paths) do
    local crc, size
    if not fs.isdir(path) then crc, size = fs.checksum(path) end
    list[#list + 1] = { path = places.listed(path), size = crc and size, crc32c = crc }
  end
  return list
end

-- Returns the files of the run at `dir` that are not what they were when it began:
-- { { name =, path =, now = size and checksum in words; nil: it is missing }, ... }.
function inputs.changed(dir)
  local list = {}
  for _, item in ipairs(schema.read(dir .. "/inputs.json", schema.shapes.inputs) or {}) do
    local path = places.file(item.path)
    local crc, size, code
    if not fs.isdir(path) then crc, size, code = fs.checksum(path) end
    if code == "ENOMEM" then errors.raise_plain(code, "%s", size) end
    if item.crc32c and crc ~= item.crc32c then
      list[#list + 1] = { name = item.path, path = path,
        now = crc and ("%d bytes, CRC-32C %08x"):format(size, crc) or nil }
    end
  end
  return list
end

-- Raises if a changed file is missing here and is there in the directory where the run began.
-- info: the contents of run.json; what: how to go there, as "resume it".
function inputs.refuse_elsewhere(dir, info, changed, what)
  local here, home = fs.realpath("."), info.directory
  if home == here then return end
  for _, file in ipairs(changed) do
    if not file.now and file.path:sub(1, 1) ~= "/" and fs.exists(home .. "/" .. file.path) then
      errors.raise_plain("ENOENT", "%s: %s is missing in %s, because the run began in %s, where it "
        .. "is; %s from there", dir, file.name, here, home, what)
    end
  end
end

-- Returns what happened to a changed file.  full: with what it is now.
function inputs.told(file, full)
  if not file.now then return file.name .. " is missing" end
  return file.name .. " has changed" .. (full and (" (%s)"):format(file.now) or "")
end

return inputs
