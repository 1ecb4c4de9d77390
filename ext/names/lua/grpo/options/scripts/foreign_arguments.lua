-- The arguments of TRL's classes in a text of Python, as options of this program.

local unknown = require "grpo.options.unknown"

local foreign_arguments = {}

-- The classes whose arguments are options, and the section in which they are.
local classes = { GRPOConfig = "", TrainingArguments = "", SFTConfig = "", PPOConfig = "",
  RLOOConfig = "", ModelConfig = "", ScriptArguments = "", GRPOTrainer = "",
  LoraConfig = "peft_config",
  BitsAndBytesConfig = "", SamplingParams = "", GenerationConfig = "" }

-- Names that stand for something else, such as torch.bfloat16 or a function: the last name counts.
local Name = {}
function Name.__index(_, key) return key end
function Name.__call() return setmetatable({}, Name) end

local names = { True = true, False = false }
setmetatable(names, { __index = function(_, name)
  return name ~= "None" and setmetatable({}, Name) or nil
end })

-- Python's literals as Lua's.
local function as_lua(text)
  local parts = {}
  local at = 1
  while at <= #text do
    local quote = text:match("^['\"]", at)
    local string = quote and text:match("^" .. quote .. "[^\n" .. quote .. "]*" .. quote, at)
    local comment = text:match("^#[^\n]*", at)
    local piece = string or comment or text:sub(at, at)
    at = at + #piece
    if comment then piece = "" elseif piece == "[" then piece = "{" elseif piece == "]" then
      piece = "}"
    elseif string and text:match("^%s*:", at) then
      piece, at = "[" .. string .. "] = ", text:match("^%s*:()", at)
    end
    parts[#parts + 1] = piece
  end
  return table.concat(parts)
end

-- The named arguments of one call, from "(...)"; nil if they cannot be read.
local function arguments(text)
  local chunk = load("return {" .. as_lua(text:sub(2, -2)) .. "}", "=arguments", "t", names)
  local ok, t = pcall(chunk or error)
  return ok and t or nil
end

local MOST = 20 -- calls that are read

-- Is this a class whose arguments are options?
function foreign_arguments.is_class(name)
  return name and classes[name] ~= nil
end

-- A block of lines to paste for the arguments of all such calls; nil if there are none.
function foreign_arguments.block(text)
  local all, count = {}, 0
  for name, at in text:gmatch("%f[%w_](%u[%w_]*)%s*()[({]") do
    local section = count < MOST and classes[name]
    local inside = section and (text:match("^%b()", at) or text:match("^%b{}", at))
    count = count + (inside and 1 or 0)
    local into = all
    if section and section ~= "" then
      all[section] = all[section] or {}
      into = all[section]
    end
    local given = inside and arguments(inside) or {}
    for key, value in pairs(type(given[1]) == "table" and given[1] or given) do
      if type(key) == "string" then into[key] = value end
    end
  end
  all.args = nil
  local found = unknown.names { of_calls = all } -- a section that none of ours is spelt like
  for _, one in ipairs(found) do one.path = one.path:gsub("^of_calls%.", "") end
  if #found < 2 then return nil end
  local line, block = unknown.block(found, {}, "lua")
  return "The arguments here: " .. line .. "\n" .. block
end

return foreign_arguments
