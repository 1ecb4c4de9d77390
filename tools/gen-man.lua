-- tools/gen-man.lua - fills the parts of docs/man/*.scd that the program knows best: commands, their flags, options.
--
--   make man              (./grpo repl < tools/gen-man.lua, with OUT=DIR in front: below another directory; then scdoc)
--
-- What stands between a line "; help run check" (or "; commands", "; options") and "; end" is written here; the rest by
-- hand.

local core = require "grpo.core"
local cli = require "grpo.cli"
local out = os.getenv("OUT") or "."

local function escape(text) return (text:gsub("[\\*_#`]", "\\%0")) end

-- ---- the text of --help as paragraphs and lists ------------------------------------------

-- "  --n N    completions   --max N   longest one" is two items; returns { {item, text}, ... } or nil.
local function items(line)
  local fields = {}
  for field in (line:gsub("%.  ", ". ") .. "  "):gmatch("%s*(.-)%s%s+") do
    if field ~= "" then fields[#fields + 1] = field end
  end
  if #fields < 2 then return nil end
  local list = {}
  for i = 1, #fields, 2 do
    local item, text = fields[i], fields[i + 1]
    if not text then item, text = item:match("^(.-): (.*)$") end
    if not text then item, text = fields[i]:match("^(%S+ %u) (.*)$") end
    if not text then item, text = fields[i]:match("^(%S+)%s*(.*)$") end
    list[#list + 1] = { item, text }
  end
  return list
end

local function put_item(lines, item, text)
  lines[#lines + 1] = ("*%s*"):format(escape(item))
  lines[#lines + 1] = "\t" .. escape(text)
  lines[#lines + 1] = ""
end

local function put_help(lines, help)
  local paragraph, last = {}, nil
  local function finish()
    if #paragraph > 0 then
      local text = escape(table.concat(paragraph, " "):gsub("%.  ", ". "))
      lines[#lines + 1] = text:find("^%-") and "\\" .. text or text -- no list
      lines[#lines + 1] = ""
    end
    if last then put_item(lines, last[1], last[2]) end
    paragraph, last = {}, nil
  end
  for line in (help .. "\n"):gmatch("(.-)\n") do
    local indented = line:find("^  ")
    local found = indented and items(line)
    if line == "" then
      finish()
    elseif found and #line:match("^ *") < 8 then
      finish()
      for i = 1, #found - 1 do put_item(lines, found[i][1], found[i][2]) end
      last = found[#found]
    elseif indented and last then
      last[2] = last[2] .. " " .. line:gsub("^ +", ""):gsub("%.  ", ". ")
    elseif indented then
      finish()
      last = { line:match("^ *(.*)$"), "" }
    else
      if last then finish() end
      paragraph[#paragraph + 1] = line
    end
  end
  finish()
end

local function synopsis(usage)
  local text = escape(usage):gsub("%f[%w]%u[%u]+%f[%W]", "_%0_")
  return ("*grpo* %s"):format((text:gsub(" | ", "\n\n*grpo* ")))
end

local blocks = {}

function blocks.commands(lines)
  for _, name in ipairs(cli.commands) do put_item(lines, name, cli.command(name).summary) end
end

function blocks.help(lines, names)
  for name in names:gmatch("%S+") do
    local command = cli.command(name)
    lines[#lines + 1] = ("## grpo %s"):format(name)
    lines[#lines + 1] = ""
    lines[#lines + 1] = synopsis(command.usage)
    lines[#lines + 1] = ""
    put_help(lines, command.help or command.summary)
    -- flags that --help only names in its first line
    local text = table.concat(lines, "\n"):match(".*\n## grpo (.*)$")
    for flag in require "grpo.base.sorted" (command.flags or {}) do
      assert(text:find("--" .. flag, 1, true), ("%s: --help does not name --%s"):format(name, flag))
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
  for _, row in ipairs(core.options()) do
    local default = row.default ~= nil and value_text(row.default)
    lines[#lines + 1] = ("*%s* (%s%s)%s"):format(escape(row.path), escape(option_type(row)),
      default and default ~= "" and escape("; default " .. default) or "", row.live and " *live*" or "")
    lines[#lines + 1] = "\t" .. escape(row.doc)
    lines[#lines + 1] = ""
  end
end

-- ---- pages ----------------------------------------------------------------------------------

local function fill(path)
  local lines, skipping = {}, false
  for line in io.lines("docs/man/" .. path) do
    if line == "; end" then skipping = false end
    if not skipping then lines[#lines + 1] = line end
    local block, rest = line:match("^; (%l+) ?(.*)$")
    if block and blocks[block] then
      skipping = true
      lines[#lines + 1] = ""
      blocks[block](lines, rest)
    end
  end
  local file = assert(io.open(out .. "/docs/man/" .. path, "w"))
  file:write(table.concat(lines, "\n"), "\n")
  file:close()
end

for _, name in ipairs(core.fs.list("docs/man")) do
  if name:find("%.scd$") then fill(name) end
end
