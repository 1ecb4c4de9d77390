-- options.lua - checks tables of options, and suggests names for misspelt ones.
--
-- A spec is a table of rows, one per known name:
--   { type = "number|function", default = 1, min = 0, max = nil, above = nil,
--     one_of = { "a", "b" }, required = false }
-- "integer" is a type too (2.0 is one).  Positional entries (tags { "think", "answer" }) are
-- allowed if the spec has a row [1], which then describes each of them.
-- A wrong option is an error at the line that called our caller; it names the field, the value
-- and the allowed values, or the closest known name.

local number_text = require "grpo.base.number_text"
local sorted_pairs = require "grpo.base.sorted"

local options = {}

-- Returns how many letters are inserted, left out, replaced or exchanged with their neighbour,
-- computed with three rows; long names are cut.
local function distance(a, b)
  a, b = a:sub(1, 64), b:sub(1, 64)
  local previous, before = {}, nil
  for j = 0, #b do previous[j] = j end
  for i = 1, #a do
    local row = { [0] = i }
    for j = 1, #b do
      local change = a:byte(i) == b:byte(j) and 0 or 1
      row[j] = math.min(previous[j] + 1, row[j - 1] + 1, previous[j - 1] + change)
      local exchanged = i > 1 and j > 1 and a:byte(i) == b:byte(j - 1)
        and a:byte(i - 1) == b:byte(j)
      if exchanged then row[j] = math.min(row[j], before[j - 2] + 1) end
    end
    previous, before = row, previous
  end
  return previous[#b]
end

-- The only known name of which `name` is the beginning or the end; nil if there are several.
local function only_longer(name, known)
  local found
  for _, candidate in ipairs(known) do
    local c = candidate:lower()
    if #name > 2 and (c:sub(1, #name) == name or c:sub(-#name) == name) then
      if found then return nil end
      found = candidate
    end
  end
  return found
end

--- The known name that `name` may be a misspelling of, or nil: one letter in three may be wrong.
---@param name string
---@param known string[] in the order in which ties are decided
---@return string|nil
function options.nearest(name, known)
  local best, least = nil, math.max(1, #name // 3) + 1
  for _, candidate in ipairs(known) do
    local d = distance(name:lower(), candidate:lower())
    if d < least then best, least = candidate, d end
  end
  return best or only_longer(name:lower(), known)
end

--- The end of an error message: ", did you mean 'x'?", or "" when no known name is near.
---@param name any
---@param known string[]
---@return string
function options.hint(name, known)
  local near = type(name) == "string" and options.nearest(name, known)
  return near and (", did you mean '%s'?"):format(near) or ""
end

---@param name any
---@param known any[]
---@return boolean
function options.among(name, known)
  for _, one in ipairs(known) do
    if name == one then return true end
  end
  return false
end

--- Complains of each field of `t`, the table at `path`, whose name is not known.
---@param t table
---@param known string[]
---@param path string
---@param complain fun(path: string, format: string, ...) raises
function options.check_names(t, known, path, complain)
  for name in sorted_pairs(t) do
    if not options.among(name, known) then
      complain(path .. "." .. tostring(name), "unknown option%s", options.hint(name, known))
    end
  end
end

local function names_of(spec)
  local names = {}
  for name in sorted_pairs(spec) do
    if type(name) == "string" then names[#names + 1] = name end
  end
  return names
end

--- The end of an error message about an unknown name: "did you mean 'x'?" or the known names.
---@param name any
---@param known string[]
---@return string
function options.advice(name, known)
  local near = type(name) == "string" and options.nearest(name, known)
  if near then return ("did you mean '%s'?"):format(near) end
  if #known == 0 then return "there are none" end
  return "known: " .. table.concat(known, ", ")
end

local function is_a(value, want)
  if want == "any" or type(value) == want then return true end
  return want == "integer" and math.type(value) ~= nil and math.tointeger(value) ~= nil
end

local function shown(value)
  if type(value) == "string" then return ("%q"):format(value:sub(1, 40)) end
  if type(value) == "number" or type(value) == "boolean" then return number_text(value) end
  return "a " .. type(value)
end

-- Returns a complaint about `value` by the rules of `row`, or nil when it is fine.
local function complaint(value, row)
  local typed = false
  for want in (row.type or "any"):gmatch("[^|]+") do typed = typed or is_a(value, want) end
  if not typed then return "must be " .. row.type:gsub("|", " or ") end
  if row.one_of then
    if options.among(value, row.one_of) then return nil end
    return "must be one of " .. table.concat(row.one_of, ", ")
  end
  if type(value) ~= "number" then return nil end
  if value ~= value then return "must be a number" end
  if row.min and value < row.min then return ("must be at least %s"):format(row.min) end
  if row.max and value > row.max then return ("must be at most %s"):format(row.max) end
  if row.above and value <= row.above then return ("must be more than %s"):format(row.above) end
  return nil
end

--- Checks `t` against `spec` and returns a new table with the defaults filled in.
---@param t table|nil nil counts as {}
---@param spec table
---@param where string name of the call, for messages: "format.partial"
---@param level? integer as in error(), seen from here; default 3: the line that called our caller
---@return table
function options.check(t, spec, where, level)
  level = level or 3
  if t == nil then t = {} end
  if type(t) ~= "table" then
    error(("%s: wants a table of options, got %s"):format(where, shown(t)), level)
  end
  local checked = {}
  for name, value in sorted_pairs(t) do
    local row = spec[name] or (math.type(name) == "integer" and spec[1])
    if not row then
      local text = type(name) == "string" and name or ("[%s]"):format(tostring(name))
      error(("%s.%s: unknown option, %s"):format(where, text,
        options.advice(name, names_of(spec))), level)
    end
    local wrong = complaint(value, row)
    if wrong then error(("%s.%s: %s, got %s"):format(where, name, wrong, shown(value)), level) end
    checked[name] = value
  end
  for name, row in sorted_pairs(spec) do
    if checked[name] == nil then
      if row.required then error(("%s.%s: is required"):format(where, name), level) end
      checked[name] = row.default
    end
  end
  return checked
end

return options
