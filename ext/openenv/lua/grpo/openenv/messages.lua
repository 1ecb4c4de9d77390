-- The messages of an OpenEnv server, which are not trusted:
--   { "type": "observation", "data": { "observation": {...}, "reward": ..., "done": ... } }
--   { "type": "error", "data": { "message": ..., "code": ... } }

local core = require "grpo.core"

local messages = {}

local function is_object(v) return type(v) == "table" and #v == 0 end

-- One line of at most 200 bytes.
local function short(text) return (text:sub(1, 200):gsub("%s+", " ")) end

local function number_of(reward)
  if type(reward) == "boolean" or type(reward) == "number" and reward - reward == 0 then
    return reward
  end
end

-- Reads a message: { observation = table, reward = number, boolean or nil, done = boolean }; or
-- nil, the problem, and the code that the server gives it.
function messages.read(text)
  local ok, message = pcall(core.json_decode, text)
  if not ok then return nil, "it sent what is not JSON: " .. short(text:sub(1, 60)) end
  local data = is_object(message) and message.data
  if not is_object(data) then return nil, "it sent a message without data" end
  if message.type == "error" then
    local problem = type(data.message) == "string" and data.message or "it has failed"
    return nil, short(problem), type(data.code) == "string" and data.code or nil
  end
  if message.type ~= "observation" or not is_object(data.observation) then
    return nil, "it sent what is not an observation"
  end
  local reward = data.reward
  if reward == core.json_null then reward = nil end
  if reward ~= nil and number_of(reward) == nil then
    return nil, "its reward is not a finite number"
  end
  return { observation = data.observation, reward = reward, done = data.done == true }
end

-- Reads an address: { address =, port =, path =, tls = }; nil if it is not one.
function messages.place(url)
  local scheme, rest = url:match("^(%a+)://(.+)$")
  local tls = scheme == "https" or scheme == "wss"
  if not tls and scheme ~= "http" and scheme ~= "ws" then return nil end
  local authority, path = rest:match("^([^/?#]+)([^?#]*)$")
  if not authority or rest:find("[%s%c@]") then return nil end
  local address, port = authority:match("^%[([%x:.]+)%]:?(%d*)$")
  if not address then address, port = authority:match("^([%w._-]+):?(%d*)$") end
  port = address and (port == "" and (tls and 443 or 80) or math.tointeger(tonumber(port)))
  if not port or port < 1 or port > 65535 then return nil end
  return { address = address, port = port, path = path:gsub("/+$", "") .. "/ws", tls = tls }
end

return messages
