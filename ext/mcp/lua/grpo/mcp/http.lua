-- A server behind an address: each message is a POST, which is answered by JSON or by an event
-- stream that ends (the protocol's "Streamable HTTP").

local bearer = require "grpo.base.bearer"
local core = require "grpo.core"
local messages = require "grpo.mcp.messages"

local SECONDS = 10 -- for a message that wants no answer

local Http = {}
Http.__index = Http

function Http.new(o)
  local self = setmetatable({ url = o.url, source = o.url }, Http)
  if o.key_env then self.key = "Authorization: " .. bearer("mcp.key_env", o.key_env) end
  return self
end

function Http:is_open() return self.requests ~= nil end

function Http:open()
  self.requests = core.http_client "a server of tools behind an address cannot be asked"
end

function Http:close()
  if self.requests then self.requests:close() end
  self.requests, self.session, self.version = nil, nil, nil
end

function Http:headers()
  local list = { "Content-Type: application/json", "Accept: application/json, text/event-stream" }
  if self.version then list[#list + 1] = "MCP-Protocol-Version: " .. self.version end
  if self.session then list[#list + 1] = "Mcp-Session-Id: " .. self.session end
  list[#list + 1] = self.key
  return list
end

-- The value of a line of the header of an answer, or nil.
local function header(answer, name)
  for line in answer.header:gmatch("[^\r\n]+") do
    local own, value = line:match("^([%w-]+):%s*([\x21-\x7e]*)")
    if own and own:lower() == name then return value end
  end
end

-- Sends a message; returns the answer of HTTP, or nil and what is wrong.
function Http:post(message, seconds)
  local till = core.clock() + seconds
  self.requests:post(1, { url = self.url, headers = self:headers(),
    body = core.json_encode(message), seconds = seconds })
  local answer
  repeat
    self.requests:step(math.max(0.0, till + 1 - core.clock()))
    if core.signal_waits() then error("interrupted by a signal", 0) end
    answer = self.requests:answer(1)
  until answer or core.clock() > till + 1
  if not answer then return nil, ("it has not answered within %g seconds"):format(seconds) end
  if answer.problem then return nil, answer.problem end
  if answer.status < 200 or answer.status > 299 then
    return nil, ("it answered with status %d: %s"):format(answer.status,
      (answer.body:sub(1, 60):gsub("%s+", " ")))
  end
  self.session = self.session or header(answer, "mcp-session-id")
  return answer
end

-- Sends a request and returns its answer, like Stdio:request.
function Http:request(message, seconds, other)
  local answer, problem = self:post(message, seconds)
  if not answer then return nil, problem end
  local found
  local streamed = (header(answer, "content-type") or ""):find("^text/event%-stream")
  for _, text in ipairs(streamed and messages.events(answer.body) or { answer.body }) do
    local got
    got, problem = messages.read(text)
    if not got then return nil, problem end
    if got.id == message.id and got.method == nil then found = got else other(got) end
  end
  if not found then return nil, "it has ended its answer without a result" end
  return found
end

function Http:tell(message) self:post(message, SECONDS) end

return Http
