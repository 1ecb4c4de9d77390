-- The default lengths of prompts and completions may be longer than the model's context.  They are
-- lowered to what it holds; a length that the experiment sets is not.

local loading = require "grpo.models.loading"
local steps = require "grpo.options.stage_kinds"

local context_fit = {}

local PROMPT, ROOM = "data.max_prompt_tokens", "sampling.max_new_tokens"

-- Returns the longest prompt and completion of a stage within the context.  A supervised stage
-- samples nothing, so that its longest completion, which is the longest target, may be lowered in
-- any case.
local function lengths(kind, config, origins, context)
  local longest, room = config.data.max_prompt_tokens, config.sampling.max_new_tokens
  local prompt, completion = steps.lengths(kind, config)
  if prompt + completion <= context then return longest, room end
  local free = origins[PROMPT] == "default"
  if completion ~= room then -- all of a text is its prompt
    return free and context or longest, room
  end
  local room_is_free = origins[ROOM] == "default" or not steps[kind].samples
  if free and room_is_free and (origins[ROOM] == "default" or room >= context) then
    room = math.min(room, context // 2)
  end
  if free and room < context then return context - room, room end
  if room_is_free and longest < context then return longest, context - longest end
  return longest, room
end

-- Sets one length; adds a note, once.
local function set(section, name, path, value, origins, context, notes)
  local before = section[name]
  if before == value then return end
  section[name] = value
  local note = ("%s is %d instead of %d%s, because the model's context has %d tokens"):format(path,
    value, before, origins[path] == "default" and " (the default)" or "", context)
  if not notes[note] then notes[#notes + 1], notes[note] = note, true end
end

-- Lowers the default lengths of all stages of an experiment to the context of its model; returns
-- notes about it.
function context_fit.apply(e, model)
  local context, notes = loading.context(model), {}
  if not context then return notes end
  local whole = { kind = e.stages[1].kind, config = e.config, origins = e.origins }
  for _, spec in ipairs { whole, table.unpack(e.stages) } do
    local config, origins = spec.config, spec.origins
    local longest, room = lengths(spec.kind, config, origins, context)
    set(config.data, "max_prompt_tokens", PROMPT, longest, origins, context, notes)
    set(config.sampling, "max_new_tokens", ROOM, room, origins, context, notes)
  end
  return notes
end

return context_fit
