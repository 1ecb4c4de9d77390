-- Rules between options that the engine knows: it checks them itself, in the words that a C host
-- gets, and the script's options are held to them before anything is loaded.
--
-- complain(path, format, ...) raises at the script's line of that option.

local core = require "grpo.core"
local errors = require "grpo.base.errors"

local engine_rules = {}

-- check: a function of core that returns nothing, or "train.kl: what is wrong", which it may raise
-- too.
local function hold(complain, check, ...)
  local ok, text = errors.try(check, ...)
  if ok and not text then return end
  -- a text that was raised begins with the line that we are called from
  text = ok and text or tostring(text):gsub("^%S+:%d+: ", "")
  local path, rest = text:match("^([%w_.]+): (.*)$")
  complain(path, "%s", rest)
end

-- A number for a coefficient that may be a schedule: is there any?
local function some(coefficient)
  return type(coefficient) == "function" and 1.0 or coefficient
end

-- of_tokens: the path of an option that gives each token an advantage of its own, or nil.
function engine_rules.loss(train, of_tokens, complain)
  local name = type(train.loss) == "string" and train.loss or "grpo"
  hold(complain, core.loss_problem, setmetatable({ loss = name,
    kl = train.kl_in == "loss" and some(train.kl) or 0.0, entropy = some(train.entropy) },
    { __index = train }), name == train.loss and of_tokens or nil)
end

function engine_rules.ppo(train, complain)
  local ppo = setmetatable({ kl_coef = some(train.ppo.kl_coef) }, { __index = train.ppo })
  hold(complain, core.ppo_problem, ppo, train.prompts_per_step)
end

function engine_rules.sampling(sampling, complain)
  hold(complain, core.sampling_problem, sampling)
end

-- options: those of core.engine; lora: the options of an adapter, or nil.
function engine_rules.engine(options, lora, complain)
  hold(complain, core.engine_problem, options, lora and lora.dropout or 0.0)
end

return engine_rules
