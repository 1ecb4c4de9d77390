-- tok:chat for those who have no Lua values: messages and options as JSON, whose keys keep their
-- order (grpo_tokenizer_chat of grpo.h).

local errors = require "grpo.base.errors"
local json = require "grpo.jinja.json"
local values = require "grpo.jinja.values"

local chat_json = {}

-- Returns what a text says, which must be of this kind.
local function read(text, name, kind, want)
  local ok, value = errors.try(json.read, text)
  if not ok then errors.raise("EARG", "%s: %s", name, (tostring(value):gsub("^JSON: ", ""))) end
  if values.kind(value) ~= kind then
    errors.raise("EARG", "%s: got a %s, want %s", name, values.type_name(value), want)
  end
  return value
end

-- Renders messages, a list in JSON, with options, an object in JSON or nil: those of tok:chat.
function chat_json.render(tokenizer, messages, options)
  local list = read(messages, "messages", "list", "a list of { role, content }")
  local opts = {}
  if options then
    for key, value in pairs(read(options, "options", "dict", "an object").map) do
      if values.kind(value) ~= "none" then opts[key] = value end
    end
  end
  for _, name in ipairs { "generation_prompt", "continue_final_message" } do
    local value = opts[name]
    if value ~= nil and type(value) ~= "boolean" then
      errors.raise("EARG", "chat: %s: want true or false", name)
    end
  end
  if opts.vars ~= nil and values.kind(opts.vars) == "dict" then opts.vars = opts.vars.map end
  return tokenizer:chat(list, opts)
end

return chat_json
