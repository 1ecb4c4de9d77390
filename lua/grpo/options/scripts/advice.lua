-- Adds to an error of a script's own code what it leads to: functions of Python, TRL and
-- transformers that it calls, and misspelt methods.

local annotations = require "grpo.base.annotations"
local core = require "grpo.core"
local options = require "grpo.options"
local other_programs = require "grpo.base.other_programs"

local advice = {}

local classes = { model = "grpo.Model", tokenizer = "grpo.Tokenizer", tensor = "grpo.Tensor" }

-- The names of a class, or of all of them where it is not known which one is meant; sorted.
local function members(class)
  local names, seen = {}, {}
  local list = class and { [class] = true } or annotations.read().classes
  for name in pairs(list) do
    for member, m in pairs(annotations.members(name)) do
      if (class or m.f) and not seen[member] then names[#names + 1], seen[member] = member, true end
    end
  end
  table.sort(names)
  return names
end

local function near_member(name, class)
  local near = options.nearest(name, members(class))
  return near and near ~= name and (", did you mean '%s'?"):format(near) or nil
end

-- The line of the source that a message names; "" if it cannot be read.
local function source_line(message)
  local path, number = message:match("^([^\n:]+):(%d+): ")
  local text, at = path and core.fs.read(path) or "", 0
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    at = at + 1
    if at == tonumber(number) then return line end
  end
  return ""
end

local constants = { "True", "False", "None" }

-- The lines on which a script has constants of Python, as "; lines 3, 7 have such constants";
-- "" for one line.
local function lines_of_constants(message)
  local text, at, list = core.fs.read(message:match("^([^\n:]+):%d+: ") or "") or "", 0, {}
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    at = at + 1
    for _, name in ipairs(constants) do
      local here = line:find("%f[%w_]" .. name .. "%f[^%w_]")
      if here and list[#list] ~= at then list[#list + 1] = at end
    end
  end
  if #list < 2 then return "" end
  return ("; lines %s have such constants"):format(table.concat(list, ", "))
end

-- A rule is { PATTERN, a function of what it captured and the message }, which returns the end of
-- the message or nil.
local rules = {
  { "undefined global '([%w_]+)'", function(name, message)
    if name:find("^[fr]$") and source_line(message):find("%f[%w_]" .. name .. "['\"]") then
      return "; Lua has no f-strings; write (\"%d of %s\"):format(n, name)"
    end
    local hint = other_programs.hint(name)
    return hint and options.among(name, constants) and hint .. lines_of_constants(message) or hint
  end },
  { "a (%l+) has no field '([%w_]+)'", function(kind, name)
    return other_programs.hint(name) or near_member(name, classes[kind])
  end },
  { "attempt to call a nil value %(method '([%w_]+)'%)", function(name)
    return other_programs.hint(name) or near_member(name)
  end },
  { "attempt to call a nil value %(field '([%w_]+)'%)", other_programs.hint },
  { "attempt to %l+ a %l+ value %(field '%?'%)", function(message, whole)
    return source_line(whole or message):find("%[0%]") and "; a list begins at [1] in Lua" or nil
  end },
  { "attempt to add a 'string' with a 'string'", function()
    return "; texts are joined with .."
  end },
}

-- Returns the message of an error, with what to do about it if that is known.
function advice.on(message)
  for _, rule in ipairs(rules) do
    local from, to, first, second = message:find(rule[1])
    local told = from and rule[2](first or message, second or message)
    if told and not message:find(told, 1, true) then
      local tail = message:sub(to + 1):gsub("^, did you mean '[^']*'%?", "")
      return message:sub(1, to) .. told .. tail
    end
  end
  return message
end

return advice
