-- The kinds of stages by name: what a step is, and what the rest of the program must know about it.
--
-- A kind is a table:
--   title, about          for the model card and the screen: "GRPO", "GRPO from rewards"
--   samples               does a step roll out completions and score them?  It then has groups, rewards, a reference
--                         for the KL, tr.batch and rows in completions.jsonl
--   turns                 do its steps know completions in which tools or an environment have put tokens?
--   check(config, complain, origin)   what options this kind needs; complain(path, format, ...) raises, origin(path)
--                         says where a value came from
--   needs_reference(config)      only with `samples`: is a KL measured?
--   masks                 is a mask token needed, which the tokenizer and the model get if they have none?
--   reads_text            without data.prompt and data.target a row is read as row.text, where it has one
--   lengths(config)       longest prompt and completion, where they are not the options' own
--   evaluate(tr, list, report)   instead of the usual evaluation: list of held-out prompts; fills in the report
--   eval_names            what such a report has
--   sample(tr, n)         texts to show beside the steps: a list of { text= }
--   engine_options(config)       fields of core.engine beside the common ones; may be absent
--   critic                advantages come from a critic too, not from rewards alone
--   first_row(source, config)    takes one row as a step would, to find out before anything is written
--   line(tr, metrics)     the middle of the line on the screen
--   step(stage, p)        one step: metrics, tokens trained on; p is the argument of schedules

-- A kind is loaded when it is first asked for, so that a run loads its own kinds only.
local load = {
  sft = function() return require "grpo.train.steps.sft" end,
  grpo = function() return require "grpo.train.steps.grpo" end,
  ppo = function() return require "grpo.train.steps.ppo" end,
  denoise = function() return require "grpo.train.steps.denoise" end,
}

local steps = setmetatable({ names = { "sft", "grpo", "ppo", "denoise" } }, {
  __index = function(kinds, name)
    if load[name] then kinds[name] = load[name]() end
    return rawget(kinds, name)
  end,
})

function steps.is_kind(name)
  return load[name] ~= nil
end

-- The longest prompt and the longest completion of a stage.
function steps.lengths(kind, config)
  if steps[kind].lengths then return steps[kind].lengths(config) end
  return config.data.max_prompt_tokens, config.sampling.max_new_tokens
end

-- The sizes of core.engine for a stage, and what it may keep.
function steps.engine_options(kind, config)
  local method, samples = steps[kind], steps[kind].samples
  local longest, room = steps.lengths(kind, config)
  local options = {
    prompts_per_step = config.train.prompts_per_step, group_size = samples and config.sampling.group_size or 1,
    max_prompt_tokens = longest, max_new_tokens = room, examples = not samples,
    micro_batch_tokens = config.train.micro_batch_tokens,
    gradient_checkpointing = config.model.gradient_checkpointing,
    reuse_rollout = samples and config.train.reuse_rollout,
  }
  for name, value in pairs(method.engine_options and method.engine_options(config) or {}) do options[name] = value end
  return options
end

return steps
