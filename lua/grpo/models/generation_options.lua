-- The options of a model's generation_config.json: those that change what a model samples and that
-- a command or run does not follow are named.

local model_paths = require "grpo.models.paths"

local generation_options = {}

-- The value with which an option changes nothing, by its name in the file.
local neutral = { temperature = 1.0, top_p = 1.0, top_k = 0, min_p = 0, typical_p = 1.0,
  repetition_penalty = 1.0, encoder_repetition_penalty = 1.0, length_penalty = 1.0,
  diversity_penalty = 0, no_repeat_ngram_size = 0, encoder_no_repeat_ngram_size = 0,
  epsilon_cutoff = 0, eta_cutoff = 0, penalty_alpha = 0, guidance_scale = 1.0, num_beams = 1,
  num_beam_groups = 1, min_length = 0, min_new_tokens = 0, do_sample = true,
  renormalize_logits = false, early_stopping = false, top_h = 0 }

-- Lists, whose presence changes something.
local lists = { "bad_words_ids", "force_words_ids", "suppress_tokens", "begin_suppress_tokens",
  "forced_bos_token_id", "forced_eos_token_id", "sequence_bias", "stop_strings",
  "exponential_decay_length_penalty", "constraints", "watermarking_config" }

local names = {}
for name in pairs(neutral) do names[#names + 1] = name end
table.sort(names)

-- The options that shape sampling; greedy decoding does not read them.
local shaping = { temperature = true, top_p = true, top_k = true, min_p = true, typical_p = true,
  epsilon_cutoff = true, eta_cutoff = true, top_h = true }

-- The sampling options that the directory's file sets, by their names here.
function generation_options.own(dir)
  local own = model_paths.read_json(dir .. "/generation_config.json")
  if own.do_sample == false then return { temperature = 0 } end
  local set = {}
  for _, name in ipairs { "temperature", "top_p", "top_k", "min_p", "repetition_penalty" } do
    set[name] = type(own[name]) == "number" and own[name] or nil
  end
  return set
end

-- Returns "name = value, ..." for the options in the directory's file that change something and
-- differ from `sampling`, the table of the options that are used; nil if there are none.  An option
-- for which chosen(name) is true was given by the user, and is left out.
function generation_options.not_followed(dir, sampling, chosen)
  local own, list = model_paths.read_json(dir .. "/generation_config.json"), {}
  local greedy = own.do_sample == false
  for _, name in ipairs(names) do
    local value, used = own[name], sampling[name]
    if name == "do_sample" and sampling.temperature == 0 then used = false end
    local odd = type(value) == type(neutral[name]) and value ~= neutral[name]
      and not (greedy and shaping[name])
    if odd and value ~= used and not chosen(name) then
      list[#list + 1] = ("%s = %s"):format(name, value)
    end
  end
  for _, name in ipairs(lists) do
    local value = own[name]
    if type(value) == "table" and next(value) or type(value) == "number" then
      list[#list + 1] = name
    end
  end
  return #list > 0 and table.concat(list, ", ") or nil
end

-- The sentence about options that are not followed, or nil.  instead: the name of what says how
-- tokens are sampled.
function generation_options.note(dir, sampling, chosen, instead)
  local odd = generation_options.not_followed(dir, sampling, chosen)
  return odd and ("of the model's generation_config.json this is not followed: %s; %s says how "
    .. "tokens are sampled"):format(odd, instead)
end

return generation_options
