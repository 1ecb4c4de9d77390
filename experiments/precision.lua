-- Reads the runs that experiments/precision made: a table for experiments/precision.md.
local grpo = require "grpo"
local runs, BLOCK = os.getenv("RUNS"), 10
local modes, seeds = { "f32", "bf16" }, {}
for seed in os.getenv("SEEDS"):gmatch("%d+") do seeds[#seeds + 1] = seed end

local rows = grpo.data.jsonl

local function mean(list, from)
  local sum, n = 0.0, 0
  for i = from or 1, #list do sum, n = sum + list[i], n + 1 end
  return n > 0 and sum / n or 0 / 0
end

-- Returns means of a metric over blocks of steps, which smooths the noise of single steps.
local function blocks(list)
  local smooth = {}
  for at = 1, #list, BLOCK do
    smooth[#smooth + 1] = mean(table.move(list, at, math.min(at + BLOCK - 1, #list), 1, {}))
  end
  return smooth
end

local function difference(a, b)
  local list = {}
  for i = 1, math.min(#a, #b) do list[i] = math.abs(a[i] - b[i]) end
  return mean(list)
end

-- The curves of one run, and its evaluations by label.
local function read(mode, seed)
  local dir = ("%s/%s-%s/gsm8k-001"):format(runs, mode, seed)
  local run = { at = {}, curve = { reward = {}, correct = {}, kl = {}, loss = {} }, seconds = 0.0 }
  for _, report in ipairs(rows(dir .. "/eval.jsonl")) do run.at[report.label] = report end
  for _, m in ipairs(rows(dir .. "/metrics.jsonl")) do
    local c = run.curve
    if m.kind == "sft" then
      c.loss[#c.loss + 1] = m.loss
    else
      c.reward[#c.reward + 1], c.correct[#c.correct + 1] = m.reward, m["rewards/correct/mean"]
      c.kl[#c.kl + 1] = m.kl
    end
    run.seconds = run.seconds + m.step_time
  end
  run.final_kl = mean(run.curve.kl, math.max(1, #run.curve.kl - BLOCK + 1))
  for name, list in pairs(run.curve) do run.curve[name] = blocks(list) end
  return run
end

local all = {}
for _, mode in ipairs(modes) do
  all[mode] = {}
  for i, seed in ipairs(seeds) do all[mode][i] = read(mode, seed) end
end

print("| seed | compute | pass@1 before GRPO | after | greedy before | after | mean reward "
  .. "| final KL | seconds |")
print("|---|---|---|---|---|---|---|---|---|")
for i, seed in ipairs(seeds) do
  for _, mode in ipairs(modes) do
    local r = all[mode][i]
    local from, to = r.at["after sft"], r.at["after grpo"]
    print(("| %s | %s | %.3f | %.3f | %.3f | %.3f | %.3f | %.4f | %.0f |"):format(seed, mode,
      from["eval/pass@1"], to["eval/pass@1"], from["eval/accuracy"], to["eval/accuracy"],
      mean(r.curve.reward), r.final_kl, r.seconds))
  end
end

print(("\n| mean absolute difference of curves, by blocks of %d steps "
  .. "| bf16 against f32, same seed | f32, different seeds "
  .. "| bf16, different seeds |"):format(BLOCK))
print("|---|---|---|---|")
for _, name in ipairs { "loss", "reward", "correct", "kl" } do
  local between, within = {}, { f32 = {}, bf16 = {} }
  for i in ipairs(seeds) do
    between[i] = difference(all.f32[i].curve[name], all.bf16[i].curve[name])
    for k = i + 1, #seeds do
      for _, mode in ipairs(modes) do
        table.insert(within[mode], difference(all[mode][i].curve[name], all[mode][k].curve[name]))
      end
    end
  end
  print(("| %s | %.4f | %.4f | %.4f |"):format(name == "loss" and "supervised loss" or name,
    mean(between), mean(within.f32), mean(within.bf16)))
end
