-- grpo serve: a model behind OpenAI's protocol.
--
-- One thread does all.  Between two steps of decoding the server takes what has come: a request
-- joins the sequences that are being decoded as soon as there is a place for its prompt, and waits
-- in the order of its coming until then.

local Ask = require "grpo.serve.ask"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local loading = require "grpo.models.loading"
local refusal = require "grpo.serve.refusal"

local Server = {}
Server.__index = Server

local BODY = 8 << 20 -- bytes of the largest request
local IDLE_SECONDS = 0.5 -- between two looks for signals
local LAST_SECONDS = 0.2 -- for the ends of answers when the server ends

-- o: { model =, name =, template = or nil, variables =, sampling = defaults, limits = of core.feed,
-- listen = of core.http_listen }
function Server.new(o)
  local listen = { body = BODY, purpose = "no model is served" }
  for name, value in pairs(o.listen) do listen[name] = value end
  local http, message, code = core.http_listen(listen)
  if not http then errors.raise_plain(code or "EIO", "serve: %s", message) end
  local self = setmetatable({ http = http, model = o.model, tokenizer = o.model.tokenizer,
    name = o.name, template = o.template, variables = o.variables, sampling = o.sampling,
    limits = o.limits, created = os.time(), vocab_size = o.model.config.vocab_size, asks = {},
    routes = {}, numbers = 0 }, Server)
  self:add_routes(self.own_routes)
  self.feed = core.feed(o.model, o.limits)
  self.rng = core.rng(os.time(), "user", 0, 0, math.floor(core.clock() * 1e3) & 0xffff)
  return self
end

function Server:new_seed() return math.floor(self.rng() * 2 ^ 53) end

function Server:new_id()
  self.numbers = self.numbers + 1
  return ("%x%06d"):format(self.created, self.numbers)
end

-- ---- what is answered at once -----------------------------------------------------------------

function Server:answer(request, status, value)
  self.http:send(request, status, "application/json", core.json_encode(value))
end

local function about_model(self)
  return { id = self.name, object = "model", created = self.created, owned_by = "grpo",
    max_model_len = math.min(self.limits.max_prompt_tokens + self.limits.max_new_tokens,
      loading.context(self.model)) }
end

-- Begins to answer a request; session: the one that it belongs to, or nil.
function Server:ask(kind, request, body, session)
  self.asks[#self.asks + 1] = Ask.new(self, kind, request, body, session)
end

local function ask_of(kind)
  return function(self, request, body) self:ask(kind, request, body) end
end

-- "METHOD path" -> function(self, request, body, path), which answers the request, or begins to.
Server.own_routes = {
  ["POST /v1/chat/completions"] = ask_of "chat",
  ["POST /v1/completions"] = ask_of "text",
  ["GET /v1/models"] = function(self, request)
    self:answer(request, 200, { object = "list", data = { about_model(self) } })
  end,
  ["GET /health"] = function(self, request) self:answer(request, 200, { status = "ok" }) end,
}

function Server:add_routes(routes)
  for name, f in pairs(routes) do self.routes[name] = f end
end

-- The function for a request, or a refusal.
function Server:route(method, path)
  local f = self.routes[method .. " " .. path] or self.find and self.find(method, path)
  if f then return f end
  if method == "GET" and path == "/v1/models/" .. self.name then
    return function(_, request) self:answer(request, 200, about_model(self)) end
  end
  refusal.raise(404, nil, "not_found", "there is no %s %s here", method, path)
end

-- Answers a request with an error.
function Server:fail(request, err)
  local status, body = refusal.answer(err)
  self.http:send(request, status, "application/json", body)
end

-- Takes the requests that have come.
function Server:take()
  while true do
    local request, method, path, _, body = self.http:next()
    if not request then return end
    local ok, err = core.protected(function()
      self:route(method, path)(self, request, body, path)
    end)
    if not ok then self:fail(request, err) end
  end
end

-- ---- decoding ---------------------------------------------------------------------------------

-- Calls f for each request that is being answered, and forgets those for which it returns true and
-- those that fail.
function Server:each(f)
  local kept = {}
  for _, ask in ipairs(self.asks) do
    local ok, done = core.protected(f, ask)
    if not ok then ask:fail(done) end
    if ok and not done then kept[#kept + 1] = ask end
  end
  self.asks = kept
end

local function leave(self)
  self:each(function(ask)
    if not self.http:gone(ask.http) then return false end
    ask:fail(refusal.gone) -- nobody reads it
    return true
  end)
end

local function enter(self)
  local room = true
  self:each(function(ask)
    room = room and ask:enter()
    return false
  end)
end

local function decode(self)
  local ok, err = core.protected(self.feed.step, self.feed)
  if ok then
    self:each(Ask.advance)
    return
  end
  self:each(function(ask)
    ask:fail(err)
    return true
  end)
end

-- One round: requests come and leave, and every sequence gets a token.
function Server:step(idle)
  self.http:wait(#self.asks > 0 and 0 or idle)
  self:take()
  leave(self)
  enter(self)
  if #self.asks > 0 then decode(self) end
end

-- Ends all answers.
function Server:close()
  self:each(function(ask)
    ask:fail(refusal.ending)
    return true
  end)
  self.http:wait(LAST_SECONDS)
  self.http:wait(0)
  self.http:close()
  self.feed:close()
end

local signal_status = { HUP = 129, INT = 130, TERM = 143 }

-- Serves until a signal; returns the exit status.
function Server:run()
  while true do
    local signal = core.signal_take()
    if signal and signal ~= "USR1" then
      self:close()
      return signal_status[signal]
    end
    self:step(IDLE_SECONDS)
  end
end

return Server
