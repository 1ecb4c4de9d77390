-- Reads the words of a command line as the command declares them (flags.lua).

local errors = require "grpo.base.errors"
local flags = require "grpo.commands.flags"
local options = require "grpo.options"
local other_programs = require "grpo.base.other_programs"
local usage = require "grpo.commands.usage"

local function refuse(command, format, ...)
  errors.raise_plain("EARG", "%s: %s; see 'grpo help %s'", command.name, format:format(...),
    command.name)
end

-- ---- values ------------------------------------------------------------------------------------

-- From a text to a value; or nil and what the text is not.
local readers = {}

function readers.text(text) return text end

-- n if it is within the declared bounds, and what it is not otherwise.
local function within(n, declared, kind)
  local min, max = declared.min, declared.max
  local what = kind .. (max and (" from %s to %s"):format(min, max)
    or min and (" of at least %s"):format(min) or "")
  return n and n >= (min or n) and n <= (max or n) and n or nil, what
end

function readers.number(text, declared)
  local n = tonumber(text)
  local finite = n and n - n == 0
  return within(finite and (math.tointeger(n) or n) or nil, declared, "a number")
end

function readers.integer(text, declared)
  return within(math.tointeger(tonumber(text)), declared, "a whole number")
end

local units = { [""] = 1, K = 2^10, M = 2^20, G = 2^30, T = 2^40 }

function readers.size(text)
  local number, unit = text:match("^([0-9.]+)([KMGT]?)$")
  local bytes = number and math.tointeger((tonumber(number) or 0) * units[unit] // 1)
  return bytes and bytes >= 2^20 and bytes or nil, "a size of at least 1M, such as 500M or 8G"
end

function readers.choice(text, declared)
  local what = table.concat(declared.choices, ", "):gsub(", ([^,]*)$", " or %1")
  return options.among(text, declared.choices) and text or nil, what
end

function readers.list(text, declared)
  local list = {}
  for word in text:gmatch("[^,]*") do
    if not options.among(word, declared.choices) then
      return nil, "a list of " .. table.concat(declared.choices, ", ")
    end
    list[#list + 1] = word
  end
  return list
end

function readers.pair(text)
  local key, value = text:match("^([%w_-]+)=(.*)$")
  return key and { key, value }, "KEY=VALUE"
end

-- The value of a flag or argument that is called `name` in an error.
local function read(command, declared, name, text)
  local reader = readers[declared.type]
  if not reader and text == "" then refuse(command, "%s: its value is empty", name) end
  if not reader then return text end
  local value, what = reader(text, declared)
  if value == nil then refuse(command, "%s: '%s' is not %s", name, text, what) end
  return value
end

-- ---- flags -------------------------------------------------------------------------------------

local function all_flags(command)
  local list = table.move(command.flags, 1, #command.flags, 1, {})
  return table.move(flags.common, 1, #flags.common, #list + 1, list)
end

-- The flag that a name of another program means in this command.
local function named_otherwise(command, name)
  for _, flag in ipairs(command.flags) do
    if options.among(name:gsub("_", "-"), flag.instead_of or {}) then return flag end
  end
end

-- The end of an error about a flag that the command does not have.
local function about_unknown(command, name)
  local word = name:gsub("-", "_")
  local flag = named_otherwise(command, name)
  if flag then return (", write --%s"):format(flag.name) end
  local elsewhere = command.elsewhere and command.elsewhere[(name:gsub("_", "-"))]
  if elsewhere then return "; " .. elsewhere end
  local names = {}
  for i, known in ipairs(all_flags(command)) do names[i] = "--" .. known.name end
  if options.among("--" .. name:gsub("_", "-"), names) then
    return (", write --%s"):format((name:gsub("_", "-")))
  end
  if not usage.takes(command, "option") then return options.hint("--" .. name, names) end
  local advice, ours = other_programs.ask("advice_on_name", word)
  if advice and ours ~= word then
    return ": " .. advice .. (ours and ("; options are written %s=VALUE"):format(ours) or "")
  end
  local option_tree = require "grpo.options.option_tree"
  local own = option_tree.find(word)
  local option = ours or own and own.row and word or option_tree.whole_name(word)
  return option and ("; options are written %s=VALUE"):format(option)
    or options.hint("--" .. name, names)
end

local function unknown(command, name)
  refuse(command, "unknown flag --%s%s", name, about_unknown(command, name))
end

-- The flag that a word is, and its value if the word has one; nil for other words.
local function flag_of(command, word)
  local name, joined, text = word:match("^%-%-([%w_-]+)(=?)(.*)$")
  local letter = word:match("^%-(%a)$")
  if not name and not letter then return nil end
  for _, flag in ipairs(all_flags(command)) do
    if name and flag.name == name or letter and flag.short == letter then
      return flag, joined == "=" and text or nil
    end
  end
  if letter then refuse(command, "unknown flag -%s", letter) end
  unknown(command, name)
end

local function store(o, command, flag, text)
  local name = "--" .. flag.name
  if not flag.type and text then refuse(command, "%s takes no value", name) end
  local value = text == nil or read(command, flag, name, text)
  if flag.type == "pair" then
    o.args[value[1]] = value[2]
  elseif flag.repeated then
    local list = o.flags[flag.name] or {}
    list[#list + 1] = value
    o.flags[flag.name] = list
  else
    o.flags[flag.name] = value
  end
end

-- ---- arguments ---------------------------------------------------------------------------------

local function check_arguments(o, command)
  local words, at = o.words, 1
  for _, argument in ipairs(command.arguments) do
    if argument.type ~= "option" then
      if not (words[at] or argument.optional or o.flags[argument.unless]) then
        refuse(command, "%s is missing", argument.name)
      end
      local last = argument.repeated and #words or at
      for i = at, math.min(last, #words) do
        words[i] = read(command, argument, argument.name, words[i])
      end
      at = last + 1
    end
  end
  if words[at] then refuse(command, "'%s' is one word too many", words[at]) end
end

-- Returns { words = arguments, flags = { [name] = value }, args = { of --arg },
-- overrides = { key=value } }; raises what is wrong.
return function(command, words)
  local o = { words = {}, flags = {}, args = {}, overrides = {} }
  local takes_options = usage.takes(command, "option")
  local i = 1
  while i <= #words do
    local word = words[i]
    local flag, text = flag_of(command, word)
    if flag and flag.type and not flag.optional and not text then
      i = i + 1
      text = words[i] or refuse(command, "--%s needs a value", flag.name)
    end
    if flag then
      store(o, command, flag, text)
    elseif takes_options and #o.words > 0 and word:find("^[%a_][%w_.%[%]]*=") then
      o.overrides[#o.overrides + 1] = word
    else
      o.words[#o.words + 1] = word
    end
    i = i + 1
  end
  for _, flag in ipairs(command.flags) do
    if o.flags[flag.name] == nil then o.flags[flag.name] = flag.default end
  end
  if not o.flags.help then check_arguments(o, command) end
  return o
end
