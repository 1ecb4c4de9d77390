-- Rollout workers: processes, perhaps on other machines, that sample for a trainer
-- (docs/workers.md).

local errors = require "grpo.base.errors"
local ranks = require "grpo.train.ranks"

local workers = {}

-- Ranks share the sampling already, and each step's weights.  options: the section workers.
-- said: who wants n ranks, in words.
function workers.refuse_ranks(options, n, said)
  local option = options.staleness > 0 and "staleness" or options.listen and "listen"
  if n == 1 or not option then return end
  errors.raise_plain("EARG", "workers.%s: %s %d ranks, which share the sampling already; use "
    .. "workers or ranks", option, said, n)
end

-- Listens for workers if the experiment says so: a Pool (pool.lua) or nil.
function workers.open(tr)
  local options = tr.experiment.config.workers
  workers.refuse_ranks(options, ranks.size(), "a launcher has started")
  if not options.listen then return nil end
  return require("grpo.workers.pool").open(tr)
end

return workers
