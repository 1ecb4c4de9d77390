local core = require "grpo.core"
local errors = require "grpo.base.errors"
local display = require "grpo.runs.display"
local flags = require "grpo.cli.flags"
local loading = require "grpo.models.loading"
local model_paths = require "grpo.models.paths"
local text_stream = require "grpo.models.text_stream"

local command = {
  usage = "chat MODEL [--system TEXT] [--max N] [--temperature T] [--top-p P] [--top-k K] [--min-p P] [--seed S] "
    .. "[--quantize nf4|int8] [--compute f32|bf16] [--base DIR] [--threads N]",
  words = 1,
  summary = "talk to a model, a run, a checkpoint or an adapter",
  flags = { system = "text", max = "value", temperature = "value", ["top-p"] = "value", ["top-k"] = "value",
    ["min-p"] = "value", seed = "value", quantize = "value", compute = "value", base = "value", threads = "value" },
  help = [[
MODEL is a model directory, a run directory (its newest checkpoint), a checkpoint, an adapter or a .gguf file.
The model's chat template renders the conversation; a model without one continues what you type.
The answer appears as it is made; Ctrl-C stops it.

  --system TEXT     what the model is told first
  --max N           longest answer in tokens (default 1024)
  --temperature T   0 is greedy; default: the model's generation_config.json, else 1.  So --top-p, --top-k, --min-p
  --seed S          another conversation from the same words (default 0)
  --quantize Q      nf4 or int8: the model's weights in less memory
  --compute C       f32 or bf16: the products of the weights (default: auto)
  --base DIR        the model that an adapter belongs to, in place of the one it names

  /reset            begin again         /system TEXT   another system message, and begin again
  /save FILE        the conversation as JSON           /help   this list         /exit   or Ctrl-D: leave
  """               begins and ends a message of several lines; what is pasted is one message

Without a terminal every line of standard input is a message, and only answers are printed.]],
}

local Chat = {}
Chat.__index = Chat

-- ---- lines ----------------------------------------------------------------------------------------------

-- Where lines come from: the terminal, with editing, or standard input.
local function reader()
  if not core.isatty(0) then
    return { line = function() return io.read("l") end, more = function() return false end, close = function() end }
  end
  core.edit.open(nil, ".grpo_chat_history")
  return {
    line = function(prompt) return core.edit.read(prompt) end, more = core.edit.pending,
    remember = core.edit.remember, close = core.edit.close, terminal = true,
  }
end

-- One message: a line; lines between """ and """; or lines that were pasted together.  false: Ctrl-C; nil: the end.
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

-- ---- the conversation -------------------------------------------------------------------------------------

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
  if path == "" then return "/save: want a file's name" end
  local ok, message = core.fs.write(path, core.json_encode(chat.messages, { indent = 2 }) .. "\n")
  return ok and ("saved %d messages in %s"):format(#chat.messages, path) or message
end

function commands.help() return command.help:match("\n\n(  /reset.*)\n\nWithout") end

-- Runs "/NAME REST"; true to leave.
function Chat:command(line)
  local name, rest = line:match("^/(%a+)%s*(.-)%s*$")
  if name == "exit" or name == "quit" then return true end
  local run = commands[name]
  local answer = run and run(self, rest) or not run and ("no such command: %s; /help lists them"):format(line)
  if answer then core.err(answer .. "\n") end
  return false
end

-- The ids that the model goes on from.
function Chat:prompt(text)
  if not self.template then return self.tokenizer:encode(text, { special = true }) end
  self.messages[#self.messages + 1] = { role = "user", content = text }
  local rendered = self.tokenizer:chat(self.messages, { generation_prompt = true })
  return self.tokenizer:encode(rendered)
end

-- Generates and shows; returns the text.
function Chat:answer(ids)
  local options = {}
  for k, v in pairs(self.sampling) do options[k] = v end
  local room = loading.context(self.model) - #ids
  if room < 1 then
    error(core.error("EARG", ("the conversation has %d tokens and fills the model's context; /reset begins again")
      :format(#ids)), 0)
  end
  options.max_new_tokens, options.seed = math.min(options.max_new_tokens, room), self.seed + self.turn
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
    if result[1].finish == "length" and self.terminal then core.err("(cut at --max or at the end of the context)\n") end
    return text
  end
  if core.edit.interrupted() then return text end
  error(result, 0)
end

function Chat:take(text)
  local ids = self:prompt(text)
  self.turn = self.turn + 1
  local said = self:answer(ids)
  if self.template then self.messages[#self.messages + 1] = { role = "assistant", content = said } end
end

-- One message of the user's; an error is shown and forgotten, with the message.
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

-- ---- starting ------------------------------------------------------------------------------------------------

-- What the model's own generation_config.json says of sampling.
local function own_sampling(place)
  local text = core.fs.read(place.path .. "/generation_config.json")
  local ok, own = pcall(core.json_decode, text or "{}")
  own = ok and type(own) == "table" and own or {}
  if own.do_sample == false then return { temperature = 0 } end
  local function number(name)
    return type(own[name]) == "number" and own[name] or nil
  end
  return { temperature = number "temperature", top_p = number "top_p", top_k = number "top_k", min_p = number "min_p",
    repetition_penalty = number "repetition_penalty" }
end

local function make_chat(o)
  local model, place = loading.open(o.words[1], { base = o.flags.base,
    quantize = flags.choice(o, "quantize", "nf4", "int8"),
    compute = flags.choice(o, "compute", "f32", "bf16", "auto"), grow = true })
  local own = own_sampling(place)
  if not model.tokenizer then
    error(core.error("ENOENT", ("chat: %s: there is no tokenizer beside the model"):format(place.path)), 0)
  end
  return setmetatable({
    model = model, tokenizer = model.tokenizer, template = model.tokenizer.chat_template ~= nil, turn = 0,
    system = o.flags.system, seed = flags.integer(o, "seed", 0, 0), messages = {}, terminal = core.isatty(1),
    sampling = {
      max_new_tokens = flags.integer(o, "max", 1, 1024), top_p = flags.number(o, "top-p", own.top_p),
      temperature = flags.number(o, "temperature", own.temperature or 1.0), min_p = flags.number(o, "min-p", own.min_p),
      top_k = flags.integer(o, "top-k", 0, own.top_k), repetition_penalty = own.repetition_penalty,
    },
  }, Chat)
end

function command.run(o)
  if not o.words[1] then error(core.error("EARG", "chat: which model? usage: grpo " .. command.usage), 0) end
  flags.threads(o)
  if core.isatty(2) then core.err(("loading %s ...\n"):format(o.words[1])) end
  local chat, alone = make_chat(o), model_paths.alone(o.words[1])
  if alone then core.err("note: " .. alone .. "\n") end
  chat:reset()
  if not chat.template then
    core.err("note: the model has no chat template: it continues what you write, and knows of nothing before\n")
    if chat.system then error(core.error("EARG", "--system: the model has no chat template to put it into"), 0) end
  elseif core.isatty(0) then
    core.err("/help lists the commands; Ctrl-D leaves\n")
  end
  local input = reader()
  local ok, err = core.protected(chat.loop, chat, input)
  input.close()
  if not ok then error(err, 0) end
end

return command
