local grpo = require "grpo"
local option_rows = require "grpo.options.option_rows"

local function leaf(x) return grpo.tensor(x, { requires_grad = true }) end

-- d f / d x by differences, x a plain list
local function numeric(f, x, h)
  local g = {}
  for i = 1, #x do
    local keep = x[i]
    x[i] = keep + h
    local up = f(grpo.tensor(x)):item()
    x[i] = keep - h
    local down = f(grpo.tensor(x)):item()
    x[i] = keep
    g[i] = (up - down) / (2 * h)
  end
  return g
end

local function agrees(f, x, tolerance)
  local t = leaf(x)
  f(t):backward()
  local got, want = t.grad:totable(), numeric(f, x, 1e-2)
  for i = 1, #x do
    assert.near(want[i], got[i], tolerance or 2e-2 * math.max(1, math.abs(want[i])))
  end
end

describe("backward", function()
  local x = { 0.3, -1.2, 0.7, 2.0 }
  local w = grpo.tensor { 1.0, -0.5, 2.0, 0.25 }
  local cases = {
    exp = function(t) return (t:exp() * w):sum() end,
    log = function(t) return ((t * t + 1):log() * w):sum() end,
    sqrt = function(t) return ((t * t + 1):sqrt() * w):sum() end,
    tanh = function(t) return (t:tanh() * w):sum() end,
    sigmoid = function(t) return (t:sigmoid() * w):sum() end,
    silu = function(t) return (t:silu() * w):sum() end,
    gelu = function(t) return (t:gelu() * w):sum() end,
    relu = function(t) return (t:relu() * w):sum() end,
    pow = function(t) return ((t ^ 3) * w):sum() end,
    div = function(t) return (w / (t * t + 1)):sum() end,
    clamp = function(t) return (t:clamp(-1, 1) * w):sum() end,
    minimum = function(t) return (t:minimum(w * 0.6) * w):sum() end,
    where = function(t) return grpo.where(t:gt(0), t * 2, t * 3):sum() end,
    mean = function(t) return (t * w):mean() end,
    max = function(t) return t:max() * 3 end,
    softmax = function(t) return (t:softmax(1) * w):sum() end,
    log_softmax = function(t) return (t:log_softmax(-1) * w):sum() end,
    matmul = function(t)
      return t:reshape({ 2, 2 }):matmul(w:reshape({ 2, 2 })):sum(1):gather(1, { 1 }):sum()
    end,
    transpose = function(t)
      return (t:reshape({ 2, 2 }):transpose(1, 2) * w:reshape({ 2, 2 })):sum()
    end,
    narrow = function(t) return (t:narrow(1, 2, 2) ^ 2):sum() end,
    index = function(t) return t[3] * t[1] end,
    gather = function(t) return (t:gather(1, { 0, 2, 2 }) ^ 2):sum() end,
    segment_sum = function(t) return (t:segment_sum({ 1, 2, 1, 2 }, 2) ^ 2):sum() end,
    segment_mean = function(t) return (t:segment_mean({ 1, 2, 2, 2 }, 2) ^ 2):sum() end,
    spread = function(t) return (t:spread({ 1, 1, 4, 2, 3 }) ^ 2):sum() end,
    concat = function(t) return (grpo.concat({ t, t * 2 }, 1) ^ 2):sum() end,
    stack = function(t) return (grpo.stack({ t, t * 2, w }):sum(1) ^ 2):sum() end,
    quantile = function(t) return t:quantile(0.4) * 2 end,
  }
  local names = {}
  for name in pairs(cases) do names[#names + 1] = name end
  table.sort(names)
  for _, name in ipairs(names) do
    it("agrees with differences: " .. name, function() agrees(cases[name], x) end)
  end

  it("adds up gradients until they are zeroed", function()
    local t = leaf { 1, 2 }
    assert.is_nil(t.grad)
    local _ = (t * 3):sum():backward()
    _ = (t * 2):sum():backward()
    assert.same({ 5, 5 }, t.grad:totable())
    local o = grpo.optim.adamw({ t })
    o:zero_grad()
    assert.is_nil(t.grad)
  end)
  it("frees the graph: a second call is an error", function()
    local t = leaf { 1, 2 }
    local loss = (t * t):sum()
    loss:backward()
    assert.error_matches(function() loss:backward() end, "already used and freed")
    assert.equal(5, loss:item())
  end)
  it("wants one number", function()
    assert.error_matches(function() leaf({ 1, 2 }):exp():backward() end, "single number")
    assert.error_matches(function() grpo.tensor(1):backward() end, "gradient")
  end)
  it("survives the collector in the middle of a graph", function()
    local t = leaf { 1, 2, 3 }
    local y = t
    for i = 1, 50 do
      y = y * 1.01 + i * 0.001
      if i % 10 == 0 then collectgarbage() end
    end
    y:sum():backward()
    assert.near(1.01 ^ 50, t.grad:totable()[1], 1e-3)
  end)
  it("goes through a long chain without recursion", function()
    local t = leaf { 1 }
    local y = t
    for _ = 1, 20000 do y = y + 0 end
    y:sum():backward()
    assert.same({ 1 }, t.grad:totable())
    y = t
    for _ = 1, 20000 do y = y + 0 end
    y = nil -- luacheck: ignore
    collectgarbage()
  end)
end)

describe("detach and no_grad", function()
  it("leave the graph", function()
    local t = leaf { 2 }
    local y = t * t:detach()
    y:sum():backward()
    assert.same({ 2 }, t.grad:totable())
    assert.is_false(grpo.no_grad(function() return t * 2 end).requires_grad)
    assert.is_true((t * 2).requires_grad)
    local ok = pcall(grpo.no_grad, function() error("x") end)
    assert.is_false(ok)
    assert.is_true((t * 2).requires_grad)
  end)
end)

describe("adamw", function()
  it("minimises", function()
    local t = leaf { 5, -3 }
    local o = grpo.optim.adamw({ t }, { weight_decay = 0.01 })
    for _ = 1, 400 do
      ((t - grpo.tensor { 1, 2 }) ^ 2):sum():backward()
      o:step(0.05)
      o:zero_grad()
    end
    local x = t:totable()
    assert.near(1, x[1], 0.05)
    assert.near(2, x[2], 0.05)
  end)
  it("takes torch's first step", function()
    local t = leaf { 1 }
    local o = grpo.optim.adamw({ t }, { weight_decay = 0.1 })
    local _ = (t * 3):sum():backward()
    o:step(0.01)
    assert.near(1 - 0.01 * 0.1 - 0.01, t:totable()[1], 1e-6)
  end)
  it("has moments in 8 bits for tensors of 4,096 numbers", function()
    local function after(make, n, gradient)
      local t = grpo.zeros({ n }, { requires_grad = true })
      local o = make({ t }, { weight_decay = 0.1 })
      for _ = 1, 5 do
        local _ = (t * gradient):sum():backward()
        o:step(0.01)
        o:zero_grad()
      end
      return t:totable()
    end
    local function gradient_of(n, f)
      local list = {}
      for i = 1, n do list[i] = f(i) end
      return grpo.tensor(list)
    end
    local same, other = gradient_of(4096, function() return 3 end), gradient_of(4096, math.sin)
    local few = gradient_of(4095, math.sin)
    local adamw, adamw8 = grpo.optim.adamw, grpo.optim.adamw_8bit
    assert.same(after(adamw, 4095, few), after(adamw8, 4095, few)) -- float32 moments
    -- a block of equal numbers has no rounding but that of its scale
    assert.near(after(adamw, 4096, same)[7], after(adamw8, 4096, same)[7], 1e-6)
    local a, b, different = after(adamw, 4096, other), after(adamw8, 4096, other), 0
    for i = 1, 4096 do
      if a[i] ~= b[i] then different = different + 1 end
      if math.abs(math.sin(i)) > 0.05 then assert.near(a[i], b[i], 0.1 * math.abs(a[i])) end
    end
    assert.is_true(different > 2000)
    assert.matches("adamw_8bit%) over 1 tensors", tostring(adamw8 { leaf { 1 } }))
  end)
  it("has Lion, as its paper defines it", function()
    local t = leaf { 1, -2, 0.5 }
    local o = grpo.optim.lion({ t }, { weight_decay = 0.1 })
    local p, m = { 1, -2, 0.5 }, { 0, 0, 0 }
    for step = 1, 12 do
      local g = { math.sin(step), math.cos(2 * step), step % 3 - 1 }
      local _ = (t * grpo.tensor(g)):sum():backward()
      o:step(0.01)
      o:zero_grad()
      for i = 1, 3 do
        local u = 0.9 * m[i] + 0.1 * g[i]
        p[i] = p[i] * (1 - 0.01 * 0.1) - 0.01 * (u > 0 and 1 or u < 0 and -1 or 0)
        m[i] = 0.99 * m[i] + 0.01 * g[i] -- the default beta2
      end
    end
    for i, x in ipairs(t:totable()) do assert.near(p[i], x, 1e-6) end
    assert.error_matches(function() grpo.optim.lion({ leaf { 1 } }, { beta3 = 1 }) end,
      "did you mean 'beta")
  end)
  it("refuses what it cannot use", function()
    assert.error_matches(function() grpo.optim.adamw({ grpo.tensor { 1 } }) end,
      "needs no gradient")
    assert.error_matches(function() grpo.optim.adamw({ 1 }) end, "element 1 is a number")
    assert.error_matches(function() grpo.optim.adamw({ leaf { 1 } }, { weightdecay = 1 }) end,
      "did you mean 'weight_decay'")
    assert.error_matches(function() grpo.optim.adamw({ leaf { 1 } }):step() end, "number expected")
    assert.error_matches(function() grpo.optim.adamw({ leaf { 1 } }):step(0 / 0) end,
      "learning rate")
  end)
  it("clips by the global norm", function()
    local a, b = leaf { 1 }, leaf { 1 }
    local _ = (a * 3 + b * 4):sum():backward()
    assert.near(5, grpo.clip_grad_norm({ a, b }, 1), 1e-6)
    assert.near(0.6, a.grad:totable()[1], 1e-5)
    assert.near(0.8, b.grad:totable()[1], 1e-5)
    assert.near(1, grpo.clip_grad_norm({ a, b }, 10), 1e-5)
  end)
end)

describe("grpo.loss", function()
  local function batch()
    return {
      logp = leaf { -1.0, -0.5, -2.0, -0.3 }, old_logp = grpo.tensor { -1.1, -0.4, -1.5, -0.3 },
      ref_logp = grpo.tensor { -1.2, -0.6, -1.9, -0.2 },
      advantage = grpo.tensor { 1, 1, -0.5, -0.5 }, entropy = leaf { 0.1, 0.9, 0.5, 0.3 },
      lengths = { 2, 2 }, sequence = { 1, 1, 2, 2 },
    }
  end
  it("is the readable formula", function()
    local t = batch()
    local loss, metrics = grpo.loss("grpo", t, { clip = 0.2, kl = 0.02 })
    loss:backward()
    local u = batch()
    local r = (u.logp - u.old_logp):exp()
    local l = -((r * u.advantage):minimum(r:clamp(0.8, 1.2) * u.advantage))
    local d = u.ref_logp - u.logp
    l = l + (d:exp() - d - 1) * 0.02
    local plain = l:segment_mean(u.sequence, 2):sum() / 2
    plain:backward()
    assert.near(plain:item(), loss:item(), 1e-6)
    local a, b = t.logp.grad:totable(), u.logp.grad:totable()
    for i = 1, 4 do assert.near(b[i], a[i], 1e-6) end
    assert.is_true(metrics.kl > 0)
    assert.near(0.45, metrics.entropy, 1e-6)
  end)
  it("knows every name", function()
    for _, name in ipairs(option_rows.losses) do
      local t = batch()
      local loss = grpo.loss(name, t, { max_new_tokens = 8 })
      loss:backward()
      assert.equal(4, #t.logp.grad)
    end
  end)
  it("takes lists, masks, entropy and its quantile", function()
    local t = batch()
    t.advantage, t.mask = { 1, 1, -0.5, -0.5 }, { 1, 1, 1, 0 }
    local loss = grpo.loss("grpo", t, { entropy = 0.1, top_entropy_quantile = 0.5 })
    loss:backward()
    assert.is_true(t.entropy.grad ~= nil)
    assert.equal(0, t.logp.grad:totable()[4])
    assert.equal(0, t.logp.grad:totable()[1])
  end)
  it("names what is wrong", function()
    local function raises(pattern, name, t, o)
      assert.error_matches(function() grpo.loss(name, t, o) end, pattern)
    end
    raises("did you mean 'grpo'", "grppo", batch())
    raises("did you mean 'clip_high'", "grpo", batch(), { clip_hihg = 1 })
    raises("want a tensor", "grpo", { logp = 1 })
    raises("t.logp is missing", "grpo", {})
    raises("advantage", "grpo", { logp = leaf { 1 } })
    local t = batch()
    t.old_logp = grpo.tensor { 1 }
    raises("t.old_logp: want a tensor or a list of 4", "grpo", t)
    t = batch()
    t.lengths = { 1, 2 }
    raises("lengths", "grpo", t)
    t = batch()
    t.ref_logp = nil
    raises("ref_logp", "grpo", t, { kl = 0.1 })
    raises("kl_estimator", "grpo", batch(), { kl = 0.1, kl_estimator = "k9" })
    raises("token_mask", "grpo", batch(), { sampler_correction = { mode = "tokens" } })
    raises("table expected", "grpo", nil)
  end)
end)

describe("grpo.loss_from_logits", function()
  it("is the loss of the log-probabilities of the targets", function()
    local logits = { { 0.1, 0.7, -0.3 }, { 1.0, 0.2, 0.1 }, { -0.4, 0.3, 0.9 } }
    local a, b = leaf(logits), leaf(logits)
    local advantages, old = { 1, -1, 0.5 }, { -1.0, -0.6, -0.9 }
    local loss = grpo.loss_from_logits(a, { 1, 0, 2 }, advantages,
      { old_logp = old, normalizer = 6 })
    loss:backward()
    local logp = b:log_softmax(2):gather(2, { 1, 0, 2 })
    local r = (logp - grpo.tensor(old)):exp()
    local adv = grpo.tensor(advantages)
    local plain = -((r * adv):minimum(r:clamp(0.8, 1.2) * adv)):sum() / 6
    plain:backward()
    assert.near(plain:item(), loss:item(), 1e-6)
    for i = 1, 3 do
      for k = 1, 3 do assert.near(b.grad:totable()[i][k], a.grad:totable()[i][k], 1e-5) end
    end
  end)
  it("names what is wrong", function()
    assert.error_matches(function() grpo.loss_from_logits(leaf { 1 }, { 0 }, { 1 }) end,
      "want %[N, vocab%]")
    assert.error_matches(function() grpo.loss_from_logits(leaf { { 1, 2 } }, { 2 }, { 1 }) end,
      "targets%[1%]")
    assert.error_matches(function() grpo.loss_from_logits(leaf { { 1, 2 } }, { 0, 1 }, { 1 }) end,
      "2 targets for 1 rows")
    assert.error_matches(function() grpo.loss_from_logits(leaf { { 1, 2 } }, { 0 }, { 1, 2 }) end,
      "advantage")
    assert.error_matches(function()
      grpo.loss_from_logits(leaf { { 1, 2 } }, { 0 }, { 1 }, { tempreture = 1 })
    end,
      "temperature")
  end)
end)
