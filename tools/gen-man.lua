-- tools/gen-man.lua - the manual pages for scdoc: docs/man/*.scd with lists from declarations.
--
--   make man              (OUT=DIR ./grpo repl < tools/gen-man.lua, then scdoc)
--
-- A line "; help run check" (or "; commands", "; common", "; extensions", ...) of a page becomes
-- a list.

local core = require "grpo.core"
local option_rows = require "grpo.options.option_rows"
local cli = require "grpo.commands"
local usage = require "grpo.commands.usage"
local out = assert(os.getenv("OUT"), "OUT names the directory for the pages")

local function escape(text) return (text:gsub("[\\*_#`]", "\\%0")) end

-- ---- commands -------------------------------------------------------------------------------

local function put(lines, ...)
  for _, line in ipairs { ... } do lines[#lines + 1] = line end
end

local function item(lines, name, text)
  put(lines, ("*%s*"):format(escape(name)), "\t" .. escape(text), "")
end

local function rows(lines, list)
  for _, row in ipairs(list) do
    if row[2] then
      item(lines, row[1], row[2])
    else
      put(lines, "\t" .. escape(row[1]), "")
    end
  end
end

-- The words after the command, flags in bold type and what stands for a value underlined.
local function synopsis(parts)
  return (escape(table.concat(parts, " ", 3)):gsub("%f[-]%-%-?%l[%l-]*", "*%0*")
    :gsub("%f[%w]%u+%f[%W]", "_%0_"))
end

local blocks = {}

function blocks.commands(lines)
  for _, name in ipairs(cli.commands) do item(lines, name, cli.command(name).summary) end
end

function blocks.common(lines)
  rows(lines, usage.rows({}, require("grpo.commands.flags").common))
end

function blocks.environment(lines)
  rows(lines, cli.command("help").environment)
end

function blocks.help(lines, names)
  for name in names:gmatch("%S+") do
    local command = cli.command(name)
    put(lines, "## grpo " .. name, "")
    for _, form in ipairs(usage.forms(command)) do
      put(lines, ("*grpo %s* %s"):format(name, synopsis(form)), "")
    end
    for _, block in ipairs(usage.blocks(command)) do
      if type(block) == "table" then
        rows(lines, block)
      else
        put(lines, escape(block), "")
      end
    end
  end
end

-- ---- options ------------------------------------------------------------------------------

local function value_text(v)
  if type(v) == "table" then return "" end
  if type(v) == "boolean" then return tostring(v) end
  return type(v) == "string" and ('"%s"'):format(v) or ("%.14g"):format(v)
end

local function option_type(row)
  local words = {}
  for kind in row.type:gmatch("[^|]+") do
    if kind == "enum" then
      for _, choice in ipairs(row.choices) do words[#words + 1] = ('"%s"'):format(choice) end
    else
      words[#words + 1] = kind
    end
  end
  return table.concat(words, ", ")
end

function blocks.options(lines)
  for _, row in ipairs(option_rows.rows) do
    local default = row.default ~= nil and value_text(row.default)
    default = default and default ~= "" and escape("; default " .. default) or ""
    put(lines, ("*%s* (%s%s)%s"):format(escape(row.path), escape(option_type(row)), default,
      row.live and " *live*" or ""), "\t" .. escape(row.doc), "")
  end
end

-- ---- pages ----------------------------------------------------------------------------------

local named = {} -- commands that a page describes

local function fill(path, source)
  local lines = {}
  for line in source:gmatch("([^\n]*)\n") do
    local block, rest = line:match("^; (%l+) ?(.*)$")
    if block then blocks[block](lines, rest) else lines[#lines + 1] = line end
  end
  assert(core.fs.write(out .. "/" .. path, table.concat(lines, "\n") .. "\n"))
end

-- The commands that no page names belong to extensions.
function blocks.extensions(lines)
  local rest = {}
  for _, name in ipairs(cli.commands) do
    if not named[name] then rest[#rest + 1] = name end
  end
  if #rest == 0 then put(lines, "This program has no command of an extension.", "") end
  blocks.help(lines, table.concat(rest, " "))
end

local pages = {}
for _, name in ipairs(core.fs.list("docs/man")) do
  if name:find("%.scd$") then
    pages[name] = assert(core.fs.read("docs/man/" .. name))
    for names in pages[name]:gmatch("\n; help ([^\n]*)") do
      for word in names:gmatch("%S+") do named[word] = true end
    end
  end
end
for name, source in pairs(pages) do fill(name, source) end
