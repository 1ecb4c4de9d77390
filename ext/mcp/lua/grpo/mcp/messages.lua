-- The messages of a server of the Model Context Protocol, which are not trusted.

local core = require "grpo.core"
local sorted_pairs = require "grpo.base.sorted"

local messages = {}

local MOST_TOOLS = 256
local MOST_SCHEMA = 1 << 16 -- bytes of one tool's schema and description

local function is_object(v) return type(v) == "table" and #v == 0 end

-- Reads a message: a table; or nil and what is wrong.
function messages.read(text)
  local ok, message = pcall(core.json_decode, text)
  if not ok then
    return nil, ("it wrote what is not JSON (%s): %s"):format(tostring(message):match("JSON:.*")
      or "no memory", text:sub(1, 60))
  end
  if not is_object(message) or message.jsonrpc ~= "2.0" then
    return nil, "it wrote what is not a message of JSON-RPC 2.0: " .. text:sub(1, 60)
  end
  return message
end

-- The messages in an event stream, as a list of texts; events without data are none.
function messages.events(body)
  local list, data = {}, {}
  for line in (body .. "\n\n"):gsub("\r\n", "\n"):gmatch("([^\n]*)\n") do
    if line == "" then
      local text = table.concat(data, "\n")
      if text ~= "" then list[#list + 1] = text end
      data = {}
    else
      data[#data + 1] = line:match("^data: ?(.*)")
    end
  end
  return list
end

-- The result of an answer; nil and what is wrong.
function messages.result(answer)
  local err = answer.error
  if err ~= nil then
    local text = type(err) == "table" and type(err.message) == "string" and err.message
    return nil, text or "the server refused the request"
  end
  if not is_object(answer.result) then return nil, "the server's result is not an object" end
  return answer.result
end

-- ---- the list of tools --------------------------------------------------------------------------

local function strings(list)
  local kept = {}
  for _, item in ipairs(type(list) == "table" and list or {}) do
    if type(item) == "string" then kept[#kept + 1] = item end
  end
  return kept
end

-- The JSON schema of a tool's arguments, as options/tools.lua reads one; nil: it is not one.
local function schema_of(given)
  if not is_object(given) or given.type ~= "object" then return nil end
  local properties = given.properties
  if properties == nil then properties = core.json_object {} end
  if not is_object(properties) then return nil end
  for _, property in pairs(properties) do
    if type(property) ~= "table" then return nil end
  end
  given.properties, given.required = properties, given.required and strings(given.required)
  return given
end

-- Adds the tools of one page of the list to `found`, by name.  Returns what is wrong, or nil.
function messages.take_tools(page, found)
  if type(page.tools) ~= "table" then return "its list of tools is not a list" end
  local count = 0
  for _ in pairs(found) do count = count + 1 end
  for _, tool in ipairs(page.tools) do
    local name = type(tool) == "table" and tool.name
    if type(name) ~= "string" or not name:find("^[%a_][%w_./-]*$") or #name > 128 then
      return "a tool has no name that can be called: " .. tostring(name or tool):sub(1, 60)
    end
    if found[name] then return ("two of its tools have the name '%s'"):format(name) end
    local schema = schema_of(tool.inputSchema)
    if not schema then
      return ("the inputSchema of its tool '%s' is not an object's"):format(name)
    end
    local description = type(tool.description) == "string" and tool.description or ""
    if #core.json_encode(schema) + #description > MOST_SCHEMA then
      return ("its tool '%s' is described in more than %d bytes"):format(name, MOST_SCHEMA)
    end
    count = count + 1
    if count > MOST_TOOLS then return ("it has more than %d tools"):format(MOST_TOOLS) end
    found[name] = { description = description, parameters = schema }
  end
end

-- ---- results of tools ---------------------------------------------------------------------------

local function part_text(part)
  if type(part) ~= "table" then return "" end
  if type(part.text) == "string" then return part.text end
  local resource = type(part.resource) == "table" and part.resource or part
  if type(resource.text) == "string" then return resource.text end
  local about = resource.uri or resource.mimeType
  return ("[%s%s]"):format(type(part.type) == "string" and part.type or "something",
    type(about) == "string" and " " .. about or "")
end

-- At most n bytes of a text, whole characters.
local function cut(text, n)
  if #text <= n then return text end
  local at = n + 1
  while at > 1 and text:byte(at) & 0xc0 == 0x80 do at = at - 1 end
  return text:sub(1, at - 1) .. "... (cut)"
end

-- The text of a tool's result, at most n bytes and a remark; and whether the tool has failed.
function messages.text(result, n)
  local parts = {}
  for _, part in ipairs(type(result.content) == "table" and result.content or {}) do
    parts[#parts + 1] = part_text(part)
  end
  if #parts == 0 and result.structuredContent ~= nil then
    parts[1] = core.json_encode(result.structuredContent)
  end
  return cut(table.concat(parts, "\n"), n), result.isError == true
end

-- A text that changes with what a model is told of the tools.
function messages.fingerprint(found)
  local list = {}
  for name, tool in sorted_pairs(found) do
    list[#list + 1] = { name, tool.description, tool.parameters }
  end
  return core.json_encode(list)
end

return messages
