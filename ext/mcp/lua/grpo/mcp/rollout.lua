-- grpo.mcp { ... }: the tools of a server of the Model Context Protocol, for `tools`.

local Client = require "grpo.mcp.client"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local messages = require "grpo.mcp.messages"
local options = require "grpo.options"
local sorted_pairs = require "grpo.base.sorted"

local fs = core.fs
local rollout = {}

local spec = {
  command = { type = "string|table" },
  url = { type = "string" },
  key_env = { type = "string" },
  tools = { type = "table" },
  timeout = { type = "number", default = 60, above = 0, max = 86400 },
  max_result_bytes = { type = "integer", default = 16384, min = 1, max = 1 << 20 },
}

local clients = {} -- by what they were asked for, so that a script that is read again starts none
local lists = {}   -- [source] = fingerprint of the tools that the model is told of

local function check(o)
  if (o.command == nil) == (o.url == nil) then
    errors.raise("EARG", "mcp: want one of command and url, which say who has the tools")
  end
  if o.url and not o.url:find("^https?://.") then
    errors.raise("EARG", "mcp.url: got %s, want an http:// or https:// address", o.url)
  end
  if o.key_env and not o.url then
    errors.raise("EARG", "mcp.key_env: a command has no key; set it in the command's environment")
  end
  local words = o.command
  if words == "" or type(words) == "table" and #words == 0 then
    errors.raise("EARG", "mcp.command: is empty; want a program and its arguments")
  end
  for _, name in ipairs { "command", "tools" } do
    for _, word in ipairs(type(o[name]) == "table" and o[name] or {}) do
      if type(word) ~= "string" then
        errors.raise("EARG", "mcp.%s: got a %s in the list, want strings", name, type(word))
      end
    end
  end
end

-- The tools of `found` that the list names; nil: all.
local function chosen(found, names, source)
  if not names then return found end
  local kept, known = {}, {}
  for name in sorted_pairs(found) do known[#known + 1] = name end
  for _, name in ipairs(names) do
    if not found[name] then
      errors.raise("EARG", "mcp.tools: %s has no tool '%s'; %s", source, name,
        options.advice(name, known))
    end
    kept[name] = found[name]
  end
  return kept
end

local function client_of(o)
  local identity = core.json_encode { o.command or core.json_null, o.url or core.json_null,
    o.key_env or core.json_null, o.timeout, o.max_result_bytes }
  local client = clients[identity] or Client.new(o)
  clients[identity] = client
  return client
end

function rollout.new(opts)
  local o = options.check(opts, spec, "mcp")
  check(o)
  local client = client_of(o)
  if not client.found then
    local found, problem = client:list()
    if not found then
      clients = {}
      errors.raise("EARG", "mcp: %s gives no tools, because: %s", client.source, problem)
    end
    client.found = found
  end
  local group, found = {}, chosen(client.found, o.tools, client.source)
  for name, tool in sorted_pairs(found) do
    group[name] = { description = tool.description, parameters = tool.parameters,
      fn = function(arguments) return client:call(name, arguments) end }
  end
  if next(group) == nil then errors.raise("EARG", "mcp: %s has no tools", client.source) end
  lists[client.source] = messages.fingerprint(found)
  return group
end

-- A run begins, or is opened again: mcp.json has what the model was told of the tools.  writes: it
-- is trained here.
function rollout.opened(dir, writes)
  if not writes or next(lists) == nil or not fs.isdir(dir) then return end
  local path = dir .. "/mcp.json"
  local ok, before = pcall(core.json_decode, fs.read(path) or "{}")
  before = ok and type(before) == "table" and before or {}
  for source, now in sorted_pairs(lists) do
    if before[source] and before[source] ~= now then
      core.notice(("note: mcp: %s: its tools are described in other words than when the run began")
        :format(source))
    end
  end
  errors.must(fs.write(path, core.json_encode(lists) .. "\n"))
end

return rollout
