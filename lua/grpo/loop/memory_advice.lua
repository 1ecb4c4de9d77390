-- Refuses a stage that cannot fit into memory at its longest texts, before any of it is taken, and
-- says what would fit.  Every figure is the engine's own estimate with that option changed.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local steps = require "grpo.options.stage_kinds"

local memory_advice = {}

local SHORT = 16 -- tokens of the shortest texts that are proposed

local function copy_of(t)
  local copy = {}
  for k, v in pairs(t) do copy[k] = v end
  return copy
end

local function mib(bytes) return bytes >> 20 end

-- Returns the changes that may help.  Each is { text = as the script says it, change = function(o),
-- which edits the engine's options, alone = true: it is of no use beside others }; a number may be
-- halved: { path =, field =, least = }.
local function changes_of(kind, config, options, need)
  local list = {}
  local function add(text, change) list[#list + 1] = { text = text, change = change } end
  local function halve(path, field, least)
    if (options[field] or 0) > least then
      list[#list + 1] = { path = path, field = field, least = least }
    end
  end
  if need.kept > 0 then
    add("train.reuse_rollout = false", function(o) o.reuse_rollout = false end)
  end
  if not config.model.gradient_checkpointing then
    add("model.gradient_checkpointing = true", function(o)
      o.gradient_checkpointing, o.reuse_rollout = true, false
    end)
  end
  if config.train.micro_batch_tokens then
    add("no train.micro_batch_tokens", function(o) o.micro_batch_tokens = nil end)
  end
  if steps[kind].samples then
    halve("sampling.max_new_tokens", "max_new_tokens", SHORT)
    halve("sampling.group_size", "group_size", 2)
  end
  halve("data.max_prompt_tokens", "max_prompt_tokens", SHORT)
  halve("train.prompts_per_step", "prompts_per_step", 1)
  local lora = config.model.lora
  local function store(text, storage)
    add(lora and text or "model.lora = {} with " .. text, function(o)
      o.storage = storage
      if not lora then o.lora = { rank = 8, targets = { "all-linear" } } end
    end)
    list[#list].alone = storage ~= "nf4"
  end
  -- random weights are not worth freezing
  if not config.model.path or config.model.quantize == "nf4" then return list end
  if not config.model.quantize and config.model.dtype ~= "bf16" then
    store('model.dtype = "bf16"', "bf16")
  end
  if not config.model.quantize then store('model.quantize = "int8"', "int8") end
  store('model.quantize = "nf4"', "nf4")
  return list
end

-- The bytes that the stage takes with these options; nil if they do not go together.
local function total(options)
  local ok, bytes = pcall(core.engine_estimate, options)
  return ok and bytes.total or nil
end

-- Applies a change to a copy of the options, the smallest that fits into `room` of a number that
-- can be halved.  Returns options, bytes and text.
local function applied(change, options, room)
  local o = copy_of(options)
  if change.change then
    change.change(o)
    return o, total(o), change.text
  end
  local value, bytes = o[change.field]
  repeat
    value = math.max(change.least, value // 2)
    o[change.field] = value
    bytes = total(o)
  until bytes and bytes <= room or value == change.least
  return o, bytes, ("%s = %d"):format(change.path, value)
end

-- Each change that fits by itself, as "NAME = VALUE (N MiB)".
local function alone(changes, options, room)
  local list = {}
  for _, change in ipairs(changes) do
    local _, bytes, text = applied(change, options, room)
    if bytes and bytes <= room then list[#list + 1] = ("%s (%d MiB)"):format(text, mib(bytes)) end
  end
  return list
end

-- Changes that fit together: all that are not numbers, one added to the other, then the numbers
-- halved in turn.  true, their texts and the bytes; false and the least bytes if that is too much.
local function together(changes, options, room)
  options = copy_of(options)
  local texts, numbers, least = {}, {}, math.huge
  for _, change in ipairs(changes) do
    local o, bytes, text
    if change.change and not change.alone then
      o, bytes, text = applied(change, options, room)
    end
    if bytes and bytes < least then options, least, texts[#texts + 1] = o, bytes, text end
    if not change.change then numbers[#numbers + 1] = change end
    if least <= room then return true, texts, least end
  end
  local before = copy_of(options)
  local function with_numbers()
    for _, c in ipairs(numbers) do
      if options[c.field] < before[c.field] then
        texts[#texts + 1] = ("%s = %d"):format(c.path, options[c.field])
      end
    end
    return texts, least
  end
  local halved = true
  while halved do
    halved = false
    for _, c in ipairs(numbers) do
      local value = options[c.field]
      if value > c.least then
        halved, options[c.field] = true, math.max(c.least, value // 2)
        least = total(options) or least
        if least <= room then return true, with_numbers() end
      end
    end
  end
  return false, with_numbers()
end

local function advice(kind, config, options, need, room)
  local changes = changes_of(kind, config, options, need)
  local single = alone(changes, options, room)
  if #single > 0 then return "it fits with " .. table.concat(single, ", or ") end
  local fits, texts, bytes = together(changes, options, room)
  local list = table.concat(texts, ", ")
  if fits then return ("it fits with all of these: %s (%d MiB)"):format(list, mib(bytes)) end
  if #texts == 0 then return "take a smaller model" end
  return ("it does not fit even with all of these: %s (%d MiB), so take a smaller model"):format(
    list, mib(bytes))
end

-- options: those of core.engine.  Raises ENOMEM if the stage cannot fit.
function memory_advice.check(kind, config, options)
  local available = core.mem().available
  if available == 0 then return end -- nobody knows
  local need = core.engine_estimate(options)
  local room = available + need.held -- the models are there already
  if need.total <= room then return end
  local message = ("the stage needs up to %d MiB (weights and gradients %d, optimizer %d, "
    .. "activations %d, cache %d) and %d are free for it; %s"):format(mib(need.total),
    mib(need.weights), mib(need.optimizer), mib(need.activations + need.kept), mib(need.cache),
    mib(room), advice(kind, config, options, need, room))
  local err = errors.new("ENOMEM", message, errors.where())
  -- the --memory that would be enough, for the line about it
  if core.mem().limit > 0 then err.enough = core.mem().limit - room + need.total end
  error(err, 0)
end

return memory_advice
