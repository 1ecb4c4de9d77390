-- bench/limits.lua - the time until limited code is ended, for every attack of
-- tests/lua/attacks.lua as a reward with the default limits.  `over` is the time beyond that of a
-- plain loop with the same budget of instructions.  Run by bench/limits.

local core = require "grpo.core"
local attacks = require "tests.lua.attacks"
local statistics = require "grpo.statistics"

local limits = { instructions = 5e7, memory = 64 * 2 ^ 20, seconds = 5 } -- limits.reward's defaults
local ROUNDS = 3

-- Returns the median of the seconds until f is ended, the message of the budget that ended it, and
-- the bytes that Lua still holds afterwards.
local function measure(f)
  local times, message, left = {}, nil, nil
  for i = 1, ROUNDS do
    collectgarbage()
    local before, started = core.mem().lua, core.clock()
    local ok, err = core.limited(limits, "reward", f)
    times[i], message = core.clock() - started, ok and "nothing: it ended by itself"
      or tostring(err)
    err = nil -- luacheck: ignore 311
    collectgarbage()
    left = core.mem().lua - before
  end
  local by = message:match("used up") and "instructions" or message:match("needs more") and "memory"
    or message
  return statistics.median(times), by, left
end

local plain = measure(function() while true do end end)
print(("%-58s %8s %8s  %-13s %s"):format("attack", "seconds", "over", "ended by", "bytes left"))
local worst = 0
for _, attack in ipairs(attacks) do
  local seconds, by, left = measure(attack.run)
  local over = math.max(0, seconds - plain)
  worst = math.max(worst, over)
  print(("%-58s %8.3f %8.3f  %-13s %d"):format(attack.name, seconds, over, by, left))
end
print(("\na plain loop of %g instructions takes %.3f s; the worst attack %.3f s more")
  :format(limits.instructions, plain, worst))
