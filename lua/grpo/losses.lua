-- Every policy loss in readable Lua: per-token terms from small tensor operations, then an average.
-- The engine runs fused C with hand-written gradients; the tests compare its values and gradients
-- with this file.
--
--   t   logp, old_logp, ref_logp, advantage, mask, entropy [N]; sequence (1-based index per token),
--       lengths, num_sequences, num_tokens (of the whole step), max_new_tokens
--   o   the options of section train
-- Formulas and sources: docs/algorithms.md.

local statistics = require "grpo.statistics"

local losses = {}

local EXPONENT = 20 -- exponents are clamped to -EXPONENT .. EXPONENT

-- ---- averages over the step -----------------------------------------------------------

-- Returns one value for each sequence: the mean over its tokens.
local function over_sequence(x, t)
  local n = (t.mask:segment_sum(t.sequence, #t.lengths)):clamp(1, math.huge)
  return (x * t.mask):segment_sum(t.sequence, #t.lengths) / n
end

-- Returns the mean over sequences of the mean over a sequence's tokens.
local function sequence_mean(l, t) return over_sequence(l, t):sum() / t.num_sequences end

local function token_mean(l, t)
  return (l * t.mask):sum() / math.max(t.num_tokens, 1)
end

local function length_mean(l, t)
  return (l * t.mask):sum() / (t.num_sequences * t.max_new_tokens)
end

-- ---- pieces -----------------------------------------------------------------------------

-- Returns the log of the ratio per token; with importance = "sequence" the sequence's mean.
local function log_ratio(t, o)
  local d = t.logp - t.old_logp
  if o.importance == "sequence" then d = over_sequence(d, t):spread(t.sequence) end
  return d:clamp(-EXPONENT, EXPONENT)
end

-- Returns -min(min(r, delta) A, clip(r) A), the clipped policy term.
local function surrogate(r, A, o)
  local capped = o.delta and r:clamp(0, o.delta) or r
  local clipped = r:clamp(1 - o.clip, 1 + (o.clip_high or o.clip))
  return -((capped * A):minimum(clipped * A))
end

local function kl(t, o, r)
  local d = t.logp - t.ref_logp
  local value
  if o.kl_estimator == "k1" then
    value = d
  elseif o.kl_estimator == "k2" then
    value = d * d / 2
  else
    value = (-d):clamp(-EXPONENT, EXPONENT):exp() + d - 1
  end
  return o.kl_bias_correction and value * r or value
end

-- Takes Clip-Cov's tokens out of the policy term, and adds KL-Cov's KL and beta KL inside the same
-- average.
local function with_kl(l, t, o, r)
  if t.clip_cov then l = l * (t.clip_cov * -1 + 1) end
  if t.kl_cov then
    local d = t.logp - t.old_logp
    l = l + d:maximum(-d) * t.kl_cov * o.kl_cov.coef
  end
  if not o.kl or o.kl == 0 then return l end
  return l + kl(t, o, r) * o.kl
end

-- ---- tokens chosen by their covariance (2505.22617) ----------------------------------------

-- A list of 0 and 1 for each token, 1 for the `count` of `candidates` that come first in order.
local function marks(n, candidates, count, before)
  table.sort(candidates, before)
  local list = {}
  for i = 1, n do list[i] = 0 end
  for k = 1, math.min(count, #candidates) do list[candidates[k]] = 1 end
  return list
end

-- Returns the tokens that Clip-Cov takes out of the policy term, and those to which KL-Cov gives a
-- KL, as t.clip_cov and t.kl_cov: lists of 0 and 1, of all tokens of the step.  t holds lists;
-- draw(i): a random number for token i.
function losses.covariance(t, o, draw)
  local masked, logp, advantage = {}, {}, {}
  for i, m in ipairs(t.mask) do
    if m ~= 0 then
      masked[#masked + 1] = i
      logp[#logp + 1], advantage[#advantage + 1] = t.old_logp[i], t.advantage[i]
    end
  end
  local mean_logp, mean_advantage = statistics.mean(logp), statistics.mean(advantage)
  local cov, within = {}, {}
  for _, i in ipairs(masked) do
    cov[i] = (t.old_logp[i] - mean_logp) * (t.advantage[i] - mean_advantage)
    if cov[i] > o.clip_cov.low and cov[i] < o.clip_cov.high then within[#within + 1] = i end
  end
  local function count(ratio) return ratio > 0 and math.max(1, ratio * #masked // 1) or 0 end
  local clipped = marks(#t.mask, within, count(o.clip_cov.ratio), function(i, k)
    return draw(i) < draw(k)
  end)
  local held = marks(#t.mask, masked, count(o.kl_cov.ratio), function(i, k)
    return cov[i] > cov[k] or cov[i] == cov[k] and i < k
  end)
  return clipped, held
end

-- ---- the losses ---------------------------------------------------------------------------

local function clipped(average)
  return function(t, o)
    local r = log_ratio(t, o):exp()
    return average(with_kl(surrogate(r, t.advantage, o), t, o, r), t)
  end
end

losses.grpo = clipped(sequence_mean)
losses.bnpo = clipped(token_mean) -- for bnpo t.num_tokens is the micro-batch's own token count
losses.dapo = clipped(token_mean)
losses.dr_grpo = clipped(length_mean)
losses.gspo = clipped(sequence_mean)

-- The value is the sequence's ratio; the gradient flows through the token's.
function losses.gspo_token(t, o)
  local s = over_sequence(t.logp - t.old_logp, t):spread(t.sequence):detach()
  local r = (s + t.logp - t.logp:detach()):clamp(-EXPONENT, EXPONENT):exp()
  return sequence_mean(with_kl(surrogate(r, t.advantage, o), t, o, r), t)
end

-- This is gspo with each sequence weighted by its length; a run averages the KL like grpo.
function losses.luspo(t, o)
  local r = log_ratio(t, o):exp()
  local n = t.mask:segment_sum(t.sequence, #t.lengths):spread(t.sequence)
  local policy = sequence_mean(surrogate(r, t.advantage, o) * n, t)
  if not o.kl or o.kl == 0 then return policy end
  return policy + sequence_mean(kl(t, o, r) * o.kl, t)
end

-- The geometric mean of ratios that are clipped in log space, on the side that the advantage's sign
-- demands.
function losses.gmpo(t, o)
  local d = (t.logp - t.old_logp):clamp(-EXPONENT, EXPONENT)
  local bounded = d:clamp(-o.clip, o.clip_high or o.clip)
  local positive = t.advantage:gt(0)
  local e = d:minimum(bounded) * positive + d:maximum(bounded) * (positive * -1 + 1)
  local per_sequence = over_sequence(e, t):exp()
  local advantage = over_sequence(t.advantage, t)
  local policy = -(per_sequence * advantage):sum() / t.num_sequences
  if not o.kl or o.kl == 0 then return policy end
  return policy + sequence_mean(kl(t, o, d:exp()) * o.kl, t)
end

function losses.cispo(t, o)
  local r = log_ratio(t, o):exp()
  local cap = o.cispo_cap or 1 + (o.clip_high or o.clip)
  local l = -(r:detach():clamp(0, cap) * t.advantage * t.logp)
  return token_mean(with_kl(l, t, o, r), t)
end

function losses.sapo(t, o)
  local r = log_ratio(t, o):exp()
  local positive = t.advantage:gt(0)
  local tau = positive * o.sapo.pos + (positive * -1 + 1) * o.sapo.neg
  local l = -(((r - 1) * tau):sigmoid() * 4 / tau * t.advantage)
  return sequence_mean(with_kl(l, t, o, r), t)
end

function losses.vespo(t, o)
  local d = (t.logp - t.old_logp):clamp(-EXPONENT, EXPONENT)
  local q = (d * t.mask):segment_sum(t.sequence, #t.lengths):clamp(math.log(1e-8),
    EXPONENT):spread(t.sequence)
  local positive = t.advantage:ge(0)
  local negative = positive * -1 + 1
  local k = positive * o.vespo.k_pos + negative * o.vespo.k_neg
  local lambda = positive * o.vespo.lambda_pos + negative * o.vespo.lambda_neg
  local phi = (lambda + k * q - lambda * q:exp()):exp():detach()
  return token_mean(with_kl(-(phi * t.advantage * t.logp), t, o, d:exp()), t)
end

function losses.reinforce(t, o)
  local r = log_ratio(t, o):exp()
  return token_mean(with_kl(-(t.advantage * t.logp), t, o, r), t)
end

function losses.rloo(t, o)
  local w = ((t.logp - t.old_logp) * t.mask):segment_sum(t.sequence, #t.lengths):clamp(-EXPONENT,
    EXPONENT):exp()
  local A = over_sequence(t.advantage, t)
  local bounded = w:clamp(1 - o.clip, 1 + (o.clip_high or o.clip))
  return -((w * A):minimum(bounded * A)):sum() / t.num_sequences
end

-- ---- dense rewards ------------------------------------------------------------------------

-- rewards: a list with one number per token of each completion, groups one after another.  At each
-- position the mean over the group's completions that reach it is subtracted; then the advantages
-- of all tokens of the step are scaled to mean 0 and deviation 1.
function losses.dense_advantages(rewards, group)
  local centred, all = {}, {}
  for i, list in ipairs(rewards) do
    local first = (i - 1) // group * group
    centred[i] = {}
    for t, r in ipairs(list) do
      local sum, n, least, most = 0.0, 0, math.huge, -math.huge
      for k = first + 1, first + group do
        local other = rewards[k][t]
        if other then
          sum, n, least, most = sum + other, n + 1, math.min(least, other), math.max(most, other)
        end
      end
      local tied = most - least <= 1e-12 * math.max(math.abs(most), math.abs(least))
      centred[i][t] = tied and 0.0 or r - sum / n
      all[#all + 1] = centred[i][t]
    end
  end
  local mean, std = statistics.mean(all), statistics.std(all)
  for _, list in ipairs(centred) do
    for t, a in ipairs(list) do list[t] = std > 0 and (a - mean) / (std + 1e-4) or 0.0 end
  end
  return centred
end

-- Returns KL(p || q) of two lists of log-probabilities over the vocabulary.
function losses.full_kl(logp, logq)
  local sum = 0.0
  for j, lp in ipairs(logp) do sum = sum + math.exp(lp) * (lp - logq[j]) end
  return sum
end

return losses
