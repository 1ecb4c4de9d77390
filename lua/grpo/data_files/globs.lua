-- Files by pattern: * and ? and [a-z] within a name, ** for any number of directories.

local core = require "grpo.core"
local glob_set = require "grpo.base.glob_set"

local globs = {}

local MOST = 100000 -- names that a search may meet, so that ** from / ends

function globs.is_pattern(path) return path:find("[*?[]") ~= nil end

-- A Lua pattern for one name.
local function name_pattern(glob)
  local out, i = { "^" }, 1
  while i <= #glob do
    local c = glob:sub(i, i)
    local set, after = glob_set(glob, i, "[!^]")
    if c == "*" then
      out[#out + 1] = ".*"
    elseif c == "?" then
      out[#out + 1] = "."
    elseif set then
      out[#out + 1] = set
      i = after - 1
    else
      out[#out + 1] = c:gsub("%p", "%%%0")
    end
    i = i + 1
  end
  out[#out + 1] = "$"
  return table.concat(out)
end

-- Does a whole path match a pattern in which * stays within a name and **/ is any directory?
function globs.matches(path, pattern)
  local names, globbed = {}, {}
  for name in path:gmatch("[^/]+") do names[#names + 1] = name end
  for name in pattern:gmatch("[^/]+") do globbed[#globbed + 1] = name end
  local function from(i, k)
    if k > #globbed then return i > #names end
    if globbed[k] == "**" then
      for at = i, #names + 1 do
        if from(at, k + 1) then return true end
      end
      return false
    end
    return i <= #names and names[i]:find(name_pattern(globbed[k])) ~= nil and from(i + 1, k + 1)
  end
  return from(1, 1)
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
  for _, path in ipairs(globs.files_below(dir, not rest:find("**", 1, true) and slashes + 1)) do
    if globs.matches(path, rest) then found[#found + 1] = fixed .. path end
  end
  return found
end

return globs
