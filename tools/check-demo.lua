-- Reads the runs that tools/check-demo made and holds them to the promises; one TAP line a promise.
local runs = os.getenv("RUNS")
local failed, number = 0, 0

local function check(ok, format, ...)
  number = number + 1
  if not ok then failed = failed + 1 end
  print(("%sok %d - %s"):format(ok and "" or "not ", number, format:format(...)))
end

local rows = grpo.data.jsonl

for line in io.lines(runs .. "/seconds") do
  local seed, seconds = line:match("(%d+) (%d+)")
  local dir = ("%s/gsm8k-%03d"):format(runs, tonumber(seed) + 1)
  local at = {}
  for _, report in ipairs(rows(dir .. "/eval.jsonl")) do at[report.label] = report end
  local peak = 0
  for _, m in ipairs(rows(dir .. "/metrics.jsonl")) do
    peak = math.max(peak, m["memory/peak_bytes"])
  end
  local sft, after = at["after sft"], at["after grpo"]
  for _, label in ipairs { "before", "after sft", "after grpo" } do
    local r = at[label]
    print(("# seed %s, %-10s: pass@1 %.3f (%.3f to %.3f), pass@8 %.3f, greedy %.3f")
      :format(seed, label,
      r["eval/pass@1"], r["eval/pass@1/low"], r["eval/pass@1/high"], r["eval/pass@8"],
      r["eval/accuracy"]))
  end
  check(tonumber(seconds) < 300, "seed %s: %s seconds, under 300", seed, seconds)
  check(peak < 750e6, "seed %s: peak memory %.0f MB, under 750", seed, peak / 1e6)
  check(after["eval/pass@1"] >= 0.85, "seed %s: pass@1 after GRPO %.3f, at least 0.85", seed,
    after["eval/pass@1"])
  check(after["eval/pass@1"] - sft["eval/pass@1"] >= 0.35,
    "seed %s: pass@1 rose by %.3f, at least 0.35", seed, after["eval/pass@1"] - sft["eval/pass@1"])
  check(after["eval/accuracy"] >= sft["eval/accuracy"], "seed %s: greedy %.3f, before %.3f", seed,
    after["eval/accuracy"], sft["eval/accuracy"])
end
print(("%d passed, %d failed"):format(number - failed, failed))
if failed > 0 then error("a promise of experiments/gsm8k.md does not hold", 0) end
