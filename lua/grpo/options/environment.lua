-- An environment answers the model turn by turn.  There are two equivalent ways to write one:
--
--   { reset = function(row, rng) return state, observation [, key] end,
--     step  = function(state, action, c) return observation or nil, reward [, key] end,
--     close = function(state) end }       -- may be left out; called once for each reset
--
--   function(row, rng)
--     local action, c = coroutine.yield(observation [, reward [, key]])   -- as often as it likes
--     return reward
--   end
--
-- A key names the state that the observation shows, for the advantages of turns
-- (scoring/turn_credit.lua); without one the observation does.
--
-- The first observation follows the prompt and is the same for the whole group, because reset's
-- random numbers depend on (seed, prompt) only.  A nil observation, or the end of the function,
-- ends the episode; its rewards are summed.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"

local environment = {}

local fields = { "reset", "step", "close" }

-- Checks the option `environment`.  complain(path, format, ...) raises.
function environment.check(option, complain)
  if option == nil or type(option) == "function" then return end
  options.check_names(option, fields, "environment", complain)
  for _, name in ipairs(fields) do
    if type(option[name]) ~= "function" and (name ~= "close" or option.close ~= nil) then
      complain("environment." .. name, "got %s, want a function", type(option[name]))
    end
  end
end

-- ---- a coroutine as reset and step --------------------------------------------------------------

local function resume(co, ...)
  local ok, first, second, third = coroutine.resume(co, ...)
  if not ok then error(first, 0) end
  return first, second, third
end

local function from_coroutine(f)
  return {
    reset = function(row, rng)
      local co = coroutine.create(f)
      local observation, reward, key = resume(co, row, rng)
      if coroutine.status(co) == "dead" then
        error("the function returned before its first coroutine.yield, so the model had no turn", 0)
      end
      if reward ~= nil then error("a reward before the model's first turn", 0) end
      return co, observation, key
    end,
    step = function(co, action, c)
      local first, second, key = resume(co, action, c)
      if coroutine.status(co) == "dead" then return nil, first end
      return first == nil and "" or first, second, key
    end,
  }
end

-- ---- calls --------------------------------------------------------------------------------------

local Environment = {}
Environment.__index = Environment

function environment.open(config)
  local option = config.environment
  local is_function = type(option) == "function"
  return setmetatable({ config = config, calls = is_function and from_coroutine(option) or option,
    names = is_function and { reset = "environment", step = "environment" }
      or { reset = "environment.reset", step = "environment.step", close = "environment.close" } },
    Environment)
end

-- A signal that waits is the cause of an error, because it cuts short what the call waited for.
function Environment:call(name, rng, ...)
  core.reseed_math(rng)
  local ok, first, second, third = core.limited(self.config.limits.tool, self.names[name],
    self.calls[name], ...)
  core.reseed_math(nil)
  if not ok and core.signal_waits() then
    error(core.error("ELIMIT", self.names[name] .. ": interrupted by a signal"), 0)
  end
  return ok, first, second, third
end

-- The key of a state as a string, or nil and what is wrong with it.
local function key_of(key, observation)
  if key == nil then return observation or "" end
  if type(key) == "string" or type(key) == "number" then return tostring(key) end
  return nil, ("the key of the state is a %s, want a string or a number"):format(type(key))
end

-- Returns an episode's initial state, its first observation ("" if there is none) and the key of
-- the state.  Raises.
function Environment:reset(row, number, held_out)
  local rng = core.rng(self.config.seed, held_out and "turn_eval" or "turn", 0, number, 0)
  local ok, state, observation, key = self:call("reset", rng, row, rng)
  if not ok then error(errors.naming(self.names.reset, state), 0) end
  if observation == nil then observation = "" end
  if type(observation) ~= "string" then
    errors.raise_plain("ESCRIPT", "%s: the first observation is a %s, want a string or nil",
      self.names.reset, type(observation))
  end
  local name, problem = key_of(key, observation)
  if problem then errors.raise_plain("ESCRIPT", "%s: %s", self.names.reset, problem) end
  return state, observation, name
end

-- Lets go of a state.
function Environment:close(state)
  if not self.calls.close then return end
  local ok, problem = self:call("close", nil, state)
  if not ok then error(errors.naming(self.names.close, problem), 0) end
end

-- An episode has ended, by whatever.
function Environment:leave(episode)
  if episode.begun and not episode.left then
    episode.left = true
    self:close(episode.state)
  end
end

-- Returns the first observation that follows a prompt, and the key of its state.
function environment.opening(config, row, number, held_out)
  local self = environment.open(config)
  local state, observation, key = self:reset(row, number or 0, held_out)
  self:close(state)
  return observation, key
end

local function checked(observation, reward, key)
  if observation ~= nil and type(observation) ~= "string" then
    return ("the observation is a %s, want a string, or nil at the end"):format(type(observation))
  end
  if reward == true then reward = 1.0 elseif reward == false or reward == nil then reward = 0.0 end
  if type(reward) ~= "number" or reward - reward ~= 0 then
    return ("the reward is %s, want a finite number, a boolean or nil"):format(
      type(reward) == "number" and tostring(reward) or "a " .. type(reward))
  end
  local name, problem = key_of(key, observation)
  return problem, reward, name
end

-- Handles a failed step by reward.on_error: "stop" raises, "zero" ends the episode with reward 0,
-- "skip" ends it without a reward.
function Environment:fails(episode, action, err)
  local config = self.config
  if type(err) ~= "table" or not err.fatal then
    err = errors.naming(self.names.step, err)
    err = core.error("ESCRIPT",
      ("%s (the model said: %q)"):format(tostring(err), action:sub(1, 60)))
  end
  if err.fatal or config.reward.on_error == "stop" then error(err, 0) end
  episode.error = tostring(err)
  episode.reward = config.reward.on_error == "zero" and 0.0 or nil
  episode.done = true
  return nil
end

-- Passes the model's action on.  Returns the observation, or nil when the episode is over, the
-- reward of the turn, nil if the step failed, and the key of the state that follows.
function Environment:step(prompt, episode, action, c, context)
  if not episode.begun then
    local observation
    episode.state, observation = self:reset(prompt.row, prompt.number, context.held_out)
    episode.begun = true
    if observation ~= prompt.observation then
      errors.raise_plain("ESCRIPT", "%s: gave two different first observations for one row; take "
        .. "random numbers from its second argument", self.names.reset)
    end
  end
  local ok, observation, reward, key = self:call("step", c.rng, episode.state, action, c)
  if not ok then return self:fails(episode, action, observation) end
  local problem
  problem, reward, key = checked(observation, reward, key)
  if problem then return self:fails(episode, action, problem) end
  episode.reward = episode.reward + reward
  episode.done = observation == nil
  return observation, reward, key
end

return environment
