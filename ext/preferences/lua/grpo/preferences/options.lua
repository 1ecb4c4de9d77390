-- Rules between the options of train.dpo.

local losses = require "grpo.preferences.losses"
local options = require "grpo.options"

local preference_options = {}

-- Refuses unknown names, and losses that do not go together.
local function check_losses(o, names, complain)
  if #names == 0 then complain("train.dpo.loss_type", "is empty; name a loss") end
  for i, name in ipairs(names) do
    if not losses.by_name[name] then
      complain("train.dpo.loss_type", "item %d is %s, want one of %s%s", i,
        type(name) == "string" and "'" .. name .. "'" or tostring(name),
        table.concat(losses.names, ", "), options.hint(name, losses.names))
    end
  end
  local list = { loss_type = names }
  if losses.some(list, "rows") and not losses.all(list, "rows") then
    complain("train.dpo.loss_type", "kto and apo_zero_unpaired are of rows with a label, the "
      .. "others of pairs; take losses of one kind")
  end
  local weights = o.loss_weights
  if weights and #weights ~= #names then
    complain("train.dpo.loss_weights", "has %d numbers for %d losses", #weights, #names)
  end
  for i, weight in ipairs(weights or {}) do
    if type(weight) ~= "number" or weight - weight ~= 0 then
      complain("train.dpo.loss_weights", "item %d is %s, want a number", i, tostring(weight))
    end
  end
  return list
end

-- Refuses options that the losses do not have.
local function check_each(o, list, complain)
  local function with(name) return options.among(name, list.loss_type) end
  if o.f_divergence_type ~= "reverse_kl" and not losses.all(list, "divergence") then
    complain("train.dpo.f_divergence_type", "only losses of the difference of two rewards have "
      .. "another divergence: sigmoid, hinge, ipo, exo_pair, robust, discopop, sft, sigmoid_norm, "
      .. "simpo")
  end
  if with "exo_pair" and (o.label_smoothing == 0 or o.label_smoothing == 1) then
    complain("train.dpo.label_smoothing", "exo_pair needs more than 0 and less than 1; its paper "
      .. "takes 1e-3")
  end
  if with "robust" and o.label_smoothing >= 0.5 then
    complain("train.dpo.label_smoothing", "got %s, but robust needs less than 0.5: a half of wrong "
      .. "labels says nothing", o.label_smoothing)
  end
  if o.use_weighting and (losses.some(list, "together") or losses.some(list, "rows")) then
    complain("train.dpo.use_weighting", "weighs each pair by itself, which aot, aot_unpaired, sft, "
      .. "orpo and losses of rows with a label do not allow")
  end
  if o.ld_alpha and losses.some(list, "rows") then
    complain("train.dpo.ld_alpha", "compares the lengths of a pair; rows with a label have none")
  end
end

-- Returns { loss_type = the list of losses }.
function preference_options.check(config, complain, origin)
  local o = config.train.dpo
  local names = type(o.loss_type) == "table" and o.loss_type or { o.loss_type }
  local list = check_losses(o, names, complain)
  check_each(o, list, complain)
  if o.beta == 0 then
    complain("train.dpo.beta", "got 0, which learns nothing; want more than 0")
  end
  if losses.some(list, "kl") and config.train.prompts_per_step < 2 then
    complain("train.prompts_per_step",
      "kto compares the rows of a step with one another; want 2 or more")
  end
  local given = origin("reference") ~= "default" and config.reference ~= false
  if losses.all(list, "alone") and given then
    complain("reference", "is not read by %s; leave it out", table.concat(names, ", "))
  end
  return list
end

return preference_options
