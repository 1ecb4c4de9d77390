-- An environment: what answers the model turn by turn.  Two ways to write one, which come to the same:
--
--   { reset = function(row, rng) return state, observation end,
--     step  = function(state, action, c) return observation or nil, reward end }
--
--   function(row, rng)
--     local action, c = coroutine.yield(observation [, reward])     -- as often as it likes
--     return reward
--   end
--
-- The first observation goes behind the prompt and is the same for the whole group: reset gets random numbers by
-- (seed, prompt).  No observation, or the end of the function, ends the episode; rewards are added up.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"
local sorted_pairs = require "grpo.base.sorted"

local environment = {}

local fields = { "reset", "step" }

function environment.check(given, complain)
  if given == nil or type(given) == "function" then return end
  for key in sorted_pairs(given) do
    if key ~= "reset" and key ~= "step" then
      local near = options.nearest(tostring(key), fields)
      complain("environment." .. tostring(key), "unknown option%s",
        near and (", did you mean '%s'?"):format(near) or "")
    end
  end
  for _, name in ipairs(fields) do
    if type(given[name]) ~= "function" then
      complain("environment." .. name, "got %s, want a function", type(given[name]))
    end
  end
end

-- ---- one function as two -------------------------------------------------------------------------

local function resume(co, ...)
  local ok, first, second = coroutine.resume(co, ...)
  if not ok then error(first, 0) end
  return first, second
end

local function of_coroutine(f)
  return {
    reset = function(row, rng)
      local co = coroutine.create(f)
      local observation, reward = resume(co, row, rng)
      if coroutine.status(co) == "dead" then
        error("the function returned before its first coroutine.yield: the model never had a turn", 0)
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

-- ---- calls ------------------------------------------------------------------------------------------

local Environment = {}
Environment.__index = Environment

function environment.open(config)
  local given = config.environment
  local e = setmetatable({ config = config }, Environment)
  e.calls = type(given) == "function" and of_coroutine(given) or given
  e.names = type(given) == "function" and { reset = "environment", step = "environment" }
    or { reset = "environment.reset", step = "environment.step" }
  return e
end

function Environment:call(name, rng, ...)
  core.reseed_math(rng)
  local ok, first, second = core.limited(self.config.limits.tool, self.names[name], self.calls[name], ...)
  core.reseed_math(nil)
  return ok, first, second
end

-- The state at the beginning of an episode, and the first observation ("" if there is none).  Raises.
function Environment:reset(row, number, held_out)
  local rng = core.rng(self.config.seed, held_out and "turn_eval" or "turn", 0, number, 0)
  local ok, state, observation = self:call("reset", rng, row, rng)
  if not ok then error(errors.naming(self.names.reset, state), 0) end
  if observation == nil then observation = "" end
  if type(observation) ~= "string" then
    errors.raise_plain("ESCRIPT", "%s: the first observation is a %s, want a string or nil", self.names.reset,
      type(observation))
  end
  return state, observation
end

-- What a prompt begins with.
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
    return ("the reward is %s, want a finite number, a boolean or nil"):format(type(reward) == "number"
      and tostring(reward) or "a " .. type(reward))
  end
  return nil, reward
end

-- As reward.on_error has it: "stop" raises, "zero" and "skip" end the episode with reward 0, and with none.
function Environment:fails(episode, action, err)
  local config = self.config
  if type(err) ~= "table" or not err.fatal then
    err = errors.naming(self.names.step, err)
    err = core.error("ESCRIPT", ("%s (the model said: %q)"):format(tostring(err), action:sub(1, 60)))
  end
  if err.fatal or config.reward.on_error == "stop" then error(err, 0) end
  episode.error = tostring(err)
  episode.reward = config.reward.on_error == "zero" and 0.0 or nil
  episode.done = true
  return nil
end

-- The model's action; the observation, or nil when the episode is over.
function Environment:step(prompt, episode, action, c, context)
  if not episode.begun then
    local observation
    episode.begun = true
    episode.state, observation = self:reset(prompt.row, prompt.number, context.held_out)
    if observation ~= prompt.observation then
      errors.raise_plain("ESCRIPT", "%s: gave two different first observations for one row; draw random numbers from "
        .. "its second argument", self.names.reset)
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
