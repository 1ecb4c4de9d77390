-- The Model Context Protocol over standard input and output: JSON-RPC 2.0, a message on each line.

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
  if not tool then refuse(BAD_PARAMS, "unknown tool: %s", tostring(params.name)) end
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
  if not found then refuse(NO_RESOURCE, "there is no resource %s", tostring(params.uri)) end
  return { contents = { found } }
end

-- ---- messages ---------------------------------------------------------------------------------

local function send(message)
  message.jsonrpc = "2.0"
  core.out(core.json_encode(message) .. "\n")
end

local function send_error(id, code, message)
  send { id = id, error = { code = code, message = message } }
end

local function is_id(id) return type(id) == "string" or math.type(id) == "integer" end

-- Answers a message; one without an id, or that answers us, gets no answer.
local function take(message, runs)
  if type(message) ~= "table" or message.jsonrpc ~= "2.0" then
    return send_error(core.json_null, INVALID, "a message is an object with jsonrpc = \"2.0\"")
  end
  local id, name, params = message.id, message.method, message.params
  if name == nil and (message.result ~= nil or message.error ~= nil) then return nil end
  if id ~= nil and not is_id(id) then
    return send_error(core.json_null, INVALID, "an id is a string or an integer")
  end
  if type(name) ~= "string" then
    return send_error(id or core.json_null, INVALID, "a request has a method")
  end
  if id == nil then return nil end -- a notification
  local method = methods[name]
  if not method then return send_error(id, NO_METHOD, "there is no method " .. name) end
  if params == nil then params = {} end
  if type(params) ~= "table" or #params > 0 then
    return send_error(id, BAD_PARAMS, "params: want an object")
  end
  local ok, result = core.protected(method, params, runs)
  if ok then return send { id = id, result = result } end
  local code = type(result) == "table" and result.rpc or INTERNAL
  return send_error(id, code, errors.line(result))
end

-- Answers until the input ends.  runs: the directory of runs.
function server.run(runs)
  for line in io.lines() do
    if line:find("%S") then
      local ok, message
      if #line <= LONGEST then ok, message = pcall(core.json_decode, line) end
      if ok then
        take(message, runs)
      else
        send_error(core.json_null, PARSE, #line > LONGEST and "the message is too long"
          or errors.line(message))
      end
    end
  end
  return 0
end

return server
