-- Notes on prompts that may say something else than was meant, for `grpo check` and the start of a
-- run.
--
-- A note is { kind =, text =, convert = }: `text` is what there is to say of a row's prompt, and
-- convert is true if the prompt is what was meant, in another spelling.

local chat = require "grpo.models.chat"
local errors = require "grpo.base.errors"
local row_check = require "grpo.loop.row_check"
local row_random = require "grpo.scoring.row_random"
local sorted_pairs = require "grpo.base.sorted"
local spaces = require "grpo.jinja.spaces"
local turns = require "grpo.scoring.turns"

local prompt_notes = {}

-- The template that messages of this experiment are rendered with; nil: none.
local function template_of(config, tokenizer)
  local template = config.model.chat_template
  if template == nil then return tokenizer.chat_template end
  return template or nil
end

-- A name from a row, which may be any text, as a line can show it.
local function shown(name)
  return (tostring(name):sub(1, 40):gsub("%c", "?"))
end

local function trimmed(text) return spaces.rstrip(spaces.lstrip(text)) end

-- ---- one row -----------------------------------------------------------------------------------

local MARK = "@@text@@"
local around = setmetatable({}, { __mode = "k" }) -- [options] = what around_user returns of them

-- Returns what the template writes before and behind a text of the user; nil if it cannot be asked.
local function around_user(config, tokenizer)
  if not around[config] then
    local ok, text = errors.try(turns.rendered, config, tokenizer,
      { { role = "user", content = MARK } }, true)
    local from, to = (ok and text or ""):find(MARK, 1, true)
    around[config] = from and { trimmed(text:sub(1, from - 1)), trimmed(text:sub(to + 1)) } or {}
  end
  return table.unpack(around[config])
end

-- Is a text already rendered: does it hold special tokens, or what the template writes behind the
-- user's text?
local function looks_rendered(config, tokenizer, prompt)
  for _, id in ipairs(tokenizer:encode(prompt.given)) do
    if id ~= tokenizer.unk and tokenizer:is_special(id) then return true end
  end
  local before, behind = around_user(config, tokenizer)
  if not before then return false end
  if behind == "" and before == "" then return true end -- the template adds nothing
  return behind ~= "" and prompt.given:find(behind, 1, true) ~= nil
end

