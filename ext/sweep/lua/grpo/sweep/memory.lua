-- The memory that the runs of a sweep take, from the engine's own estimate at the longest texts.

local context_fit = require "grpo.loop.context_fit"
local core = require "grpo.core"
local loading = require "grpo.models.loading"
local reference_names = require "grpo.options.reference_names"
local Stage = require "grpo.loop.stage"
local start = require "grpo.runs.start"
local steps = require "grpo.options.stage_kinds"

local memory = {}

-- A text that is equal for experiments whose models are loaded equally.
local function model_key(e)
  local parts = {}
  for path, one in pairs(start.described(e).options) do
    if path:find("^model") or path == "compute" then
      parts[#parts + 1] = path .. "=" .. (type(one.value) == "string" and one.value
        or core.json_encode(one.value))
    end
  end
  table.sort(parts)
  return table.concat(parts, "\n")
end

local kept = {} -- the model that was loaded last

-- Forgets the model, whose memory the runs need.
function memory.close()
  kept = {}
  collectgarbage()
  collectgarbage()
end

local function model_of(e)
  local key = model_key(e)
  if kept.key ~= key then
    memory.close()
    local model, tokenizer, about = loading.model(e.config.model, e.config, nil,
      steps.model_needs(e))
    kept = { key = key, model = model, tokenizer = tokenizer, about = about }
  end
  return kept
end

-- The bytes that a run of the experiment needs: its largest stage, and what this process had taken
-- when it had read the script and the rows, as the run's will.
function memory.of(e)
  e.config.threads = nil -- the number is fixed by the first model
  local before = core.mem().lua
  local loaded, most = model_of(e), 0
  context_fit.apply(e, loaded.model)
  for _, spec in ipairs(e.stages) do
    local options = Stage.engine_options(loaded, spec)
    local config = spec.config
    if steps.wants_reference(spec.kind, config)
        and not reference_names.added[config.reference] then
      -- a model of its own has the policy's shape, as a rule
      local shared = loaded.about.adapter == "fresh" and not config.train.sync_reference
      options.reference = shared and core.model_base(loaded.model) or loaded.model
    end
    most = math.max(most, core.engine_estimate(options).total)
  end
  return most + before
end

return memory
