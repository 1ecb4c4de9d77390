-- Where the options of an experiment were set, for messages that name a line of the script.

local core = require "grpo.core"

local origins = {}

-- [config] = { where=, origins= }
local known = setmetatable({}, { __mode = "k" })

-- The line of a file of settings that sets a field of that name; the file if there is none.
local function line_of_settings(path, key)
  local n = 0
  for s in ((core.fs.read(path) or "") .. "\n"):gmatch("([^\n]*)\n") do
    n = n + 1
    if s:find("%f[%w_]" .. key:gsub("%W", "%%%0") .. "%f[^%w_][\"']?%s*:") then
      return path .. ":" .. n
    end
  end
  return path
end

-- The line at or behind `where` ("script.lua:14") that sets a field of that name; `where` itself if
-- there is none.  Of a file of settings `where` is its name.
function origins.line(where, key)
  if not key then return where end -- of a field whose name is empty
  local file, line = (where or ""):match("^(.*):(%d+)$")
  if where and not file then return line_of_settings(where, key) end
  local text = file and core.fs.read(file)
  if not text then return where end
  local n, first = 0, tonumber(line)
  for s in (text .. "\n"):gmatch("([^\n]*)\n") do
    n = n + 1
    if n >= first and s:find("%f[%w_]" .. key:gsub("%W", "%%%0") .. "%f[^%w_]%s*=") then
      return file .. ":" .. n
    end
  end
  return where
end

-- where: the line of the experiment; list: { [path] = "default", "script", "command line", ... }.
function origins.remember(config, where, list)
  known[config] = { where = where, origins = list }
end

-- Where a resolved option was set, for messages: "script.lua:14" or "command line".
function origins.position(config, path)
  local source = known[config]
  if not source then return nil end
  local origin = source.origins[path]
  if origin == "command line" then return origin end
  return origins.line(source.where, path:match("[^.]+$"))
end

-- Has nobody set a resolved option?
function origins.is_default(config, path)
  local source = known[config]
  return source ~= nil and source.origins[path] == "default"
end

return origins
