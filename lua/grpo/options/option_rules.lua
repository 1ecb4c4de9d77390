-- Combinations of options that contradict each other, or that would have no effect, are refused.
-- Rules of the engine's own options: engine_rules.lua.
--
-- The experiment has checked every value by itself and filled in the defaults.
-- complain(path, format, ...) raises at the script's line of that option.

local chat = require "grpo.models.chat"
local core = require "grpo.core"
local engine_rules = require "grpo.options.engine_rules"
local environment = require "grpo.options.environment"
local errors = require "grpo.base.errors"
local eval_names = require "grpo.options.eval_names"
local extensions = require "grpo.base.extensions"
local jinja = require "grpo.jinja"
local model_paths = require "grpo.models.paths"
local option_tree = require "grpo.options.option_tree"
local options = require "grpo.options"
local reference_names = require "grpo.options.reference_names"
local reward_factory = require "grpo.options.reward_factory"
local row_sampler = require "grpo.options.row_sampler"
local sorted_pairs = require "grpo.base.sorted"
local steps = require "grpo.options.stage_kinds"
local tools = require "grpo.options.tools"

local option_rules = {}

-- Options that describe the run as a whole: a stage cannot have its own.
local of_the_run = {
  "name", "threads", "compute", "numbers", "extends", "stages", "model.path", "model.config",
  "model.tokenizer", "model.dtype", "model.quantize", "model.lora",
}


local LONGEST_NAME = 255 - #"-123456789" -- of a file, less the run's number

local function check_texts(config, complain)
  if config.name == "" then complain("name", "is empty; it names the run's directory") end
  if #config.name > LONGEST_NAME then
    complain("name", "has %d bytes; it names the run's directory and has %d at most", #config.name,
      LONGEST_NAME)
  end
end

-- Variables of a chat template that are not for chat_template_kwargs, and what sets them.
local own_variables = { messages = "data.prompt gives them", tools = "set tools",
  add_generation_prompt = "it is always true",
  continue_final_message = "data.prompt may return tokenizer:encode(tokenizer:chat(messages, "
    .. "{ continue_final_message = true }))" }

-- Is this what JSON can hold?
local function is_plain(v, depth)
  if type(v) == "number" then return v - v == 0 end
  if type(v) ~= "table" then
    return type(v) == "string" or type(v) == "boolean" or v == core.json_null
  end
  if depth > 100 then return false end
  for _, field in next, v do
    if not is_plain(field, depth + 1) then return false end
  end
  return true
end

local function check_variable(name, value, complain)
  local path = "model.chat_template_kwargs." .. tostring(name)
  if own_variables[name] then complain(path, "is not set here; %s", own_variables[name]) end
  if type(name) ~= "string" or not name:find("^[%a_][%w_]*$") then
    complain(path, "does not name a variable; want letters, digits and _")
  end
  if not is_plain(value, 0) then
    complain(path, "got %s, want a string, a number, true, false or a table of such",
      option_tree.shown(value))
  end
end

local function check_template(model, complain)
  local text = model.chat_template
  if text == true then complain("model.chat_template", "got true, want a template, or false") end
  if type(text) == "string" then
    local template, problem = chat.template(text)
    if not template then complain("model.chat_template", "%s", problem) end
    local ok, err = errors.try(jinja.compile, template)
    if not ok then complain("model.chat_template", "%s", (tostring(err))) end
  end
  for name, value in sorted_pairs(model.chat_template_kwargs or {}) do
    check_variable(name, value, complain)
  end
end

local function adapted(model)
  return model.lora or (model.path and model_paths.leads_to_adapter(model.path))
end

local function check_kl(config, complain)
  local train = config.train
  local on = type(train.kl) == "function" or train.kl > 0
  if train.kl_estimator == "full" and train.kl_in == "reward" then
    complain("train.kl_in",
      "the full KL is a loss term; use kl_estimator = \"k1\" with kl_in = \"reward\"")
  end
  if train.sync_reference and config.reference ~= "initial" and adapted(config.model) then
    complain("train.sync_reference", "with an adapter only reference = \"initial\" can move")
  end
  if train.sync_reference and reference_names.added[config.reference] then
    complain("train.sync_reference",
      ("moves a model; reference = %q is none"):format(config.reference))
  end
  if config.reference == true then
    complain("reference", "got true, want " .. reference_names.wanted)
  end
  if config.reference == "policy" and not train.distill then
    complain("reference", "\"policy\" is the policy itself, so the KL would always be 0; it is for "
      .. "train.distill.prompt")
  end
  if config.reference == false and on then
    complain("train.kl", "a KL needs a reference; reference is false")
  end
end

