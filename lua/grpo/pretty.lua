-- How values are shown at the prompt: short, in order, made for this field.

local core = require "grpo.core"

local pretty = {}

local MAX_ITEMS, MAX_DEPTH, MAX_NUMBERS = 40, 3, 12

local function key_text(k)
  if type(k) == "string" and k:match("^[%a_][%w_]*$") then return k end
  return "[" .. (type(k) == "string" and ("%q"):format(k) or tostring(k)) .. "]"
end

local function sorted_keys(t)
  local keys = {}
  for k in pairs(t) do
    if not (math.type(k) == "integer" and k >= 1 and k <= #t) then keys[#keys + 1] = k end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

local function string_text(s)
  if #s > 200 then s = s:sub(1, 197) .. "..." end
  return (("%q"):format(s):gsub("\\\n", "\\n"))
end

-- { 1, 2, 3, ... 40 more }: a list of numbers on one line
local function numbers_text(t)
  local parts = {}
  for i = 1, math.min(#t, MAX_NUMBERS) do
    parts[i] = math.type(t[i]) == "integer" and tostring(t[i]) or ("%.4g"):format(t[i])
  end
  if #t > MAX_NUMBERS then parts[#parts + 1] = ("... %d more"):format(#t - MAX_NUMBERS) end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

local function all_numbers(t)
  for i = 1, #t do
    if type(t[i]) ~= "number" then return false end
  end
  return #t > 0 and next(t, #t) == nil
end

local function table_text(t, depth, seen)
  if all_numbers(t) then return numbers_text(t) end
  if seen[t] then return "{...}" end
  if depth > MAX_DEPTH then return "{...}" end
  seen[t] = true
  local parts, short = {}, 0
  for i = 1, math.min(#t, MAX_ITEMS) do parts[#parts + 1] = pretty.format(t[i], depth + 1, seen) end
  if #t > MAX_ITEMS then parts[#parts + 1] = ("... %d more"):format(#t - MAX_ITEMS) end
  for _, k in ipairs(sorted_keys(t)) do
    if #parts > MAX_ITEMS then
      parts[#parts + 1] = "..."
      break
    end
    parts[#parts + 1] = key_text(k) .. " = " .. pretty.format(t[k], depth + 1, seen)
  end
  seen[t] = nil
  for _, p in ipairs(parts) do short = short + #p + 2 end
  if short < (core.term_width() or 80) - 2 * depth then return "{ " .. table.concat(parts, ", ") .. " }" end
  local indent = ("  "):rep(depth + 1)
  return "{\n" .. indent .. table.concat(parts, ",\n" .. indent) .. "\n" .. ("  "):rep(depth) .. "}"
end

function pretty.format(v, depth, seen)
  depth, seen = depth or 0, seen or {}
  if type(v) == "string" then return depth == 0 and v or string_text(v) end
  if type(v) == "table" then
    local meta = getmetatable(v)
    if meta and meta.__tostring then return tostring(v) end
    return table_text(v, depth, seen)
  end
  return tostring(v)
end

-- The signature and comment of NAME from the annotation files, then the value's kind.
function pretty.describe(name, value)
  local short = name:match("[%w_]+$") or name
  for _, file in ipairs(core.embedded_names()) do
    if file:find("^lua/grpo/meta/") then
      local comment = {}
      for line in core.embedded(file):gmatch("([^\n]*)\n") do
        local text = line:match("^%-%-%-?%s?(.*)$")
        if text then
          comment[#comment + 1] = text
        else
          local declared = line:match("^function%s+([%w_.:]+)")
          if declared and (declared == name or declared:match("[%w_]+$") == short) then
            return line:gsub("%s*end%s*$", "") .. "\n  " .. table.concat(comment, "\n  ")
          end
          comment = {}
        end
      end
    end
  end
  for _, row in ipairs(core.options()) do
    if row.path == name or row.path:match("[%w_]+$") == short then
      return ("option %s (%s): %s"):format(row.path, row.type, row.doc)
    end
  end
  return value == nil and ("nothing is known of '%s'"):format(name) or pretty.format(value)
end

return pretty
