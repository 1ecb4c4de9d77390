-- Options of other programs as the options that they are here, for a program that takes their names
-- itself, as the Python module does.

local foreign_block = require "grpo.options.foreign_block"
local option_tree = require "grpo.options.option_tree"
local sorted_pairs = require "grpo.base.sorted"
local unknown = require "grpo.options.unknown"

local foreign_settings = {}

local function spelling(one)
  local text = unknown.text({ path = one.path, value = one.value, parent = option_tree.root() }, {})
  return (text:gsub("^.-: ", "", 1))
end

local function put(options, path, value)
  local head, name = path:match("^(.*)%.([^.]+)$")
  for part in (head or ""):gmatch("[^.]+") do
    options[part] = options[part] or {}
    options = options[part]
  end
  options[name or path] = value
end

-- Returns the options of an experiment that { [name there] = value } stand for.  What has no
-- equivalent raises an error that names each of them; what changes nothing is left out, such as a
-- switch that is off and that nothing here has.
function foreign_settings.options(given)
  local found, options = {}, {}
  for name, value in sorted_pairs(given) do found[#found + 1] = { path = name, value = value } end
  local set, left = foreign_block.translate(found, foreign_block.beside({}, found), {
    fits = unknown.fits, spelling = spelling, syntax = "lua", together = true,
    without_idle = true })
  if #left > 0 then error("these settings are refused: " .. table.concat(left, "; "), 0) end
  for path, one in sorted_pairs(set) do put(options, path, one.value) end
  return options
end

return foreign_settings
