-- The losses of preferences and their derivatives, in double.  README.md has formulas and sources.
--
-- A text is { logp = sum over its tokens of log p, ref = of log p_reference, tokens = how many,
-- all = logp without ld_alpha }.  A pair is { chosen = text, rejected = text, weight = }, and a row
-- without a pair { text = text, label = true if it is desirable }.  A loss adds the derivatives of
-- its mean to a text's slope (by logp) and token_slope (by log p of each token).
--
-- o: the options of train.dpo, loss_type as a list; kl for "kto".

local losses = {}

-- ---- functions ------------------------------------------------------------------------------

local LOG_2 = math.log(2)

local function log1p(x)
  local u = 1 + x
  return u == 1 and x or math.log(u) * x / (u - 1)
end

local function expm1(x)
  local u = math.exp(x)
  if u == 1 then return x end
  return u - 1 == -1 and -1.0 or (u - 1) * x / math.log(u)
end

local function sigmoid(x)
  if x >= 0 then return 1 / (1 + math.exp(-x)) end
  return math.exp(x) / (1 + math.exp(x))
end

local function log_sigmoid(x)
  return math.min(x, 0) - log1p(math.exp(-math.abs(x)))
end

-- log(1 - exp(x)) for x < 0
local function log1mexp(x)
  return x > -LOG_2 and math.log(-expm1(x)) or log1p(-math.exp(x))
end

-- The derivative of sigmoid.
local function bell(x) return sigmoid(x) * sigmoid(-x) end

-- ---- scores ---------------------------------------------------------------------------------

local divergences = {}

function divergences.reverse_kl(_, x) return x, 1.0 end
function divergences.forward_kl(_, x) return 1 - math.exp(-x), math.exp(-x) end
function divergences.js_divergence(_, x) return LOG_2 + log_sigmoid(x), sigmoid(-x) end

local MOST_EXPONENT = 80

function divergences.alpha_divergence(o, x)
  local power = o.f_alpha_divergence_coef - 1
  if math.abs(power) < 1e-6 then return x, 1.0 end
  local t = power * x
  if t > MOST_EXPONENT then return (math.exp(MOST_EXPONENT) - 1) / power, 0.0 end
  return (math.exp(t) - 1) / power, math.exp(t)
end

-- Scores of a text, each with its derivative by logp: the log-ratio to the reference, f'(ratio) of
-- the f-divergence, and f' of the mean log-probability of a token, without a reference.
local function log_ratio(_, text) return text.logp - text.ref, 1.0 end
local function divergence(o, text)
  return divergences[o.f_divergence_type](o, text.logp - text.ref)
end
local function token_mean(o, text)
  local score, slope = divergences[o.f_divergence_type](o, text.logp / text.tokens)
  return score, slope / text.tokens
end

-- ---- losses of pairs ------------------------------------------------------------------------

-- Returns a loss of two scores.  term(o, c, r, pair) gives its value and the derivatives by c, r.
local function of_scores(score, term)
  return function(o, pairs, share)
    local sum = 0.0
    for _, pair in ipairs(pairs) do
      local chosen, rejected, w = pair.chosen, pair.rejected, pair.weight or 1.0
      local c, of_c = score(o, chosen)
      local r, of_r = score(o, rejected)
      local value, by_c, by_r = term(o, c, r, pair)
      sum = sum + w * value
      chosen.slope = chosen.slope + share * w * by_c * of_c
      rejected.slope = rejected.slope + share * w * by_r * of_r
    end
    return sum / #pairs
  end
end

-- Returns a loss of z = beta (c - r).  f(o, z) gives its value and its derivative.
local function of_difference(score, f)
  return of_scores(score, function(o, c, r)
    local value, slope = f(o, o.beta * (c - r))
    return value, slope * o.beta, -slope * o.beta
  end)
end

-- Returns a loss of c / n - r / m, where each score is divided by the tokens of its text.
local function of_mean_difference(f)
  return of_scores(divergence, function(o, c, r, pair)
    local n, m = pair.chosen.tokens, pair.rejected.tokens
    local value, slope = f(o, c / n - r / m)
    return value, slope / n, -slope / m
  end)
end

