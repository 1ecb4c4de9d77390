-- From the `model` options to a model and its tokenizer.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local model_paths = require "grpo.models.paths"

local loading = {}

-- A JSON file of a model's shape: as given, else the one shipped inside the program.
local function read_config(path)
  local text, message, code = core.fs.read(path)
  text = text or core.embedded(path)
  if not text then errors.raise(code or "ENOENT", "model.config: %s: %s", path, message) end
  return core.json_decode(text, path)
end

local function tokenizer_of(option, path)
  if type(option) == "string" then return core.tokenizer_load(option) end
  if option ~= nil then return option end
  if path then return nil end -- the one beside the weights
  errors.raise("EARG", "model.tokenizer: missing; a model made from model.config needs one, "
    .. "for instance grpo.tokenizer.bytes()")
end

-- The model at place.path, its vocabulary grown to the tokenizer's, and then place.adapter on it.  Second result: a
-- sentence about that, or nil.  A tokenizer that nobody named is looked at for an adapter or where `grow` asks for it:
-- reading one takes time, and not everybody who opens a model wants text.  masks: it gets a mask token if it has
-- none.
local function load_at(place, options, grow, masks)
  local note
  if place.adapter and not options.tokenizer and core.fs.exists(place.adapter .. "/tokenizer.json") then
    options.tokenizer = place.adapter
  end
  local model = core.model_load(place.path, options)
  if masks and model.tokenizer then model.tokenizer = model.tokenizer:with_mask() end
  local looks = grow or place.adapter or options.tokenizer
  local rows, tokens = model.config.vocab_size, looks and model.tokenizer and #model.tokenizer or 0
  if tokens > rows then
    core.model_resize_vocab(model, tokens)
    note = ("the tokenizer has %d tokens and the model %d: the embedding got %d new rows, each the mean of the old "
      .. "ones"):format(tokens, rows, tokens - rows)
  end
  if place.adapter then model:load_adapter(place.adapter) end
  return model, note
end

-- The model that a path stands for (see places.lua), with the tokenizer beside it.  options: those of core.model_load;
-- base: a model to use in place of the one that an adapter names; grow: tokens that only the tokenizer has
-- get rows in the model.  Second result: the place.
function loading.open(path, options)
  if type(path) ~= "string" then return core.model_load(path, options) end -- which says what is wrong
  local given = {}
  for k, v in pairs(options or {}) do given[k] = v end
  local place = model_paths.find(path, given.base)
  local grow = given.grow
  given.base, given.grow = nil, nil
  if place.adapter and given.adapter then
    errors.raise("EARG", "model.load.adapter: %s is an adapter already", path)
  end
  local model = load_at(place, given, grow)
  return model, place
end

-- A model from model.path, or the checkpoint `from`.  An adapter is trained on frozen weights, which may be compact;
-- without one all weights are trained, in f32.
local function load_model(model, config, tokenizer, from, masks)
  local place = model_paths.find(model.path)
  if from then
    if model_paths.is_adapter(from) then place.adapter = from else place.path, place.adapter = from, nil end
  end
  local adapted = place.adapter or model.lora
  local options = { tokenizer = tokenizer, dtype = adapted and model.dtype or "f32", quantize = model.quantize,
    compute = config.compute }
  if options.quantize then options.dtype = nil end
  local loaded, note = load_at(place, options, true, masks)
  if not loaded.tokenizer then
    errors.raise("ENOENT", "model.tokenizer: no tokenizer beside the weights in %s; give one", model.path)
  end
  local about = { base = place.path, note = note }
  about.adapter = place.adapter and "loaded" or model.lora and "fresh" or nil
  if about.adapter == "fresh" then
    local lora = model.lora
    loaded:add_lora { rank = lora.rank, alpha = lora.alpha, dropout = lora.dropout, targets = lora.targets,
      seed = config.seed }
  end
  return loaded, loaded.tokenizer, about
end

-- The longest sequence of a model, whatever its family calls it.
function loading.context(model)
  local config = model.config
  return config.max_position_embeddings or config.n_positions
end

-- A model with random weights for a script.  Where the config does not say how many tokens there are, the tokenizer
-- does.
function loading.new(config, options)
  local tokenizer = type(options) == "table" and options.tokenizer
  if type(config) == "string" then config = read_config(config) end
  if type(tokenizer) == "userdata" and type(config) == "table" and config.vocab_size == nil then
    local copy = { vocab_size = #tokenizer }
    for k, v in pairs(config) do copy[k] = v end
    config = copy
  end
  return core.model_new(config, options)
end

-- A model with random weights for an experiment.
local function make_model(model, config, tokenizer, masks)
  local shape = model.config
  if type(shape) == "string" then shape = read_config(shape) end
  local copy = {}
  for k, v in pairs(shape) do copy[k] = v end
  local tokens = #tokenizer
  if masks then tokenizer = tokenizer:with_mask() end
  if not copy.vocab_size or copy.vocab_size == tokens then copy.vocab_size = #tokenizer end
  if copy.vocab_size < #tokenizer then
    errors.raise("EARG", "model.config: vocab_size is %d, but the tokenizer has %d tokens", copy.vocab_size, #tokenizer)
  end
  if copy.eos_token_id == nil then copy.eos_token_id = tokenizer.eos end
  if copy.bos_token_id == nil then copy.bos_token_id = tokenizer.bos end
  local ends = type(copy.eos_token_id) == "table" and copy.eos_token_id or { copy.eos_token_id }
  for _, id in ipairs(ends) do
    if math.type(id) == "integer" and (id < 0 or id >= copy.vocab_size) then
      errors.raise("EARG", "model.config: eos_token_id %d is outside the vocabulary of %d tokens; no completion would "
        .. "ever end by it", id, copy.vocab_size)
    end
  end
  local options = { seed = config.seed, tokenizer = tokenizer, compute = config.compute }
  return core.model_new(copy, options), tokenizer, {}
end

-- model: the options of section model; config: the whole experiment's (threads, seed, compute); from: a checkpoint
-- whose weights or adapter are taken; masks: a mask token is needed, the tokenizer gets one if it has none, and the
-- model a row for it.
-- Returns the model, its tokenizer, and { adapter = "fresh"|"loaded"|nil, base = path, note = a sentence or nil }.
function loading.model(model, config, from, masks)
  if config.threads then core.set_threads(config.threads) end
  if model.path then return load_model(model, config, tokenizer_of(model.tokenizer, model.path), from, masks) end
  if from then
    return load_model({ path = from, dtype = "f32" }, config, tokenizer_of(model.tokenizer, from), nil, masks)
  end
  return make_model(model, config, tokenizer_of(model.tokenizer), masks)
end

return loading
