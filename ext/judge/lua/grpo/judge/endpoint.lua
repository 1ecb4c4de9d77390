-- A judge behind an address that speaks OpenAI's protocol: POST URL/chat/completions.

local bearer = require "grpo.base.bearer"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local Queue = require "grpo.judge.queue"
local replies = require "grpo.judge.replies"

local TOP_LOGPROBS = 20 -- the most that the protocol gives

local Endpoint = {}
Endpoint.__index = Endpoint

function Endpoint.new(o)
  if not o.url:find("^https?://.") then
    errors.raise("EARG", "judge.url: got %s, want an http:// or https:// address", o.url)
  end
  local url = o.url:gsub("/+$", "")
  if not url:find("/chat/completions$") then url = url .. "/chat/completions" end
  local headers = { "Content-Type: application/json", "Accept: application/json" }
  if o.key_env then
    headers[#headers + 1] = "Authorization: " .. bearer("judge.key_env", o.key_env)
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

-- Reads what came of a request: a result; or nil, what is wrong, and whether that is final.
local function result_of(grades, answer)
  if answer.problem then return nil, answer.problem end
  local status = answer.status
  if status ~= 200 then
    local again = status == 408 or status == 429 or status >= 500
    return nil, ("it answered with status %d: %s"):format(status,
      (answer.body:sub(1, 60):gsub("%s+", " "))), not again
  end
  return replies.of_server(grades, answer.body)
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
  local http = self.http or core.http_client "a judge behind an address cannot be asked"
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
