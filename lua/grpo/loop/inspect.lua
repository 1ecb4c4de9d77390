-- A step's intermediate results: `tr:inspect()` token by token, `tr:rescore(rewards)` for the
-- completions with other rewards.  Neither changes the state of training.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local reference_names = require "grpo.options.reference_names"
local reward_entries = require "grpo.options.reward_entries"
local script = require "grpo.loop.script"
local scoring = require "grpo.scoring.scoring"

local inspect = {}

-- ---- the tokens of a step ----------------------------------------------------------------------

local function batch_of(tr, what)
  local batch, stage = tr.batch, tr.stage
  if not batch and stage and not stage.method.samples then
    errors.raise("EARG", "tr:%s: a step of kind \"%s\" has no completions", what, stage.kind)
  end
  if not batch then
    errors.raise("EARG", "tr:%s: no step with completions has been made here yet; tr:step()", what)
  end
  return batch.completions, stage
end

-- Returns a recorded list of completion i, or nil if a later rollout has overwritten it.
local function recorded(tr, what, i)
  local record = tr.batch.record
  local ok, list = pcall(function() return record[what](record, i) end)
  return ok and list or nil
end

-- Returns lists of the whole step per token, in the order of tr.batch.completions, and the prompts,
-- one for each completion.
local function lists_of(tr, cs)
  local l = { prompts = {}, ids = {}, old_logp = {}, ref_logp = {}, advantage = {}, mask = {},
    all_ids = {}, masks = {} }
  local mask_truncated = tr.settings.train.mask_truncated
  for i, c in ipairs(cs) do
    local slot = (i - 1) // #c.group + 1
    local ref, sampled = recorded(tr, "ref_logprobs", i), recorded(tr, "sampled", i)
    local advantages = tr.batch.token_advantages and tr.batch.token_advantages[i] or c.advantage
    l.masks[i] = recorded(tr, "sampling_mask", i) or false
    l.prompts[i], l.ids[i] = tr.batch.prompts[slot].ids, c.ids
    for k = 1, #c.ids do
      local a = type(advantages) == "table" and advantages[k] or advantages or 0.0
      local masked = (mask_truncated and c.truncated) or (sampled and not sampled[k])
      l.all_ids[#l.all_ids + 1], l.old_logp[#l.old_logp + 1] = c.ids[k], c.logprobs[k]
      l.advantage[#l.advantage + 1] = type(a) == "number" and a or 0.0
      l.mask[#l.mask + 1] = masked and 0.0 or 1.0
      l.ref_logp[#l.ref_logp + 1] = ref and ref[k] or nil
    end
  end
  return l
end

-- Returns what a reference that is not a model gives as log P(token | token before) for these
-- tokens, at the temperature of sampling.
local function row_logprobs(reference, prompts, completions, temperature)
  local places, result = {}, {} -- places[token before]: a list of { index in result, token }
  for i, ids in ipairs(completions) do
    local before = prompts[i][#prompts[i]]
    for _, id in ipairs(ids) do
      result[#result + 1] = 0.0
      places[before] = places[before] or {}
      table.insert(places[before], { #result, id })
      before = id
    end
  end
  for before, list in pairs(places) do
    local row, sum = reference:logprobs(before), 0.0
    for _, logp in ipairs(row) do sum = sum + math.exp(logp / temperature) end
    for _, place in ipairs(list) do
      result[place[1]] = row[place[2] + 1] / temperature - math.log(sum)
    end
  end
  return result
end


-- Returns the loss of these tokens under the stage's options, an error message or nil, and the
-- loss's gradient for each token's log-probability.
local function loss_of(tr, t)
  local train = setmetatable({ entropy = tr.stage.entropy }, { __index = tr.settings.train })
  local beta = train.kl_in == "loss" and tr.metrics.beta or 0.0
  local kl = t.ref_logp and train.kl_estimator ~= "full" and beta or 0.0
  local logp = core.tensor(t.logp:totable(), { requires_grad = true })
  local input = setmetatable({ logp = logp, sampler_logp = t.old_logp, beta = beta },
    { __index = t })
  local chosen, options = train.loss, setmetatable({ kl = kl }, { __index = train })
  if tr.stage.method.policy_term then chosen, options = tr.stage.method.policy_term(train) end
  options.mask_truncated = false -- t.mask already excludes truncated completions
  local ok, loss
  if type(chosen) == "function" then
    ok, loss = core.limited(tr.settings.limits.hook, "train.loss", chosen, input)
  else
    ok, loss = core.protected(core.policy_loss, chosen, input, options)
  end
  if not ok then return nil, tostring(loss) end
  loss:backward()
  return loss:item(), nil, logp.grad or core.zeros(t.logp.shape)
end

local Inspection = { __name = "grpo.Inspection" }
Inspection.__index = Inspection

-- Returns the tensors of the last step, evaluated with the current policy and loss.
local function whole_step(tr)
  local cs, stage = batch_of(tr, "inspect")
  local l = lists_of(tr, cs)
  local temperature = tr.settings.sampling.temperature
  if temperature == 0 then temperature = 1.0 end
  local t = tr.model:score(l.prompts, l.ids,
    { temperature = temperature, sampling_masks = l.masks })
  t.old_logp, t.advantage, t.mask = core.tensor(l.old_logp), core.tensor(l.advantage),
    core.tensor(l.mask)
  if #l.ref_logp == #l.old_logp then
    t.ref_logp = core.tensor(l.ref_logp)
  elseif stage.reference and reference_names.added[stage.config.reference] then
    t.ref_logp = core.tensor(row_logprobs(stage.reference, l.prompts, l.ids, temperature))
  elseif type(stage.reference) == "userdata" then -- a step with KL coefficient 0 does not record it
    t.ref_logp = stage.reference:score(l.prompts, l.ids, { temperature = temperature }).logp
  end
  t.num_sequences, t.num_tokens, t.max_new_tokens = #cs, t.mask:sum():item(),
    tr.settings.sampling.max_new_tokens
  t.normalizer, t.p = t.num_tokens, stage.p
  t.ids, t.completions, t.tokenizer, t.step = l.all_ids, cs, tr.tokenizer, tr.batch.step + 1
  t.ratio = (t.logp - t.old_logp):exp()
  t.loss, t.problem, t.gradient = loss_of(tr, t)
  return setmetatable(t, Inspection)
end

-- tr:inspect([i]): tensors [N] over the completion tokens of the last step, or of its completion i.
function inspect.step(tr, i)
  local all = whole_step(tr)
  if i == nil then return all end
  if math.type(i) ~= "integer" or i < 1 or i > #all.completions then
    errors.raise("EARG", "tr:inspect: got %s, want the number of a completion, 1 to %d",
      tostring(i), #all.completions)
  end
  local first, n = 1, all.lengths[i]
  for k = 1, i - 1 do first = first + all.lengths[k] end
  local one = { completions = { all.completions[i] }, lengths = { n }, tokenizer = all.tokenizer,
    step = all.step, loss = all.loss, problem = all.problem, sequence = {},
    ids = table.move(all.ids, first, first + n - 1, 1, {}), number = i }
  for k = 1, n do one.sequence[k] = 1 end
  for _, name in ipairs { "logp", "entropy", "old_logp", "ref_logp", "advantage", "mask", "ratio",
      "gradient" } do
    one[name] = all[name] and all[name]:narrow(1, first, n)
  end
  return setmetatable(one, Inspection)
end

-- ---- other rewards ------------------------------------------------------------------------------

local Rescored = { __name = "grpo.Rescored" }
Rescored.__index = Rescored

-- Calls f while the script's own modules are unloaded, so that edited ones are read again.
local function with_fresh_modules(f, ...)
  local kept = {}
  for name, module in pairs(package.loaded) do
    if type(name) == "string" and not name:find("^grpo%f[.\0]")
      and package.searchpath(name, package.path) then
      kept[name] = module
    end
  end
  for name in pairs(kept) do package.loaded[name] = nil end
  local results = table.pack(core.protected(f, ...))
  for name, module in pairs(kept) do package.loaded[name] = module end
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

local function entries_of(rewards)
  if type(rewards) == "string" then
    local saved = package.path
    local entries = with_fresh_modules(script.rewards, rewards)
    package.path = saved
    return entries
  end
  if type(rewards) == "function" then rewards = { rewards } end
  if type(rewards) ~= "table" or next(rewards) == nil then
    errors.raise("EARG",
      "tr:rescore: got %s, want a reward function, a table of them as the option "
      .. "rewards takes it, or a file that returns one",
      type(rewards) == "table" and "an empty table" or type(rewards))
  end
  return reward_entries.list(rewards, errors.where())
end

-- Returns copies of the completions without their rewards; copies of groups are new lists too.
local function copies(cs)
  local list, groups = {}, {}
  for i, c in ipairs(cs) do
    local group = groups[c.group] or {}
    groups[c.group] = group
    local copy = {}
    for k, v in pairs(c) do copy[k] = v end
    copy.group, copy.rewards, copy.was = group, {}, c
    copy.reward, copy.advantage, copy.extra = nil, nil, nil
    copy.errors, copy.token_rewards = nil, nil
    group[#group + 1], list[i] = copy, copy
  end
  return list
end

-- 1, 0 or -1 for an advantage: a number, or a list with one for each token.
function inspect.sign(v)
  if type(v) == "table" then
    local sum = 0.0
    for _, x in ipairs(v) do sum = sum + x end
    v = sum
  end
  return type(v) == "number" and (v > 0 and 1 or v < 0 and -1 or 0) or 0
end

-- Returns copies of the last step's completions scored with `entries`, which see the same random
-- numbers as in the step.
local function scored(tr, cs, config, entries)
  local list = copies(cs)
  for i, c in ipairs(list) do
    c.rng = core.rng(config.seed, "reward", c.step,
      tr.batch.prompts[(i - 1) // #c.group + 1].number, c.index)
  end
  return list, scoring.score(entries, list, config.limits.reward, config.reward.on_error)
end

-- Scores the completions of the last step, if there is one, so that errors of `entries` are raised.
function inspect.try(tr, entries)
  local cs, stage = tr.batch and tr.batch.completions, tr.stage
  if not cs or #cs == 0 then return end
  scored(tr, cs, setmetatable({ reward = { on_error = "stop" } }, { __index = stage.config }),
    entries)
end

-- tr:rescore(rewards) -> { completions =, changed =, flipped =, failed = }
function inspect.rescore(tr, rewards)
  local cs, stage = batch_of(tr, "rescore")
  local entries = rewards == nil and stage.config.reward_entries or entries_of(rewards)
  local config = setmetatable({ reward_entries = entries }, { __index = stage.config })
  local weights = scoring.weights(config, stage.p)
  local list, failed = scored(tr, cs, config, entries)
  for _, c in ipairs(list) do
    local total = core.total_reward(c.rewards, entries, weights, config.reward.clip)
    c.reward = total and total - (c.kl_penalty or 0.0)
  end
  if stage.method.advantages then stage.method.advantages(config, list, weights) end
  local result = { completions = list, changed = 0, flipped = 0, failed = failed,
    step = tr.batch.step + 1 }
  for _, c in ipairs(list) do
    c.flipped = c.advantage ~= nil and inspect.sign(c.advantage) ~= inspect.sign(c.was.advantage)
    if c.flipped then result.flipped = result.flipped + 1 end
    if c.reward ~= c.was.reward then result.changed = result.changed + 1 end
  end
  return setmetatable(result, Rescored)
end

return inspect
