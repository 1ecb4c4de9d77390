-- A request to the endpoints of OpenAI's protocol while it is answered: its prompts wait for a
-- place in the decoder, its completions grow, and its answer goes out whole or in pieces.

local Choice = require "grpo.serve.choice"
local bound = require "grpo.serve.bound"
local calls = require "grpo.serve.calls"
local core = require "grpo.core"
local fields = require "grpo.serve.fields"
local prompt = require "grpo.serve.prompt"
local refusal = require "grpo.serve.refusal"

local Ask = {}
Ask.__index = Ask

local objects = {
  chat = { whole = "chat.completion", piece = "chat.completion.chunk", id = "chatcmpl-" },
  text = { whole = "text_completion", piece = "text_completion", id = "cmpl-" },
}

-- A session itself says how much room it has.
local of_session = { max_new_tokens = 1 << 30 }

-- The options of core.feed for a request.
local function sampling_of(server, request)
  local own, o = server.sampling, {}
  for _, name in ipairs { "temperature", "top_p", "top_k", "min_p", "repetition_penalty" } do
    o[name] = request[name]
    if o[name] == nil then o[name] = own[name] end
  end
  o.max_new_tokens, o.stop, o.n = request.max_tokens, request.stop, request.n or 1
  o.seed = request.seed or server:new_seed()
  return o
end

-- How many of the likeliest tokens an answer shows, and whether it shows log-probabilities.
local function logprobs_of(kind, request)
  if kind == "text" then return request.logprobs ~= nil, request.logprobs or 0 end
  if request.top_logprobs and not request.logprobs then
    refusal.field("top_logprobs", "wants logprobs = true")
  end
  return request.logprobs or false, request.top_logprobs or 0
end

-- The prompts of a request, each a list of ids.
local function prompts_of(self)
  local server, request, session = self.server, self.request, self.session
  if self.kind == "text" then return prompt.text(server, request) end
  local function render() return prompt.chat(server, request) end
  return { session and session:begin(request, render) or render() }
end

-- kind: "chat" or "text"; http: the number of the request; session: the one that it belongs to, or
-- nil.  Raises refusals.
function Ask.new(server, kind, http, body, session)
  local request = fields.read(kind, body, session and of_session or server.limits)
  if request.model and request.model ~= server.name then
    refusal.raise(404, "model", "model_not_found", "the model '%s' is not here; this server has "
      .. "'%s'", request.model, server.name)
  end
  local default = kind == "text" and 16 or server.limits.max_new_tokens
  request.max_tokens = request.max_completion_tokens or request.max_tokens
    or math.min(default, server.limits.max_new_tokens)
  local self = setmetatable({ server = server, kind = kind, http = http, request = request,
    session = session, created = os.time(), choices = {}, waiting = {}, jobs = {},
    prompt_tokens = 0 }, Ask)
  self.logprobs, self.top = logprobs_of(kind, request)
  self.id = objects[kind].id .. server:new_id()
  self.tools = kind == "chat" and request.tools and #request.tools > 0
    and request.tool_choice ~= "none"
  local grammar = bound.grammar(server, request, self.tools, session)
  self.prompts = prompts_of(self)
  for i, ids in ipairs(self.prompts) do
    prompt.check(server, ids)
    self.prompt_tokens = self.prompt_tokens + #ids
    self.waiting[i] = i
  end
  self.options = session and session:options(request) or sampling_of(server, request)
  self.options.top_logprobs, self.options.grammar = self.top, grammar
  if session then session.busy = true end
  return self
end

