-- An environment answers the model turn by turn.  There are two equivalent ways to write one:
--
--   { reset = function(row, rng) return state, observation end,
--     step  = function(state, action, c) return observation or nil, reward end }
--
--   function(row, rng)
--     local action, c = coroutine.yield(observation [, reward])     -- as often as it likes
--     return reward
--   end
--
-- The first observation follows the prompt and is the same for the whole group, because reset's
-- random numbers depend on (seed, prompt) only.  A nil observation, or the end of the function,
-- ends the episode; its rewards are summed.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"

local environment = {}

local fields = { "reset", "step" }

-- Checks the option `environment`.  complain(path, format, ...) raises.
function environment.check(option, complain)
  if option == nil or type(option) == "function" then return end
  options.check_names(option, fields, "environment", complain)
  for _, name in ipairs(fields) do
    if type(option[name]) ~= "function" then
      complain("environment." .. name, "got %s, want a function", type(option[name]))
    end
  end
end

-- ---- a coroutine as reset and step --------------------------------------------------------------

local function resume(co, ...)
  local ok, first, second = coroutine.resume(co, ...)
  if not ok then error(first, 0) end
  return first, second
end

local function from_coroutine(f)
  return {
    reset = function(row, rng)
      local co = coroutine.create(f)
      local observation, reward = resume(co, row, rng)
      if coroutine.status(co) == "dead" then
        error("the function returned before its first coroutine.yield, so the model had no turn", 0)
      end
      if reward ~= nil then error("a reward before the model's first turn", 0) end
      return co, observation
    end,
    step = function(co, action, c)
      local first, second = resume(co, action, c)
      if coroutine.status(co) == "dead" then return nil, first end
      return first == nil and "" or first, second
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
      or { reset = "environment.reset", step = "environment.step" } }, Environment)
end

function Environment:call(name, rng, ...)
  core.reseed_math(rng)
  local ok, first, second = core.limited(self.config.limits.tool, self.names[name],
    self.calls[name], ...)
  core.reseed_math(nil)
  return ok, first, second
end

-- Returns an episode's initial state and first observation ("" if there is none).  Raises.
function Environment:reset(row, number, held_out)
  local rng = core.rng(self.config.seed, held_out and "turn_eval" or "turn", 0, number, 0)
  local ok, state, observation = self:call("reset", rng, row, rng)
  if not ok then error(errors.naming(self.names.reset, state), 0) end
  if observation == nil then observation = "" end
  if type(observation) ~= "string" then
    errors.raise_plain("ESCRIPT", "%s: the first observation is a %s, want a string or nil",
      self.names.reset, type(observation))
  end
  return state, observation
end

-- Returns the first observation that follows a prompt.
function environment.opening(config, row, number, held_out)
  local _, observation = environment.open(config):reset(row, number or 0, held_out)
  return observation
end

local function checked(observation, reward)
  if observation ~= nil and type(observation) ~= "string" then
    return ("the observation is a %s, want a string, or nil at the end"):format(type(observation))
  end
  if reward == true then reward = 1.0 elseif reward == false or reward == nil then reward = 0.0 end
  if type(reward) ~= "number" or reward - reward ~= 0 then
    return ("the reward is %s, want a finite number, a boolean or nil"):format(
      type(reward) == "number" and tostring(reward) or "a " .. type(reward))
  end
  return nil, reward
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

-- Passes the model's action on.  Returns the observation, or nil when the episode is over.
function Environment:step(prompt, episode, action, c, context)
  if not episode.begun then
    local observation
    episode.begun = true
    episode.state, observation = self:reset(prompt.row, prompt.number, context.held_out)
    if observation ~= prompt.observation then
      errors.raise_plain("ESCRIPT", "%s: gave two different first observations for one row; take "
        .. "random numbers from its second argument", self.names.reset)
    end
  end
  local ok, observation, reward = self:call("step", c.rng, episode.state, action, c)
  if not ok then return self:fails(episode, action, observation) end
  local problem
  problem, reward = checked(observation, reward)
  if problem then return self:fails(episode, action, problem) end
  episode.reward = episode.reward + reward
  episode.done = observation == nil
  return observation
end

return environment
