-- grpo.openenv { ... }: an environment behind an address, for `environment`.
--
-- Each sequence has a session of its own.  A reset that fails is tried again, in another session; a
-- step that fails is an error of the environment, because what was done in the session is lost.

local bearer = require "grpo.base.bearer"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local messages = require "grpo.openenv.messages"
local options = require "grpo.options"
local Session = require "grpo.openenv.session"

local openenv = {}

local LONGEST_WAIT = 30.0 -- seconds between two attempts

local spec = {
  url = { type = "string", required = true },
  key_env = { type = "string" },
  reset = { type = "function" },
  action = { type = "string|function", required = true },
  observation = { type = "string|function", required = true },
  timeout = { type = "number", default = 60, above = 0, max = 86400 },
  retries = { type = "integer", default = 4, min = 0, max = 100 },
  backoff = { type = "number", default = 0.5, min = 0, max = 3600 },
}

local function complain(o, format, ...)
  errors.raise_plain("ESCRIPT", "openenv: %s: %s", o.url, format:format(...))
end

-- The action that a text of the model is.
local function action_of(o, text, c)
  if type(o.action) == "string" then return { [o.action] = text } end
  local action = o.action(text, c)
  if type(action) ~= "table" then
    complain(o, "action returned a %s, want a table by name", type(action))
  end
  return action
end

-- The text that the model sees of an observation.
local function text_of(o, observation)
  local text
  if type(o.observation) == "function" then
    text = o.observation(observation)
  else
    text = observation[o.observation]
    if text == nil then
      local names = {}
      for name in pairs(observation) do names[#names + 1] = tostring(name) end
      table.sort(names)
      complain(o, "the observation has no field '%s', but: %s", o.observation,
        table.concat(names, ", "))
    end
    if type(text) == "number" or type(text) == "boolean" then text = tostring(text) end
    if type(text) == "table" then text = core.json_encode(text) end
  end
  if text == core.json_null then text = nil end
  if text ~= nil and type(text) ~= "string" then
    complain(o, "observation returned a %s, want a string or nil", type(text))
  end
  return text or ""
end

-- The parameters of a reset, among them a seed that is the same for a whole group.
local function parameters_of(o, row, rng)
  local seed = math.floor(rng() * 2 ^ 31)
  local data = {}
  if o.reset then
    local own = o.reset(row, rng)
    if type(own) ~= "table" then
      complain(o, "reset returned a %s, want a table of parameters", type(own))
    end
    for name, value in pairs(own) do data[name] = value end
  end
  if data.seed == nil then data.seed = seed end
  return data
end

-- Does it make sense to try again?
local function may_pass(code)
  return code == nil or code == "CAPACITY_REACHED" or code == "SESSION_ERROR"
end

local function advice(code)
  return code == "CAPACITY_REACHED"
    and "; start the server with a max_concurrent_envs of at least the sequences of a step" or ""
end

-- A session that has been reset, and the answer.
local function begin(o, place, data)
  local wait = o.backoff
  for attempt = 0, o.retries do
    local session = Session.new(place, o.timeout)
    local answer, problem, code = session:ask("reset", data)
    if answer then return session, answer end
    session:close()
    if attempt == o.retries or not may_pass(code) then
      complain(o, "reset: %s%s", problem, advice(code))
    end
    core.process.sleep(wait)
    if core.signal_waits() then error("interrupted by a signal", 0) end
    wait = math.min(LONGEST_WAIT, 2 * wait)
  end
end

local function place_of(o)
  local place = messages.place(o.url)
  if not place then
    errors.raise("EARG", "openenv.url: got %s, want an address such as http://127.0.0.1:8000",
      o.url)
  end
  if o.key_env then place.authorization = bearer("openenv.key_env", o.key_env) end
  return place
end

function openenv.new(opts)
  local o = options.check(opts, spec, "openenv")
  local place = place_of(o)
  return {
    reset = function(row, rng)
      local session, answer = begin(o, place, parameters_of(o, row, rng))
      if answer.done then
        session:close()
        complain(o, "reset: the episode is over before the model's first turn")
      end
      return session, text_of(o, answer.observation)
    end,
    step = function(session, text, c)
      local answer, problem = session:ask("step", action_of(o, text, c))
      if not answer then
        session:close()
        complain(o, "step: %s", problem)
      end
      if answer.done then return nil, answer.reward end
      return text_of(o, answer.observation), answer.reward
    end,
    close = function(session) session:close() end,
  }
end

return openenv