-- Gives waiting prompts to the decoder.  Returns false if some still wait.
function Ask:enter()
  while self.waiting[1] do
    local i = self.waiting[1]
    self.options.prompt = i - 1
    local job = self.server.feed:add(self.prompts[i], self.options)
    if not job then return false end
    table.remove(self.waiting, 1)
    self.jobs[#self.jobs + 1] = job
    for k = 1, self.options.n do
      local choice = Choice.new(self.server.tokenizer, job, k, self.request.stop)
      choice.index, choice.sent, choice.offset = (i - 1) * self.options.n + k - 1, 0, 0
      choice.prompt = self.prompts[i]
      self.choices[#self.choices + 1] = choice
    end
  end
  return true
end

-- ---- answers ----------------------------------------------------------------------------------

function Ask:usage()
  local tokens = 0
  for _, choice in ipairs(self.choices) do tokens = tokens + #choice.ids end
  return { prompt_tokens = self.prompt_tokens, completion_tokens = tokens,
    total_tokens = self.prompt_tokens + tokens }
end

function Ask:frame(what)
  return { id = self.id, object = objects[self.kind][what], created = self.created,
    model = self.server.name }
end

-- Adds the ids of tokens from..to to a choice in an answer, if the request asks for them.
function Ask:add_ids(to, choice, from, last)
  if not self.request.return_token_ids then return end
  to.token_ids = table.move(choice.ids, from, last, 1, {})
  to.token_logprobs = table.move(choice.logprobs, from, last, 1, {})
end

function Ask:logprobs_of(choice, from, last)
  if not self.logprobs then return core.json_null end
  if self.kind == "chat" then return choice:chat_logprobs(from, last) end
  local lists
  lists, choice.offset = choice:text_logprobs(from, last, choice.offset)
  return lists
end

-- The message of a whole chat completion, and why it ended.
local function message_of(self, choice)
  if choice.message then return choice.message, choice.why end
  local message, reason = { role = "assistant", content = choice:text() }, choice:reason()
  if self.tools then
    local made, before = calls.read(choice:whole_text(), choice:text(), self.id .. choice.index)
    if made then
      message.content = before ~= "" and before or core.json_null
      message.tool_calls, reason = made, "tool_calls"
    end
  end
  choice.message, choice.why = message, reason
  return message, reason
end

local function whole_choice(self, choice)
  local one = { index = choice.index, logprobs = self:logprobs_of(choice, 1, #choice.ids) }
  if self.kind == "chat" then
    one.message, one.finish_reason = message_of(self, choice)
  else
    one.text, one.finish_reason = choice:text(), choice:reason()
  end
  self:add_ids(one, choice, 1, #choice.ids)
  if self.request.return_token_ids then one.prompt_token_ids = choice.prompt end
  return one
end

function Ask:whole()
  local answer = self:frame("whole")
  answer.usage, answer.choices = self:usage(), {}
  for i, choice in ipairs(self.choices) do answer.choices[i] = whole_choice(self, choice) end
  if self.request.return_token_ids then answer.prompt_token_ids = self.prompts[1] end
  return answer
end

-- ---- answers in pieces ------------------------------------------------------------------------

function Ask:write(value)
  self.server.http:write(self.http, "data: " .. core.json_encode(value) .. "\n\n")
end

function Ask:write_piece(choice, of_choice)
  local piece = self:frame("piece")
  of_choice.index = choice.index
  of_choice.finish_reason = of_choice.finish_reason or core.json_null
  piece.choices = { of_choice }
  if self.request.stream_options and self.request.stream_options.include_usage == true then
    piece.usage = core.json_null
  end
  if self.request.return_token_ids and not choice.begun then
    piece.prompt_token_ids = choice.prompt
  end
  self:write(piece)
end

-- The first piece of a chat completion names who speaks.
function Ask:begin_choice(choice)
  if choice.begun then return end
  if self.kind == "chat" then
    self:write_piece(choice, { delta = { role = "assistant", content = "" } })
  end
  choice.begun = true
end

-- The piece of the tokens that were not sent yet.
function Ask:send_tokens(choice, delta)
  local from, last = choice.sent + 1, #choice.ids
  local one = { logprobs = self:logprobs_of(choice, from, last) }
  if self.kind == "chat" then one.delta = delta else one.text = delta.content or "" end
  self:add_ids(one, choice, from, last)
  choice.sent = last
  self:write_piece(choice, one)
end

local function end_choice(self, choice)
  local reason = choice:reason()
  if self.tools then -- a call cannot be told from a text before it is whole
    local message
    message, reason = message_of(self, choice)
    self:send_tokens(choice, { content = message.content, tool_calls = message.tool_calls })
  end
  local last = { finish_reason = reason, logprobs = core.json_null }
  if self.kind == "chat" then last.delta = core.json_object {} else last.text = "" end
  self:write_piece(choice, last)
end

function Ask:stream_choice(choice, text, over)
  self:begin_choice(choice)
  local new = #choice.ids > choice.sent
  if not self.tools and (text ~= "" or (new and over)) then
    self:send_tokens(choice, { content = text })
  end
  if over then end_choice(self, choice) end
end

function Ask:end_stream()
  local o = self.request.stream_options
  if o and o.include_usage == true then
    local piece = self:frame("piece")
    piece.choices, piece.usage = {}, self:usage()
    self:write(piece)
  end
  self.server.http:write(self.http, "data: [DONE]\n\n")
  self.server.http:finish(self.http)
end

-- ---- the life of a request --------------------------------------------------------------------

-- Takes what was decoded; returns whether the request is answered.
function Ask:advance()
  local stream, left = self.request.stream, #self.waiting > 0
  if stream and not self.streaming and #self.choices > 0 then
    self.server.http:begin(self.http, 200, "text/event-stream")
    self.streaming = true
  end
  for _, choice in ipairs(self.choices) do
    if not choice.done then
      local text, over = choice:advance()
      choice.done = over
      if stream then self:stream_choice(choice, text, over) end
      left = left or not over
    end
  end
  if left then return false end
  if self.session then
    self.session.busy = false
    self.session:take(self.request, self.choices[1], (message_of(self, self.choices[1])))
  end
  if stream then
    self:end_stream()
  else
    self.server.http:send(self.http, 200, "application/json", core.json_encode(self:whole()))
  end
  return true
end

-- Ends its decoding.
function Ask:drop()
  for _, job in ipairs(self.jobs) do self.server.feed:drop(job) end
  self.waiting = {}
  if self.session then self.session.busy = false end
end

-- Ends it with an error.
function Ask:fail(err)
  self:drop()
  local status, body = refusal.answer(err)
  if not self.streaming then
    self.server.http:send(self.http, status, "application/json", body)
    return
  end
  self.server.http:write(self.http, "data: " .. body .. "\n\n")
  self.server.http:finish(self.http)
end

return Ask
