-- tasks/solved.lua - held-out problems by class (a length, a kind), as an evaluation found them:
-- solved greedily, on average, and at least once in all of a problem's samples.
--
-- With as many samples as K, the unbiased estimate of pass@K is the share of problems that at least
-- one sample solves.

local solved = {}

solved.columns = {
  "seed", "round", "step", "class", "problems", "greedy", "length", "samples", "pass_at_1",
  "solved",
}

--- One row for each class, in ascending order: problems; greedy, the share that is right; length,
--- mean tokens of the greedy completions; samples of each problem; pass_at_1; solved, problems with
--- a right sample.
---@param report table of hooks.on_eval
---@param samples integer of each problem: eval.group_size
---@param class fun(row: table): integer
---@return table[]
function solved.by(report, samples, class)
  local rows, found = {}, {}
  for i, c in ipairs(report.samples) do
    local key, mean = class(c.row), report.per_row and report.per_row[i] or 0.0
    local row = found[key]
    if not row then
      row = { class = key, problems = 0, greedy = 0, length = 0, samples = samples, pass_at_1 = 0.0,
        solved = 0 }
      found[key], rows[#rows + 1] = row, row
    end
    row.problems = row.problems + 1
    row.greedy = row.greedy + (c.passed and 1 or 0)
    row.length = row.length + c.length
    row.pass_at_1 = row.pass_at_1 + mean
    row.solved = row.solved + (mean > 0 and 1 or 0)
  end
  for _, row in ipairs(rows) do
    row.greedy, row.length = row.greedy / row.problems, row.length / row.problems
    row.pass_at_1 = row.pass_at_1 / row.problems
  end
  table.sort(rows, function(a, b) return a.class < b.class end)
  return rows
end

--- Prints the rows and adds them to the run's table logs/solved.csv.
---@param tr grpo.Trainer
---@param report table of hooks.on_eval
---@param opts { seed: integer, round: integer, class: fun(row: table): integer, name: string }
function solved.write(tr, report, opts)
  local samples = tr.config.eval.group_size
  local csv = tr:csv("solved", solved.columns)
  for _, row in ipairs(solved.by(report, samples, opts.class)) do
    row.seed, row.round, row.step = opts.seed, opts.round, tr.step_count
    csv:row(row)
    tr:print(("  %s %2d: greedy %.3f, pass@1 %.4f, solved in %d samples: %d of %d; length %.1f")
      :format(opts.name, row.class, row.greedy, row.pass_at_1, samples, row.solved, row.problems,
        row.length))
  end
end

return solved
