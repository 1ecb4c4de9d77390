-- Rollout workers: processes, perhaps on other machines, that sample for a trainer.  docs/workers.md

local workers = {}

-- Listens for workers if the experiment says so: a Pool (pool.lua) or nil.
function workers.open(tr)
  if not tr.experiment.config.workers.listen then return nil end
  return require("grpo.workers.pool").open(tr)
end

-- As engine:rollout(options), with the workers of tr if it may have any.
function workers.rollout(tr, engine, options)
  if tr.workers then return tr.workers:rollout(engine, options) end
  return engine:rollout(options)
end

-- As engine:replace(record, slots, prompts, options).
function workers.replace(tr, engine, record, slots, prompts, options)
  if tr.workers then return tr.workers:replace(engine, record, slots, prompts, options) end
  return engine:replace(record, slots, prompts, options)
end

return workers
