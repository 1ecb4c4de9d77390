-- Which patterns in the metrics are told, and when.

local diagnose = require "grpo.loop.diagnose"

local function told(n, metrics, context)
  local watcher, lines = diagnose.watcher(), {}
  for step = 1, n do
    local m = type(metrics) == "function" and metrics(step) or metrics
    m.step, m.stage = step, 1
    for _, line in ipairs(watcher:step(m, context)) do lines[#lines + 1] = line end
  end
  return lines
end

describe("diagnosis", function()
  it("speaks when a pattern has held for some steps, once", function()
    assert.equal(0, #told(4, { frac_reward_zero_std = 1, reward = 0 }))
    local lines = told(50, { frac_reward_zero_std = 1, reward = 0 })
    assert.equal(1, #lines)
    assert.matches("no learning signal", lines[1])
  end)

  it("tells a pattern that stays once, and again when it comes back", function()
    assert.equal(1, #told(500, { frac_reward_zero_std = 1, reward = 0 }))
    assert.equal(2, #told(300, function(step)
      return { frac_reward_zero_std = step % 150 < 20 and 0 or 1, reward = 0 }
    end))
  end)

  it("does not repeat a pattern that comes and goes", function()
    local lines = told(60, function(step)
      return { frac_reward_zero_std = step % 8 == 0 and 0 or 1, reward = 0 }
    end)
    assert.equal(1, #lines)
  end)

  it("takes certainty for a fault only when nothing was gained", function()
    local function metrics(gain)
      return function(step)
        return { entropy = step > 5 and 0.001 or 1, frac_reward_zero_std = 0.8, reward = step > 5
          and 1 + gain or 1 }
      end
    end
    assert.equal(0, #told(40, metrics(1)))
    local lines = told(40, metrics(-0.5))
    assert.equal(1, #lines)
    assert.matches("entropy has collapsed", lines[1])
  end)

  it("names truncation, and a ratio that is not 1 at once", function()
    assert.matches("max_new_tokens",
      told(9, { ["completions/clipped_ratio"] = 0.9, reward = 0 })[1])
    assert.same({},
      told(9, { ["completions/clipped_ratio"] = 1, reward = 0 }, { fixed_length = true }))
    assert.matches("report", told(1, { ratio_max_deviation = 1e-7, reward = 0 })[1])
  end)

  it("names masks and the clip beside a gradient of zero, and not the rate", function()
    assert.matches("gradient is zero although rewards differ: check train%.mask_truncated, "
      .. "train%.top_entropy_quantile and train%.clip %(",
      told(9, { grad_norm = 0, frac_reward_zero_std = 0.5, reward = 0 })[1])
  end)

  it("names the first reward that failed, at once", function()
    local watcher = require("grpo.loop.diagnose").watcher()
    local cs = { {}, { errors = { b = "rewards.b: x.lua:3: bad" } } }
    local lines = watcher:step({ step = 1, reward_errors = 2 }, { completions = cs })
    assert.same({ "2 calls of rewards or the environment failed in this step (reward_errors); the "
      .. "first: "
      .. "rewards.b: x.lua:3: bad (docs/troubleshooting.md#errors)" }, lines)
    assert.same({}, watcher:step({ step = 2, reward_errors = 2 }, { completions = cs }))
  end)

  -- t from 0 to 1 over 60 steps, with some noise that is the same in each run
  local function series(make)
    return function(step)
      local t, wave = (step - 1) / 59, math.sin(7 * step) / 2 + math.sin(3.1 * step) / 2
      local m = { reward = 0.3 + 0.4 * t + 0.05 * wave, reward_std = 0.4, kl = 0.002 + 0.05 * t,
        frac_reward_zero_std = 0.2, entropy = 1 - 0.5 * t, grad_norm = 0.5,
        ["completions/mean_length"] = 100 + 60 * t + 5 * wave,
        ["completions/clipped_ratio"] = 0.1 + 0.02 * wave }
      for name, value in pairs(make and make(t, wave) or {}) do m[name] = value end
      return m
    end
  end

  it("is silent in a healthy run: the reward rises, and length and KL with it", function()
    assert.same({}, told(60, series()))
    assert.same({}, told(60, series(function(t, wave)
      return { ["completions/mean_length"] = 40 + 200 * t + 3 * wave,
        ["completions/clipped_ratio"] = 0.05 + 0.5 * t * 0.9 }
    end)))
    -- lengths and a reward that only waver
    assert.same({}, told(60, series(function(_, wave)
      return { reward = 0.3 + 0.02 * wave, ["completions/mean_length"] = 100 + 20 * wave }
    end)))
  end)

  it("tells a KL above its bound, in nats a token and a completion", function()
    local lines = told(60, series(function(t)
      return { kl = 1.2 * t, ["completions/mean_length"] = 100 }
    end))
    assert.equal(1, #lines)
    assert.matches("^kl is 0%.%d+ nats a token, above 0%.5, which is %d+%.?%d* nats a completion "
      .. "of 100 tokens: .*; lower train%.lr, raise train%.kl", lines[1])
    assert.same({}, told(60, series(function(t) return { kl = 1.2 * t } end),
      { reference = "random" }))
    assert.equal(1, #told(60, series(function(t) return { kl = 30 * t } end),
      { reference = "random" }))
    assert.same({}, told(60, series(function(t)
      return { kl = 30 * t, frac_reward_zero_std = 1 }
    end), { taught = true }))
  end)

  it("tells a KL penalty that is larger than the reward, in the reward's unit", function()
    local penalised = {}
    for i = 1, 4 do penalised[i] = { reward = 0.5 - 1.5, kl_penalty = 1.5, index = i } end
    local lines = told(20, series(), { completions = penalised })
    assert.equal(1, #lines)
    assert.matches("^the KL penalty takes 1%.5 of each completion's reward, which is 0%.5 before",
      lines[1])
    for _, c in ipairs(penalised) do c.reward, c.kl_penalty = 0.5 - 0.2, 0.2 end
    assert.same({}, told(20, series(), { completions = penalised }))
    lines = told(20, series(function() return { ["objective/non_score_reward"] = -3 } end))
    assert.matches("^the KL penalty takes 3 of each", lines[1])
    assert.same({}, told(20, series(function()
      return { ["objective/non_score_reward"] = -0.1 }
    end)))
  end)

  it("tells length that runs away while the reward does not rise", function()
    local flat = function(wave) return 0.3 + 0.02 * wave end
    local lines = told(60, series(function(t, wave)
      return { reward = flat(wave), ["completions/mean_length"] = 100 + 200 * t }
    end))
    assert.equal(1, #lines)
    assert.matches("^length runs away: completions have gone from 107 to %d+ tokens, and 1%d %% "
      .. "are cut off .* try rewards%.length%.soft_overlong, train%.mask_truncated", lines[1])
    lines = told(60, series(function(t, wave)
      return { reward = flat(wave), ["completions/clipped_ratio"] = 0.05 + 0.4 * t }
    end))
    assert.equal(1, #lines)
    assert.matches("^length runs away: .* %d+ %% are cut off %(%d %% at first%)", lines[1])
    assert.same({}, told(60, series(function(t, wave)
      return { reward = flat(wave), ["completions/mean_length"] = 100 + 200 * t }
    end), { fixed_length = true }))
    for _, length in ipairs { 1, 4, 8, 16 } do -- nothing runs away within a short limit
      assert.same({}, told(60, series(function(t, wave)
        return { reward = flat(wave), ["completions/clipped_ratio"] = 0.05 + 0.4 * t,
          ["completions/mean_length"] = length * (0.9 + 0.1 * t) }
      end)))
    end
    assert.same({}, told(60, series(function(t, wave)
      return { reward = flat(wave), ["completions/clipped_ratio"] = 0.05 + 0.4 * t,
        ["completions/mean_length"] = 200 - 80 * t } -- they get shorter
    end)))
  end)

  it("compares with the steps of its own stage", function()
    local watcher = diagnose.watcher()
    for step = 1, 80 do
      local second = step > 40
      local m = { step = step, stage = second and 2 or 1, reward = 0.5, reward_std = 0.1,
        ["completions/mean_length"] = second and 300 or 20 }
      assert.same({}, watcher:step(m))
    end
  end)

  it("tells of targets that are cut, once", function()
    local watcher = diagnose.watcher()
    assert.same({}, watcher:step { step = 1, stage = 1 })
    local lines = watcher:step { step = 2, stage = 1, targets_truncated = 3 }
    assert.equal(1, #lines)
    assert.matches("^targets are longer than sampling%.max_new_tokens .*: 3 so far", lines[1])
    assert.same({}, watcher:step { step = 3, stage = 1, targets_truncated = 6 })
  end)

  it("has an entry in docs/troubleshooting.md for each note", function()
    local page = require("grpo.core").fs.read("docs/troubleshooting.md")
    local names = diagnose.names()
    for _, name in ipairs(require("grpo.scoring.reward_checks.reward_hacking").names()) do
      names[#names + 1] = name
    end
    for _, name in ipairs(names) do
      assert.equal(name, page:match("\n### (" .. name .. ")\n") or "no entry for " .. name)
    end
  end)
end)
