-- The fused C losses against the readable ones of lua/grpo/losses.lua: the same value, the same gradient.

local grpo = require "grpo"
local losses = require "grpo.losses"

local lengths = { 3, 1, 4, 2 }

-- Numbers in -0.5 .. 0.5, always the same.
local function noise(n, seed)
  return grpo.randn({ n }, { seed = seed }):clamp(-2, 2) * 0.25
end

-- A fresh table t over ten tokens of four sequences; one token is masked.
local function batch()
  local sequence, advantage = {}, {}
  local per_sequence = { 1.2, -0.7, -1.1, 0.4 }
  for i, n in ipairs(lengths) do
    for _ = 1, n do sequence[#sequence + 1], advantage[#advantage + 1] = i, per_sequence[i] end
  end
  local n = #sequence
  local old = noise(n, 1) - 1.5
  local logp = grpo.tensor((old + noise(n, 2)):totable(), { requires_grad = true })
  local mask = { 1, 1, 1, 1, 1, 0, 1, 1, 1, 1 }
  return { logp = logp, old_logp = old, ref_logp = old + noise(n, 3), advantage = grpo.tensor(advantage),
    mask = grpo.tensor(mask), entropy = noise(n, 4) + 1, sequence = sequence, lengths = lengths, num_sequences = 4,
    num_tokens = 9, normalizer = 9, max_new_tokens = 6 }
end

local base = { clip = 0.2, sapo = { pos = 1.0, neg = 1.05 },
  vespo = { k_pos = 2, lambda_pos = 3, k_neg = 3, lambda_neg = 2 } }

-- Value and gradient of one loss, by C and by the readable Lua.
local function both(name, extra)
  local options, out = {}, {}
  for k, v in pairs(base) do options[k] = v end
  for k, v in pairs(extra) do options[k] = v end
  for i, readable in ipairs { false, true } do
    local t = batch()
    local loss = readable and losses[name](t, options) or grpo.loss(name, t, options)
    local value = loss:item()
    loss:backward()
    out[i] = { value = value, grad = t.logp.grad:totable() }
  end
  return out[1], out[2]
end

local function agree(name, extra)
  local c, lua = both(name, extra)
  assert.near(lua.value, c.value, 1e-5)
  local largest = 0
  for i, g in ipairs(lua.grad) do
    assert.near(g, c.grad[i], 1e-5)
    largest = math.max(largest, math.abs(g))
  end
  assert.is_true(largest > 1e-3) -- the comparison is of something
end

describe("a readable loss is the fused one:", function()
  local names = { "grpo", "bnpo", "dr_grpo", "dapo", "gspo", "gspo_token", "luspo", "gmpo", "cispo", "sapo", "vespo",
    "reinforce", "rloo" }
  for _, name in ipairs(names) do
    local sequence = (name == "gspo" or name == "luspo") and "sequence" or nil
    it(name, function() agree(name, { importance = sequence }) end)
    if name ~= "rloo" and name ~= "luspo" then
      it(name .. " with KL", function() agree(name, { importance = sequence, kl = 0.1 }) end)
    end
  end
  it("grpo with clip_high and delta", function() agree("grpo", { clip_high = 0.28, delta = 1.1 }) end)
  it("grpo with k2 and bias correction", function()
    agree("grpo", { kl = 0.1, kl_estimator = "k2", kl_bias_correction = true })
  end)
end)
