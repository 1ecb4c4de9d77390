-- Files by pattern: * and ? and [a-z] within a name, ** for any number of directories.

local core = require "grpo.core"
local glob = require "grpo.base.glob"

local globs = {}

local MOST = 100000 -- names that a search may meet, so that ** from / ends

function globs.is_pattern(path) return path:find("[*?[]") ~= nil end

-- The names of a pattern as functions; "**" for itself, however often it is repeated.
local function parts_of(pattern)
  local parts = {}
  for name in pattern:gmatch("[^/]+") do
    if name ~= "**" then
      parts[#parts + 1] = glob.matcher(name, "[!^]")
    elseif parts[#parts] ~= "**" then
      parts[#parts + 1] = "**"
    end
  end
  return parts
end

-- Returns a function that tells whether a whole path matches a pattern in which * stays within a
-- name and **/ is any directory.
function globs.matcher(pattern)
  local parts = parts_of(pattern)
  return function(path)
    local names = {}
    for name in path:gmatch("[^/]+") do names[#names + 1] = name end
    local function from(i, k)
      if k > #parts then return i > #names end
      if parts[k] == "**" then
        for at = i, #names + 1 do
          if from(at, k + 1) then return true end
        end
        return false
      end
      return i <= #names and parts[k](names[i]) and from(i + 1, k + 1)
    end
    return from(1, 1)
  end
end

-- Lists the files below a directory as paths relative to it, sorted; hidden ones are left out.
function globs.files_below(dir, depth)
  local found, seen = {}, 0
  local function walk(prefix, level)
    for _, name in ipairs(core.fs.list(dir .. "/" .. prefix) or {}) do
      seen = seen + 1
      if seen > MOST then return end
      local path = prefix .. name
      if name:sub(1, 1) ~= "." then
        if not core.fs.isdir(dir .. "/" .. path) then
          found[#found + 1] = path
        elseif level < (depth or 8) then
          walk(path .. "/", level + 1)
        end
      end
    end
  end
  walk("", 1)
  table.sort(found)
  return found
end

-- Returns the files that match, sorted.
function globs.find(pattern)
  local fixed = pattern:match("^[^*?[]*/") or "" -- the directories before the first wildcard
  local rest, found = pattern:sub(#fixed + 1), {}
  local dir = fixed == "" and "." or fixed == "/" and "/" or fixed:sub(1, -2)
  local _, slashes = rest:gsub("/", "")
  local matches = globs.matcher(rest)
  for _, path in ipairs(globs.files_below(dir, not rest:find("**", 1, true) and slashes + 1)) do
    if matches(path) then found[#found + 1] = fixed .. path end
  end
  return found
end

return globs
