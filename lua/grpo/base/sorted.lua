-- sorted.lua - grpo.sorted_pairs: pairs() in an order that never changes.
--
-- The order of pairs() differs from process to process, so anything that must
-- come out the same twice (rewards, logs, files) walks tables with this.

local rank = { number = 1, string = 2, boolean = 3 }

local function before(a, b)
  local ta, tb = type(a), type(b)
  if ta ~= tb then return rank[ta] < rank[tb] end
  if ta == "boolean" then return b and not a end
  return a < b
end

--- Iterates over a table: numbers first, then strings, then booleans, each ascending.
--- Keys are collected at the start; values are read as the walk reaches them.
---@param t table keys of other types are an error: they have no fixed order
---@return fun(): any, any
local function sorted_pairs(t)
  local keys = {}
  for key in pairs(t) do
    if not rank[type(key)] then
      error(("sorted_pairs: a key of type %s has no order"):format(type(key)), 2)
    end
    keys[#keys + 1] = key
  end
  table.sort(keys, before)
  local i = 0
  return function()
    i = i + 1
    local key = keys[i]
    if key ~= nil then return key, t[key] end
  end
end

return sorted_pairs
