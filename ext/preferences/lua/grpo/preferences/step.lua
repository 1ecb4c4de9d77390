-- An optimizer step on the loss of preferences.
--
-- The loss and its derivative by the log-probability of each token are numbers once all texts have
-- been read.  The gradient by the weights is then that of sum over tokens of slope * log p, which
-- is the loss "reinforce" with advantages -slope * (tokens of the step).

local errors = require "grpo.base.errors"
local schedule_value = require "grpo.options.schedule_value"
local losses = require "grpo.preferences.losses"

local step = {}

-- The options of train.dpo for a step, loss_type as a list.
function step.options(config, p)
  local o = setmetatable({}, { __index = config.train.dpo })
  o.loss_type = type(o.loss_type) == "table" and o.loss_type or { o.loss_type }
  o.beta = schedule_value(config, "train.dpo.beta", o.beta, p)
  return o
end

-- Must the reference be run?
function step.needs_reference(config)
  return not losses.all(step.options(config, { step = 0 }), "alone")
end

-- Refuses a loss that is not finite.
function step.check(stage, loss)
  if loss - loss == 0 then return end
  local _, err = errors.try(errors.raise, "EDIVERGED", "the loss of the pairs of step %d is %s, so "
    .. "the weights were not changed; lower train.lr or train.dpo.beta", stage.tr.step_count + 1,
    tostring(loss))
  err.nonfinite = true
  error(err, 0)
end

-- One update.  texts: of each completion of the batch, as losses.text makes them, or false for one
-- that is not learned from.  completions: those that get the advantages, or nil.
function step.update(stage, p, batch, texts, completions)
  local config, tokens = stage.config, 0
  completions = completions or {}
  for i = 1, #batch do tokens = tokens + batch:length(i) end
  for i = 1, #batch do
    completions[i] = completions[i] or {}
    completions[i].advantage = texts[i] and losses.slopes(texts[i], -tokens) or 0.0
  end
  local lr = schedule_value(config, "train.lr", config.train.lr, p)
  local metrics = stage.engine:update(batch, completions,
    { loss = "reinforce", lr = lr, max_grad_norm = config.train.max_grad_norm, seed = config.seed,
    step = stage.tr.step_count + 1 })
  metrics.learning_rate = lr
  return metrics
end

return step
