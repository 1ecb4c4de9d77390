-- Writes a run as one self-contained HTML page: facts, curves, diagnosis, options, and a browser of
-- completions.

local core = require "grpo.core"
local columns = require "grpo.report.columns"
local history = require "grpo.runs.history"
local page = require "grpo.report.page"
local sorted_pairs = require "grpo.base.sorted"
local stage_options = require "grpo.runs.stage_options"
local svg = require "grpo.report.svg"

local html = {}
local escape = svg.escape

-- ---- curves ----------------------------------------------------------------------------

-- A panel is its title and the metrics it shows; * in a name matches any text without "/".
local panels = {
  { "Reward", "reward", "reward_std" },
  { "Rewards, mean by name", "rewards/*/mean" },
  { "Held-out", "eval/accuracy", "eval/pass@*", from = "eval" },
  { "Held-out metric", "eval/metric", "eval/sampled/metric", from = "eval" },
  { "Held-out loss, nats a token", "eval/loss", from = "eval" },
  { "Held-out loss on masked tokens, entropy of tokens", "eval/masked_loss",
    "eval/unigram_entropy", from = "eval" },
  { "KL to the reference", "kl" },
  { "Entropy", "entropy" },
  { "Completion length", "completions/mean_length", "completions/min_length",
    "completions/max_length" },
  { "Groups without a signal, completions cut off", "frac_reward_zero_std",
    "completions/clipped_ratio" },
  { "Clipped tokens", "clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean" },
  { "Value loss", "loss/value_avg" },
  { "Variance of returns that the critic foresees", "val/explained_variance" },
  { "Gradient norm", "grad_norm" },
  { "Loss of supervised steps", "loss", only = "sft" },
  { "Learning rate", "learning_rate" },
  { "Weight of the KL", "beta" },
  { "Seconds a step", "step_time", "time/generate", "time/reward", "time/train" },
}

local function pattern_of(name)
  return "^" .. name:gsub("[%-%.%+%[%]%(%)%$%^%%%?]", "%%%0"):gsub("%*", "([^/]+)") .. "$"
end

