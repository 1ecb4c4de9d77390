-- The replies of judges, none of which is trusted.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local replies = {}

-- The reply of a program in a line, a table with an id; nil if the line is something else.
function replies.line(line)
  local ok, reply = errors.try(core.json_decode, line)
  return ok and type(reply) == "table" and math.type(reply.id) == "integer" and reply or nil
end

-- The number that a value says, true is 1.0 and false is 0.0; nil if it can be no reward.
function replies.number(value)
  if value == true then return 1.0 elseif value == false then return 0.0 end
  if type(value) ~= "number" or value ~= value then return nil end
  return math.abs(value) <= core.largest_reward and value or nil
end

-- Reads a reply: { score = number or core.none } or { answer = text }; nil and what is wrong.
function replies.of_program(reply)
  if reply.error ~= nil then return nil, "it says: " .. tostring(reply.error):sub(1, 200) end
  local score = reply.score
  if score == core.json_null then return { score = core.none } end
  score = replies.number(score)
  if score then return { score = score } end
  if type(reply.answer) == "string" then return { answer = reply.answer } end
  return nil, "it answered without a score, which is a number of at most 1e30, true, false or null"
end

local LONGEST = 256 -- bytes of a text that may be a verdict

local function trimmed(text) return #text <= LONGEST and text:match("^%s*(.-)%s*$") or nil end

-- Log-probabilities of verdicts among the likeliest first tokens; spaces around them do not count.
local function weigh(grades, first)
  local logprobs = {}
  for _, one in ipairs(type(first.top_logprobs) == "table" and first.top_logprobs or { first }) do
    local name = type(one) == "table" and type(one.token) == "string" and trimmed(one.token)
    local p = name and grades[name] and replies.number(one.logprob)
    if p then
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
function replies.of_server(grades, body)
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

return replies
