-- Values as Lua source.

local literal = {}

-- A number in as few digits as give it back.
function literal.of_number(v)
  if math.type(v) == "integer" then return tostring(v) end
  for digits = 1, 17 do
    local text = ("%%.%dg"):format(digits):format(v)
    if tonumber(text) == v then
      return (text:gsub("e%+0*", "e"):gsub("e%-0*", "e-"))
    end
  end
  return tostring(v)
end

-- The source of a number, a boolean, a short string or a list of these; nil for anything else.
function literal.of(v)
  if type(v) == "number" then return literal.of_number(v) end
  if type(v) == "boolean" then return tostring(v) end
  if type(v) == "string" and #v <= 60 and not v:find("%c") then return ("%q"):format(v) end
  if type(v) ~= "table" or #v == 0 or #v > 16 or getmetatable(v) then return nil end
  local items = {}
  for i, item in ipairs(v) do
    items[i] = type(item) ~= "table" and literal.of(item)
    if not items[i] then return nil end
  end
  return "{ " .. table.concat(items, ", ") .. " }"
end

return literal
