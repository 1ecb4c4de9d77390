-- An optimizer step on the loss of preferences.
--
-- The loss and its derivative by the log-probability of each token are numbers once all texts have
-- been read.  The gradient by the weights is then that of sum over tokens of slope * log p, which
-- is the loss "reinforce" with advantages -slope * (tokens of the step).

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

-- One update.  texts: of each completion of the batch, as losses.text makes them, or false for one
-- that is not learned from.
function step.update(stage, p, batch, texts)
  local config, tokens, completions = stage.config, 0, {}
  for i = 1, #batch do tokens = tokens + batch:length(i) end
  for i = 1, #batch do
    completions[i] = { advantage = texts[i] and losses.slopes(texts[i], -tokens) or 0.0 }
  end
  local lr = schedule_value(config, "train.lr", config.train.lr, p)
  local metrics = stage.engine:update(batch, completions,
    { loss = "reinforce", lr = lr, max_grad_norm = config.train.max_grad_norm, seed = config.seed,
    step = stage.tr.step_count + 1 })
  metrics.learning_rate = lr
  return metrics
end

return step
