-- The fused C losses against the readable ones of lua/grpo/losses.lua: the same value, the same
-- gradient.

local grpo = require "grpo"
local option_rows = require "grpo.options.option_rows"
local losses = require "grpo.losses"
local tiny = require "tests.lua.tiny"

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
  return { logp = logp, old_logp = old, ref_logp = old + noise(n, 3),
    advantage = grpo.tensor(advantage), mask = grpo.tensor(mask), entropy = noise(n, 4) + 1,
    sequence = sequence, lengths = lengths, num_sequences = 4, num_tokens = 9, normalizer = 9,
    max_new_tokens = 6 }
end

local base = { clip = 0.2, sapo = { pos = 1.0, neg = 1.05 },
  vespo = { k_pos = 2, lambda_pos = 3, k_neg = 3, lambda_neg = 2 } }

-- Value and gradient of one loss, by C and by the readable Lua.
local function both(name, extra)
  local options, out = tiny.with(base, extra), {}
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
  for _, name in ipairs(option_rows.losses) do
    local sequence = (name == "gspo" or name == "luspo") and "sequence" or nil
    it(name, function() agree(name, { importance = sequence }) end)
    if name ~= "rloo" and name ~= "luspo" then
      it(name .. " with KL", function() agree(name, { importance = sequence, kl = 0.1 }) end)
    end
  end
  it("grpo with clip_high and delta",
    function() agree("grpo", { clip_high = 0.28, delta = 1.1 }) end)
  it("grpo with k2 and bias correction", function()
    agree("grpo", { kl = 0.1, kl_estimator = "k2", kl_bias_correction = true })
  end)
end)

describe("Clip-Cov and KL-Cov", function()
  local core = require "grpo.core"

  -- The marks of the readable choice, for the same options as the fused one.
  local function marks(t, o)
    local rng, numbers = core.rng(0, "covariance", 0, 0, 0), {}
    for i = 1, 10 do numbers[i] = rng() end
    return losses.covariance({ mask = t.mask:totable(), old_logp = t.old_logp:totable(),
      advantage = t.advantage:totable() }, o, function(i) return numbers[i] end)
  end

  local function compare(name, extra)
    local o = tiny.with(base, { importance = (name == "gspo") and "sequence" or nil,
      clip_cov = { ratio = 0, low = -0.1, high = 5 }, kl_cov = { ratio = 0, coef = 0.7 } })
    o = tiny.with(o, extra)
    local out = {}
    for i, readable in ipairs { false, true } do
      local t = batch()
      if readable then
        local clipped, held = marks(t, o)
        t.clip_cov, t.kl_cov = grpo.tensor(clipped), grpo.tensor(held)
      end
      local loss = readable and losses[name](t, o) or grpo.loss(name, t, o)
      loss:backward()
      out[i] = { value = loss:item(), grad = t.logp.grad:totable() }
    end
    assert.near(out[2].value, out[1].value, 1e-5)
    for i, g in ipairs(out[2].grad) do assert.near(g, out[1].grad[i], 1e-5) end
    return out[1].value
  end

  it("are the readable ones", function()
    for _, name in ipairs { "grpo", "dapo", "dr_grpo", "gspo", "cispo", "sapo", "reinforce" } do
      local without = compare(name, {})
      for ratio = 0.1, 1, 0.15 do
        local clip = { clip_cov = { ratio = ratio, low = -0.1, high = 5 } }
        local kl = { kl_cov = { ratio = ratio, coef = 0.7 } }
        assert.is_true(math.abs(compare(name, clip) - without) > 1e-6)
        assert.is_true(compare(name, kl) > without + 1e-6)
        compare(name, tiny.with(clip, kl))
      end
    end
  end)

  it("and delta as dual clip, have the values and gradients of torch", function()
    local compared, largest = { clip_cov = 0, kl_cov = 0, dual_clip = 0 }, 0
    for _, case in ipairs(core.json_decode(core.fs.read("tests/cases/covariance/cases.json"))) do
      local given = case.options
      local o = { clip = 0.2, clip_high = 0.28 }
      if case.rule == "clip_cov" then
        o.clip_cov = { ratio = 1, low = given.low, high = given.high }
      elseif case.rule == "kl_cov" then
        o.clip, o.clip_high = 1000, 1000 -- it has no clip
        o.kl_cov = { ratio = given.ratio, coef = given.coef }
      else
        o.delta = given.c
      end
      local t = { lengths = case.lengths, old_logp = case.old_logp, mask = case.mask,
        advantage = case.advantage, logp = grpo.tensor(case.logp, { requires_grad = true }) }
      local loss = grpo.loss("dapo", t, o)
      loss:backward()
      assert.near(case.loss, loss:item(), 1e-6)
      for i, g in ipairs(t.logp.grad:totable()) do
        assert.near(case.grad[i], g, 1e-7)
        largest = math.max(largest, math.abs(g))
      end
      compared[case.rule] = compared[case.rule] + 1
    end
    assert.same({ clip_cov = 8, kl_cov = 12, dual_clip = 8 }, compared)
    assert.is_true(largest > 0.01)
  end)

  it("choose the earlier one of equal tokens, and at least one", function()
    local t = { mask = { 1, 1, 1, 0, 1 }, old_logp = { -1, -2, -2, -2, -1 },
      advantage = { 1, -1, -1, -1, 1 } }
    local o = { clip_cov = { ratio = 0, low = 1, high = 5 }, kl_cov = { ratio = 0.1 } }
    local _, held = losses.covariance(t, o)
    assert.same({ 1, 1, 0, 0, 0 }, select(2, losses.covariance(t, tiny.with(o,
      { kl_cov = { ratio = 0.5 } }))))
    assert.same({ 1, 0, 0, 0, 0 }, held)
  end)

  it("are refused where there is nothing to choose by", function()
    local t = batch()
    t.advantage = nil
    tiny.refused("loss%.clip_cov, loss%.kl_cov: need t%.advantage", grpo.loss, "grpo", t,
      { kl_cov = { ratio = 0.5 } })
    tiny.refused("loss_from_logits%.clip_cov, kl_cov: only grpo%.loss", grpo.loss_from_logits,
      grpo.zeros { 1, 2 }, { 0 }, { 1 }, { clip_cov = { ratio = 0.5 } })
  end)
end)

