-- Texts with the columns of a row in them: "Question: {question}\n".  {a.b} is the field b of the
-- table a.  {{ and }} are braces; braces around anything else than a name stay as they are.
-- A number is written with all of its digits, as Python's str() does.

local values = require "grpo.jinja.values"

local templates = {}

local LONGEST = 100000 -- bytes

local function columns_of(row)
  local names = {}
  for name in pairs(type(row) == "table" and row or {}) do names[#names + 1] = tostring(name) end
  table.sort(names)
  return #names > 0 and table.concat(names, ", ", 1, math.min(#names, 12)) or "none"
end

local function value_of(row, name)
  local value = row
  for part in name:gmatch("[^.]+") do value = type(value) == "table" and value[part] or nil end
  if type(value) == "string" then return value end
  if type(value) == "number" then return values.number_text(value) end
  if type(value) == "boolean" then return tostring(value) end
  error(("{%s}: the row has no such column with a text or a number (it has %s); braces are written "
    .. "{{ and }}"):format(name, columns_of(row)), 0)
end

-- Splits a template: { { text = } or { name = }, ... }.
local function parts_of(text)
  local parts, at = {}, 1
  local function add(part) parts[#parts + 1] = part end
  while at <= #text do
    local brace = text:find("[{}]", at) or #text + 1
    if brace > at then add { text = text:sub(at, brace - 1) } end
    local two, name = text:sub(brace, brace + 1), text:match("^{([%a_][%w_.]*)}", brace)
    if two == "{{" or two == "}}" then
      add { text = two:sub(1, 1) }
      at = brace + 2
    elseif name then
      add { name = name }
      at = brace + #name + 2
    else
      if brace <= #text then add { text = text:sub(brace, brace) } end
      at = brace + 1
    end
  end
  return parts
end

-- Returns a function(row) that gives the text; nil and what is wrong.
function templates.text(text)
  if type(text) ~= "string" then return nil, "want a text, got a " .. type(text) end
  if #text > LONGEST then return nil, ("a template has at most %d bytes"):format(LONGEST) end
  local parts = parts_of(text)
  return function(row)
    local list = {}
    for i, part in ipairs(parts) do list[i] = part.text or value_of(row, part.name) end
    return table.concat(list)
  end
end

-- Returns a function(row) that gives messages; list: { { role =, content = a template }, ... }.
-- nil and what is wrong.
function templates.messages(list)
  local made = {}
  for i, message in ipairs(list) do
    if type(message) ~= "table" or type(message.role) ~= "string" then
      return nil, ("message %d: want { role, content }, two texts"):format(i)
    end
    local content, problem = templates.text(message.content)
    if not content then return nil, ("message %d: content: %s"):format(i, problem) end
    made[i] = { role = message.role, content = content }
  end
  if #made == 0 then return nil, "want at least one message" end
  return function(row)
    local messages = {}
    for i, message in ipairs(made) do
      messages[i] = { role = message.role, content = message.content(row) }
    end
    return messages
  end
end

return templates
