-- Shows values at the prompt: short, and in a fixed order; extensions add views of single types.
--
--   pretty.format(v[, look]) -> text without a line end.  look: see pretty/paint.lua.
-- The text contains no terminal control sequences except the colours that are added here.

local completions = require "grpo.commands.repl.pretty.completions"
local display = require "grpo.base.display"
local extensions = require "grpo.base.extensions"
local paint = require "grpo.commands.repl.pretty.paint"

local pretty = {}

local MAX_ITEMS, MAX_DEPTH, MAX_NUMBERS = 40, 3, 12

-- Views of values by their metatable's __name; tables without one are recognised by their fields,
-- and the views of extensions go first.
local by_type, by_look = {}, {}
for _, row in ipairs(extensions.rows "views") do
  if row.name then by_type[row.name] = row.show end
  if row.is then by_look[#by_look + 1] = { row.is, row.show } end
end
by_look[#by_look + 1] = { completions.is_one, completions.one }
by_look[#by_look + 1] = { completions.is_list, completions.list }
by_look[#by_look + 1] = { completions.is_batch, completions.batch }

-- Registers show(v, look, format) for values whose metatable has this __name; format is
-- pretty.format.
function pretty.register(name, show)
  by_type[name] = show
end

-- ---- tables ------------------------------------------------------------------------------------

local function string_text(s)
  return paint.quoted(paint.cut(s, 200))
end

local function key_text(k)
  if type(k) == "string" and k:match("^[%a_][%w_]*$") then return k end
  return "[" .. (type(k) == "string" and string_text(k) or display.clean(tostring(k))) .. "]"
end

local function sorted_keys(t, n)
  local keys = {}
  for k in pairs(t) do
    if not (math.type(k) == "integer" and k >= 1 and k <= n) then keys[#keys + 1] = k end
  end
  table.sort(keys, function(a, b)
    if type(a) == "number" and type(b) == "number" then return a < b end
    return tostring(a) < tostring(b)
  end)
  return keys
end

-- Shows a list of numbers on one line: { 1, 2, 3, ... 40 more }.
local function numbers_text(t)
  local parts = {}
  for i = 1, math.min(#t, MAX_NUMBERS) do
    parts[i] = math.type(t[i]) == "integer" and tostring(t[i]) or ("%.4g"):format(t[i])
  end
  if #t > MAX_NUMBERS then parts[#parts + 1] = ("... %d more"):format(#t - MAX_NUMBERS) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

local function all_numbers(t)
  if getmetatable(t) then return false end
  for i = 1, #t do
    if type(t[i]) ~= "number" then return false end
  end
  return #t > 0 and next(t, #t) == nil
end

-- Shows a value inside a table; a value that would take many lines is only named.
local function inner(v, look, depth, seen)
  if type(v) == "string" then return string_text(v) end
  if type(v) ~= "table" then return display.clean(tostring(v)) end
  local meta = getmetatable(v)
  if type(meta) == "table" and meta.__tostring then return display.clean(tostring(v)) end
  if completions.is_one(v) then
    return ("completion %s"):format(string_text(paint.cut(v.text, math.max(20, look.width - 40))))
  end
  if completions.is_list(v) then return ("{ %d completions }"):format(#v) end
  return pretty.table(v, look, depth, seen)
end

function pretty.table(t, look, depth, seen)
  if all_numbers(t) then return numbers_text(t) end
  if seen[t] or depth > MAX_DEPTH then return "{...}" end
  seen[t] = true
  local parts, short, n = {}, 0, #t
  for i = 1, math.min(n, MAX_ITEMS) do parts[#parts + 1] = inner(t[i], look, depth + 1, seen) end
  if n > MAX_ITEMS then parts[#parts + 1] = ("... %d more"):format(n - MAX_ITEMS) end
  for _, k in ipairs(sorted_keys(t, n)) do
    if #parts > MAX_ITEMS then
      parts[#parts + 1] = "..."
      break
    end
    parts[#parts + 1] = key_text(k) .. " = " .. inner(t[k], look, depth + 1, seen)
  end
  seen[t] = nil
  if #parts == 0 then return "{}" end
  local long = false
  for _, p in ipairs(parts) do
    short, long = short + paint.columns(p) + 2, long or p:find("\n", 1, true) ~= nil
  end
  if not long and short + 2 < look.width - 2 * depth then
    return "{ " .. table.concat(parts, ", ") .. " }"
  end
  local indent = ("  "):rep(depth + 1)
  return "{\n" .. indent .. table.concat(parts, ",\n" .. indent) .. "\n" .. ("  "):rep(depth) .. "}"
end

-- ---- any value ----------------------------------------------------------------------------------

local function type_name(v)
  local meta = (type(v) == "table" or type(v) == "userdata") and getmetatable(v)
  return type(meta) == "table" and rawget(meta, "__name") or nil
end

function pretty.format(v, look)
  look = look or paint.look()
  if type(v) == "string" then return display.clean(v) end
  local show = by_type[type_name(v)]
  if type(v) == "table" and not show and getmetatable(v) == nil then
    for _, kind in ipairs(by_look) do
      if kind[1](v) then show = kind[2] break end
    end
  end
  if show then return show(v, look, pretty.format) end
  if type(v) == "table" and not (getmetatable(v) and getmetatable(v).__tostring) then
    return pretty.table(v, look, 0, {})
  end
  return display.clean(tostring(v))
end

return pretty
