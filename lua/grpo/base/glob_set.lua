-- A set of characters in a pattern of file names: [abc], [a-z], [!abc].

-- Returns the Lua pattern of the set that begins at `at`, and the position behind it; nil if none
-- is closed there, so that the bracket stands for itself.  As in Python's fnmatch a ] that comes
-- first belongs to the set.  negations: a Lua pattern of the signs that negate, "!" or "[!^]".
return function(glob, at, negations)
  local from = glob:match("^%[" .. negations .. "()", at) or at + 1
  local close = glob:sub(at, at) == "[" and glob:find("]", from + 1, true)
  if not close then return nil end
  local set = glob:sub(from, close - 1):gsub("[%%%]^]", "%%%0")
  return (from > at + 1 and "[^" or "[") .. set .. "]", close + 1
end
