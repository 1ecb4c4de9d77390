-- A client of the Model Context Protocol: one server, its list of tools, and calls of these.
--
-- A server that does something wrong is ended; the next call starts it again, later each time if
-- that does not help.  So a call takes `timeout` seconds at most for the start and as many for the
-- answer.

local core = require "grpo.core"
local display = require "grpo.base.display"
local Http = require "grpo.mcp.http"
local messages = require "grpo.mcp.messages"
local Stdio = require "grpo.mcp.stdio"

local VERSION = "2025-11-25" -- a server that knows an older one says so, and that is fine
local MOST_PAGES = 100 -- of the list of tools
local LONGEST_PAUSE = 60.0 -- seconds in which a server that has failed is not started again

local Client = {}
Client.__index = Client

-- o: the options of grpo.mcp.
function Client.new(o)
  local transport = (o.command and Stdio or Http).new(o)
  return setmetatable({ o = o, transport = transport, source = transport.source, last_id = 0,
    failures = 0, in_a_row = 0, not_before = 0.0, notices = {} }, Client)
end

-- Says something about the server once.
function Client:say_once(text)
  if self.notices[text] then return end
  self.notices[text] = true
  core.notice((display.clean(("note: mcp: %s: %s"):format(self.source, text)):gsub("\n", " ")))
end

-- Says what is wrong, the first time and then ever more rarely.
function Client:fail(problem)
  self.transport:close()
  self.failures, self.in_a_row = self.failures + 1, self.in_a_row + 1
  if self.in_a_row > 1 then
    self.not_before = core.clock() + math.min(LONGEST_PAUSE, 2.0 ^ (self.in_a_row - 2))
  end
  if self.failures & (self.failures - 1) == 0 then
    core.notice((display.clean(("note: mcp: %s: %s (%d so far)"):format(self.source, problem,
      self.failures)):gsub("\n", " ")))
  end
  return nil, problem
end

-- Takes a request of the server, which gets an answer, or a notification.
function Client:take_other(message)
  local id, method = message.id, message.method
  if type(method) ~= "string" then return end
  if type(id) == "string" or type(id) == "number" then
    local answer = { jsonrpc = "2.0", id = id }
    if method == "ping" then
      answer.result = core.json_object {}
    else
      answer.error = { code = -32601, message = "this client has no " .. method:sub(1, 60) }
    end
    self.transport:tell(answer)
  elseif method == "notifications/tools/list_changed" then
    self:say_once("its list of tools has changed, and the first one stays in force")
  end
end

-- Sends a request; returns its result; or nil, the problem, and whether the server itself said so.
function Client:request(method, params, seconds)
  self.last_id = self.last_id + 1
  local ok, answer, problem = core.protected(self.transport.request, self.transport,
    { jsonrpc = "2.0", id = self.last_id, method = method, params = params }, seconds,
    function(message) self:take_other(message) end)
  if not ok then -- a signal, or a budget that is spent: an answer may still be under way
    self.transport:close()
    error(answer, 0)
  end
  if not answer then return nil, problem, false end
  local result
  result, problem = messages.result(answer)
  return result, problem, problem ~= nil
end

-- Begins a session.  Returns true, or nil and what is wrong.
function Client:begin()
  self.transport:open()
  local result, problem = self:request("initialize", { protocolVersion = VERSION,
    capabilities = core.json_object {},
    clientInfo = { name = "grpo", version = core.version().version or "0" } }, self.o.timeout)
  if not result then return nil, problem end
  local version = result.protocolVersion
  if type(version) ~= "string" or not version:find("^%d%d%d%d%-%d%d%-%d%d$") then
    return nil, "it names no version of the protocol"
  end
  self.transport.version = version
  self.transport:tell { jsonrpc = "2.0", method = "notifications/initialized" }
  return true
end

-- Returns true if there is a session, or nil and what is wrong.
function Client:ready()
  if self.transport:is_open() then return true end
  if core.clock() < self.not_before then return nil, "the server does not answer" end
  local ok, problem = self:begin()
  if not ok then return self:fail(problem) end
  return true
end

-- The tools of the server by name: { description =, parameters = a schema }; or nil and what is
-- wrong.
function Client:list()
  local ok, problem = self:ready()
  if not ok then return nil, problem end
  local found, cursor = {}, nil
  for _ = 1, MOST_PAGES do
    local page
    page, problem = self:request("tools/list", cursor and { cursor = cursor }
      or core.json_object {}, self.o.timeout)
    problem = not page and problem or messages.take_tools(page, found)
    if problem then return self:fail(problem) end
    cursor = page.nextCursor
    if type(cursor) ~= "string" then return found end
  end
  return self:fail("its list of tools has no end")
end

-- Calls a tool.  Returns its text, or nil and what is wrong, which the model reads.
function Client:call(name, arguments)
  local ok, problem = self:ready()
  if not ok then return nil, problem end
  if next(arguments) == nil then arguments = core.json_object {} end
  local result, refused
  result, problem, refused = self:request("tools/call", { name = name, arguments = arguments },
    self.o.timeout)
  if not result and not refused then return self:fail(problem) end
  self.in_a_row = 0
  if not result then return nil, problem end
  local text, failed = messages.text(result, self.o.max_result_bytes)
  if failed then return nil, text end
  return text
end

return Client
