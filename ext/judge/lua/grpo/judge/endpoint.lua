-- A judge behind an address that speaks OpenAI's protocol: POST URL/chat/completions.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local Queue = require "grpo.judge.queue"

local TOP_LOGPROBS = 20 -- the most that the protocol gives

local Endpoint = {}
Endpoint.__index = Endpoint

function Endpoint.new(o)
  local url = o.url:gsub("/+$", "")
  if not url:find("/chat/completions$") then url = url .. "/chat/completions" end
  local headers = { "Content-Type: application/json", "Accept: application/json" }
  if o.key_env then
    local key = os.getenv(o.key_env)
    if not key or key == "" then
      errors.raise("EARG", "judge.key_env: the variable %s is not set; put the key there",
        o.key_env)
    end
    headers[#headers + 1] = "Authorization: Bearer " .. key
  end
  return setmetatable({ o = o, url = url, headers = headers, source = url }, Endpoint)
end

-- The body of a request.
function Endpoint:body(question)
  local prompt = question.prompt
  local body = { model = self.o.model or "default", temperature = 0,
    max_tokens = self.o.verdicts and 1 or self.o.max_new_tokens,
    messages = type(prompt) == "string" and { { role = "user", content = prompt } } or prompt }
  if self.o.verdicts then body.logprobs, body.top_logprobs = true, TOP_LOGPROBS end
  for name, value in pairs(self.o.request or {}) do body[name] = value end
  return core.json_encode(body)
end

local function trimmed(text) return text:match("^%s*(.-)%s*$") end

-- Log-probabilities of verdicts among the likeliest first tokens; spaces around them do not count.
local function weigh(grades, first)
  local logprobs = {}
  for _, one in ipairs(type(first.top_logprobs) == "table" and first.top_logprobs or { first }) do
    local name = type(one) == "table" and type(one.token) == "string" and trimmed(one.token)
    local p = name and type(one.logprob) == "number" and one.logprob or nil
    if p and grades[name] then
      local had = logprobs[name]
      logprobs[name] = had and math.max(had, p) + math.log(1 + math.exp(-math.abs(had - p))) or p
    end
  end
  return next(logprobs) and logprobs
end

-- Follows names through tables; nil where there is none.
local function at(value, ...)
  for _, name in ipairs { ... } do
    if type(value) ~= "table" then return nil end
    value = value[name]
  end
  return value
end

-- Reads an answer: { logprobs = } or { answer = text }; nil and what is wrong.
local function read(grades, body)
  local ok, reply = errors.try(core.json_decode, body)
  if not ok then return nil, "its answer is not JSON: " .. body:sub(1, 60) end
  local choice = at(reply, "choices", 1)
  local text = at(choice, "message", "content")
  if not grades then
    if type(text) == "string" then return { answer = text } end
    return nil, "its answer has no choices[0].message.content"
  end
  local first = at(choice, "logprobs", "content", 1)
  local logprobs = type(first) == "table" and weigh(grades, first)
  text = type(text) == "string" and text or nil
  if logprobs then return { logprobs = logprobs, answer = text } end
  local word = text and trimmed(text)
  if word and grades[word] then return { logprobs = { [word] = 0.0 }, answer = text } end
  return nil, ("none of the verdicts is in its answer: %s"):format(
    text and text:sub(1, 60) or "nothing")
end

-- Reads what came of a request: a result; or nil, what is wrong, and whether that is final.
local function result_of(grades, answer)
  if answer.problem then return nil, answer.problem end
  local status = answer.status
  if status ~= 200 then
    local again = status == 408 or status == 429 or status >= 500
    return nil, ("it answered with status %d: %s"):format(status,
      (answer.body:sub(1, 60):gsub("%s+", " "))), not again
  end
  return read(grades, answer.body)
end

-- Takes the answer to question i; returns whether it is there.
function Endpoint:finish(queue, answer, i)
  if not answer then return false end
  local result, problem, final = result_of(self.o.verdicts, answer)
  if result then queue:done(i, result) else queue:failed(i, problem, final) end
  return true
end

-- Answers questions { prompt = }: { logprobs = }, { answer = } or { problem = } for each.
function Endpoint:ask(questions)
  local queue, places, busy = Queue.new(#questions, self.o), {}, 0
  local http = self.http or core.judge_http()
  self.http = nil -- an error leaves requests under way, which are not ours any more
  while queue.left > 0 do
    Queue.check_signal()
    for place = 1, self.o.in_flight do
      local i = not places[place] and queue:next()
      if i then
        http:post(place, { url = self.url, headers = self.headers, body = self:body(questions[i]),
          seconds = self.o.timeout })
        places[place], busy = i, busy + 1
      end
    end
    if busy > 0 then http:step(queue:pause(0.1, busy)) else queue:rest() end
    for place = 1, self.o.in_flight do
      if places[place] and self:finish(queue, http:answer(place), places[place]) then
        places[place], busy = nil, busy - 1
      end
    end
  end
  self.http = http -- its connections stay open
  return queue.results
end

return Endpoint
