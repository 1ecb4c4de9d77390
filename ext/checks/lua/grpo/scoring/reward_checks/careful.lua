-- Calls rewards one by one for `grpo check`: one that ends at its limits ends neither the others
-- nor the check.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local scoring = require "grpo.scoring.scoring"

local careful = {}

-- Did a call end at its limits?  Further ones would most likely too, and each takes as long.
local function ends_at_limits(c, name)
  local message = c.errors and c.errors[name]
  return message and message:find("a loop that does not end?", 1, true) ~= nil
end

local function fail(cs, entry, err)
  for _, c in ipairs(cs) do
    c.rewards[entry.name], c.errors = core.none, c.errors or {}
    c.errors[entry.name] = tostring(err)
  end
end

-- Returns a function(cs[, only]) that fills in c.rewards and c.errors as scoring.score does, for
-- these entries or for `only`, and returns the seconds of each by name.  An entry that has met its
-- limits is not called again.
function careful.scorer(entries, limits)
  local gone = {}
  return function(cs, only)
    local seconds = {}
    for _, entry in ipairs(only or entries) do
      if not gone[entry] then
        local started = core.clock()
        local ok, err = errors.try(scoring.score, { entry }, cs, limits, "skip")
        if not ok and core.signal_waits() then error(err, 0) end
        if not ok then fail(cs, entry, err) end
        seconds[entry.name] = core.clock() - started
        for _, c in ipairs(cs) do gone[entry] = gone[entry] or ends_at_limits(c, entry.name) end
      end
    end
    return seconds
  end
end

return careful
