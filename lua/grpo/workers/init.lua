-- Rollout workers: processes, perhaps on other machines, that sample for a trainer
-- (docs/workers.md).

local errors = require "grpo.base.errors"
local ranks = require "grpo.train.ranks"

local workers = {}

-- Ranks share the sampling already, and each step's weights.
local function refuse_ranks(option)
  if ranks.size() == 1 then return end
  errors.raise_plain("EARG", "workers.%s: a launcher has started %d ranks, which share the "
    .. "sampling already; use workers or ranks", option, ranks.size())
end

-- Listens for workers if the experiment says so: a Pool (pool.lua) or nil.
function workers.open(tr)
  local options = tr.experiment.config.workers
  if options.staleness > 0 then refuse_ranks("staleness") end
  if not options.listen then return nil end
  refuse_ranks("listen")
  return require("grpo.workers.pool").open(tr)
end

return workers
