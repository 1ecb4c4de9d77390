-- The fields of a request to OpenAI's endpoints: what is read, what changes nothing, and what is
-- refused because this server does not have it.
--
-- A client may send any value, so that each is checked for its type and range.  null is a field
-- that is not there.

local core = require "grpo.core"
local options = require "grpo.options"
local refusal = require "grpo.serve.refusal"

local fields = {}

local MOST_CHOICES = 64 -- of one request
local MOST_STOPS = 16
local MOST_STOP_BYTES = 1000
local MOST_TOP = 20

local function is_null(value) return value == nil or value == core.json_null end

-- ---- types ------------------------------------------------------------------------------------

local function number(name, value, low, high)
  if type(value) ~= "number" then
    refusal.field(name, "got a %s, want a number", type(value))
  end
  if not (value >= low and value <= high) then
    refusal.field(name, "got %.6g, want %.6g to %.6g", value, low, high)
  end
  return value
end

local function integer(name, value, low, high)
  local n = math.tointeger(number(name, value, low, high))
  if not n then refusal.field(name, "got %.6g, want an integer", value) end
  return n
end

local function boolean(name, value)
  if type(value) ~= "boolean" then
    refusal.field(name, "got a %s, want true or false", type(value))
  end
  return value
end

-- Is it a list, or an object?  {} may be either.
local function is_list(value)
  return type(value) == "table" and (#value > 0 or next(value) == nil)
end

local function list(name, value)
  if not is_list(value) then refusal.field(name, "want a list") end
  return value
end

local function object(name, value)
  if type(value) ~= "table" or #value > 0 then refusal.field(name, "want an object") end
  return value
end

-- ---- what is read -----------------------------------------------------------------------------

local function stops(value)
  if type(value) == "string" then value = { value } end
  local strings = list("stop", value)
  if #strings > MOST_STOPS then
    refusal.field("stop", "got %d strings, want at most %d", #strings, MOST_STOPS)
  end
  for _, text in ipairs(strings) do
    if type(text) ~= "string" or text == "" or #text > MOST_STOP_BYTES or text:find("\0") then
      refusal.field("stop", "want strings of 1 to %d bytes, without zero bytes", MOST_STOP_BYTES)
    end
  end
  return strings
end

local function tools(value)
  for _, tool in ipairs(list("tools", value)) do
    local about = type(tool) == "table" and tool["function"]
    if type(about) ~= "table" or type(about.name) ~= "string" then
      refusal.field("tools", "want a list of {\"type\": \"function\", \"function\": "
        .. "{\"name\": ...}}")
    end
  end
  return value
end

-- "auto", "none", "required", or { name = } of the tool that is to be called.
local function tool_choice(value)
  if value == "auto" or value == "none" or value == "required" then return value end
  local about = type(value) == "table" and value.type == "function" and value["function"]
  if type(about) ~= "table" or type(about.name) ~= "string" then
    refusal.field("tool_choice", "want \"auto\", \"none\", \"required\" or "
      .. "{\"type\": \"function\", \"function\": {\"name\": ...}}")
  end
  return { name = about.name }
end

-- { object = true } or { schema = }; nil for any text.
local function response_format(value)
  local kind = type(value) == "table" and value.type
  if kind == "text" then return nil end
  if kind == "json_object" then return { object = true } end
  local about = kind == "json_schema" and value.json_schema
  if type(about) ~= "table" or type(about.schema) ~= "table" then
    refusal.field("response_format", "want {\"type\": \"text\"}, {\"type\": \"json_object\"} or "
      .. "{\"type\": \"json_schema\", \"json_schema\": {\"schema\": {...}}}")
  end
  return { schema = about.schema }
end

-- Reads one field: (value, limits) -> value.  limits: { max_new_tokens = }.
local common = {
  model = function(v)
    if type(v) ~= "string" then refusal.field("model", "want a string") end
    return v
  end,
  max_tokens = function(v, limits) return integer("max_tokens", v, 1, limits.max_new_tokens) end,
  temperature = function(v)
    v = number("temperature", v, 0, 1000)
    return v < 1e-4 and 0 or v
  end,
  top_p = function(v)
    if v == 0 then refusal.field("top_p", "0 leaves no token to sample; want more") end
    return number("top_p", v, 0, 1)
  end,
  top_k = function(v) return v == -1 and 0 or integer("top_k", v, 0, 2 ^ 31 - 1) end,
  min_p = function(v) return number("min_p", v, 0, 1) end,
  repetition_penalty = function(v) return number("repetition_penalty", v, 0.01, 100) end,
  n = function(v) return integer("n", v, 1, MOST_CHOICES) end,
  seed = function(v) return integer("seed", v, -2 ^ 62, 2 ^ 62) & math.maxinteger end,
  stop = stops,
  stream = function(v) return boolean("stream", v) end,
  stream_options = function(v) return object("stream_options", v) end,
  return_token_ids = function(v) return boolean("return_token_ids", v) end,
  grammar = function(v)
    if type(v) ~= "string" then refusal.field("grammar", "want a string, in GBNF") end
    return v
  end,
}

local own = {
  chat = {
    messages = function(v) return list("messages", v) end,
    max_completion_tokens = function(v, limits)
      return integer("max_completion_tokens", v, 1, limits.max_new_tokens)
    end,
    logprobs = function(v) return boolean("logprobs", v) end,
    top_logprobs = function(v) return integer("top_logprobs", v, 0, MOST_TOP) end,
    tools = tools,
    tool_choice = tool_choice,
    response_format = response_format,
    chat_template_kwargs = function(v) return object("chat_template_kwargs", v) end,
  },
  text = {
    prompt = function(v)
      if type(v) ~= "string" then list("prompt", v) end
      return v
    end,
    logprobs = function(v) return integer("logprobs", v, 0, MOST_TOP) end,
  },
}

-- ---- what changes nothing, and what is refused ------------------------------------------------

-- Fields that say nothing about the text.
local ignored = { "user", "store", "metadata", "service_tier", "parallel_tool_calls",
  "safety_identifier", "prompt_cache_key", "modalities", "prediction", "verbosity" }

-- Fields that this server has in one value only: the value with which they change nothing.
local neutral = { presence_penalty = 0, frequency_penalty = 0, echo = false, suffix = "",
  best_of = 1 }

local function is_neutral(name, value)
  if name == "logit_bias" then return type(value) == "table" and next(value) == nil end
  if name == "best_of" then return value == 1 end
  return neutral[name] ~= nil and value == neutral[name]
end

local function refuse_field(kind, name)
  if neutral[name] ~= nil or name == "logit_bias" then
    refusal.field(name, "this server does not have it; leave it out")
  end
  local known = {}
  for _, of in ipairs { common, own[kind] } do
    for field in pairs(of) do known[#known + 1] = field end
  end
  table.sort(known)
  refusal.raise(400, name, "unknown_field", "%s: there is no such field; %s", name,
    options.advice(name, known))
end

-- Reads the fields of a request: kind is "chat" or "text".  Raises refusals.
function fields.read(kind, body, limits)
  local ok, given = pcall(core.json_decode, body)
  if not ok then
    refusal.raise(400, nil, "invalid_json", "the body is not JSON: %s",
      (tostring(given):gsub("^.-JSON: ", "")))
  end
  object("body", given)
  local read = {}
  for name, value in pairs(given) do
    name = tostring(name)
    local reader = common[name] or own[kind][name]
    if reader and not is_null(value) then
      read[name] = reader(value, limits)
    elseif not is_null(value) and not options.among(name, ignored)
        and not is_neutral(name, value) then
      refuse_field(kind, name:sub(1, 60))
    end
  end
  return read
end

return fields