local function has_dense(entries)
  for _, entry in ipairs(entries) do
    if entry.token_fn then return true end
  end
  return false
end

local function check_rewards(config, complain)
  local clip, aggregate = config.reward.clip, config.reward.aggregate
  if clip then
    local low, high = clip[1], clip[2]
    local numbers = #clip == 2 and type(low) == "number" and type(high) == "number" and low == low
      and high == high
    if not numbers or low > high then
      complain("reward.clip", "want { low, high }, two numbers in order")
    end
  end
  local dense = has_dense(config.reward_entries)
  if clip and (dense or aggregate ~= "sum") then
    complain("reward.clip", "bounds the sum of whole rewards; it has no meaning with %s",
      dense and "a token_fn" or "aggregate = \"normalize_then_sum\"")
  end
  if aggregate ~= "sum" and dense then
    complain("reward.aggregate",
      "\"normalize_then_sum\" wants one number a completion; leave out the token_fn")
  end
  if aggregate ~= "sum" and config.train.kl_in == "reward" then
    complain("train.kl_in",
      "\"reward\" subtracts from the sum of rewards; use reward.aggregate = \"sum\"")
  end
  if config.train.advantage.turn_weight > 0 and not config.environment then
    complain("train.advantage.turn_weight", "turns get their rewards from an environment, and "
      .. "there is none; use a token_fn, or 0")
  end
  if config.train.advantage.baseline == "leave_one_out" and config.sampling.group_size < 2 then
    complain("train.advantage.baseline", "leave_one_out needs sampling.group_size of 2 or more")
  end
end

local function check_best(kind, config, origin, complain)
  local best = config.checkpoint.best
  if not best or not best:find("^eval/") then return end
  if not config.data.eval then
    -- a shared file may say so for those that have one
    if origin("checkpoint.best"):find("^extends") then return end
    complain("checkpoint.best", "'%s' needs data.eval, which is missing", best)
  end
  local names = eval_names.list(kind, config)
  for _, name in ipairs(names) do
    if name == best then return end
  end
  complain("checkpoint.best", "no evaluation has '%s'%s", best, options.hint(best, names))
end

local function check_best_of(config, complain)
  local name, names = config.eval.best_of, { "reward" }
  for i, entry in ipairs(config.reward_entries) do names[i + 1] = entry.name end
  if name and not options.among(name, names) then
    complain("eval.best_of", "there is no reward '%s'%s", name, options.hint(name, names))
  end
end

local function check_eval(kind, config, origin, complain)
  local problem = config.eval.metric and reward_factory.problem(config.eval.metric)
  if problem then complain("eval.metric", "%s", problem) end
  local longest, room = config.eval.max_new_tokens, config.sampling.max_new_tokens
  if longest and longest > room then
    complain("eval.max_new_tokens", "got %d, want at most sampling.max_new_tokens, which is %d",
      longest, room)
  end
  local group, list = config.eval.group_size, config.eval.pass_at
  for _, k in ipairs(list) do
    if math.type(k) ~= "integer" or k < 1 then
      complain("eval.pass_at", "got %s, want whole numbers, 1 or more", tostring(k))
    end
    if k > group and (group > 0 or origin("eval.pass_at") ~= "default") then
      complain("eval.pass_at", "pass@%d needs eval.group_size of %d or more, it is %d", k, k, group)
    end
  end
  check_best_of(config, complain)
  if config.data.eval and not eval_names.any(kind, config) then
    complain("data.eval", "nothing measures it; give eval.metric or rewards")
  end
end

-- Evaluations and checkpoints are counted in steps or in epochs.
local function check_every(config, complain)
  for _, section in ipairs { "eval", "checkpoint" } do
    local o = config[section]
    if o.every > 0 and o.every_epochs > 0 then
      complain(section .. ".every_epochs",
        "%g, but %s.every is %d, and one of the two counts; set the other to 0", o.every_epochs,
        section, o.every)
    end
  end
end

