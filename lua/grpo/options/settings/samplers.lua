-- Samplers that a settings file names: "by_pass_rate", or { kind = "by_pass_rate", and the options
-- of that function of grpo.samplers }.  difficulty is the name of a column that holds a number.

local errors = require "grpo.base.errors"
local options = require "grpo.options"
local samplers = require "grpo.samplers"

local named = {}

local kinds = { "by_pass_rate", "easy_to_hard" }
local list = table.concat(kinds, " or ")

-- The value of a row at a name such as "meta.level".
local function at(row, name)
  local value = row[name]
  if value ~= nil then return value end
  value = row
  for part in name:gmatch("[^.]+") do
    value = type(value) == "table" and value[part] or nil
  end
  return value
end

local function difficulty_of(column, path, complain)
  if type(column) ~= "string" then
    complain(path, "easy_to_hard wants difficulty, the name of a column that holds a number")
  end
  return function(row)
    local value = tonumber(at(row, column))
    if value == nil then
      errors.raise("EARG", "difficulty is the column '%s', but a row has no number there", column)
    end
    return value
  end
end

-- The option data.sampler as a script gives it.  path: "data.sampler", for messages;
-- complain(path, format, ...) raises.
function named.of(spec, path, complain)
  if type(spec) == "string" then spec = { kind = spec } end
  local kind = type(spec) == "table" and spec.kind or nil
  if not options.among(kind, kinds) then
    local hint = kind and options.hint(kind, kinds) or ""
    complain(path, "want %s, %s%s a sampler of your own needs a script", list,
      kind and ("got '%s'"):format(tostring(kind)) or "or an object with one of them as kind",
      hint == "" and ";" or hint)
  end
  local opts = {}
  for name, value in pairs(spec) do opts[name] = value end
  opts.kind = nil
  if kind == "easy_to_hard" then
    opts.difficulty = difficulty_of(spec.difficulty, path, complain)
  end
  local ok, made = pcall(samplers[kind], opts)
  if not ok then complain(path, "%s", (tostring(made):gsub("^[^\n]-:%d+: ", ""))) end
  return made
end

return named