-- Is the prompt the beginning of a window of grpo.data.text, which the rest of it continues?
function prompt_notes.is_window(row, prompt)
  local text = prompt.given or prompt.text
  return type(row) == "table" and row.target and type(row.text) == "string"
    and row.text:sub(1, #text) == text
end

local function plain_text(config, tokenizer, prompt, _, row)
  if not prompt.given or config.reads_text and not config.data.prompt then return nil end
  if prompt_notes.is_window(row, prompt) then return nil end
  if not template_of(config, tokenizer) or looks_rendered(config, tokenizer, prompt) then
    return nil
  end
  return { kind = "plain_text", text = "is a plain string, but the model has a chat template, so "
    .. "that it continues the text and is not asked; return { { role = \"user\", content = text } "
    .. "}, or set model.chat_template = false if that is meant" }
end

local function two_begin_tokens(_, tokenizer, prompt)
  local first = prompt.ids[1]
  if not first or first ~= prompt.ids[2] or not tokenizer:is_special(first) then return nil end
  local why = "its ids have it twice"
  if prompt.given then
    why = "the text has it already; return messages, or the ids tokenizer:encode(text)"
  elseif prompt.messages then
    why = "the chat template writes it twice"
  end
  return { kind = "two_begin_tokens", text = ("begins with %s twice, because %s"):format(
    tokenizer:token(first), why) }
end

local function text_of(message)
  return type(message.map.content) == "string" and trimmed(message.map.content) or ""
end

-- An assistant's message at the end, behind which the template begins another one.
local function second_answer(_, _, prompt, messages)
  local last = messages and messages[messages.n]
  if not last or last.map.role ~= "assistant" then return nil end
  local text, whole = text_of(last), trimmed(prompt.text)
  if text ~= "" and whole:sub(-#text) == text then return nil end
  return { kind = "second_answer", text = "ends with a message of the assistant, behind which the "
    .. "model begins a second one; leave it out (data.target is what is to be learned), or return "
    .. "the ids tokenizer:encode(tokenizer:chat(messages, { continue_final_message = true }))" }
end

-- Their texts may be written in another form.
local rewritten = { assistant = true, tool = true, ["function"] = true, ipython = true }

local function hidden_message(_, _, prompt, messages)
  for i = 1, messages and messages.n or 0 do
    local role = messages[i].map.role
    if not rewritten[role] and not prompt.text:find(text_of(messages[i]), 1, true) then
      return { kind = "hidden_message", text = ("does not show message %d, because the chat "
        .. "template leaves out the role %s; use roles that it knows, or another template"):format(
        i, shown(role)) }
    end
  end
end

local function other_parts(_, _, _, messages)
  for i = 1, messages and messages.n or 0 do
    local content = messages[i].map.content
    for k = 1, type(content) == "table" and content.kind == "list" and content.n or 0 do
      if type(content[k].map.text) ~= "string" then
        return { kind = "other_parts", text = ("has a part of type %s in message %d, of which the "
          .. "model sees nothing, because it reads text alone"):format(
          shown(content[k].map.type), i) }
      end
    end
  end
end

local looks = { plain_text, two_begin_tokens, second_answer, hidden_message, other_parts }

-- Returns notes on the prompt of a row.
function prompt_notes.of(config, tokenizer, prompt, row)
  local list, messages, converted = {}, nil, {}
  if prompt.messages then
    local template = template_of(config, tokenizer)
    local ok, read, notes = errors.try(chat.read, prompt.messages, template)
    if ok then messages, converted = read, notes end -- a function's may be of any form
  end
  for _, look in ipairs(looks) do
    list[#list + 1] = look(config, tokenizer, prompt, messages, row)
  end
  if converted[1] then
    list[#list + 1] = { kind = "converted", convert = true,
      text = "has messages of another form: " .. converted[1] }
  end
  return list
end

-- ---- the template ------------------------------------------------------------------------------

-- Does a text name a tool?  strict: as a call, or in quotes, since its name may be any word.
local function names_tool(text, name, strict)
  local pattern = "%f[%w_]" .. name:gsub("%W", "%%%0") .. "%f[^%w_]"
  if not strict then return text:find(pattern) ~= nil end
  return text:find(pattern .. "%(") ~= nil or text:find("[\"'`<]" .. pattern) ~= nil
end

-- Do the script's own texts tell of a tool?
local function is_described(prompt, name)
  for _, message in ipairs(prompt.messages or {}) do
    local content = type(message) == "table" and message.content
    if type(content) == "string" and names_tool(content, name, message.role ~= "system") then
      return true
    end
  end
  return not prompt.messages and names_tool(prompt.text, name)
end

local function hidden_tools(config, tokenizer, prompt)
  if not config.tools then return nil end
  if prompt.messages then
    local ok, without = errors.try(turns.rendered, config, tokenizer, prompt.messages, true, false)
    if not ok or without ~= prompt.text then return nil end
  elseif config.data.target then
    return nil -- demonstrations may show them
  end
  local names = {}
  for _, tool in ipairs(turns.tools(config)) do
    if not is_described(prompt, tool.name) then names[#names + 1] = tool.name end
  end
  if #names == 0 then return nil end
  return ("tools: the model is never told of %s, because %s; %s"):format(
    table.concat(names, ", "),
    prompt.messages and "the chat template does not show tools, and no message does"
      or "the prompt is not a list of messages and does not name it",
    prompt.messages and "set a model.chat_template that does, or say in a system message what "
      .. "there is and how it is called"
      or "return messages, which a chat template renders with the tools, or say it in the text")
end

local function unread_variables(config, tokenizer, prompt, list)
  local template = template_of(config, tokenizer)
  for name in sorted_pairs(config.model.chat_template_kwargs or {}) do
    local why
    if not prompt.messages then
      why = "data.prompt gives no messages, so that no template is rendered"
    elseif not chat.mentions(template, name) then
      why = "the chat template does not read it"
    end
    if why then
      list[#list + 1] = ("model.chat_template_kwargs.%s: has no effect, because %s"):format(name,
        why)
    end
  end
end

-- Returns sentences about an experiment, by the prompt of any of its rows.
function prompt_notes.of_all(config, tokenizer, prompt)
  local list = { hidden_tools(config, tokenizer, prompt) }
  unread_variables(config, tokenizer, prompt, list)
  return list
end

-- ---- the start of a run ------------------------------------------------------------------------

-- Adds sentences about some rows of a dataset; of each kind one.  An environment is begun once.
local function look_at(config, tokenizer, part, render, list)
  local dataset, held_out, seen = config.data[part], part == "eval", {}
  local function add(kind, i, text)
    if seen[kind] then return end
    seen[kind], list[#list + 1] = true, ("data.%s: the prompt of row %d %s"):format(part, i, text)
  end
  local function row_of(i) return dataset[i] end
  for k, i in ipairs(config.environment and { 1 } or row_check.chosen(#dataset)) do
    local row
    local ok, prompt = errors.try(function()
      row = row_random.during(config, "row", i - 1, held_out, row_of, i)
      return row_random.during(config, "prompt", i - 1, held_out, render, config, tokenizer, row,
        i - 1, held_out)
    end)
    if not ok then
      add("fails", i, "cannot be made, so that a step with it stops the run: " .. tostring(prompt))
    else
      for _, note in ipairs(prompt_notes.of(config, tokenizer, prompt, row)) do
        add(note.kind, i, note.text)
      end
      if k == 1 and part == "train" then
        for _, text in ipairs(prompt_notes.of_all(config, tokenizer, prompt)) do
          list[#list + 1] = text
        end
      end
    end
  end
end

-- Returns sentences about some rows of each stage, for the start of a run.  render: prompts.render.
function prompt_notes.of_run(e, tokenizer, render)
  local list, told, notes = {}, {}, {}
  for _, spec in ipairs(e.stages) do
    for _, part in ipairs { "train", "eval" } do
      if spec.config.data[part] then look_at(spec.config, tokenizer, part, render, list) end
    end
  end
  for _, text in ipairs(list) do
    if not told[text] then told[text], notes[#notes + 1] = true, text end
  end
  return notes
end

return prompt_notes
