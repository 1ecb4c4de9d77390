-- Patterns of file names by the rules of Python's fnmatch: *, ? and sets, [abc], [a-z], [!abc].

local glob = {}

local STAR, ANY = false, "^.[\x80-\xBF]*"

-- Returns the Lua pattern of the set that begins at `at`, and the position behind it; nil if none
-- is closed there, so that the bracket stands for itself.  A ] that comes first belongs to the set.
local function set_of(pattern, at, negations)
  local from = pattern:match("^%[" .. negations .. "()", at) or at + 1
  local close = pattern:find("]", from + 1, true)
  if not close then return nil end
  local set = pattern:sub(from, close - 1):gsub("[%%%]^]", "%%%0")
  return (from > at + 1 and "^[^" or "^[") .. set .. "]", close + 1
end

-- A list with STAR for each *, and a Lua pattern for everything else.
local function parts_of(pattern, negations)
  local parts, at = {}, 1
  while at <= #pattern do
    local c, part, after = pattern:sub(at, at), nil, nil
    if c == "[" then part, after = set_of(pattern, at, negations) end
    if c == "*" then part = STAR elseif c == "?" then part = ANY end
    if part == nil then part = "^" .. c:gsub("%W", "%%%0") end
    if part ~= STAR or parts[#parts] ~= STAR then parts[#parts + 1] = part end
    at = after or at + 1
  end
  return parts
end

-- Returns a function that tells whether a name matches.  A * takes slashes too.  negations: a Lua
-- pattern of the signs that negate a set: "!", or "[!^]" as in a shell.  The time is at most the
-- product of both lengths.
function glob.matcher(pattern, negations)
  local parts = parts_of(pattern, negations)
  return function(name)
    local at, k, star, from = 1, 1, nil, nil
    while at <= #name do
      local part = parts[k]
      local _, last
      if part then _, last = name:find(part, at) end
      if part == STAR then
        star, from, k = k, at, k + 1
      elseif last then
        at, k = last + 1, k + 1
      elseif star then -- it takes one more
        from = from + 1
        at, k = from, star + 1
      else
        return false
      end
    end
    return k > #parts or (k == #parts and parts[k] == STAR)
  end
end

return glob
