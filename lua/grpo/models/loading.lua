-- Makes or loads the model and tokenizer that the `model` options describe.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local files_read = require "grpo.base.files_read"
local places = require "grpo.data.places"
local model_paths = require "grpo.models.paths"
local text_formats = require "grpo.base.text_formats"

local loading = {}

local function copy_of(t)
  local copy = {}
  for k, v in pairs(t) do copy[k] = v end
  return copy
end

-- Reads the file of a model's shape, JSON if its name says no other format: the file itself, else
-- the copy inside the program.
local function read_config(path)
  local problem = text_formats.problem(path)
  if problem then errors.raise("EARG", "model.config: %s", problem) end
  local text, message, code = core.fs.read(path)
  text = text or core.embedded(path)
  if not text then errors.raise(code or "ENOENT", "model.config: %s", message) end
  if core.fs.exists(path) then files_read.add(path) end
  local format = text_formats.of(path)
  local decode = format and format.name ~= "json" and format.decode or core.json_decode
  local config = decode(text, path)
  if type(config) ~= "table" or #config > 0 then
    errors.raise("EFORMAT", "model.config: %s has no object of a model's fields", path)
  end
  return config
end

local function tokenizer_of(option, path)
  if type(option) == "string" then return core.tokenizer_load(places.place(option)) end
  if option ~= nil then return option end
  if path then return nil end -- then the tokenizer beside the weights is used
  errors.raise("EARG", "model.tokenizer: missing; a model made from model.config needs one, "
    .. "for instance grpo.tokenizer.bytes()")
end

-- Is the directory's model a classifier or a reward model?
local function has_head(path)
  local text = core.fs.read(path .. "/config.json")
  local ok, config = pcall(core.json_decode, text or "")
  local names = ok and type(config) == "table" and config.architectures
  return type(names) == "table" and tostring(names[1]):find("ForSequenceClassification$") ~= nil
end

-- The model at a path with a head for one label: its own, or a new one with random weights.
local function model_with_head(path, options, seed)
  local model
  if has_head(path) then
    model = core.classifier_load(path, { dtype = "f32", compute = options.compute }):model()
    model.tokenizer = options.tokenizer or core.tokenizer_load(path)
  else
    local plain = core.model_load(path, options)
    model = core.model_with_head(plain, seed)
    model.tokenizer = plain.tokenizer
    plain:close()
  end
  return model
end

-- Loads the model at place.path, grows its vocabulary to the tokenizer's, then adds place.adapter.
-- The second result is a sentence about new rows, or nil.  Reading a tokenizer takes time and not
-- every caller needs text, so without options.tokenizer it is read only for an adapter, or if
-- `grow` is set.  needs: see loading.model.
local function load_at(place, options, grow, needs)
  local note
  if place.adapter and not options.tokenizer
      and core.fs.exists(place.adapter .. "/tokenizer.json") then
    options.tokenizer = place.adapter
  end
  local model = needs and needs.head and model_with_head(place.path, options, needs.head)
    or core.model_load(place.path, options)
  if needs and needs.masks and model.tokenizer then
    model.tokenizer = model.tokenizer:with_mask()
  end
  local looks = grow or place.adapter or options.tokenizer
  local rows, tokens = model.config.vocab_size, looks and model.tokenizer and #model.tokenizer or 0
  if tokens > rows then
    core.model_resize_vocab(model, tokens)
    note = ("the tokenizer has %d tokens and the model %d: the embedding got %d new rows, each the "
      .. "mean of the old ones"):format(tokens, rows, tokens - rows)
  end
  if place.adapter then model:load_adapter(place.adapter) end
  return model, note
end

-- Loads the model that a path stands for (see paths.lua), with the tokenizer beside it.  options:
-- those of core.model_load, and base: the model to use instead of the one that an adapter names;
-- grow: the model gets rows for tokens that only the tokenizer has.  The second result is the
-- place.
function loading.open(path, options)
  -- core.model_load raises the error about a wrong type
  if type(path) ~= "string" then return core.model_load(path, options) end
  local load_options = copy_of(options or {})
  local place = model_paths.find(path, load_options.base)
  local grow = load_options.grow
  load_options.base, load_options.grow = nil, nil
  load_options.tokenizer = places.place(load_options.tokenizer)
  load_options.adapter = places.place(load_options.adapter, true)
  if place.adapter and load_options.adapter then
    errors.raise("EARG", "model.load.adapter: %s is an adapter already; leave out one", path)
  end
  files_read.add_place(place)
  if type(load_options.tokenizer) == "string" then
    files_read.add_tokenizer(load_options.tokenizer)
  end
  if type(load_options.adapter) == "string" then
    files_read.add_model(load_options.adapter)
  end
  local model = load_at(place, load_options, grow)
  return model, place
end

