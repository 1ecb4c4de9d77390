-- Do two models have one vocabulary?  The distributions of a policy and of its reference are
-- compared token by token.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local model_paths = require "grpo.models.paths"
local origins = require "grpo.options.origins"

local vocabulary = {}

local function refuse(config, format, ...)
  errors.raise_at(origins.position(config, "reference"), "EARG", "reference: %s " .. format
    .. ", so the two cannot be compared; take a model with the policy's vocabulary",
    config.reference, ...)
end

-- The tokenizer beside the weights at a path; nil: there is none.
local function tokenizer_at(path)
  local place = model_paths.find(path)
  for _, dir in ipairs { place.adapter or place.path, place.path } do
    local ok, tokenizer = pcall(core.tokenizer_load, dir)
    if ok then return tokenizer end
  end
end

-- Refuses config.reference, the path of a model, if its tokenizer has another token than the
-- policy's in some place.
function vocabulary.check_tokens(config, tokenizer)
  local other = tokenizer and tokenizer_at(config.reference)
  for id = 0, other and math.min(#tokenizer, #other) - 1 or -1 do
    local token, theirs = tokenizer:token(id), other:token(id)
    if token ~= theirs then
      refuse(config, "has %q as token %d, the policy has %q", tostring(theirs), id,
        tostring(token))
    end
  end
end

-- Refuses the model at config.reference if its output has another size than the policy's.
function vocabulary.check_size(config, policy, reference)
  local mine, other = policy.config.vocab_size, reference.config.vocab_size
  if mine ~= other then
    refuse(config, "has a vocabulary of %d tokens, the policy one of %d", other, mine)
  end
end

return vocabulary
