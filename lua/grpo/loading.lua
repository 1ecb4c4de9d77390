-- From the `model` options to a model and its tokenizer.

local core = require "grpo.core"
local errors = require "grpo.errors"
local places = require "grpo.places"

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

-- The model that a path stands for (see places.lua), with the tokenizer beside it.  options: those of core.model_load;
-- base: a model to use in place of the one that an adapter names.
function loading.open(path, options)
  if type(path) ~= "string" then return core.model_load(path, options) end -- which says what is wrong
  local given = {}
  for k, v in pairs(options or {}) do given[k] = v end
  local place = places.find(path, given.base)
  given.base = nil
  if place.adapter then
    if given.adapter then errors.raise("EARG", "model.load.adapter: %s is an adapter already", path) end
    given.adapter = place.adapter
    if not given.tokenizer and core.fs.exists(place.adapter .. "/tokenizer.json") then
      given.tokenizer = place.adapter
    end
  end
  return core.model_load(place.path, given), place
end

-- model: the options of section model; config: the whole experiment's (threads, seed).
function loading.model(model, config)
  if config.threads then core.set_threads(config.threads) end
  local tokenizer = tokenizer_of(model.tokenizer, model.path)
  if model.path then
    local loaded = core.model_load(model.path, { tokenizer = tokenizer })
    if not (tokenizer or loaded.tokenizer) then
      errors.raise("ENOENT", "model.tokenizer: no tokenizer beside the weights in %s; give one", model.path)
    end
    return loaded, tokenizer or loaded.tokenizer
  end
  local shape = model.config
  if type(shape) == "string" then shape = read_config(shape) end
  local copy = {}
  for k, v in pairs(shape) do copy[k] = v end
  copy.vocab_size = copy.vocab_size or #tokenizer
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
  return core.model_new(copy, { seed = config.seed, tokenizer = tokenizer }), tokenizer
end

return loading
