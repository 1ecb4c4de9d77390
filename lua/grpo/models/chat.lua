-- Conversations as texts: messages are read, and rendered by a chat template, as transformers'
-- apply_chat_template does.
--
-- Beyond that, messages that a template would show wrongly without a word are refused, and three
-- spellings are converted: { from =, value = } of ShareGPT, its names of roles, and contents in
-- parts where the template wants a text.

local chat_templates = require "grpo.models.chat_templates"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local jinja = require "grpo.jinja"
local options = require "grpo.options"
local spaces = require "grpo.jinja.spaces"
local values = require "grpo.jinja.values"

local chat = {}

-- ---- templates -----------------------------------------------------------------------------

-- Returns the template that a text stands for: itself, or the one of that name.  nil and what is
-- wrong if it is neither.  own: the templates of a tokenizer by name, or nil.
function chat.template(text, own)
  if own and own[text] then return own[text] end
  if chat_templates.find(text) then return chat_templates.find(text) end
  if text:find "{[{%%#]" then return text end
  local names = table.move(chat_templates.names, 1, #chat_templates.names, 1, {})
  for name in pairs(own or {}) do names[#names + 1] = name end
  table.sort(names)
  return nil, ("%q is no Jinja template, nor the name of one, %s; give a name, the template's text "
    .. "or a function(messages, opts)"):format(text:sub(1, 40), options.advice(text, names))
end

-- Returns the template that is set as tok.chat_template = text, or raises.
function chat.set(text, own)
  local template, problem = chat.template(text, own)
  if not template then errors.raise("EARG", "chat_template: %s", problem) end
  return template
end

-- Does a template read the variable of this name?  A function may.
function chat.mentions(template, name)
  if type(template) ~= "string" then return true end
  return template:find("%f[%w_]" .. name:gsub("%W", "%%%0") .. "%f[^%w_]") ~= nil
end

local function names_role(template, role)
  return type(template) ~= "string" or template:find("[\"']" .. role .. "[\"']") ~= nil
end

-- ---- reading messages ------------------------------------------------------------------------

-- The roles of ShareGPT by their names there.
local roles = { human = "user", gpt = "assistant", chatgpt = "assistant", bot = "assistant",
  bing = "assistant", observation = "tool" }

-- The fields that a message may have in place of a content.
local instead = { "tool_calls", "function_call", "reasoning_content" }

-- Returns a copy of a mapping without some of its keys, and without those that hold none.
local function without(dict, ...)
  local copy, dropped = values.dict(), {}
  for _, key in ipairs { ... } do dropped[key] = true end
  for _, key in ipairs(dict.keys) do
    local value = dict.map[key]
    if not dropped[key] and values.kind(value) ~= "none" then values.put(copy, key, value) end
  end
  return copy
end

-- The fields from and value of ShareGPT become role and content, and its roles get the usual names
-- unless the template knows them.
local function from_sharegpt(message, template, tell)
  local from, value = message.map.from, message.map.value
  if message.map.role == nil and type(from) == "string" and message.map.content == nil then
    local made = values.dict()
    values.put(made, "role", from)
    if value ~= nil then values.put(made, "content", value) end
    for _, key in ipairs(message.keys) do
      if key ~= "from" and key ~= "value" then values.put(made, key, message.map[key]) end
    end
    message = made
    tell("is { from, value } and is read as { role, content }")
  end
  local role = message.map.role
  if type(role) == "string" and roles[role] and not names_role(template, role) then
    message.map.role = roles[role]
    tell(("has the role %s, which is read as %s"):format(role, roles[role]))
  end
  return message
end

local reasoning_names = { "reasoning_content", "thinking", "reasoning" }

-- The three names of a message's reasoning are one thing: templates read the first or the second.
local function with_reasoning(message)
  local reasoning
  for _, name in ipairs(reasoning_names) do reasoning = reasoning or message.map[name] end
  if not reasoning then return message end
  local made = values.dict()
  values.put(made, "thinking", message.map.thinking or reasoning)
  for _, key in ipairs(message.keys) do values.put(made, key, message.map[key]) end
  values.put(made, "reasoning_content", reasoning)
  return made
end

local function part_problem(part)
  if type(part) ~= "table" or part.kind ~= "dict" then
    return ("is a %s"):format(type(part) == "table" and "list" or type(part))
  end
  local says_text = part.map.type == "text" or part.map.type == nil
  return says_text and type(part.map.text) ~= "string" and "has no text" or nil
end

-- A content in parts, each of which is a mapping with a type.  A list of strings is one text.
local function with_types(content)
  local list, strings = {}, 0
  for i = 1, content.n do
    local part = content[i]
    strings = strings + (type(part) == "string" and 1 or 0)
    local text = part
    if type(part) == "table" and part.kind == "dict" and part.map.type == nil then
      text = part.map.text
    end
    list[i] = part
    if type(text) == "string" then
      list[i] = values.dict()
      values.put(list[i], "type", "text")
      values.put(list[i], "text", text)
    end
  end
  if strings == 0 or strings < content.n then return values.list(list) end
  return table.concat(content, "", 1, content.n)
end

-- Says what is wrong with the content of a message, or returns nil.
local function content_problem(message)
  local content = message.map.content
  if content == nil or type(content) == "table" and values.is_list(content) and content.n == 0 then
    for _, name in ipairs(instead) do
      if message.map[name] ~= nil then return nil end
    end
    return "has no content"
  end
  if type(content) == "string" then return nil end
  if type(content) == "table" and values.is_list(content) then
    for i = 1, content.n do
      local problem = part_problem(content[i])
      if problem then return ("has a content whose part %d %s"):format(i, problem) end
    end
    return nil
  end
  local any = message.map.role ~= "user" and message.map.role ~= "system"
  if any and type(content) == "table" then return nil end -- what a tool has returned
  return ("has a %s as its content"):format(
    type(content) == "table" and "table" or type(content))
end

local WANT = "want { role = \"user\", content = a string or a list of parts }"

local function read_message(item, i, template, tell)
  if type(item) ~= "table" or item.kind ~= "dict" then
    local kind = type(item) == "table" and item.kind or "a " .. type(item)
    errors.raise("EARG", "message %d is %s, %s", i,
      ({ none = "null", list = "a list" })[kind] or kind, WANT)
  end
  local message = from_sharegpt(without(item), template, tell)
  local role = message.map.role
  if type(role) ~= "string" or role == "" then
    errors.raise("EARG", "message %d has no role, %s", i, WANT)
  end
  message = with_reasoning(message)
  local content = message.map.content
  if type(content) == "table" and values.is_list(content) then
    message.map.content = with_types(content)
  end
  local problem = content_problem(message)
  if problem then
    errors.raise("EARG", "message %d (role %s) %s, %s", i, role:sub(1, 40), problem, WANT)
  end
  return message
end

-- Reads messages for a template: returns a list of Jinja's, and sentences about what was converted.
-- Raises about messages that no template can show.
function chat.read(messages, template)
  local ok, given = pcall(values.from_lua, messages)
  if not ok then errors.raise("EARG", "messages: %s", tostring(given)) end
  if type(given) ~= "table" or not values.is_list(given) then
    errors.raise("EARG", "messages: got one mapping, want a list of messages: { { role =, content "
      .. "= } }")
  end
  if given.n == 0 then
    errors.raise("EARG", "messages: the list is empty; give at least one message")
  end
  local list, notes = {}, {}
  for i = 1, given.n do
    list[i] = read_message(given[i], i, template, function(what)
      notes[#notes + 1] = ("message %d %s"):format(i, what)
    end)
  end
  return values.list(list), notes
end

-- ---- contents in parts -------------------------------------------------------------------------

-- Returns the text of a content in parts, if all of them are texts; or nil.
local function joined(content)
  local texts = {}
  for i = 1, content.n do
    texts[i] = content[i].map.text
    if type(texts[i]) ~= "string" then return nil end
  end
  return table.concat(texts)
end

-- Returns messages whose contents in parts are texts; nil if there are none to join.
local function with_texts(messages)
  local list, any = {}, false
  for i = 1, messages.n do
    local content = messages[i].map.content
    local text
    if type(content) == "table" and values.is_list(content) then text = joined(content) end
    list[i] = messages[i]
    if text then
      any, list[i] = true, without(messages[i])
      list[i].map.content = text
    end
  end
  return any and values.list(list) or nil
end

-- Renders, and renders the texts of parts where the template takes a content for a string: it
-- fails, or shows how Python or JSON write the list.
local function render(source, vars)
  local template = jinja.compiled(source)
  local plain = with_texts(vars.messages)
  if not plain then return (template:render(vars)) end
  local ok, text = errors.try(template.render, template, vars)
  if ok and not text:find("[\"']type[\"']: [\"']text[\"']") then return text end
  vars.messages = plain
  return (template:render(vars))
end

-- ---- continuing the last message ---------------------------------------------------------------

local TAG = "CONTINUE_FINAL_MESSAGE_TAG "

-- Puts the tag behind the last text of a list of parts; returns that text.
local function tag_part(content)
  for i = content.n, 1, -1 do
    local part = content[i]
    local text = part.map.text
    if type(text) == "string" then
      part = without(part)
      part.map.text, content[i] = text .. TAG, part
      return text
    end
  end
end

-- Puts the tag behind the field of the last message that is continued, under all names of it.
-- Returns the text that it ended with.
local function tag_last(source, messages, field)
  local last = messages[messages.n]
  local final, fields = last.map[field], { field }
  for _, name in ipairs(reasoning_names) do
    if field == name then fields = reasoning_names end
  end
  local read = false
  for _, name in ipairs(fields) do read = read or source:find(name, 1, true) ~= nil end
  if not read then
    errors.raise("EARG", "chat: continue_final_message: the template does not read '%s'", field)
  end
  local text = final
  if type(final) == "table" and values.is_list(final) then
    local copy = values.list(table.move(final, 1, final.n, 1, {}), final.n)
    last.map[field] = copy
    text = tag_part(copy)
  elseif type(final) == "string" then
    for _, name in ipairs(fields) do
      if last.map[name] == final then last.map[name] = final .. TAG end
    end
  end
  if type(text) ~= "string" then
    errors.raise("EARG", "chat: continue_final_message: the last message has no text in '%s'",
      field)
  end
  return text
end

-- Cuts a rendered text where the tag is.  If the template trims the content, the prompt does not
-- have the space at its end.
local function cut_at_tag(text, final)
  local tag = TAG:sub(1, -2)
  local behind = text:reverse():find(tag:reverse(), 1, true)
  if not behind or not text:find(spaces.rstrip(spaces.lstrip(final)), 1, true) then
    errors.raise("EARG",
      "chat: continue_final_message: the template does not show the last message as it is")
  end
  local from = #text - (behind - 1) - #tag + 1
  local before = text:sub(1, from - 1)
  return text:sub(from, from + #TAG - 1) == TAG and before or spaces.rstrip(before)
end

-- ---- rendering -------------------------------------------------------------------------------

local known = { "generation_prompt", "continue_final_message", "tools", "documents", "vars",
  "chat_template" }

local function check_options(opts)
  for name in pairs(opts) do
    if not options.among(name, known) then
      errors.raise("EARG", "chat: there is no option '%s', want %s", tostring(name),
        (table.concat(known, ", "):gsub(", (%w+)$", " or %1")))
    end
  end
  if opts.vars ~= nil and type(opts.vars) ~= "table" then
    errors.raise("EARG", "chat: vars: want a table")
  end
  if opts.generation_prompt and opts.continue_final_message then
    errors.raise("EARG", "chat: generation_prompt begins a new message, but continue_final_message "
      .. "continues the last one; set only one of them")
  end
end

-- Renders messages with a Jinja source, which sees the tokenizer's special tokens by their names.
-- opts.vars: further variables of the template.
function chat.render(source, tokenizer, messages, opts)
  opts = opts or {}
  check_options(opts)
  local vars = {}
  for _, name in ipairs { "bos", "eos", "pad", "unk", "sep", "cls", "mask" } do
    local id = tokenizer[name]
    vars[name .. "_token"] = id and tokenizer:token(id)
  end
  for name, value in pairs(opts.vars or {}) do vars[name] = value end
  for _, name in ipairs { "tools", "documents" } do
    if opts[name] ~= nil then vars[name] = opts[name] end
    if vars[name] == nil then vars[name] = core.json_null end
  end
  vars.messages = chat.read(messages, source)
  vars.add_generation_prompt = opts.generation_prompt and true or false
  local continued = opts.continue_final_message
  if not continued then return render(source, vars) end
  local final = tag_last(source, vars.messages, continued == true and "content" or continued)
  return cut_at_tag(render(source, vars), final)
end

return chat
