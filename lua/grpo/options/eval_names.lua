-- The numbers that an evaluation of a stage measures, and their names in its report.

local steps = require "grpo.options.stage_kinds"

local eval_names = {}

-- Are completions sampled and measured?
function eval_names.has_completions(config)
  return config.eval.metric ~= nil or #config.reward_entries > 0
end

-- Is the likelihood of targets measured?  It is in stages that learn from targets, and in stages
-- that sample, where a target is the answer that the model should give.
function eval_names.has_likelihood(kind, config)
  return config.data.target ~= nil and (steps[kind].learns_targets or steps[kind].samples)
end

-- Is the KL from the reference measured?  It is where the stage has one other than the policy.
function eval_names.has_kl(kind, config)
  return eval_names.has_completions(config) and steps[kind].samples
    and steps.wants_reference(kind, config) and config.reference ~= "policy"
end

-- Is anything measured at all?
function eval_names.any(kind, config)
  return steps[kind].evaluate ~= nil or eval_names.has_completions(config)
    or eval_names.has_likelihood(kind, config)
end

-- Returns the kinds of measures that exist for every K of eval.pass_at.
function eval_names.of_k(config)
  local list = { "pass" }
  if config.eval.majority then list[#list + 1] = "maj" end
  if config.eval.best_of then list[#list + 1] = "best" end
  return list
end

-- The names of the numbers in a report.
function eval_names.list(kind, config)
  if steps[kind].eval_names then return steps[kind].eval_names end
  local names = {}
  if eval_names.has_completions(config) then
    names = { "eval/accuracy", "eval/accuracy/low", "eval/accuracy/high", "eval/metric",
      "eval/mean_length" }
    if config.eval.group_size > 0 then names[#names + 1] = "eval/sampled/metric" end
    if #config.reward_entries > 0 then
      names[#names + 1] = "eval/reward"
      if config.eval.group_size > 0 then names[#names + 1] = "eval/sampled/reward" end
    end
    if eval_names.has_kl(kind, config) then names[#names + 1] = "eval/kl" end
  end
  if eval_names.has_likelihood(kind, config) then
    names[#names + 1], names[#names + 2] = "eval/loss", "eval/bits_per_character"
  end
  for _, entry in ipairs(config.reward_entries) do
    names[#names + 1] = "eval/rewards/" .. entry.name
  end
  for _, k in ipairs(config.eval.group_size > 0 and config.eval.pass_at or {}) do
    for _, of_k in ipairs(eval_names.of_k(config)) do
      for _, suffix in ipairs { "", "/low", "/high" } do
        names[#names + 1] = ("eval/%s@%d%s"):format(of_k, k, suffix)
      end
    end
  end
  return names
end

return eval_names
