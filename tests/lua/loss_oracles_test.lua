-- grpo.loss against what TRL computes: every case of loss/cases.json, value and gradients.
local grpo = require "grpo"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local function flat(rows)
  local list = {}
  for _, row in ipairs(rows) do table.move(row, 1, #row, #list + 1, list) end
  return list
end

-- One value per sequence -> one per token.
local function per_token(values, lengths)
  local list = {}
  for i, n in ipairs(lengths) do
    for _ = 1, n do list[#list + 1] = values[i] end
  end
  return list
end

local names = { gspo_token = "gspo_token", gmpo = "gmpo", rloo = "rloo" }

local function given(v)
  if v ~= core.json_null then return v end
end

-- TRL's settings -> a loss's name and its options
local function translate(s)
  local name = names[s.trainer] or s.loss_type
  local o = {
    clip = s.epsilon, clip_high = given(s.epsilon_high) or s.epsilon, delta = given(s.delta),
    kl = s.beta,
    kl_bias_correction = s.use_bias_correction_kl,
    off_policy_mask = given(s.off_policy_mask_threshold),
    entropy = s.entropy_coef, top_entropy_quantile = s.top_entropy_quantile,
    sapo = { pos = s.sapo_temperature_pos, neg = s.sapo_temperature_neg },
    vespo = { k_pos = s.vespo_k_pos, lambda_pos = s.vespo_lambda_pos, k_neg = s.vespo_k_neg,
      lambda_neg = s.vespo_lambda_neg },
    max_new_tokens = s.max_completion_length,
  }
  if name ~= "gspo_token" and s.importance_sampling_level ~= "sequence_token" then
    o.importance = s.importance_sampling_level
  end
  if name == "luspo" and s.importance_sampling_level == "token" then o.importance = "token" end
  if name == "cispo" then o.cispo_cap = given(s.epsilon_high) or s.epsilon end
  if given(s.sampling_is_mode) then
    o.sampler_correction = { mode = s.sampling_is_mode, min = given(s.sampling_is_clip_min),
      max = given(s.sampling_is_clip_max) }
  end
  return name, o
end

local function batch(problem, s)
  local mask = flat(problem.mask)
  if s.use_tool_mask then
    for i, m in ipairs(flat(problem.tool_mask)) do mask[i] = mask[i] * m end
  end
  local function column(rows)
    local list = flat(rows)
    for i, m in ipairs(flat(problem.mask)) do if m == 0 then list[i] = 0 end end
    return list
  end
  return {
    logp = grpo.tensor(column(problem.logps), { requires_grad = true }),
    entropy = grpo.tensor(flat(problem.entropies), { requires_grad = true }),
    old_logp = s.use_old_logps and column(problem.old_logps) or nil,
    ref_logp = column(problem.ref_logps), sampler_logp = column(problem.sampling_logps),
    advantage = s.per_token_advantages and flat(problem.per_token_advantages)
    or per_token(problem.advantages,
      problem.lengths),
    mask = mask, lengths = problem.lengths,
  }
end

-- TRL's luspo averages the KL over the padded batch: a sequence of `mass` tokens gets the share
-- mass / width of it.  Losses add up over sequences, so each is asked for with a kl of its own.
local function padded_loss(problem, t, options)
  local sum, at = nil, 1
  for _, n in ipairs(problem.lengths) do
    local one, mass = { lengths = { n }, num_sequences = #problem.lengths }, 0
    for name, list in pairs(t) do
      if name == "logp" or name == "entropy" then one[name] = list:narrow(1, at, n)
      elseif name ~= "lengths" then one[name] = table.move(list, at, at + n - 1, 1, {}) end
    end
    for _, m in ipairs(one.mask) do mass = mass + m end
    local kl = options.kl * mass * math.max(mass, 1) / problem.padded_width
    local loss = grpo.loss("luspo", one, setmetatable({ kl = kl }, { __index = options }))
    sum, at = sum and sum + loss or loss, at + n
  end
  return sum
end

local function near_list(want, got, what)
  local largest = 0
  for _, v in ipairs(want) do largest = math.max(largest, math.abs(v)) end
  for i, v in ipairs(want) do
    if math.abs(v - got[i]) > 1e-4 * largest + 1e-9 then
      error(("%s[%d]: want %.9g, got %.9g"):format(what, i, v, got[i]))
    end
  end
end

-- TRL's value of losses with one term per sequence counts -A of a sequence whose tokens are all
-- masked, which has no gradient.  Such a sequence is left out here.
local function without_masked(name, problem, t, value)
  if name ~= "gmpo" and name ~= "rloo" then return value end
  local at = 1
  for i, n in ipairs(problem.lengths) do
    local mass = 0
    for k = at, at + n - 1 do mass = mass + t.mask[k] end
    if mass == 0 then value = value + problem.advantages[i] / #problem.lengths end
    at = at + n
  end
  return value
end

describe("grpo.loss", function()
  local all = tiny.oracle "loss/cases"
  if not all then return pending("the oracles are not here (GRPO_SHARED)") end
  for number, problem in ipairs(all.problems) do
    for _, variant in ipairs(problem.variants) do
      it(("agrees on problem %d, %s"):format(number, variant.name), function()
        local s = setmetatable({}, { __index = all.defaults })
        s.max_completion_length = problem.max_completion_length
        for k, v in pairs(variant.settings) do s[k] = v end
        local name, options = translate(s)
        local t = batch(problem, s)
        local loss, metrics
        if name == "luspo" and options.kl > 0 then
          loss = padded_loss(problem, t, options)
        else
          loss, metrics = grpo.loss(name, t, options)
        end
        loss:backward()
        local want = without_masked(name, problem, t, variant.loss)
        assert.near(want, loss:item(), 1e-4 * math.max(math.abs(want), 0.3))
        near_list(flat(variant.dlogp), t.logp.grad:totable(), "dlogp")
        if variant.dentropy then
          near_list(flat(variant.dentropy), t.entropy.grad:totable(), "dentropy")
        end
        for key, value in pairs(variant.metrics or {}) do
          if metrics and metrics[key] then
            assert.near(value, metrics[key], 1e-4 * math.max(math.abs(value), 0.3))
          end
        end
      end)
    end
  end
end)
