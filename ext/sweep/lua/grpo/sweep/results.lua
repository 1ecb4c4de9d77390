-- The results of a sweep: what each run has reached, the mean of equal runs over their seeds, the
-- table.

local best_metric = require "grpo.loop.best_metric"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local grid = require "grpo.sweep.grid"
local history = require "grpo.runs.history"
local statistics = require "grpo.statistics"

local results = {}

-- ---- one run -----------------------------------------------------------------------------------

local function better(name, a, b)
  if best_metric.is_lower(name) then return a < b end
  return a > b
end

-- The last value of a metric of evaluations, and the best one.
local function of_evaluations(dir, name)
  local final, best
  for _, row in history.rows(dir, "eval") do
    local v = row[name]
    if type(v) == "number" then
      final = v
      if not best or better(name, v, best) then best = v end
    end
  end
  return final, best
end

-- The mean of a metric of steps over the last tenth of the steps that have it, and the best one.
local function of_steps(dir, name)
  local list, best = {}, nil
  for _, row in history.rows(dir, "metrics") do
    local v = row[name]
    if type(v) == "number" then
      list[#list + 1] = v
      if not best or better(name, v, best) then best = v end
    end
  end
  if #list == 0 then return nil end
  local n = math.max(1, #list // 10)
  return statistics.mean(table.move(list, #list - n + 1, #list, 1, {})), best
end

-- { final =, best =, reward = } of a run's directory, each nil where the run has none.
function results.of_run(dir, metric)
  local found = {}
  if metric then
    local read = metric:find("^eval/") and of_evaluations or of_steps
    found.final, found.best = read(dir, metric)
  end
  found.reward = of_steps(dir, "reward")
  return found
end

-- ---- all of them -------------------------------------------------------------------------------

local measures = { "final", "best", "reward" }

-- Is a metric a share, from 0 to 1?  Student's interval, which does not know it, ends there.
local function is_share(metric)
  return metric == "eval/accuracy" or metric and metric:find("^eval/pass@%d+$") ~= nil
end

-- { mean =, low =, high =, n = } of a measure over the runs that have it, or nil.
local function over_seeds(runs, measure, metric)
  local values = {}
  for _, run in ipairs(runs) do values[#values + 1] = run[measure] end
  if #values == 0 then return nil end
  local found = statistics.t_interval(values)
  if found.low and measure ~= "reward" and is_share(metric) then
    found.low, found.high = math.max(found.low, 0), math.min(found.high, 1)
  end
  return found
end

-- Rows in the order of their measure, best first; those without one stay behind.
local function sort(rows, metric)
  local function value(row)
    local one = row.final or row.reward
    return one and one.mean
  end
  table.sort(rows, function(a, b)
    local va, vb = value(a), value(b)
    if va == vb or not (va or vb) then return a.number < b.number end
    if not va or not vb then return va ~= nil end
    return better(metric or "reward", va, vb)
  end)
end

-- runs: { { name =, options =, state =, reason =, final =, best =, reward = }, ... } of the sweep.
-- Returns { metric =, paths = options that vary, rows = { { options = { [path] = text }, runs =,
-- done =, failed =, final =, best =, reward = }, ... } }.
function results.table(runs, metric)
  local lists, rows, row_of = {}, {}, {}
  for i, run in ipairs(runs) do lists[i] = run.options end
  local paths = {}
  for _, path in ipairs(grid.varied(lists)) do
    if path ~= "seed" then paths[#paths + 1] = path end
  end
  for _, run in ipairs(runs) do
    local key = grid.identity(run.options, "seed")
    local row = row_of[key]
    if not row then
      row = { options = {}, runs = {}, number = #rows + 1, done = 0, failed = 0 }
      for _, option in ipairs(run.options) do row.options[option.path] = option.text end
      row.options.seed = nil
      rows[#rows + 1], row_of[key] = row, row
    end
    row.runs[#row.runs + 1] = run
    if row[run.state] then row[run.state] = row[run.state] + 1 end
  end
  for _, row in ipairs(rows) do
    local done = {}
    for _, run in ipairs(row.runs) do
      if run.state == "done" then done[#done + 1] = run end
    end
    for _, measure in ipairs(measures) do row[measure] = over_seeds(done, measure, metric) end
  end
  sort(rows, metric)
  return { metric = metric, paths = paths, rows = rows }
end

-- ---- as text -----------------------------------------------------------------------------------

local function interval_text(one)
  if not one then return "-" end
  if not one.low then return ("%.4g"):format(one.mean) end
  return ("%.4g (%.4g to %.4g)"):format(one.mean, one.low, one.high)
end

-- The columns of the table: { { title, text(row) }, ... }.
local function columns_of(t)
  local labels, columns = grid.labels(t.paths), {}
  for _, path in ipairs(t.paths) do
    columns[#columns + 1] = { labels[path], function(row) return row.options[path] or "-" end }
  end
  columns[#columns + 1] = { "runs", function(row) return ("%d/%d"):format(row.done, #row.runs) end }
  if t.metric then
    columns[#columns + 1] = { t.metric, function(row) return interval_text(row.final) end }
    columns[#columns + 1] = { "best", function(row) return interval_text(row.best) end }
  end
  columns[#columns + 1] = { "reward", function(row) return interval_text(row.reward) end }
  return columns
end

-- The lines of the table for the screen.
function results.lines(t)
  local columns, cells, widths, lines = columns_of(t), {}, {}, {}
  for r = 0, #t.rows do
    cells[r] = {}
    for c, column in ipairs(columns) do
      local text = r == 0 and column[1] or column[2](t.rows[r])
      cells[r][c], widths[c] = text, math.max(widths[c] or 0, #text)
    end
  end
  for r = 0, #t.rows do
    local line = {}
    for c, text in ipairs(cells[r]) do line[c] = text .. (" "):rep(widths[c] - #text) end
    lines[#lines + 1] = (table.concat(line, "  "):gsub(" +$", ""))
  end
  return lines
end

local function csv_cell(v)
  local text = type(v) == "number" and ("%.17g"):format(v) or tostring(v == nil and "" or v)
  return text:find('[",\r\n]') and '"' .. text:gsub('"', '""') .. '"' or text
end

-- The table as comma-separated values, one row for each combination of options.
function results.csv(t)
  local head, lines = table.move(t.paths, 1, #t.paths, 1, {}), {}
  for _, name in ipairs { "runs", "done", "failed" } do head[#head + 1] = name end
  for _, measure in ipairs(measures) do
    local name = measure == "reward" and measure or measure .. " " .. (t.metric or "")
    if measure == "reward" or t.metric then
      for _, part in ipairs { "", " low", " high", " n" } do head[#head + 1] = name .. part end
    end
  end
  for i, name in ipairs(head) do head[i] = csv_cell(name) end
  lines[1] = table.concat(head, ",")
  for _, row in ipairs(t.rows) do
    local cells = {}
    local function add(v) cells[#cells + 1] = csv_cell(v) end
    for _, path in ipairs(t.paths) do add(row.options[path]) end
    add(#row.runs)
    add(row.done)
    add(row.failed)
    for _, measure in ipairs(measures) do
      local one = row[measure] or { n = 0 }
      if measure == "reward" or t.metric then
        add(one.mean)
        add(one.low)
        add(one.high)
        add(one.n)
      end
    end
    lines[#lines + 1] = table.concat(cells, ",")
  end
  return table.concat(lines, "\n") .. "\n"
end

-- A row as an object for JSON.
function results.object(t, row)
  local runs = {}
  for i, run in ipairs(row.runs) do
    local seed
    for _, option in ipairs(run.options) do
      if option.path == "seed" then seed = tonumber(option.text) end
    end
    runs[i] = { name = run.name, seed = seed, state = run.state, reason = run.reason,
      step = run.step, final = run.final, best = run.best, reward = run.reward }
  end
  return { options = row.options, metric = t.metric, done = row.done, failed = row.failed,
    final = row.final, best = row.best, reward = row.reward, runs = runs }
end

-- Writes table.csv and table.json into the directory of the sweep.
function results.write(dir, t)
  local rows = {}
  for i, row in ipairs(t.rows) do rows[i] = results.object(t, row) end
  errors.must(core.fs.write(dir .. "/table.csv", results.csv(t)))
  errors.must(core.fs.write(dir .. "/table.json", core.json_encode({ metric = t.metric,
    interval = "Student's t over the seeds, 95 %", rows = rows }, { indent = 2 }) .. "\n"))
end

return results