describe("a sequence without a token that counts", function()
  -- The value of a loss whose last sequence, two tokens of ten, has this advantage.
  local function value(name, advantage, t, options)
    t.advantage = grpo.tensor { 1.2, 1.2, 1.2, -0.7, -1.1, -1.1, -1.1, -1.1, advantage, advantage }
    return grpo.loss(name, t, tiny.with(base, options)):item()
  end

  it("is left out of every loss", function()
    for _, name in ipairs(option_rows.losses) do
      local function masked()
        return tiny.with(batch(), { mask = grpo.tensor { 1, 1, 1, 1, 1, 0, 1, 1, 0, 0 },
          num_tokens = 7, normalizer = 7 })
      end
      local want = value(name, 0, masked())
      assert.equal(name .. " " .. want, name .. " " .. value(name, 4, masked()))
      local sequence = (name == "gspo" or name == "luspo") and "sequence" or nil
      local options = tiny.with(base, { importance = sequence })
      want = losses[name](masked(), options):item()
      assert.near(want, value(name, 0.4, masked(), options), 1e-5)
    end
  end)
end)

describe("sequences", function()
  -- A batch of which `change` takes or changes fields.
  local function loss(change, options)
    local t = batch()
    change(t)
    return grpo.loss("gspo", t, options):item()
  end
  local whole = loss(function() end)

  it("are said by lengths or by sequence, the same", function()
    assert.equal(whole, loss(function(t) t.sequence = nil end))
    assert.equal(whole, loss(function(t) t.lengths = nil end))
    assert.is_true(whole ~= loss(function(t) t.lengths, t.sequence = nil, nil end)) -- one sequence
    local gap = { 1, 1, 1, 3, 4, 4, 4, 4, 6, 6 } -- two sequences without a token
    assert.near(loss(function(t) t.lengths, t.sequence = { 3, 0, 1, 4, 0, 2 }, nil end),
      loss(function(t) t.lengths, t.sequence = nil, gap end), 0)
  end)

  local function refused(pattern, ...) tiny.refused(pattern, loss, ...) end

  it("that contradict each other or the tokens are refused", function()
    refused("t%.lengths: the lengths add up to 11, but t%.logp has 10 tokens",
      function(t) t.lengths = { 3, 1, 4, 3 } end)
    refused("t%.sequence%[4%]: t%.lengths puts this token into sequence 2",
      function(t) t.sequence = { 1, 1, 1, 1, 3, 3, 3, 3, 4, 4 } end)
    refused("t%.sequence%[3%]: want the number of the token's sequence, "
      .. "from 1 to 10 and not below the one before",
      function(t) t.lengths, t.sequence = nil, { 1, 2, 1, 2, 1, 2, 1, 2, 1, 2 } end)
    refused("t%.sequence%[1%]",
      function(t) t.lengths, t.sequence = nil, { 0, 1, 1, 1, 1, 1, 1, 1, 1, 1 } end)
    refused("t%.sequence%[2%].*got x",
      function(t) t.lengths, t.sequence = nil, { 1, "x", 1, 1, 1, 1, 1, 1, 1, 1 } end)
    refused("t%.sequence: want a list of 10 whole numbers", function(t) t.sequence = { 1 } end)
  end)

  it("longer than the tokens do not reach past them", function()
    refused("t%.lengths: the lengths add up to 20000", function(t)
      t.lengths, t.truncated, t.sequence = {}, {}, nil
      for i = 1, 2000 do t.lengths[i], t.truncated[i] = 10, true end
    end, { mask_truncated = true })
    local asked = 0
    refused("t%.lengths", function(t)
      local lists = { { 3, 1, 4, 2 }, {} }
      for i = 1, 1e5 do lists[2][i] = 0 end
      t.lengths, t.sequence = nil, nil
      setmetatable(t, { __index = function(_, key)
        asked = asked + (key == "lengths" and 1 or 0)
        return key == "lengths" and lists[asked] or nil
      end })
      t.logp = grpo.zeros { 11 }
      t.old_logp, t.ref_logp, t.advantage, t.mask, t.entropy = t.logp, nil, t.logp, nil, nil
    end)
    assert.equal(1, asked)
  end)

  it("that are truncated can be left out", function()
    local options = { mask_truncated = true }
    local function truncated(t) t.truncated = { true, false, false, 1 } end
    assert.equal(loss(function(t) t.mask = grpo.tensor { 0, 0, 0, 1, 1, 0, 1, 1, 0, 0 } end),
      loss(truncated, options))
    assert.equal(loss(function(t) t.mask = grpo.tensor { 0, 0, 0, 1, 1, 1, 1, 1, 0, 0 } end),
      loss(function(t)
        truncated(t)
        t.mask = nil
      end, options))
    assert.equal(whole, loss(function(t) t.truncated = {} end, options))
    refused("loss%.mask_truncated: needs t%.truncated", function() end, options)
  end)

  it("an entropy of another length is refused", function()
    refused("t%.entropy: want a tensor of 10 numbers, one per token, got 1",
      function(t) t.entropy = grpo.zeros { 1 } end, { top_entropy_quantile = 0.5 })
  end)
end)
