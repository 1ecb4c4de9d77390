-- Where the options of an experiment were set, for messages that name a line of the script.

local core = require "grpo.core"

local origins = {}

-- [config] = { where=, origins= }
local known = setmetatable({}, { __mode = "k" })

-- The names of a path in the order in which a text has them: of "stages[2].train.lr" they are
-- stages, kind, kind, train and lr, because every stage has its kind.
local function names_of(path)
  local names = {}
  for part in path:gmatch("[^.]+") do
    local name, index = part:match("^(.-)%[(%d+)%]$")
    names[#names + 1] = name or part
    for _ = 1, name == "stages" and tonumber(index) or 0 do names[#names + 1] = "kind" end
  end
  return names
end

-- The number of the line, from `first` on, where names are set one within another; nil if they are
-- not.  mark: the pattern of what stands behind a name.
local function line_of(text, first, names, mark)
  local at, n = 1, 1
  while n < first do
    at, n = (text:find("\n", at, true) or #text) + 1, n + 1
  end
  local start, found = at, nil
  for _, name in ipairs(names) do
    found, at = text:find("%f[%w_]" .. name:gsub("%W", "%%%0") .. "%f[^%w_]" .. mark, at)
    if not found then return nil end
    at = at + 1
  end
  return found and n + select(2, text:sub(start, found - 1):gsub("\n", ""))
end

local BEHIND_IN_SETTINGS, BEHIND_IN_LUA = "[\"']?%s*:", "%s*="

-- The line at or behind `where` ("script.lua:14") that sets the option of a path, or else a field
-- of its last name; `where` itself if there is none.  Of a file of settings `where` is its name.
function origins.line(where, path)
  if not path or not where then return where end -- of a field whose name is empty
  local file, line = where:match("^(.*):(%d+)$")
  local text = core.fs.read(file or where)
  if not text then return where end
  local mark, first = file and BEHIND_IN_LUA or BEHIND_IN_SETTINGS, tonumber(line or 1)
  local names = names_of(path)
  local found = line_of(text, first, names, mark) or line_of(text, first, { names[#names] }, mark)
  return found and ("%s:%d"):format(file or where, found) or where
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
  return origins.line(source.where, path)
end

-- Has nobody set a resolved option?
function origins.is_default(config, path)
  local source = known[config]
  return source ~= nil and source.origins[path] == "default"
end

return origins
