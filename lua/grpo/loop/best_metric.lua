-- Which checkpoint is the best one: the option checkpoint.best names a metric of evaluations
-- (eval/...) or of steps.

local best_metric = {}

-- Metrics that are best when lowest.
local lower = { loss = true, ["eval/loss"] = true, ["eval/bits_per_character"] = true,
  ["eval/masked_loss"] = true, ["eval/kl"] = true }

function best_metric.is_lower(name)
  return lower[name] == true
end

-- Whether the metric is better in these numbers than ever before; remembers it.
function best_metric.improves(tr, numbers)
  local name = tr.settings.checkpoint.best
  local value, best = name and tr.directory and numbers[name], tr.best
  if type(value) ~= "number" or value ~= value then return false end
  if best and (lower[name] and value >= best or not lower[name] and value <= best) then
    return false
  end
  tr.best, tr.best_step = value, tr.step_count
  return true
end

-- Says so if a checkpoint is due and the step has no metric of that name.
function best_metric.note_missing(tr)
  local name = tr.settings.checkpoint.best
  if name and tr.stage.method.samples and not name:find("^eval/") and not tr.metrics[name] then
    tr.view:line(("note: checkpoint.best: step %d has no metric '%s'"):format(tr.step_count, name))
  end
end

return best_metric
