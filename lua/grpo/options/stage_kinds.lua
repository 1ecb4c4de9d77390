-- The kinds of stages by name: what a step is, and what the rest of the program must know about it.
--
-- A kind is a table.  Every kind has:
--   title, about       for the model card and the screen: "GRPO", "GRPO from rewards"
--   samples            whether a step samples completions and scores them; it then has groups,
--                      rewards, a reference for the KL, tr.batch and rows in completions.jsonl
--   check(config, complain, origin)   refuses options that do not fit.  complain(path, format, ...)
--                      raises; origin(path) says where a value came from
--   first_row(source, config)   takes one row like a step, to find mistakes before a run is written
--   line(tr, metrics)  the middle of the line on the screen
--   step(stage, p)     one step: returns metrics and the tokens trained on; p is the argument of
--                      schedules
-- A kind may have:
--   needs_reference(config)   whether a step compares the policy with the reference; without it
--                      there is none
--   turns              its steps accept completions with injected tokens
--   learns_targets     its steps learn from data.target
--   schedules          paths of options beside train.lr that may be functions of the step
--   masks              a mask token is needed; the tokenizer and the model get one if they lack it
--   head               the model has a head for rewards in place of its output projection
--   reads_text         a row without data.prompt and data.target is read as row.text
--   row_problem(config, tokenizer, prompt, held_out)   for `grpo check`: a text that says what is
--                      wrong with the rest of a rendered prompt's row, or nil
--   prompt_of(row)     the prompt of a row without data.prompt, in place of row.prompt
--   leaves_out_end     it does not learn the end token behind a target
--   lengths(config)    longest prompt and completion, if they are not the options' own
--   evaluate(tr, list, report)   replaces the usual evaluation: fills in the report for a list of
--                      held-out prompts
--   eval_names         names of the numbers in that report
--   eval_line(report)  its part of the line on the screen
--   sample(tr, n)      texts to show beside the steps: a list of { text= }
--   updates(config)    optimizer updates of a step; 1 if it is not there
--   engine_options(config)   fields of core.engine beside the common ones
--   waits              its steps wait for other programs, so that `grpo check` makes none
--   critic             advantages come from a critic too, not from rewards alone
--   advantages(config, completions, weights)   fills in c.advantage, for tr:rescore
--   policy_term(train) for tr:inspect: the loss and a table of its options, if they are not train's
--   ignores            { [path] = why }, options that other kinds have and this one does not read;
--                      a script that sets one of them is refused
--   defaults           options that the kind sets, below all that scripts and files say
--   card               paths of its own options that the model card shows

local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"
local options = require "grpo.options"
local truncated = require "grpo.options.truncated"

local steps = {}

-- The names of all kinds: the core's, and those that extensions add.  They are read when they are
-- asked for, because an extension may require modules that require this one.
function steps.names()
  local names = { "sft", "grpo", "ppo", "distill" }
  for _, row in ipairs(extensions.rows "stages") do names[#names + 1] = row.name end
  return names
end

function steps.is_kind(name)
  return options.among(name, steps.names())
end

-- A kind is loaded, by its name, when it is first asked for.  So a run loads its own kinds only,
-- and the options, a storey below the steps, can ask what a kind needs.
setmetatable(steps, { __index = function(kinds, name)
  if not steps.is_kind(name) then return nil end
  kinds[name] = require("grpo.steps." .. name)
  return kinds[name]
end })

-- The longest prompt and the longest completion of a stage.
function steps.lengths(kind, config)
  if steps[kind].lengths then return steps[kind].lengths(config) end
  return config.data.max_prompt_tokens, config.sampling.max_new_tokens
end

-- Does a stage compare the policy with its reference?
function steps.wants_reference(kind, config)
  local needs = steps[kind].needs_reference
  return config.reference ~= false and needs ~= nil and needs(config)
end

-- Returns the needs of an experiment's stages, which loading.model takes.
function steps.model_needs(e)
  local needs, others = {}, nil
  for _, spec in ipairs(e.stages) do
    if steps[spec.kind].masks then needs.masks = true end
    if steps[spec.kind].head then needs.head = e.config.seed else others = spec.kind end
  end
  if needs.head and others then
    errors.raise("EARG", "stages: a stage of kind \"%s\" cannot train a model that has a head for "
      .. "rewards in place of its output projection; give it an experiment of its own", others)
  end
  return needs
end

-- How many optimizer updates a step has.
function steps.updates(kind, config)
  return steps[kind].updates and steps[kind].updates(config) or 1
end

-- The sizes of core.engine for a stage, and what it may keep.
function steps.engine_options(kind, config)
  local method, samples = steps[kind], steps[kind].samples
  local longest, room = steps.lengths(kind, config)
  local sizes = {
    prompts_per_step = config.train.prompts_per_step,
    group_size = samples and config.sampling.group_size or 1,
    max_prompt_tokens = longest, max_new_tokens = room, examples = not samples,
    micro_batch_tokens = config.train.micro_batch_tokens,
    gradient_blocks = config.train.gradient_blocks,
    router_aux_loss_coef = config.train.router_aux_loss_coef,
    gradient_checkpointing = config.model.gradient_checkpointing,
    reuse_rollout = samples and config.train.reuse_rollout,
    renormalize = config.sampling.renormalize,
    mask_tokens = samples and truncated.mask_tokens(config.sampling) or 0,
  }
  for name, value in pairs(method.engine_options and method.engine_options(config) or {}) do
    sizes[name] = value
  end
  return sizes
end

return steps
