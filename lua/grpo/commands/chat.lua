local conversations = require "grpo.models.chat"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local display = require "grpo.base.display"
local flags = require "grpo.commands.flags"
local generation_options = require "grpo.models.generation_options"
local loading = require "grpo.models.loading"
local model_paths = require "grpo.models.paths"
local model_run = require "grpo.runs.model_run"
local sorted_pairs = require "grpo.base.sorted"
local text_stream = require "grpo.models.text_stream"
local usage = require "grpo.commands.usage"
local wrap = require "grpo.base.wrap"

local messages_help = {
  { "/reset", "begin a new conversation" },
  { "/system TEXT", "set the system message, and begin a new conversation" },
  { "/save FILE", "write the conversation to FILE as JSON" },
  { "/help", "show this list" },
  { "/exit or Ctrl-D", "leave" },
  { '"""', "begin and end a message of several lines; text that is pasted is one message" },
}

local command = {
  name = "chat",
  summary = "talk to a model, a run, a checkpoint or an adapter",
  arguments = { flags.model },
  flags = {
    { name = "system", type = "text", doc = "give the model TEXT as the system message" },
    { name = "chat-template-kwargs", type = "text", value = "JSON",
      instead_of = { "enable-thinking", "no-thinking", "thinking" },
      doc = "give the chat template these variables, such as '{\"enable_thinking\": false}'; "
        .. "default: those of the run" },
    flags.with(flags.max_new_tokens, { default = 1024 }),
    flags.temperature, flags.top_p, flags.top_k, flags.min_p, flags.seed, flags.quantize,
    flags.compute, flags.base, flags.memory, flags.threads,
  },
  about = {
    "Renders the conversation with the chat template of the model; a model without a template "
      .. "continues what you type. The answer appears while it is sampled, and Ctrl-C stops it.",
  },
  notes = {
    "How tokens are sampled is taken from the model's generation_config.json where no flag says "
      .. "it; without that file the temperature is 1.",
    "A line may be a message or one of these commands:",
    messages_help,
    "Without a terminal every line of standard input is a message, and only answers are printed.",
  },
}

local Chat = {}
Chat.__index = Chat

-- ---- lines -------------------------------------------------------------------------------------

-- Lines come from the terminal, with editing, or from standard input.
local function reader()
  if not core.isatty(0) then
    return { line = function() return io.read("l") end, more = function() return false end,
      close = function() end }
  end
  core.edit.open(nil, ".grpo_chat_history")
  return {
    line = function(prompt) return core.edit.read(prompt) end, more = core.edit.pending,
    remember = core.edit.remember, close = core.edit.close,
  }
end