-- Returns the sorted keys of a table for which keep(key) holds.
local function keys_of(list, keep)
  local keys = {}
  for key in sorted_pairs(list) do
    if not keep or keep(key) then keys[#keys + 1] = key end
  end
  return keys
end

-- Returns the names of columns that a name in a panel matches.
local function matching(list, name)
  if not name:find("*", 1, true) then return { name } end
  local pattern = pattern_of(name)
  return keys_of(list, function(key) return key:match(pattern) end)
end

local function series_of(panel, list)
  local series = {}
  for i = 2, #panel do
    for _, name in ipairs(matching(list, panel[i])) do
      local column = list[name]
      if column and not column:is_zero() then
        series[#series + 1] = { name = name, points = column:points(),
          dots = panel.from == "eval" }
      end
    end
  end
  return series
end

-- Metrics that every step records and that no panel shows.
local unshown = { "step", "update", "update_tokens", "stage", "stage_step", "num_tokens",
  "num_sequences", "trained_tokens", "loss", "ratio_max_deviation", "time/forward",
  "time/backward", "time/optimizer",
  "tokens_per_second/generate", "tokens_per_second/train", "memory/peak_bytes",
  "completions/mean_terminated_length", "clip_ratio/low_min", "clip_ratio/high_max" }

-- Returns the names of metrics without a panel: the script's own (tr:log) and rare ones.
local function own_metrics(list)
  local known = {}
  for _, name in ipairs(unshown) do known[name] = true end
  for _, panel in ipairs(panels) do
    for i = 2, #panel do known[panel[i]] = true end
  end
  return keys_of(list, function(name) return not known[name] and not name:find("^rewards/") end)
end

-- metrics, evals: see columns.read
local function curves(metrics, evals)
  local out, marks = {}, {}
  for i, step in ipairs(metrics.stages) do marks[i] = step - 0.5 end
  for _, panel in ipairs(panels) do
    local list = panel.from == "eval" and evals.columns or metrics[panel.only or "columns"]
    out[#out + 1] = svg.panel(panel[1], series_of(panel, list), marks)
  end
  for _, name in ipairs(own_metrics(metrics.columns)) do
    out[#out + 1] = svg.panel(name, series_of({ name, name }, metrics.columns), marks)
  end
  if #out == 0 then return '<p class="dim">No step has been recorded.</p>' end
  return '<div class="panels">' .. table.concat(out, "\n") .. "</div>"
end

-- ---- facts -------------------------------------------------------------------------------

local function when(t)
  return t and os.date("!%Y-%m-%d %H:%M:%S UTC", math.floor(t))
end

local function value_text(v)
  return type(v) == "number" and svg.number_text(v) or tostring(v)
end

-- Where the model of the run came from; all its stages train the same one.
local function model_path(run)
  local options = run.stages[1] and run.stages[1].options or {}
  return stage_options.text(options["model.path"])
end

-- last: the last row of the metrics, or nil
local function facts(run, last)
  local info, env = run.info, run.env
  last = last or {}
  local ended = info.finished or info.heartbeat
  local rows = {
    { "state", ("%s, step %s of %s"):format(run.state, value_text(run.step or last.step or 0),
      value_text(run.steps or "?")) },
    { "script", info.script }, { "model", model_path(run) },
    { "stages", #run.stages > 1 and stage_options.kinds(run) or nil },
    { "started", when(info.started) },
    { "took", ended and info.started and ("%.1f s"):format(ended - info.started) },
    { "tokens", last.num_tokens },
    { "peak memory", last["memory/peak_bytes"]
      and ("%.0f MiB"):format(last["memory/peak_bytes"] / 2 ^ 20) },
    { "seed", env.seed }, { "threads", env.threads }, { "kernels", env.kernels },
    { "version", env.version and ("%s (%s)"):format(env.version, tostring(env.commit)) },
  }
  local out = {}
  for _, row in ipairs(rows) do
    if row[2] then
      out[#out + 1] = ("<tr><td>%s</td><td>%s</td></tr>"):format(row[1], escape(value_text(row[2])))
    end
  end
  return '<table class="facts">' .. table.concat(out) .. "</table>"
end

local function options_table(run, keep)
  local out = {}
  for _, row in ipairs(stage_options.rows { run }) do
    local o = row[1]
    if o and keep(o) then
      out[#out + 1] = ("<tr><td>%s</td><td>%s</td><td class=dim>%s</td></tr>")
        :format(escape(row.name), escape(stage_options.text(o) or "-"), escape(o.origin or ""))
    end
  end
  return "<table><tr><th>option</th><th>value</th><th>from</th></tr>" .. table.concat(out)
    .. "</table>"
end

local function notes(run)
  if #run.notes == 0 then return '<p class="dim">Nothing.</p>' end
  return '<div class="notes">' .. escape(table.concat(run.notes, "\n")) .. "</div>"
end

-- ---- completions ---------------------------------------------------------------------------

-- Iterates over the rows of completions.jsonl: the number of their step among those that have some,
-- row.
local function numbered_by_step(dir)
  local next_row, step, number = history.rows(dir, "completions"), nil, 0
  return function()
    local _, row = next_row()
    if not row then return nil end
    if row.step ~= step then step, number = row.step, number + 1 end
    return number, row
  end
end

-- Chooses the steps whose completions are shown: all, or evenly spaced ones, the last included,
-- with about `most` completions together.  Returns { [number of the step] = true } and how many
-- completions there are.
local function chosen_steps(dir, most)
  local steps, count = 0, 0
  for number in numbered_by_step(dir) do steps, count = number, count + 1 end
  local keep, wanted = {}, math.max(1, math.min(steps, count > 0 and steps * most // count or 0))
  for i = 1, wanted do
    keep[wanted == 1 and steps or 1 + (i - 1) * (steps - 1) // (wanted - 1)] = true
  end
  return keep, count
end

-- Returns the rows that are shown and how many there are.
local function chosen_rows(dir, most)
  local keep, count = chosen_steps(dir, most)
  local rows = {}
  for number, row in numbered_by_step(dir) do
    if keep[number] then rows[#rows + 1] = row end
  end
  return rows, count
end

local function reward_names(rows)
  local seen = {}
  for _, row in ipairs(rows) do
    for name in pairs(row.rewards or {}) do seen[name] = true end
  end
  return keys_of(seen)
end

local function cell(v)
  return v == nil and core.json_null or v
end

local function completions_data(rows)
  local names = reward_names(rows)
  local titles = { "step", "prompt", "text", "reward" }
  for _, name in ipairs(names) do titles[#titles + 1] = name end
  for _, name in ipairs { "advantage", "length", "finish" } do titles[#titles + 1] = name end
  local list = {}
  for i, row in ipairs(rows) do
    local one = { cell(row.step), cell(row.prompt), cell(row.text), cell(row.reward) }
    for _, name in ipairs(names) do one[#one + 1] = cell((row.rewards or {})[name]) end
    for _, name in ipairs { "advantage", "length", "finish" } do one[#one + 1] = cell(row[name]) end
    list[i] = one
  end
  return core.json_encode { columns = titles, rows = list }
end

local function completions(dir, most)
  local rows, count = chosen_rows(dir, most)
  if #rows == 0 then return '<p class="dim">No completion has been recorded.</p>', 0 end
  local shown = #rows < count and ('<p class="dim">%d of %d completions, of evenly spaced steps; '
    .. "<code>--completions N</code> shows more.</p>"):format(#rows, count) or ""
  -- Inside <script> the HTML parser looks for "<" only; older JavaScript forbids U+2028 and U+2029.
  local data = completions_data(rows):gsub("<", "\\u003c"):gsub("\226\128[\168\169]",
    { ["\u{2028}"] = "\\u2028", ["\u{2029}"] = "\\u2029" })
  return shown .. page.controls .. '<script type="application/json" id="data">' .. data
    .. "</script><script>" .. page.script .. "</script>", #rows
end

-- Returns the page.  run: from history.open; most: the approximate number of completions to show.
function html.page(run, most)
  local metrics = columns.read(history.rows(run.dir, "metrics"))
  local evals = columns.read(history.rows(run.dir, "eval"))
  local changed = function(o) return o.origin ~= "default" end
  local title = escape(run.name)
  return table.concat {
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>", title, "</title>",
    '<meta name="viewport" content="width=device-width,initial-scale=1"><style>', page.style,
    "</style></head><body>", "<h1>", title, "</h1>", facts(run, metrics.last), "<h2>Curves</h2>",
    curves(metrics, evals), "<h2>Notes of the run</h2>", notes(run),
    "<h2>Options that were set</h2>", options_table(run, changed),
    "<details><summary class=dim>all options</summary>",
    options_table(run, function() return true end), "</details>",
    "<h2>Completions</h2>", (completions(run.dir, most)), "</body></html>\n",
  }
end

return html
