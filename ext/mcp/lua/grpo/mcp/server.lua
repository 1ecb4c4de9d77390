-- The Model Context Protocol: JSON-RPC 2.0, a message on each line of standard input and output, or
-- in each POST to /mcp ("Streamable HTTP", without sessions and streams).

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"
local resources = require "grpo.mcp.resources"
local tools = require "grpo.mcp.tools"

local server = {}

local VERSIONS = { "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05" } -- the newest first
local LONGEST = 4 << 20 -- bytes of a message

local PARSE, INVALID, NO_METHOD, BAD_PARAMS, INTERNAL, NO_RESOURCE =
  -32700, -32600, -32601, -32602, -32603, -32002

-- Raises an error of the protocol.
local function refuse(code, format, ...)
  local err = core.error("EARG", format:format(...))
  err.rpc = code
  error(err, 0)
end

-- A value that a message has where a name should be.
local function shown(value)
  if value == nil then return "without a name" end
  return type(value) == "string" and value or core.json_encode(value)
end

-- ---- methods ----------------------------------------------------------------------------------

local methods = {}

function methods.initialize(params)
  local wanted = params.protocolVersion
  if type(wanted) ~= "string" then refuse(BAD_PARAMS, "protocolVersion: want a string") end
  return { protocolVersion = options.among(wanted, VERSIONS) and wanted or VERSIONS[1],
    capabilities = { tools = core.json_object {}, resources = core.json_object {} },
    serverInfo = { name = "grpo", title = "grpo", version = core.version().version or "0" },
    instructions = "Trains language models with rewards. Read the resource grpo://SKILL.md first. "
      .. "Check a script before its first run, and read two of its completions." }
end

methods["ping"] = function() return core.json_object {} end
methods["tools/list"] = function() return { tools = tools.described() } end
methods["resources/list"] = function() return { resources = resources.list() } end
methods["resources/templates/list"] = function() return { resourceTemplates = {} } end

methods["tools/call"] = function(params, runs)
  local tool = type(params.name) == "string" and tools.named(params.name)
  if not tool then refuse(BAD_PARAMS, "unknown tool: %s", shown(params.name)) end
  local arguments = params.arguments
  if arguments == nil or arguments == core.json_null then arguments = {} end
  if type(arguments) ~= "table" or #arguments > 0 then
    refuse(BAD_PARAMS, "arguments: want an object")
  end
  local said, failed = tools.call(tool, arguments, runs)
  return { content = { { type = "text", text = said } }, isError = failed }
end

methods["resources/read"] = function(params)
  local found = resources.read(params.uri)
  if not found then
    refuse(NO_RESOURCE, "no resource has the address %s; resources/list names them",
      shown(params.uri))
  end
  return { contents = { found } }
end

-- ---- messages ---------------------------------------------------------------------------------

local function answer_of(message)
  message.jsonrpc = "2.0"
  return core.json_encode(message)
end

local function error_of(id, code, message)
  return answer_of { id = id, error = { code = code, message = message } }
end

local function is_id(id) return type(id) == "string" or math.type(id) == "integer" end

-- Returns the answer to a message; nil for one without an id, and one that answers us.
local function take(message, runs)
  if type(message) ~= "table" or message.jsonrpc ~= "2.0" then
    return error_of(core.json_null, INVALID, "a message is an object with jsonrpc = \"2.0\"")
  end
  local id, name, params = message.id, message.method, message.params
  if name == nil and (message.result ~= nil or message.error ~= nil) then return nil end
  if id ~= nil and not is_id(id) then
    return error_of(core.json_null, INVALID, "an id is a string or an integer")
  end
  if type(name) ~= "string" then
    return error_of(id or core.json_null, INVALID, "a request has a method")
  end
  if id == nil then return nil end -- a notification
  local method = methods[name]
  if not method then return error_of(id, NO_METHOD, "this server has no method " .. name) end
  if params == nil then params = {} end
  if type(params) ~= "table" or #params > 0 then
    return error_of(id, BAD_PARAMS, "params: want an object")
  end
  local ok, result = core.protected(method, params, runs)
  if ok then return answer_of { id = id, result = result } end
  local code = type(result) == "table" and result.rpc or INTERNAL
  return error_of(id, code, errors.line(result))
end

-- Returns the answer to a text, or nil.  runs: the directory of runs.
local function answered(text, runs)
  if #text > LONGEST then return error_of(core.json_null, PARSE, "the message is too long") end
  local ok, message = pcall(core.json_decode, text)
  if not ok then return error_of(core.json_null, PARSE, errors.line(message)) end
  return take(message, runs)
end

-- Answers until the input ends.
function server.run(runs)
  for line in io.lines() do
    local answer = line:find("%S") and answered(line, runs)
    if answer then core.out(answer .. "\n") end
  end
  return 0
end

-- ---- HTTP ---------------------------------------------------------------------------------------

local function answer_request(http, request, method, path, body, version, runs)
  if path ~= "/mcp" then return http:send(request, 404, "text/plain", "the path is /mcp\n") end
  if method ~= "POST" then
    return http:send(request, 405, "text/plain",
      "this server has no stream of events; send messages by POST\n")
  end
  if version ~= "" and not options.among(version, VERSIONS) then
    return http:send(request, 400, "text/plain", ("MCP-Protocol-Version: got %s, want one of %s\n")
      :format(version, table.concat(VERSIONS, ", ")))
  end
  local answer = answered(body, runs)
  return http:send(request, answer and 200 or 202, "application/json", answer or "")
end

-- Answers requests until a signal.  o: { address =, port =, token = or nil }
function server.serve(o, runs)
  local http <close>, message, code = core.http_listen { address = o.address, port = o.port,
    token = o.token, body = LONGEST, header = "MCP-Protocol-Version",
    purpose = "nothing is served over HTTP" }
  if not http then errors.raise_plain(code or "EIO", "mcp: %s", message) end
  local host = o.address:find(":", 1, true) and "[" .. o.address .. "]" or o.address
  core.out(("http://%s:%d/mcp\n"):format(host, http:port()))
  while not core.signal_waits() do
    http:wait(0.5)
    local request, method, path, _, body, version = http:next()
    if request then answer_request(http, request, method, path, body, version, runs) end
  end
  return 0
end

return server