-- Returns a loss of a = beta c and b = beta r.  f(a, b) gives its value and the derivatives.
local function of_rewards(f)
  return of_scores(log_ratio, function(o, c, r)
    local value, by_a, by_b = f(o.beta * c, o.beta * r)
    return value, by_a * o.beta, by_b * o.beta
  end)
end

local function logistic(_, z) return -log_sigmoid(z), -sigmoid(-z) end

-- The logistic loss, if labels are wrong with probability label_smoothing.
local function smoothed(o, z)
  local e = o.label_smoothing
  return -(1 - e) * log_sigmoid(z) - e * log_sigmoid(-z), -(1 - e) * sigmoid(-z) + e * sigmoid(z)
end

local function hinge(_, z)
  if z >= 1 then return 0.0, 0.0 end
  return 1 - z, -1.0
end

local function exo(o, z)
  local e, q = o.label_smoothing, sigmoid(z)
  local win, lose = log_sigmoid(z) - log1p(-e), log_sigmoid(-z) - math.log(e)
  return q * win + (1 - q) * lose, bell(z) * (win - lose)
end

local function robust(o, z)
  local e = o.label_smoothing
  local value = -(1 - e) * log_sigmoid(z) + e * log_sigmoid(-z)
  return value / (1 - 2 * e), (-(1 - e) * sigmoid(-z) - e * sigmoid(z)) / (1 - 2 * e)
end

local function discopop(o, z)
  local tau = o.discopop_tau
  local m, log_loss, exp_loss = sigmoid(z / tau), -log_sigmoid(z), math.exp(-z)
  local slope = -sigmoid(-z) * (1 - m) - exp_loss * m + (exp_loss - log_loss) * bell(z / tau) / tau
  return log_loss * (1 - m) + exp_loss * m, slope
end

local function nca(a, b)
  return -log_sigmoid(a) - 0.5 * log_sigmoid(-a) - 0.5 * log_sigmoid(-b),
    -sigmoid(-a) + 0.5 * sigmoid(a), 0.5 * sigmoid(b)
end

local function bco(a, b)
  return -log_sigmoid(a) - log_sigmoid(-b), -sigmoid(-a), sigmoid(b)
end

local function apo_zero(a, b)
  return sigmoid(-a) + sigmoid(b), -bell(a), bell(b)
end

local function apo_down(a, b)
  return sigmoid(a) + sigmoid(b - a), bell(a) - bell(a - b), bell(a - b)
end

local function sppo(o, c, r)
  local win, lose = c - 0.5 / o.beta, r + 0.5 / o.beta
  return win * win + lose * lose, 2 * win, 2 * lose
end

local function ipo(o, d)
  local off = d - 1 / (2 * o.beta)
  return off * off, 2 * off
end

local function sigmoid_norm(o, d)
  local value, slope = logistic(o, o.beta * d)
  return value, slope * o.beta
end

local function simpo(o, z) return smoothed(o, z - o.simpo_gamma) end

-- ---- losses of all pairs together ----------------------------------------------------------

-- The ranks of n numbers: list[k] is the place of the k-th smallest.
local function sorted(n, number)
  local list = {}
  for i = 1, n do list[i] = i end
  table.sort(list, function(i, j)
    local x, y = number(i), number(j)
    return x < y or x == y and i < j
  end)
  return list
end

