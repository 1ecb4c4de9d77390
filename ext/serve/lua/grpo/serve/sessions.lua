-- The sessions of a step: programs open them, talk to the model, and post what it was worth.
--
--   POST /sessions                          opens the next session of the step, or waits for one
--   POST /sessions/ID/v1/chat/completions   is /v1/chat/completions, and the run remembers
--   POST /sessions/ID/reward                { "reward": 0.5 } ends it
--
-- Sessions exist while a step samples.  While the run trains, requests wait.

local Server = require "grpo.serve"
local Session = require "grpo.serve.session"
local core = require "grpo.core"
local refusal = require "grpo.serve.refusal"

local Sessions = {}
Sessions.__index = Sessions

local WAIT_SECONDS = 20 -- of a request for a session

-- stage: of kind "agents"
function Sessions.new(stage)
  local config, tr = stage.config, stage.tr
  local o = config.agents
  local self = setmetatable({ config = config, stage = stage, places = {}, open = {},
    waiting = {} }, Sessions)
  self.server = Server.new { model = tr.model, name = config.name, sampling = {},
    variables = config.model.chat_template_kwargs or {},
    template = config.model.chat_template ~= false
      and (config.model.chat_template or tr.tokenizer.chat_template) or nil,
    limits = { sequences = o.sequences, max_new_tokens = config.sampling.max_new_tokens,
      max_prompt_tokens = config.data.max_prompt_tokens + config.sampling.max_new_tokens },
    listen = { address = o.host, port = o.port, token = os.getenv("GRPO_SERVE_TOKEN") } }
  self.server.config = config
  self.server.routes = { ["POST /sessions"] = function(_, request) self:ask_for(request) end }
  self.server.find = function(method, path) return self:find(method, path) end
  return self
end

function Sessions:address()
  return ("http://%s:%d"):format(self.config.agents.host, self.server.http:port())
end

-- ---- opening ----------------------------------------------------------------------------------

-- A request for a session waits until there is one.
function Sessions:ask_for(request)
  self.waiting[#self.waiting + 1] = { request = request, till = core.clock() + WAIT_SECONDS }
end

local function free_place(self)
  for _, place in ipairs(self.places) do
    if not place.session then return place end
  end
end

local function give(self, request, place)
  local prompt = place.prompt
  local id = self.server:new_id() .. ("-%d"):format(place.number)
  place.session = Session.new(self.config, self.stage.tr.tokenizer, place)
  place.id, place.touched = id, core.clock()
  self.open[id] = place
  self.server:answer(request, 200, { id = id, base_url = self:address() .. "/sessions/" .. id
    .. "/v1", model = self.server.name, step = place.step, index = place.k, row = prompt.row,
    prompt = prompt.given or core.json_null, messages = prompt.messages or core.json_null })
end

-- Gives sessions to those who wait; a client that has waited for long is told to ask again.
local function give_waiting(self)
  local kept, now = {}, core.clock()
  for _, one in ipairs(self.waiting) do
    local place = not self.server.http:gone(one.request) and free_place(self)
    if self.server.http:gone(one.request) then
      self.server:fail(one.request, refusal.gone)
    elseif place then
      give(self, one.request, place)
    elseif now > one.till then
      self.server:answer(one.request, 503, { error = { message = "there is no session now; ask "
        .. "again", type = "server_error", code = "no_session", param = core.json_null } })
    else
      kept[#kept + 1] = one
    end
  end
  self.waiting = kept
end

-- A session of which nothing was heard for long is given to another program.
local function take_back(self)
  local now = core.clock()
  for id, place in pairs(self.open) do
    if not place.session.busy and now - place.touched > self.config.agents.seconds then
      self.open[id], place.session = nil, nil
    end
  end
end

-- ---- the routes of a session ------------------------------------------------------------------

local function reward_of(body)
  local ok, given = pcall(core.json_decode, body)
  local reward
  if ok and type(given) == "table" then reward = given.reward end
  if reward == core.json_null then return nil end
  if type(reward) == "boolean" then return reward and 1.0 or 0.0 end
  if type(reward) ~= "number" or math.abs(reward) > core.largest_reward then
    refusal.raise(400, "reward", "invalid_value", "reward: want { \"reward\": a number, true, "
      .. "false or null }")
  end
  return reward + 0.0
end

local function end_session(self, request, body, place)
  local session = place.session
  if session.busy then refusal.raise(409, nil, "busy", "the session is answering a request") end
  if session.turns == 0 then
    refusal.raise(409, nil, "nothing_said", "the model has said nothing in this session")
  end
  place.reward, place.over = reward_of(body), true
  self.open[place.id] = nil
  self.server:answer(request, 200, { id = place.id, tokens = #session.ids, turns = session.turns })
end

local actions = {
  ["POST v1/chat/completions"] = function(self, request, body, place)
    self.server:ask("chat", request, body, place.session)
  end,
  ["POST reward"] = end_session,
}

-- The function for a request to a session; nil for another request.
function Sessions:find(method, path)
  local id, rest = path:match("^/sessions/([^/]+)/(.+)$")
  if not id then return nil end
  local action, place = actions[method .. " " .. rest], self.open[id]
  if not action then return nil end
  if not place then
    refusal.raise(404, nil, "no_such_session", "this session is not open: it has its reward, or "
      .. "nothing was heard of it for agents.seconds")
  end
  return function(_, request, body)
    place.touched = core.clock()
    action(self, request, body, place)
  end
end

-- ---- a step -----------------------------------------------------------------------------------

-- Plays n sessions for each prompt of a list.  Returns their places in that order, each with
-- session and reward.
function Sessions:play(list, n, step)
  self.places, self.open = {}, {}
  for _, prompt in ipairs(list) do
    for k = 1, n do
      local number = #self.places + 1
      self.places[number] = { prompt = prompt, k = k, step = step, number = number }
    end
  end
  local left = #self.places
  while left > 0 do
    self.server:step(0.05)
    take_back(self)
    give_waiting(self)
    self.stage.tr:check_interrupt()
    left = 0
    for _, place in ipairs(self.places) do left = left + (place.over and 0 or 1) end
  end
  return self.places
end

-- Tells those who wait that the run is over.
function Sessions:close()
  for _, one in ipairs(self.waiting) do
    self.server:answer(one.request, 410, { error = { message = "the run is over", code = "over",
      type = "invalid_request_error", param = core.json_null } })
  end
  self.waiting = {}
  self.server:close()
end

return Sessions
