-- plain_copy(v): v, or a copy of the table v and all tables in it, without their metatables.  What
-- a function of the script has returned is read later by code that has no limits, so its
-- metamethods may not count.  Tables that are shared, or inside themselves, stay so.

local core = require "grpo.core"

local object = getmetatable(core.json_object {}) -- marks an empty object of JSON

local function copy_of(v, seen)
  if type(v) ~= "table" then return v end
  if seen[v] then return seen[v] end
  local copy = {}
  seen[v] = copy
  for key, value in next, v do copy[key] = copy_of(value, seen) end
  return rawequal(getmetatable(v), object) and core.json_object(copy) or copy
end

return function(v)
  return copy_of(v, {})
end