-- Which weights are trained, and how the others are kept.
local function check_model(model, origin, complain)
  if not (model.path or model.config) then
    complain("model.path", "missing; give a model directory, or model.config for random weights")
  end
  local adapter = model.path and model_paths.leads_to_adapter(model.path)
  if model.lora and not model.path then
    complain("model.lora",
      "needs model.path: an adapter is saved without its base, which must be there to load it "
      .. "again")
  end
  if model.lora and adapter then
    complain("model.lora",
      "%s is an adapter, with settings of its own, and is what is trained; remove model.lora",
      model.path)
  end
  if model.quantize and not (model.lora or adapter) then
    complain("model.quantize",
      "quantised weights are frozen, so there would be nothing to train; add model.lora = {}")
  end
  if model.dtype == "bf16" and not (model.lora or adapter) then
    complain("model.dtype",
      "training all weights keeps them in f32; use \"f32\", or add model.lora = {}")
  end
  if model.quantize and model.dtype ~= "auto" and origin("model.dtype") ~= "default" then
    complain("model.dtype",
      "has no effect with model.quantize, which decides the storage; remove one of them")
  end
  local targets = model.lora and model.lora.targets
  for i, name in ipairs(type(targets) == "table" and targets or {}) do
    if type(name) ~= "string" or name == "" then
      complain("model.lora.targets", "item %d is %s, want a name such as \"q_proj\"", i,
        name == "" and "empty" or "a " .. type(name))
    end
  end
  if type(targets) == "table" and #targets == 0 then
    complain("model.lora.targets",
      "is empty; name weights, such as { \"q_proj\", \"v_proj\" }, or \"all-linear\"")
  end
  if model.lora and model.lora.alpha == 0 then
    complain("model.lora.alpha", "got 0, which switches the adapter off; want more than 0")
  end
end

local function check_turns(kind, config, complain)
  local list = tools.list(config.tools, complain)
  local option = config.tools and "tools" or config.environment and "environment"
  if config.tools and #list == 0 then
    complain("tools", "is empty; give { name = { description=, parameters=, fn= } }")
  end
  tools.check_form(config.turns.format, list, complain)
  environment.check(config.environment, complain)
  if option and steps[kind].samples and not steps[kind].turns then
    complain(option, "stages of kind \"%s\" have no turns; remove it", kind)
  end
end

-- A log that an extension writes is refused where the script asks for it and no extension is there.
local function check_log(log, origin, complain)
  if not log.tensorboard or origin("log.tensorboard") == "default" then return end
  for _, row in ipairs(extensions.rows "log_sinks") do
    if row.name == "tensorboard" then return end
  end
  complain("log.tensorboard", "is true, but this program writes no event files, because it was "
    .. "built without ext/tensorboard; build it with that, or leave the option out")
end

-- Options that the kind does not read.  A shared file may speak to other kinds.
local function check_ignored(kind, origin, complain)
  for path, why in sorted_pairs(steps[kind].ignores or {}) do
    local from = origin(path) or "default"
    if not (from:find("^default") or from:find("^extends")) then
      complain(path, "has no effect in a stage of kind \"%s\": %s; remove it", kind, why)
    end
  end
end

-- origin(path): where an option's value came from ("default", "script", ...), nil when it has none.
function option_rules.check(kind, config, origin, complain)
  check_texts(config, complain)
  check_template(config.model, complain)
  check_kl(config, complain)
  if not config.data.train then
    complain("data.train", "missing; give a dataset such as grpo.data.jsonl(\"train.jsonl\")")
  end
  row_sampler.check(config.data.sampler, complain)
  check_model(config.model, origin, complain)
  check_ignored(kind, origin, complain)
  steps[kind].check(config, complain, origin)
  check_rewards(config, complain)
  engine_rules.sampling(config.sampling, complain)
  check_turns(kind, config, complain)
  engine_rules.engine(steps.engine_options(kind, config), config.model.lora, complain)
  for _, what in ipairs(config.train.optimizer.no_decay) do
    if what ~= "bias" and what ~= "norm" then
      complain("train.optimizer.no_decay", "got %s, want \"bias\" or \"norm\"", tostring(what))
    end
  end
  check_eval(kind, config, origin, complain)
  check_every(config, complain)
  check_best(kind, config, origin, complain)
  check_log(config.log, origin, complain)
end

-- A stage as the script wrote it; path is "stages[i]".
function option_rules.check_stage(stage, path, complain)
  if not steps.is_kind(stage.kind) then
    local quoted, names = {}, steps.names()
    for i, name in ipairs(names) do quoted[i] = ('"%s"'):format(name) end
    local last = table.remove(quoted)
    complain(path .. ".kind", "got %s, want %s or %s%s",
      type(stage.kind) == "string" and "'" .. stage.kind .. "'" or tostring(stage.kind),
      table.concat(quoted, ", "), last, options.hint(stage.kind, names))
  end
  for _, option in ipairs(of_the_run) do
    if option_tree.get(stage, option) ~= nil then
      complain(path .. "." .. option, "belongs to the whole run; set it outside stages")
    end
  end
end

-- True for an option that a stage cannot have, by its path.
function option_rules.is_of_the_run(path)
  for _, option in ipairs(of_the_run) do
    if path == option or path:sub(1, #option + 1) == option .. "." then return true end
  end
  return false
end

return option_rules
