-- Mistakes that can be found before anything is written: stages are checked against the model,
-- their first row is tried.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local generation_options = require "grpo.models.generation_options"
local places = require "grpo.data.places"
local origins = require "grpo.options.origins"
local loading = require "grpo.models.loading"
local model_paths = require "grpo.models.paths"
local options = require "grpo.options"
local planned_steps = require "grpo.loop.planned_steps"
local prompt_notes = require "grpo.loop.prompt_notes"
local prompts = require "grpo.scoring.prompts"
local reference_names = require "grpo.options.reference_names"
local row_check = require "grpo.loop.row_check"
local schedule_check = require "grpo.loop.schedule_check"
local steps = require "grpo.options.stage_kinds"
local vocabulary = require "grpo.loop.vocabulary"

local preflight = {}

-- A length as a message names it: a default is not found in the script.
local function length(config, path, value)
  return value .. (origins.is_default(config, path) and " (the default)" or "")
end

local function check_context(kind, config, limit)
  local longest, room = steps.lengths(kind, config)
  if not limit or longest + room <= limit then return end
  local prompt = length(config, "data.max_prompt_tokens", config.data.max_prompt_tokens)
  local where = origins.position(config, "data.max_prompt_tokens")
  if room ~= config.sampling.max_new_tokens then -- all of a text is its prompt
    errors.raise_at(where, "EARG",
      "data.max_prompt_tokens: %s exceeds the model's context of %d tokens; lower it", prompt,
      limit)
  end
  if longest >= limit then
    errors.raise_at(where, "EARG",
      "data.max_prompt_tokens: %s does not leave room for a completion: the model's "
      .. "context is %d tokens; lower it", prompt, limit)
  end
  errors.raise_at(where, "EARG",
    "data.max_prompt_tokens: %s and sampling.max_new_tokens %s together exceed the "
    .. "model's context of %d tokens; lower one of them", prompt,
    length(config, "sampling.max_new_tokens", config.sampling.max_new_tokens), limit)
end

-- A reference given by its path must be there, if any KL asks for it.  A word without a "/" is more
-- likely a misspelt name, which is said in any case.
local function check_place(method, config)
  local path, wanted = config.reference, method.needs_reference(config)
  if type(path) ~= "string" or options.among(path, reference_names.list) then return end
  if core.fs.exists(path) or not wanted and path:find("/", 1, true) then return end
  if places.is_name(path) and path:find("/", 1, true) then
    local ok, err = pcall(places.place, path, true) -- which notes its commit for the run
    if ok then return end
    errors.raise_at(origins.position(config, "reference"), err.code or "ENOENT", "reference: %s",
      err.message or tostring(err))
  end
  errors.raise_at(origins.position(config, "reference"), "ENOENT",
    "reference: %s: no such model directory%s; give %s", path,
    options.hint(path, reference_names.list), reference_names.wanted)
end

local function check_reference(method, config, tokenizer)
  local path = config.reference
  check_place(method, config)
  if type(path) == "string" and not options.among(path, reference_names.list)
    and method.needs_reference(config)
  then
    vocabulary.check_tokens(config, tokenizer)
  end
end

-- A sampler must choose the same rows again.
local function check_sampler(source)
  if not source.sampler:is_used() then return end
  local _, problem = source.sampler:rehearse(source.config.train.prompts_per_step, 0)
  if problem then
    errors.raise_at(origins.position(source.config, "data.sampler"), "EARG", "%s", problem)
  end
end

-- Returns a note on what is not followed of the model's generation_config.json, or nil.
local function note_generation(experiment)
  for _, spec in ipairs(experiment.stages) do
    local path = spec.config.model.path
    if steps[spec.kind].samples and path then
      local config = spec.config
      return generation_options.note(model_paths.find(path).path, config.sampling, function(name)
        return config.sampling[name] ~= nil and not origins.is_default(config, "sampling." .. name)
      end, "the section sampling")
    end
  end
end

-- Refuses lengths that exceed the context of the model which is the stage's reference.
function preflight.reference(spec, model)
  local o, limit = steps.engine_options(spec.kind, spec.config), loading.context(model)
  local own = o.ref_prompt_tokens or 0
  local longest = math.max(own, o.max_prompt_tokens)
  if not limit or longest + o.max_new_tokens <= limit then return end
  local path = own > o.max_prompt_tokens and "train.distill.max_prompt_tokens"
    or "data.max_prompt_tokens"
  errors.raise_at(origins.position(spec.config, path), "EARG", "%s: %d and "
    .. "sampling.max_new_tokens %d together exceed the context of the reference, %d tokens; lower "
    .. "one of them", path, longest, o.max_new_tokens, limit)
end

-- Some token must begin what a grammar allows.
local function check_grammar(config, tokenizer)
  local sampling = config.sampling
  local name = sampling.grammar and "grammar" or sampling.regex and "regex"
  if not name or not tokenizer then return end
  local problem = core.grammar_problem(sampling[name], name == "regex", tokenizer)
  if not problem then return end
  errors.raise_at(origins.position(config, "sampling." .. name), "EARG", "sampling.%s: %s", name,
    problem)
end

-- spec: { kind=, config= } of the experiment.
function preflight.stage(tr, spec)
  check_context(spec.kind, spec.config, loading.context(tr.model))
  local reference = spec.config.reference
  if reference == "initial" or reference == "policy" then preflight.reference(spec, tr.model) end
end

-- Refuses what the options of the stages ask for and the model, the tokenizer or the first row
-- does not allow.
function preflight.stages(tr)
  for _, spec in ipairs(tr.experiment.stages) do
    preflight.stage(tr, spec)
    local method = steps[spec.kind]
    if method.samples then check_grammar(spec.config, tr.tokenizer) end
    if method.needs_reference then check_reference(method, spec.config, tr.tokenizer) end
    local source = prompts.source(spec.config, tr.tokenizer, planned_steps(spec.config))
    check_sampler(source)
    method.first_row(source, spec.config)
  end
end

-- Returns sentences about what a run had better not do, and the checksums of some rows, which a
-- resume compares.
function preflight.run(tr)
  local sums, notes = row_check.first(tr.experiment)
  table.move(tr.about.lengths, 1, #tr.about.lengths, #notes + 1, notes)
  for _, spec in ipairs(tr.experiment.stages) do
    for _, note in ipairs(schedule_check.stage(spec)) do notes[#notes + 1] = note end
  end
  preflight.stages(tr)
  notes[#notes + 1] = note_generation(tr.experiment)
  for _, note in ipairs(prompt_notes.of_run(tr.experiment, tr.tokenizer, prompts.render)) do
    notes[#notes + 1] = note
  end
  return notes, sums
end

return preflight
