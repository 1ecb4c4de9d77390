-- One conversation between a program and the model that is trained, as a completion with turns: the
-- ids that the model sampled with their log-probabilities, and between them those of what the
-- program said.

local core = require "grpo.core"
local refusal = require "grpo.serve.refusal"
local turns = require "grpo.scoring.turns"

local Session = {}
Session.__index = Session

local MOST_TURNS = 4095 -- the number of a turn is a part of the address of its random numbers

-- place: { prompt = of the stage's source, k = which sample of it, step = }
function Session.new(config, tokenizer, place)
  return setmetatable({ config = config, tokenizer = tokenizer, place = place, messages = {},
    ids = {}, logprobs = {}, sampled = {}, parts = {}, turns = 0 }, Session)
end

-- ---- does a request continue what was said? -------------------------------------------------

local function text_of(content)
  if type(content) == "string" then return content end
  local texts = {}
  for i, part in ipairs(type(content) == "table" and content or {}) do
    texts[i] = type(part) == "table" and tostring(part.text) or tostring(part)
  end
  return table.concat(texts)
end

-- A message as one text: clients add fields that say nothing, and write null in different ways.
local function canonical(message)
  if type(message) ~= "table" then return "" end
  local text = text_of(message.content):gsub("^%s+", ""):gsub("%s+$", "")
  local list = { tostring(message.role), text }
  for _, call in ipairs(type(message.tool_calls) == "table" and message.tool_calls or {}) do
    local about = type(call) == "table" and call["function"] or {}
    local arguments = about.arguments
    if type(arguments) == "string" then
      local ok, value = pcall(core.json_decode, arguments)
      if ok then arguments = value end
    end
    list[#list + 1] = tostring(about.name)
    list[#list + 1] = core.json_encode(arguments)
  end
  return table.concat(list, "\0")
end

-- The messages of a request that were not there before; refuses one that does not continue the
-- conversation.
local function new_messages(self, given)
  for i, known in ipairs(self.messages) do
    if not given[i] or canonical(given[i]) ~= known then
      refusal.raise(409, "messages", "does_not_continue", "message %d is not what was said: a "
        .. "session is one conversation, and each request begins with all messages of the one "
        .. "before and the answer to it; open another session for another conversation", i)
    end
  end
  local list = table.move(given, #self.messages + 1, #given, 1, {})
  if #list == 0 then
    refusal.raise(409, "messages", "does_not_continue", "nothing was said after the last answer")
  end
  return list
end

-- Does a request ask for the last answer again?  A connection that broke may have taken it away.
local function asks_again(self, given)
  if not self.before or #given ~= #self.messages - 1 then return false end
  for i, message in ipairs(given) do
    if canonical(message) ~= self.messages[i] then return false end
  end
  return true
end

-- The lists that a turn adds to.
local growing = { "ids", "logprobs", "sampled", "parts", "messages" }

-- Forgets the last answer: the next one to the same request has the same random numbers.
local function forget_answer(self)
  for _, name in ipairs(growing) do
    for i = #self[name], self.before[name] + 1, -1 do self[name][i] = nil end
  end
  self.turns, self.prompt, self.before = self.turns - 1, self.before.prompt, nil
end

-- ---- a request --------------------------------------------------------------------------------

-- The ids that stand before the answer to a request.  render: prompt.chat for the first one.
function Session:begin(request, render)
  if self.busy then
    refusal.raise(409, nil, "busy", "the session is answering another request")
  end
  if (request.n or 1) ~= 1 then refusal.field("n", "a session has one conversation") end
  if asks_again(self, request.messages or {}) then forget_answer(self) end
  if self.turns >= MOST_TURNS then refusal.raise(400, nil, "session_full", "too many turns") end
  local reply = {}
  if not self.prompt then
    self.first = render()
    local most = self.config.data.max_prompt_tokens
    if #self.first > most then
      refusal.raise(400, "messages", "context_length_exceeded", "the prompt has %d tokens, and "
        .. "data.max_prompt_tokens is %d", #self.first, most)
    end
  else
    local turn = self.parts[#self.parts]
    reply = turns.following(self.config, self.tokenizer,
      table.move(self.ids, turn.first, turn.last, 1, {}), new_messages(self, request.messages),
      request.tools or false)
  end
  self.room = self.config.sampling.max_new_tokens - #self.ids - #reply
  if self.room < 1 then
    refusal.raise(400, "messages", "session_full", "the conversation has %d tokens behind its "
      .. "prompt, and sampling.max_new_tokens is %d; post the reward", #self.ids + #reply,
      self.config.sampling.max_new_tokens)
  end
  self.reply = reply
  local ids = table.move(self.prompt or self.first, 1, #(self.prompt or self.first), 1, {})
  table.move(self.ids, 1, #self.ids, #ids + 1, ids)
  return table.move(reply, 1, #reply, #ids + 1, ids)
end

-- The options of core.feed: those of the run, whatever a request says, because it trains on the
-- log-probabilities.
function Session:options(request)
  local sampling, o = self.config.sampling, { n = 1, seed = self.config.seed }
  for _, name in ipairs { "temperature", "top_p", "top_k", "min_p", "repetition_penalty" } do
    o[name] = sampling[name]
  end
  local stop = request.stop or {}
  for _, s in ipairs(type(sampling.stop) == "table" and sampling.stop or { sampling.stop }) do
    stop[#stop + 1] = s
  end
  request.stop, o.stop = stop, stop
  o.max_new_tokens = math.min(request.max_tokens, self.room)
  o.step, o.prompt = self.place.step, self.place.prompt.number
  o.sample = (self.place.k - 1) * (MOST_TURNS + 1) + self.turns
  return o
end

local function add(self, ids, logprobs, part)
  part.first = #self.ids + 1
  for i, id in ipairs(ids) do
    local at = #self.ids + 1
    self.ids[at], self.logprobs[at] = id, logprobs and logprobs[i] or 0.0
    self.sampled[at] = logprobs ~= nil
  end
  part.last = #self.ids
  part.text = self.tokenizer:decode(ids, { skip_special = true })
  self.parts[#self.parts + 1] = part
end

-- Takes the answer to a request: the tokens that were sampled, and the message that was sent.
function Session:take(request, choice, message)
  self.before = { prompt = self.prompt }
  for _, name in ipairs(growing) do self.before[name] = #self[name] end
  self.prompt = self.prompt or self.first
  if #self.reply > 0 then add(self, self.reply, nil, { role = "environment" }) end
  add(self, choice.ids, choice.logprobs, { role = "assistant", finish = choice.finish })
  self.turns = self.turns + 1
  self.given = self.given or request.messages
  for i = #self.messages + 1, #request.messages do
    self.messages[i] = canonical(request.messages[i])
  end
  -- The client has what JSON can hold of the text.
  self.messages[#self.messages + 1] = canonical(core.json_decode(core.json_encode(message)))
  self.finish = choice.finish
end

return Session
