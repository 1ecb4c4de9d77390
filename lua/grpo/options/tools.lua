-- Tools that a model calls while it answers: their declarations, the formats of calls and answers,
-- and the calls themselves.
--
-- A form of calls is { stop =, read =, write = }:
--   stop          strings that end a turn, for forms that have no end-of-turn token
--   read(text)    returns the calls in a turn's text, special tokens included: a list of
--                 { name =, arguments = } or { error = }; nil when the turn has none
--   write(text)   returns the text that is injected after a call; nil for chat templates, which
--                 write it themselves

local answer = require "grpo.answer"
local core = require "grpo.core"
local options = require "grpo.options"
local sorted_pairs = require "grpo.base.sorted"

local tools = {}

local fields = { "description", "parameters", "fn" }
local types = { "string", "number", "integer", "boolean", "array", "object" }

local among = options.among

-- ---- declarations of tools -----------------------------------------------------------------

-- Returns `parameters` as a JSON schema; it may be one already, or have the short form
-- { name = "string" } or { name = { type =, description = } }.
local function schema_of(parameters, path, complain)
  if parameters.type == "object" and type(parameters.properties) == "table" then
    return parameters
  end
  local schema = { type = "object", properties = {}, required = {} }
  for name, value in sorted_pairs(parameters) do
    local property = type(value) == "string" and { type = value } or value
    if type(name) ~= "string" or type(property) ~= "table" or not among(property.type, types) then
      complain(path, "%s: want a type (%s), or a table with one", tostring(name),
        table.concat(types, ", "))
    end
    schema.properties[name] = property
    schema.required[#schema.required + 1] = name
  end
  return schema
end

-- Checks a tool and returns it: { name=, description=, schema=, fn=, only = the parameter's name if
-- there is exactly one }.
local function checked(name, tool, path, complain)
  if type(name) ~= "string" or not name:find("^[%a_][%w_./-]*$") then
    complain("tools", "'%s' is not a name; use letters, digits, _, -, . and /, and begin with a "
      .. "letter", tostring(name))
  end
  if type(tool) == "function" then tool = { fn = tool } end
  if type(tool) ~= "table" then
    complain(path, "got %s, want { description=, parameters=, fn= }", type(tool))
  end
  options.check_names(tool, fields, path, complain)
  if type(tool.fn) ~= "function" then
    complain(path .. ".fn", "got %s, want a function", type(tool.fn))
  end
  if tool.description ~= nil and type(tool.description) ~= "string" then
    complain(path .. ".description", "got %s, want a string", type(tool.description))
  end
  if tool.parameters ~= nil and type(tool.parameters) ~= "table" then
    complain(path .. ".parameters", "got %s, want a table", type(tool.parameters))
  end
  local schema = schema_of(tool.parameters or {}, path .. ".parameters", complain)
  local first = next(schema.properties)
  return { name = name, description = tool.description or "", schema = schema, fn = tool.fn,
    only = first and next(schema.properties, first) == nil and first or nil }
end

-- Is it a table of tools by name, as grpo.mcp returns one?
local function is_group(tool)
  if type(tool) ~= "table" or tool.fn ~= nil then return false end
  for _, one in pairs(tool) do
    if type(one) ~= "table" or type(one.fn) ~= "function" then return false end
  end
  return next(tool) ~= nil
end

-- Checks the option `tools` and returns it as a list in the order of names; the tools of a group
-- have their own names.  complain(path, format, ...) raises.
function tools.list(option, complain)
  local list, seen = {}, {}
  local function add(name, tool, path)
    if seen[name] then complain(path, "there are two tools of the name '%s'", tostring(name)) end
    seen[name] = true
    list[#list + 1] = checked(name, tool, path, complain)
  end
  for name, tool in sorted_pairs(option or {}) do
    local path = "tools." .. tostring(name)
    if is_group(tool) then
      for own, one in sorted_pairs(tool) do add(own, one, path .. "." .. tostring(own)) end
    else
      add(name, tool, path)
    end
  end
  table.sort(list, function(a, b) return a.name < b.name end)
  return list
end

-- Returns the list that a chat template gets as `tools`.
function tools.for_template(list)
  local described = {}
  for i, tool in ipairs(list) do
    described[i] = { type = "function",
      ["function"] = { name = tool.name, description = tool.description,
      parameters = tool.schema } }
  end
  return described
end

-- ---- forms of calls -------------------------------------------------------------------------

local function decoded(text)
  local ok, value = pcall(core.json_decode, text)
  if not ok then return { error = "the call is not valid JSON" } end
  if type(value) ~= "table" or type(value.name) ~= "string" then
    return { error = "a call is {\"name\": ..., \"arguments\": {...}}" }
  end
  local arguments = value.arguments
  if arguments == nil then arguments = value.parameters end
  if arguments == nil or arguments == core.json_null then arguments = {} end
  if type(arguments) ~= "table" then
    return { name = value.name, error = "the arguments are not an object" }
  end
  return { name = value.name, arguments = arguments }
end

-- Reads every <tool_call>...</tool_call>.
local function tagged(text)
  local calls, at = {}, 1
  while true do
    local _, open = text:find("<tool_call>", at, true)
    if not open then break end
    local close, after = text:find("</tool_call>", open + 1, true)
    calls[#calls + 1] = close and decoded(text:sub(open + 1, close - 1))
      or { error = "</tool_call> is missing" }
    if not close then break end
    at = after + 1
  end
  return #calls > 0 and calls or nil
end

local forms = {}

-- The form of Qwen's and Hermes's templates, with any number of calls in a turn; or, in Llama's
-- templates, a turn that is one JSON object.
forms.chat = { stop = {}, read = function(text)
  local calls = tagged(text)
  if calls then return calls end
  local body = text:gsub("<|[%w_]+|>", ""):match("^%s*({.*})%s*$")
  local call = body and body:find('"name"', 1, true) and decoded(body)
  return call and call.arguments and { call } or nil
end }

forms.json = { stop = { "</tool_call>" }, read = function(text)
  if text:find("</tool_call>", 1, true) and not text:find("<tool_call>", 1, true) then
    return { { error = "<tool_call> is missing" } }
  end
  return tagged(text)
end, write = function(result) return "<tool_response>" .. result .. "</tool_response>" end }

-- The name and the argument of the last <<name argument>>, in time linear in the text.
local function last_compact(text)
  local at, close, name, first, last = text:find("<<", 1, true), 0, nil, nil, nil
  while at do
    local word, behind = text:match("^%s*([%w_]+)()", at + 2)
    if word and close < behind then close = text:find(">>", behind, true) end
    if not close then break end
    if word then name, first, last = word, behind, close - 1 end
    at = text:find("<<", at + 1, true)
  end
  return name, name and answer.trim(text:sub(first, last))
end

-- <<name argument>> is answered by <<=result>>: few tokens, for small models.
forms.compact = { stop = { ">>" }, read = function(text)
  local name, argument = last_compact(text)
  if name then return { { name = name, argument = argument } } end
  return text:find(">>", 1, true) and { { error = "a call is <<name argument>>" } } or nil
end, write = function(result) return "<<=" .. result .. ">>" end }

-- Returns the form that turns.format names; messages: set if the prompt is a conversation.
function tools.form(format, messages)
  if type(format) == "table" then return format end
  if format == "auto" then return messages and forms.chat or forms.json end
  return forms[format]
end

local form_fields = { "stop", "read", "write" }

function tools.check_form(format, list, complain)
  if type(format) == "table" then
    options.check_names(format, form_fields, "turns.format", complain)
    if type(format.stop) ~= "table" or #format.stop == 0 then
      complain("turns.format.stop", "want a list of strings that end a call")
    end
    for _, name in ipairs { "read", "write" } do
      if type(format[name]) ~= "function" then
        complain("turns.format." .. name, "got %s, want a function", type(format[name]))
      end
    end
  elseif format == "compact" then
    for _, tool in ipairs(list) do
      if tool.name:find("[^%w_]") then
        complain("turns.format", "\"compact\" has room for names of letters, digits and _, and "
          .. "'%s' has others; take another format", tool.name)
      end
      if not tool.only and next(tool.schema.properties) then
        complain("turns.format", "\"compact\" has room for one argument, but tools.%s has more",
          tool.name)
      end
    end
  end
end

-- ---- calls -----------------------------------------------------------------------------------

local fits = {
  string = function(v) return type(v) == "string" end,
  number = function(v) return type(v) == "number" end,
  integer = function(v) return math.tointeger(v) ~= nil and type(v) == "number" end,
  boolean = function(v) return type(v) == "boolean" end,
  array = function(v) return type(v) == "table" end,
  object = function(v) return type(v) == "table" end,
}

-- Converts the bare argument of the compact form to the tool's one parameter.
local function spread(tool, argument)
  if not tool.only then return {} end
  local kind = tool.schema.properties[tool.only].type
  local value = argument
  if kind == "number" or kind == "integer" then value = tonumber(argument) or argument end
  if kind == "boolean" then value = argument == "true" end
  return { [tool.only] = value }
end

-- Returns a description of what is wrong with the arguments, or nil.
local function problem(tool, arguments)
  for _, name in ipairs(tool.schema.required or {}) do
    if arguments[name] == nil or arguments[name] == core.json_null then
      return ("argument '%s' is missing"):format(name)
    end
  end
  for name, value in sorted_pairs(arguments) do
    local property = tool.schema.properties[name]
    if not property then return ("there is no argument '%s'"):format(tostring(name)) end
    local fit = fits[property.type]
    if fit and value ~= core.json_null and not fit(value) then
      return ("argument '%s' is not of type %s"):format(name, property.type)
    end
  end
end

-- Returns what fn returned as text, or nil and a description of the problem.  It may be a table,
-- so that this is called within limits.
local function as_text(value, message)
  if value == nil then return nil, message == nil and "no result" or tostring(message) end
  if type(value) == "string" then return value end
  if math.type(value) == "float" and value == math.floor(value) and math.abs(value) < 2 ^ 53 then
    return ("%d"):format(value)
  end
  if value ~= value then return "nan" end -- C may print a sign, which depends on the machine
  if type(value) == "number" or type(value) == "boolean" then return tostring(value) end
  if type(value) ~= "table" then return nil, ("the result is a %s"):format(type(value)) end
  local ok, text = pcall(core.json_encode, value)
  if ok then return text end
  local reason = tostring(text):gsub("^.-JSON: ", "")
  return nil, ("the result cannot be written as JSON: %s"):format(reason)
end

local function first_line(err)
  local text = type(err) == "table" and err.message or tostring(err)
  text = text:match("^[^\n]*"):gsub("^[^%s:]+:%d+: ", "") -- the model cannot use a script position
  return text
end

-- Calls a tool for the model.  Returns the text of its answer and whether it failed; raises only
-- when the run must end because its time has run out.  c: the second argument of fn.
function tools.call(list, call, limits, c)
  local function failed(format, ...) return "error: " .. format:format(...), true end
  local tool
  for _, t in ipairs(list) do
    if t.name == call.name then tool = t end
  end
  if call.error then return failed("%s", call.error) end
  if not tool then return failed("there is no tool '%s'", tostring(call.name)) end
  local arguments = call.arguments or spread(tool, call.argument)
  call.arguments = next(arguments) == nil and core.json_object(arguments) or arguments
  local wrong = problem(tool, arguments)
  if wrong then return failed("%s", wrong) end
  core.reseed_math(c.rng)
  local label = "tools." .. tool.name
  local ok, value, message = core.limited(limits, label, tool.fn, arguments, c)
  if ok and (type(value) == "table" or type(message) == "table") then
    ok, value, message = core.limited(limits, label, as_text, value, message)
  elseif ok then
    value, message = as_text(value, message)
  end
  core.reseed_math(nil)
  if not ok then
    if type(value) == "table" and value.fatal then error(value, 0) end
    return failed("%s", first_line(value))
  end
  if not value then return failed("%s", message) end
  return value, false
end

return tools
