-- Rollout workers: processes, perhaps on other machines, that sample for a trainer
-- (docs/workers.md).

local workers = {}

-- Listens for workers if the experiment says so: a Pool (pool.lua) or nil.
function workers.open(tr)
  if not tr.experiment.config.workers.listen then return nil end
  return require("grpo.workers.pool").open(tr)
end

return workers
