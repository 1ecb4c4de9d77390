-- Distillation: train.distill makes the stage's reference a teacher, and a divergence from it a
-- part of the loss.  It takes the place of train.kl, whose coefficient train.distill.weight is.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local prompts = require "grpo.scoring.prompts"
local truncated = require "grpo.options.truncated"

local teacher = {}

-- The path and the value of the coefficient of the KL in the loss.
function teacher.coefficient(train)
  if train.distill then return "train.distill.weight", train.distill.weight end
  return "train.kl", train.kl
end

-- Adds to the options of an update what it measures.
function teacher.choose(train, chosen)
  local o = train.distill
  if not o then return end
  chosen.kl_estimator = o.sampled_token and "k2" or "full"
  chosen.distill = { beta = o.beta, top_k = o.top_k }
end

-- Does the teacher give log-probabilities of the sampled tokens alone?
function teacher.needs_logprobs(config)
  return config.train.distill.sampled_token
end

-- The teacher's prompt of a completion, as ids; false: it has none.
local function prompt_of(stage, c, log)
  local config, o = stage.config, stage.config.train.distill
  core.reseed_math(c.rng)
  local ok, result = core.limited(config.limits.reward, "train.distill.prompt", o.prompt, c.row, c)
  core.reseed_math(nil)
  if not ok then error(errors.naming("train.distill.prompt", result), 0) end
  if result == nil or result == false then return false end
  local ids = prompts.encoded(config, stage.tr.tokenizer, result, "train.distill.prompt")
  local limit = teacher.prompt_tokens(config)
  if #ids > limit and config.data.too_long == "truncate_left" then
    ids = table.move(ids, #ids - limit + 1, #ids, 1, {})
  elseif #ids > limit and config.data.too_long == "error" then
    errors.raise("EARG", "train.distill.prompt: a prompt has %d tokens, the limit is %d; raise "
      .. "train.distill.max_prompt_tokens, or set data.too_long to \"drop\" or \"truncate_left\"",
      #ids, limit)
  elseif #ids > limit then
    log.teacher_dropped = (log.teacher_dropped or 0) + 1
    return false
  end
  return ids
end

-- Asks train.distill.prompt what the teacher reads before each completion of the batch.
function teacher.prompts(stage, batch, log)
  local o = stage.config.train.distill
  if not o or not o.prompt then return end
  local list, taught = {}, 0
  for i, c in ipairs(batch.completions) do
    list[i] = prompt_of(stage, c, log)
    taught = taught + (list[i] and 1 or 0)
  end
  stage.engine:reference_prompts(batch.record, list)
  log.frac_taught = taught / #list
end

-- The longest prompt that the teacher alone reads; 0 if it reads the student's.
function teacher.prompt_tokens(config)
  local o = config.train.distill
  if not o or not o.prompt then return 0 end
  return o.max_prompt_tokens or config.data.max_prompt_tokens
end

local function check_measure(config, o, complain)
  local sampling = config.sampling
  if o.sampled_token and (o.beta ~= 1 or o.top_k > 0) then
    complain("train.distill.sampled_token", "is the reverse KL at one token; leave out %s",
      o.beta ~= 1 and "train.distill.beta" or "train.distill.top_k")
  end
  if truncated.mask_tokens(sampling) > 0 and (o.beta ~= 1 or o.top_k > 0) then
    complain("sampling.renormalize", "train.distill compares whole distributions, and sampling has "
      .. "filters (%s), which leave tokens out; set it to false", truncated.filters_text(sampling))
  end
end

-- Refuses what does not go with train.distill.
function teacher.check(config, complain)
  local train, o = config.train, config.train.distill
  if not o then return end
  if config.reference == false then
    complain("reference", "train.distill needs a teacher; give a model's path, or \"policy\" or "
      .. "\"initial\" with train.distill.prompt")
  end
  if type(train.kl) == "function" or train.kl > 0 then
    complain("train.kl", "the reference is the teacher of train.distill, whose weight takes the "
      .. "place of train.kl; leave it out")
  end
  if type(train.loss) == "function" then
    complain("train.distill", "a loss of your own gets no teacher; name a loss in train.loss")
  end
  if config.reference == "policy" and not o.prompt then
    complain("reference", "\"policy\" is the student itself, which has nothing to learn from "
      .. "itself without train.distill.prompt")
  end
  if config.reference_dtype ~= "auto" and train.sync_reference then
    complain("train.sync_reference", "moves a reference in f32; leave out reference_dtype")
  end
  if config.reference == "policy" and train.sync_reference then
    complain("train.sync_reference", "reference = \"policy\" moves with every step already")
  end
  check_measure(config, o, complain)
end

return teacher