-- The chosen texts and the rejected ones are compared by rank, each in an order of their own.
local function aot_unpaired(o, pairs, share)
  local sum = 0.0
  local function ratio(side)
    return function(i) return (log_ratio(o, pairs[i][side])) end
  end
  local first, second = sorted(#pairs, ratio "chosen"), sorted(#pairs, ratio "rejected")
  for k, i in ipairs(first) do
    local chosen, rejected = pairs[i].chosen, pairs[second[k]].rejected
    local value, slope = smoothed(o, o.beta * ((log_ratio(o, chosen)) - (log_ratio(o, rejected))))
    sum = sum + value
    chosen.slope = chosen.slope + share * o.beta * slope
    rejected.slope = rejected.slope - share * o.beta * slope
  end
  return sum / #pairs
end

-- The policy's differences are compared with the reference's by rank.
local function aot(o, pairs, share)
  local sum = 0.0
  local function of_policy(i) return pairs[i].chosen.logp - pairs[i].rejected.logp end
  local function of_reference(i) return pairs[i].chosen.ref - pairs[i].rejected.ref end
  local other = sorted(#pairs, of_reference)
  for k, i in ipairs(sorted(#pairs, of_policy)) do
    local value, slope = smoothed(o, o.beta * (of_policy(i) - of_reference(other[k])))
    sum = sum + value
    pairs[i].chosen.slope = pairs[i].chosen.slope + share * o.beta * slope
    pairs[i].rejected.slope = pairs[i].rejected.slope - share * o.beta * slope
  end
  return sum / #pairs
end

-- Maximum likelihood of the chosen texts: the mean over all of their tokens.
local function sft(_, pairs, share, numbers)
  local sum, tokens = 0.0, 0
  for _, pair in ipairs(pairs) do
    sum, tokens = sum - pair.chosen.all, tokens + pair.chosen.tokens
  end
  for _, pair in ipairs(pairs) do
    pair.chosen.token_slope = pair.chosen.token_slope - share * #pairs / tokens
  end
  numbers.nll_loss = sum / tokens
  return sum / tokens
end

-- ORPO: maximum likelihood, and the ratio of the odds of a token.
local function odds(a) return a - log1mexp(a), -1 / expm1(a) end

local orpo_ratio = of_scores(function(_, text) return text.logp / text.tokens, 1 / text.tokens end,
  function(o, a, b, pair)
    local chosen, by_a = odds(a)
    local rejected, by_b = odds(b)
    local value, slope = logistic(o, chosen - rejected)
    pair.log_odds = chosen - rejected
    return o.beta * value, o.beta * slope * by_a, -o.beta * slope * by_b
  end)

local function orpo(o, pairs, share, numbers)
  local ratio, chosen = orpo_ratio(o, pairs, share), 0.0
  for _, pair in ipairs(pairs) do chosen = chosen + pair.log_odds / #pairs end
  numbers.log_odds_ratio, numbers.log_odds_chosen = -ratio / o.beta, chosen
  return ratio + sft(o, pairs, share, numbers)
end

-- ---- losses of rows without pairs ----------------------------------------------------------

-- f(reward, kl) gives the value of a desirable text and its derivative by the reward.
local function of_rows(f)
  return function(o, rows, share)
    local sum = 0.0
    for _, row in ipairs(rows) do
      local sign, w = row.label and 1 or -1, row.label and o.desirable_weight
        or o.undesirable_weight
      local value, slope = f(sign * o.beta * (log_ratio(o, row.text)), sign * o.beta * (o.kl or 0))
      sum = sum + w * value
      row.text.slope = row.text.slope + share * w * sign * o.beta * slope
    end
    return sum / #rows
  end
end

local function kto(reward, kl) return sigmoid(kl - reward), -bell(reward - kl) end

-- ---- the table -------------------------------------------------------------------------------

-- mean: the loss.  divergence: f_divergence_type may be another one.  alone: it reads no reference.
-- together: it does not treat each pair by itself, so that pairs have no weights.  means: its
-- rewards are of the mean log-probability of a token.
-- rows: it is of rows with a label; kl: and reads o.kl.
local list = {
  { "sigmoid", mean = of_difference(divergence, logistic), divergence = true },
  { "hinge", mean = of_difference(divergence, hinge), divergence = true },
  { "ipo", mean = of_mean_difference(ipo), divergence = true },
  { "exo_pair", mean = of_difference(divergence, exo), divergence = true },
  { "nca_pair", mean = of_rewards(nca) },
  { "robust", mean = of_difference(divergence, robust), divergence = true },
  { "bco_pair", mean = of_rewards(bco) },
  { "sppo_hard", mean = of_scores(log_ratio, sppo) },
  { "aot", mean = aot, together = true },
  { "aot_unpaired", mean = aot_unpaired, together = true },
  { "apo_zero", mean = of_rewards(apo_zero) },
  { "apo_down", mean = of_rewards(apo_down) },
  { "discopop", mean = of_difference(divergence, discopop), divergence = true },
  { "sft", mean = sft, divergence = true, alone = true, together = true },
  { "sigmoid_norm", mean = of_mean_difference(sigmoid_norm), divergence = true },
  { "simpo", mean = of_difference(token_mean, simpo), divergence = true, alone = true,
    means = true },
  { "orpo", mean = orpo, alone = true, together = true, means = true },
  { "kto", mean = of_rows(kto), rows = true, kl = true },
  { "apo_zero_unpaired", mean = of_rows(function(x) return kto(x, 0) end), rows = true },
}

losses.names, losses.by_name = {}, {}
for i, row in ipairs(list) do losses.names[i], losses.by_name[row[1]] = row[1], row end

-- Does one of the losses have this trait?  all: do they all have it?
function losses.some(o, trait)
  for _, name in ipairs(o.loss_type) do
    if losses.by_name[name][trait] then return true end
  end
  return false
end

function losses.all(o, trait)
  for _, name in ipairs(o.loss_type) do
    if not losses.by_name[name][trait] then return false end
  end
  return true
end

-- ---- texts ------------------------------------------------------------------------------------

-- A text from lists of log-probabilities.  ref: of the reference, or nil.  shared: with ld_alpha,
-- the tokens of the shorter text of the pair, behind which a token counts ld_alpha.
function losses.text(logprobs, ref, ld_alpha, shared)
  local text = { logp = 0.0, ref = 0.0, all = 0.0, tokens = #logprobs, slope = 0.0,
    token_slope = 0.0, ld_alpha = ld_alpha, shared = shared }
  for t, l in ipairs(logprobs) do
    local weight = ld_alpha and t > shared and ld_alpha or 1.0
    text.logp, text.all = text.logp + weight * l, text.all + l
    if ref then text.ref = text.ref + weight * ref[t] end
  end
  return text
end

-- The derivative of the loss by the log-probability of each token of a text, times `factor`: a
-- number for all of them, or a list.
function losses.slopes(text, factor)
  local plain = factor * (text.slope + text.token_slope)
  if not text.ld_alpha or text.shared >= text.tokens then return plain end
  local tokens, tail = {}, factor * (text.ld_alpha * text.slope + text.token_slope)
  for t = 1, text.tokens do tokens[t] = t <= text.shared and plain or tail end
  return tokens
end

-- ---- a step -----------------------------------------------------------------------------------

-- A text's reward, and what is reported as its log-probability: with simpo and orpo alone it is the
-- mean over its tokens, as TRL's CPO and ORPO trainers have it.
local function measured(o, text)
  if losses.some(o, "means") and losses.all(o, "alone") then
    local mean = text.logp / text.tokens
    return o.beta * mean, mean
  end
  return o.beta * (text.logp - text.ref), text.logp
end

-- The sums of a side's rewards and log-probabilities.
local function add(sums, o, text)
  local reward, logp = measured(o, text)
  sums.n, sums.reward, sums.logp = sums.n + 1, sums.reward + reward, sums.logp + logp
  return reward
end

-- The metrics of pairs or rows, by TRL's names.
function losses.measure(o, items)
  local m, right = {}, 0
  local chosen = { n = 0, reward = 0.0, logp = 0.0 }
  local rejected = { n = 0, reward = 0.0, logp = 0.0 }
  for _, item in ipairs(items) do
    if item.text then
      add(item.label and chosen or rejected, o, item.text)
    elseif add(chosen, o, item.chosen) > add(rejected, o, item.rejected) then
      right = right + 1
    end
  end
  for name, sums in pairs { chosen = chosen, rejected = rejected } do
    if sums.n > 0 then
      m["rewards/" .. name], m["logps/" .. name] = sums.reward / sums.n, sums.logp / sums.n
    end
  end
  if chosen.n > 0 and rejected.n > 0 then
    m["rewards/margins"] = m["rewards/chosen"] - m["rewards/rejected"]
  end
  if chosen.n + rejected.n > #items then m["rewards/accuracies"] = right / #items end
  return m
end

-- The loss of pairs or rows, and its metrics; the texts get their slopes.
function losses.evaluate(o, items)
  local loss, m = 0.0, losses.measure(o, items)
  for k, name in ipairs(o.loss_type) do
    local weight = o.loss_weights and o.loss_weights[k] or 1.0
    loss = loss + weight * losses.by_name[name].mean(o, items, weight / #items, m)
  end
  m.loss, m.kl = loss, o.kl
  return loss, m
end

return losses
