-- The usage line and the help of a command, from what it declares (flags.lua).  Beside arguments
-- and flags a command has
--   summary    one line for the list of commands
--   about      blocks before the arguments and flags, notes: blocks after them.  A block is a
--              paragraph or a list of rows { item, text }; a row without a text is an example

local core = require "grpo.core"
local wrap = require "grpo.base.wrap"

local usage = {}

local placeholders = { text = "TEXT", word = "WORD", number = "X", integer = "N",
  pair = "KEY=VALUE", file = "FILE", dir = "DIR", run = "RUN", script = "SCRIPT", model = "MODEL" }

-- The word that stands for the value of a flag.
function usage.value(flag)
  if flag.value then return flag.value end
  if flag.choices then return table.concat(flag.choices, flag.type == "list" and "," or "|") end
  return placeholders[flag.type]
end

-- A flag as one writes it: --steps N.
local function written(flag, name)
  if not flag.type then return name end
  local value = usage.value(flag)
  return flag.optional and ("%s[=%s]"):format(name, value) or ("%s %s"):format(name, value)
end

-- Does an argument of the command have this type?
function usage.takes(command, kind)
  for _, argument in ipairs(command.arguments) do
    local types = argument.type
    for _, one in ipairs(type(types) == "table" and types or { types }) do
      if one == kind then return true end
    end
  end
  return false
end

-- The words of a usage line.  given: nil, or the name of a flag.  The flag then stands in the place
-- of the arguments that may be left out with it.
local function parts_of(command, given)
  local parts = { "grpo", command.name }
  for _, argument in ipairs(command.arguments) do
    local text = argument.name .. (argument.repeated and " ..." or "")
    if not given or argument.unless ~= given then
      parts[#parts + 1] = argument.optional and ("[%s]"):format(text) or text
    end
  end
  for _, flag in ipairs(command.flags) do
    local name = flag.short and "-" .. flag.short or "--" .. flag.name
    if flag.name ~= given then
      parts[#parts + 1] = ("[%s]"):format(written(flag, name))
    else
      table.insert(parts, 3, name .. (flag.type and "=" .. usage.value(flag) or ""))
    end
  end
  return parts
end

-- The usage lines of a command, each as a list of words: { "grpo", "run", "SCRIPT",
-- "[key=value ...]", "[--steps N]" }, and one for each flag that makes an argument needless.
function usage.forms(command)
  local forms = { parts_of(command) }
  for _, argument in ipairs(command.arguments) do
    if argument.unless then forms[#forms + 1] = parts_of(command, argument.unless) end
  end
  return forms
end

-- Rows { item, text } for arguments and flags.
function usage.rows(arguments, flags)
  local rows = {}
  for _, argument in ipairs(arguments) do
    if argument.doc then rows[#rows + 1] = { argument.name, argument.doc } end
  end
  for _, flag in ipairs(flags) do
    local item = written(flag, "--" .. flag.name)
    local default = flag.default
    if type(default) == "table" then default = table.concat(default, ",") end
    rows[#rows + 1] = { flag.short and ("-%s, %s"):format(flag.short, item) or item,
      flag.doc .. (default ~= nil and (" (default: %s)"):format(default) or "") }
  end
  return rows
end

-- All blocks of a command's help, in order.
function usage.blocks(command)
  local blocks = table.move(command.about, 1, #command.about, 1, {})
  local rows = usage.rows(command.arguments, command.flags)
  if #rows > 0 then blocks[#blocks + 1] = rows end
  return table.move(command.notes or {}, 1, #(command.notes or {}), #blocks + 1, blocks)
end

-- Columns for what is printed for reading.
function usage.width()
  return math.max(40, math.min(core.term_width() or 80, 100))
end

function usage.help(command)
  local width = usage.width()
  local parts, lines = {}, {}
  for i, form in ipairs(usage.forms(command)) do
    lines[i] = (i == 1 and "usage: " or "       ") .. wrap.words(form, width, 7)
  end
  parts[1] = table.concat(lines, "\n")
  for _, block in ipairs(usage.blocks(command)) do
    parts[#parts + 1] = type(block) == "table" and wrap.list(block, width)
      or wrap.paragraph(block, width)
  end
  return table.concat(parts, "\n\n") .. "\n"
end

return usage