-- Loads the model from model.path, or from the checkpoint `from`.  An adapter is trained on frozen
-- weights, which may be quantised; without one all weights are trained, in f32.
local function load_model(model, config, tokenizer, from, needs)
  local place = model_paths.find(model.path)
  if from then
    if model_paths.is_adapter(from) then
      place.adapter = from
    else
      place.path, place.adapter, place.name = from, nil, nil
    end
  end
  local adapted = place.adapter or model.lora
  local options = { tokenizer = tokenizer, dtype = adapted and model.dtype or "f32",
    quantize = model.quantize, compute = config.compute }
  if options.quantize then options.dtype = nil end
  local loaded, note = load_at(place, options, true, needs)
  if not loaded.tokenizer then
    local _, err = pcall(core.tokenizer_load, place.path) -- names one that is not read
    if type(err) == "table" and err.code == "EFORMAT" then error(err, 0) end
    errors.raise("ENOENT", "model.tokenizer: no tokenizer beside the weights in %s; give one",
      model.path)
  end
  local about = { base = place.name or place.path, note = note }
  about.adapter = place.adapter and "loaded" or model.lora and "fresh" or nil
  if about.adapter == "fresh" then
    local lora = model.lora
    loaded:add_lora { rank = lora.rank, alpha = lora.alpha, dropout = lora.dropout,
      targets = lora.targets, seed = config.seed }
  end
  return loaded, loaded.tokenizer, about
end

-- Returns the longest sequence of a model; families name it differently.
function loading.context(model)
  local config = model.config
  return config.max_position_embeddings or config.n_positions
end

-- Fills in the begin and end tokens that a config does not name; null names none.
local function add_tokens(config, tokenizer)
  for _, role in ipairs { "bos", "eos" } do
    local key, id = role .. "_token_id", tokenizer[role]
    local fits = id and id < (config.vocab_size or 0)
    if config[key] == nil and fits then config[key] = id end
  end
end

-- Makes a model with random weights for a script.  A config without vocab_size, begin or end
-- tokens gets the tokenizer's.
function loading.new(config, options)
  local tokenizer = type(options) == "table" and options.tokenizer
  if type(config) == "string" then config = read_config(config) end
  if type(tokenizer) == "string" then
    tokenizer = core.tokenizer_load(places.place(tokenizer))
    options = copy_of(options)
    options.tokenizer = tokenizer
  end
  if type(tokenizer) == "userdata" and type(config) == "table" then
    config = copy_of(config)
    config.vocab_size = config.vocab_size or #tokenizer
    add_tokens(config, tokenizer)
  end
  return core.model_new(config, options)
end

-- Makes a model with random weights for an experiment.
local function make_model(model, config, tokenizer, needs)
  local shape = model.config
  if type(shape) == "string" then shape = read_config(shape) end
  local copy = copy_of(shape)
  local tokens = #tokenizer
  if needs.masks then tokenizer = tokenizer:with_mask() end
  if not copy.vocab_size or copy.vocab_size == tokens then copy.vocab_size = #tokenizer end
  if copy.vocab_size < #tokenizer then
    errors.raise("EARG", "model.config: vocab_size is %d, but the tokenizer has %d tokens",
      copy.vocab_size, #tokenizer)
  end
  add_tokens(copy, tokenizer)
  local ends = type(copy.eos_token_id) == "table" and copy.eos_token_id or { copy.eos_token_id }
  for _, id in ipairs(ends) do
    if math.type(id) == "integer" and (id < 0 or id >= copy.vocab_size) then
      errors.raise("EARG", "model.config: eos_token_id %d is outside the vocabulary of %d tokens, "
        .. "so no completion would ever end by it; give an id of the vocabulary",
        id, copy.vocab_size)
    end
  end
  local options = { seed = config.seed, tokenizer = tokenizer, compute = config.compute }
  local made = core.model_new(copy, options)
  if needs.head then
    made = core.model_with_head(made, needs.head)
    made.tokenizer = tokenizer
  end
  return made, tokenizer, {}
end

-- Makes or loads an experiment's model.
--   model   the options of section model
--   config  the whole experiment's options (threads, seed, compute, numbers)
--   from    a checkpoint whose weights or adapter are taken, or nil
--   needs   { masks = true: a tokenizer without a mask token gets one, and the model a row,
--           head = a seed: the model gets a head for rewards, if it has none }, or nil
-- Returns the model, its tokenizer, and
-- { adapter = "fresh" | "loaded" | nil, base = path, note = a sentence or nil }.
function loading.model(model, config, from, needs)
  needs = needs or {}
  if config.threads then core.set_threads(config.threads) end
  core.kernels(config.numbers)
  if model.path then
    return load_model(model, config, tokenizer_of(model.tokenizer, model.path), from, needs)
  end
  if from then
    return load_model({ path = from, dtype = "f32" }, config, tokenizer_of(model.tokenizer, from),
      nil, needs)
  end
  return make_model(model, config, tokenizer_of(model.tokenizer), needs)
end

-- Does loading.model give a model with an adapter, whose base stays as it is?
function loading.is_adapted(model, from)
  if model.lora then return true end
  if from and model_paths.is_adapter(from) then return true end
  return model.path ~= nil and model_paths.find(model.path).adapter ~= nil
end

return loading
