-- Reads the rewards that tools/check-agent measured: means, and whether they rose.  TAP.
local statistics = require "grpo.statistics"
local failed, number = 0, 0

-- The rewards of greedy answers, and those of sampled ones.
local function rewards(name)
  local greedy, sampled = {}, {}
  for line in io.lines(name .. ".rewards") do
    local a, b = line:match("^(%S+) (%S+)$")
    greedy[#greedy + 1], sampled[#sampled + 1] = assert(tonumber(a)), assert(tonumber(b))
  end
  return { greedy = greedy, sampled = sampled }
end

local function mean(list) return statistics.bootstrap(list).mean end

for seed = 0, 99 do
  local file = io.open(("before-%d.rewards"):format(seed))
  if file then
    file:close()
    local before, after = rewards("before-" .. seed), rewards("after-" .. seed)
    local control = rewards("control-" .. seed)
    for _, how in ipairs { "sampled", "greedy" } do
      local p = statistics.paired_test(before[how], after[how]).p
      local rise = statistics.paired_bootstrap(before[how], after[how])
      print(("# seed %d, %d tasks, %s: before %.3f, after %.3f, more demonstrations %.3f; "
        .. "rise %.3f (%.3f to %.3f), p = %.1e"):format(seed, rise.n, how, mean(before[how]),
        mean(after[how]), mean(control[how]), rise.difference, rise.low, rise.high, p))
      if how == "sampled" then
        number = number + 1
        local ok = rise.n == 300 and p < 0.01 and mean(after[how]) > mean(control[how])
        if not ok then failed = failed + 1 end
        print(("%sok %d - seed %d: the reward rose"):format(ok and "" or "not ", number, seed))
      end
    end
  end
end
print(("1..%d"):format(number))
if failed > 0 or number == 0 then error("the reward did not rise", 0) end
