-- The token ids of a request's prompts.

local chat = require "grpo.models.chat"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local refusal = require "grpo.serve.refusal"

local prompt = {}

local MOST_COMPLETIONS = 2048 -- of one request

local media = { image = true, image_url = true, input_image = true, audio = true,
  input_audio = true, video = true, video_url = true, file = true }

-- A template would show a picture's address, or nothing.
local function check_parts(message)
  local content = type(message) == "table" and message.content
  for _, part in ipairs(type(content) == "table" and content or {}) do
    local kind = type(part) == "table" and part.type
    if media[kind] then
      refusal.field("messages", "a part of type '%s' cannot be read, because the model reads text "
        .. "alone; leave it out", kind)
    end
  end
end

-- Arguments of earlier calls are texts in OpenAI's messages, and objects in chat templates.
local function with_arguments(message)
  if type(message) ~= "table" or type(message.tool_calls) ~= "table" then return end
  for _, call in ipairs(message.tool_calls) do
    local about = type(call) == "table" and call["function"]
    if type(about) == "table" and type(about.arguments) == "string" then
      local ok, value = pcall(core.json_decode, about.arguments)
      if ok and type(value) == "table" then about.arguments = value end
    end
  end
end

-- A run may have a template of its own, which may be a function.
local function render(server, messages, opts)
  if type(server.template) == "function" then return server.template(messages, opts) end
  return chat.render(server.template, server.tokenizer, messages, opts)
end

-- Renders the messages of a request.  Returns ids; raises refusals.
function prompt.chat(server, request)
  if not request.messages then refusal.field("messages", "a request has some") end
  if not server.template then
    refusal.raise(400, "messages", "no_chat_template", "the model has no chat template; use "
      .. "/v1/completions")
  end
  for _, message in ipairs(request.messages) do
    check_parts(message)
    with_arguments(message)
  end
  local vars = {}
  for name, value in pairs(server.variables) do vars[name] = value end
  for name, value in pairs(request.chat_template_kwargs or {}) do vars[name] = value end
  local tools = request.tool_choice ~= "none" and request.tools or nil
  if tools and #tools == 0 then tools = nil end
  local opts = { generation_prompt = true, vars = vars, tools = tools }
  local ok, text = errors.try(render, server, request.messages, opts)
  if not ok then
    refusal.raise(400, "messages", "chat_template", "messages: %s", errors.line(text))
  end
  return server.tokenizer:encode(text)
end

local function ids_of(server, list)
  for _, id in ipairs(list) do
    if math.type(id) ~= "integer" or id < 0 or id >= server.vocab_size then
      refusal.field("prompt", "want token ids of 0 to %d", server.vocab_size - 1)
    end
  end
  return list
end

-- A prompt is a string, a list of ids, or a list of either.  Returns a list of lists of ids.
function prompt.text(server, request)
  local given = request.prompt
  if given == nil then refusal.field("prompt", "a request has one") end
  if type(given) == "string" or type(given[1]) == "number" then given = { given } end
  if #given * (request.n or 1) > MOST_COMPLETIONS then
    refusal.field("prompt", "%d prompts with n = %d are more than %d completions; send several "
      .. "requests", #given, request.n or 1, MOST_COMPLETIONS)
  end
  local list = {}
  for i, one in ipairs(given) do
    if type(one) == "string" then
      list[i] = server.tokenizer:encode(one, { special = true })
    elseif type(one) == "table" then
      list[i] = ids_of(server, one)
    else
      refusal.field("prompt", "want a string, a list of token ids, or a list of these")
    end
  end
  if #list == 0 then refusal.field("prompt", "the list is empty") end
  return list
end

-- Refuses a prompt that does not fit.
function prompt.check(server, ids)
  local most = server.limits.max_prompt_tokens
  if #ids == 0 then refusal.raise(400, "prompt", "empty_prompt", "the prompt has no token") end
  if #ids > most then
    refusal.raise(400, "messages", "context_length_exceeded", "the prompt has %d tokens, and this "
      .. "server takes %d; it is started with --max-prompt-tokens", #ids, most)
  end
end

return prompt