-- Reads one message: a line; lines between """ and """; or lines that were pasted together.
-- Returns false after Ctrl-C and nil at the end.
local function read_message(input)
  local line = input.line("> ")
  if not line then return line end
  local lines = {}
  local first = line:match('^%s*"""(.*)$')
  if first then
    line = first
    while line and not line:find('"""%s*$') do
      lines[#lines + 1] = line
      line = input.line("... ")
    end
    if not line then return line end
    lines[#lines + 1] = line:match('^(.-)"""%s*$')
    if lines[1] == "" then table.remove(lines, 1) end
    if lines[#lines] == "" then lines[#lines] = nil end
    return table.concat(lines, "\n")
  end
  lines[1] = line
  while input.more() do
    line = input.line("")
    if not line then break end
    lines[#lines + 1] = line
  end
  local text = table.concat(lines, "\n")
  if input.remember and #lines == 1 and text:find("%S") then input.remember(text) end
  return text
end

-- ---- the conversation --------------------------------------------------------------------------

function Chat:reset()
  self.messages = {}
  if self.system then self.messages[1] = { role = "system", content = self.system } end
end

local commands = {}

function commands.reset(chat) chat:reset() end

function commands.system(chat, text)
  chat.system = text ~= "" and text or nil
  chat:reset()
end

function commands.save(chat, path)
  if path == "" then return "/save needs the name of a file" end
  local text = core.json_encode(chat.messages, { indent = 2 }) .. "\n"
  local ok, message = core.fs.write(path, text)
  return ok and ("saved %d messages in %s"):format(#chat.messages, path) or message
end

function commands.help() return wrap.list(messages_help, usage.width()) end

-- Runs "/NAME REST"; true to leave.
function Chat:command(line)
  local name, rest = line:match("^/(%a+)%s*(.-)%s*$")
  if name == "exit" or name == "quit" then return true end
  local run = commands[name]
  local answer = ("there is no command %s; /help lists them"):format(line)
  if run then answer = run(self, rest) end
  if answer then core.err(answer .. "\n") end
  return false
end

-- The ids that the model continues.
function Chat:prompt(text)
  if not self.template then return self.tokenizer:encode(text, { special = true }) end
  self.messages[#self.messages + 1] = { role = "user", content = text }
  local rendered = self.tokenizer:chat(self.messages,
    { generation_prompt = true, vars = self.variables })
  return self.tokenizer:encode(rendered)
end

-- Generates and shows; returns the text.
function Chat:answer(ids)
  local options = {}
  for k, v in pairs(self.sampling) do options[k] = v end
  local room = loading.context(self.model) - #ids
  if room < 1 then
    errors.raise_plain("EARG", "the conversation has %d tokens and fills the model's context; "
      .. "/reset begins a new one", #ids)
  end
  options.max_new_tokens = math.min(options.max_new_tokens, room)
  options.seed = self.seed + self.turn
  local stream, shown = text_stream.new(self.tokenizer), {}
  local function show(piece)
    if piece == "" then return end
    shown[#shown + 1] = piece
    core.out(self.terminal and display.clean(piece) or piece)
  end
  options.on_token = function(id) show(stream:put(id)) end
  local ok, result = core.protected(self.model.generate, self.model, ids, options)
  show(stream:finish())
  core.out("\n")
  local text = table.concat(shown)
  if ok then
    if result[1].finish == "length" and self.terminal then
      core.err("(cut at --max-new-tokens or at the end of the context)\n")
    end
    return text
  end
  if core.edit.interrupted() then return text end
  error(result, 0)
end

function Chat:take(text)
  local ids = self:prompt(text)
  self.turn = self.turn + 1
  local said = self:answer(ids)
  if self.template then
    self.messages[#self.messages + 1] = { role = "assistant", content = said }
  end
end

-- Takes one message of the user; after an error the message is forgotten and the error shown.
function Chat:turn_of(text)
  local before = #self.messages
  local ok, err = core.protected(self.take, self, text)
  if ok then return end
  for i = #self.messages, before + 1, -1 do self.messages[i] = nil end
  if not self.terminal then error(err, 0) end
  core.err("grpo: " .. errors.line(err) .. "\n")
end

function Chat:loop(input)
  while true do
    local text = read_message(input)
    if text == nil then return end
    if text and text:find("^/%a") and not text:find("\n") then
      if self:command(text) then return end
    elseif text and text:find("%S") then
      self:turn_of(text)
    end
  end
end

-- ---- starting ----------------------------------------------------------------------------------

-- The variables that the template gets: those of the run, and those of the flag.
local function variables_of(run, text)
  local all = model_run.option(run, "model.chat_template_kwargs") or {}
  if not text then return all end
  local ok, given = errors.try(core.json_decode, text)
  if not ok or type(given) ~= "table" or #given > 0 then
    errors.raise_plain("EARG", "--chat-template-kwargs: got '%s', want a JSON object such as "
      .. "'{\"enable_thinking\": false}'", display.clean(text))
  end
  for name, value in pairs(given) do all[name] = value end
  return all
end

-- Notes variables that the template does not read.
local function note_variables(template, variables)
  for name in sorted_pairs(variables) do
    if not conversations.mentions(template, name) then
      core.err(("note: the chat template does not read %s, so that it has no effect\n"):format(
        display.clean(name)))
    end
  end
end

local function make_chat(o)
  local run = model_paths.run_of(o.words[1])
  local variables = variables_of(run, o.flags["chat-template-kwargs"])
  local model, place = loading.open(o.words[1], { base = o.flags.base,
    quantize = o.flags.quantize, compute = o.flags.compute, grow = true })
  local own = generation_options.own(place.path)
  if not model.tokenizer then
    errors.raise_plain("ENOENT", "chat: %s has no tokenizer beside the model", place.path)
  end
  local template, odd = model_run.template(model.tokenizer, run)
  if odd then core.err("note: " .. odd .. "\n") end
  if template then note_variables(template, variables) end
  local sampling = {
    max_new_tokens = o.flags["max-new-tokens"], repetition_penalty = own.repetition_penalty,
    temperature = o.flags.temperature or own.temperature or 1.0,
    top_p = o.flags["top-p"] or own.top_p, top_k = o.flags["top-k"] or own.top_k,
    min_p = o.flags["min-p"] or own.min_p,
  }
  local note = generation_options.note(place.path, sampling, function(name)
    return o.flags[(name:gsub("_", "-"))] ~= nil
  end, "grpo chat --help")
  if note then core.err("note: " .. note .. "\n") end
  return setmetatable({
    variables = variables, model = model, tokenizer = model.tokenizer, turn = 0, messages = {},
    template = template ~= nil, terminal = core.isatty(1),
    system = o.flags.system, seed = o.flags.seed, sampling = sampling,
  }, Chat)
end

function command.run(o)
  if core.isatty(2) then core.err(("loading %s ...\n"):format(o.words[1])) end
  local chat, alone = make_chat(o), model_run.alone(o.words[1])
  if alone then core.err("note: " .. alone .. "\n") end
  chat:reset()
  if not chat.template then
    core.err("note: the model has no chat template, so it continues what you write and does not "
      .. "see earlier messages\n")
    if chat.system then
      errors.raise_plain("EARG", "--system needs a chat template, and the model has none")
    end
  elseif core.isatty(0) then
    core.err("/help lists the commands; Ctrl-D leaves\n")
  end
  local input = reader()
  local ok, err = core.protected(chat.loop, chat, input)
  input.close()
  if not ok then error(err, 0) end
end

return command
