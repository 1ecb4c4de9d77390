-- The losses of preferences: values, gradients and metrics by TRL's own code (preference_cases.py),
-- and finite differences.

local core = require "grpo.core"
local losses = require "grpo.preferences.losses"
local sorted_pairs = require "grpo.base.sorted"

local DEFAULTS = { loss_type = "sigmoid", beta = 0.1, label_smoothing = 0.0, discopop_tau = 0.05,
  f_divergence_type = "reverse_kl", f_alpha_divergence_coef = 0.5, simpo_gamma = 0.5,
  desirable_weight = 1.0, undesirable_weight = 1.0 }

local function options_of(changes)
  local o = {}
  for name, value in pairs(DEFAULTS) do o[name] = value end
  for name, value in pairs(changes) do o[name] = value end
  if type(o.loss_type) == "string" then o.loss_type = { o.loss_type } end
  return o
end

local cases = core.json_decode(assert(core.fs.read("ext/preferences/tests/cases/losses.json")))

local function mean_weight(logprobs, squares)
  local sum = 0.0
  for t, l in ipairs(logprobs) do sum = sum + l - squares[t] end
  return sum / #logprobs
end

-- The items of a loss from lists of log-probabilities, [pair][side][token], and their texts in the
-- same order.
local function items_of(o, policy, reference, squares)
  local items, texts = {}, {}
  local alone = losses.all(o, "alone")
  for i, pair in ipairs(policy) do
    local shared, sides = math.min(#pair[1], #pair[2]), {}
    for side = 1, 2 do
      local ref = not alone and reference[i][side] or nil
      sides[side] = losses.text(pair[side], ref, o.ld_alpha, shared)
      texts[#texts + 1] = sides[side]
    end
    if losses.some(o, "rows") then
      items[#items + 1] = { text = sides[1], label = true }
      items[#items + 1] = { text = sides[2], label = false }
    else
      items[i] = { chosen = sides[1], rejected = sides[2], weight = o.use_weighting
        and math.exp(mean_weight(pair[1], squares[i][1]) + mean_weight(pair[2], squares[i][2])) }
    end
  end
  return items, texts
end

local function near(want, got, tolerance, what)
  local off = math.abs(want - got)
  if off ~= off or off > tolerance * math.max(1, math.abs(want)) then
    error(("%s: want %.12g, got %.12g"):format(what, want, got), 0)
  end
end

local function slope_of(text, t)
  local slopes = losses.slopes(text, 1)
  return type(slopes) == "table" and slopes[t] or slopes
end

local function name_of(options)
  local parts = {}
  for name, value in sorted_pairs(options) do
    parts[#parts + 1] = ("%s=%s"):format(name,
      type(value) == "table" and table.concat(value, "+") or tostring(value))
  end
  return table.concat(parts, " ")
end

describe("a loss of preferences", function()
  for _, case in ipairs(cases.cases) do
    it("is TRL's, with its gradient and metrics: " .. name_of(case.options), function()
      local o = options_of(case.options)
      -- TRL computes these in float32
      local single = o.f_divergence_type == "alpha_divergence" or o.loss_type[1] == "orpo"
      local tolerance = single and 3e-6 or 1e-11
      local items, texts = items_of(o, cases.policy, cases.reference, cases.squares)
      local loss, metrics = losses.evaluate(o, items)
      near(case.loss, loss, tolerance, "loss")
      for i, text in ipairs(texts) do
        for t, want in ipairs(case.gradient[(i + 1) // 2][(i + 1) % 2 + 1]) do
          near(want, slope_of(text, t), tolerance, ("gradient of token %d of text %d"):format(t, i))
        end
      end
      for name, want in pairs(case.metrics) do
        local without = losses.all(o, "alone") and case.options.loss_type == "sft" -- a reference
        if not (without and name:find "^rewards/") then
          near(want, metrics[name], tolerance, name)
        end
      end
    end)
  end

  it("has the derivative that finite differences give", function()
    local STEP = 1e-5
    local function loss_at(o, policy)
      return (losses.evaluate(o, (items_of(o, policy, cases.reference, cases.squares))))
    end
    for _, name in ipairs(losses.names) do
      for _, changes in ipairs { {}, { ld_alpha = 0.3 },
        { f_divergence_type = "js_divergence" } } do
        local row = losses.by_name[name]
        local o = options_of { loss_type = name, beta = 0.3, label_smoothing = 0.15, kl = 0.2,
          ld_alpha = not row.rows and changes.ld_alpha or nil,
          f_divergence_type = row.divergence and changes.f_divergence_type or nil }
        local items, texts = items_of(o, cases.policy, cases.reference, cases.squares)
        losses.evaluate(o, items)
        for i, text in ipairs(texts) do
          local list = cases.policy[(i + 1) // 2][(i + 1) % 2 + 1]
          for t, l in ipairs(list) do
            list[t] = l + STEP
            local above = loss_at(o, cases.policy)
            list[t] = l - STEP
            local below = loss_at(o, cases.policy)
            list[t] = l
            near((above - below) / (2 * STEP), slope_of(text, t), 1e-6, name)
          end
        end
      end
    end
  end)

  it("holds where rewards are far apart", function()
    for _, name in ipairs { "sigmoid", "hinge", "robust", "bco_pair", "apo_zero", "apo_down",
      "nca_pair" } do
      local o = options_of { loss_type = name, beta = 1.0, label_smoothing = 0.1 }
      local items = items_of(o, { { { -2000.0 }, { -1.0 } } }, { { { -1.0 }, { -2000.0 } } })
      local loss = losses.evaluate(o, items)
      assert.is_true(loss - loss == 0, name)
      assert.is_true(items[1].chosen.slope - items[1].chosen.slope == 0, name)
    end
  end)
end)
