-- Writes a run as one self-contained HTML page: facts, curves, diagnosis, options, and a browser of
-- completions.

local counted = require "grpo.base.counted"
local core = require "grpo.core"
local columns = require "grpo.base.curves.columns"
local display = require "grpo.base.display"
local history = require "grpo.runs.history"
local page = require "grpo.report.page"
local panels = require "grpo.report.panels"
local sorted_pairs = require "grpo.base.sorted"
local stage_options = require "grpo.runs.stage_options"
local svg = require "grpo.report.svg"

local html = {}
local escape = svg.escape

-- ---- curves ----------------------------------------------------------------------------

-- look: see svg.panel
local function curves(list, marks, look)
  if #list == 0 then return '<p class="dim">No step has been recorded.</p>' end
  local out = {}
  for i, panel in ipairs(list) do out[i] = svg.panel(panel, marks, look) end
  return table.concat(out, "\n")
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

-- "12.3 s", "20 minutes", "3 hours 5 minutes"
local function time_taken(seconds)
  if seconds < 60 then return ("%.1f s"):format(seconds) end
  local minutes = math.floor(seconds / 60 + 0.5)
  if minutes < 60 then return counted(minutes, "minute") end
  local text = counted(minutes // 60, "hour")
  return minutes % 60 == 0 and text or text .. " " .. counted(minutes % 60, "minute")
end

local function percent(v) return ("%.1f %%"):format(100 * v) end

-- The outcome of a run as a sentence: its held-out accuracy, else its reward; nil without both.
local function outcome(source)
  local accuracy, reward = source.evals.columns["eval/accuracy"], source.metrics.columns.reward
  local points = (accuracy or reward or { points = function() return {} end }):points()
  local first, last = points[1], points[#points]
  if not first then return nil end
  if not accuracy then
    return ("The reward was %s at first, and %s at last."):format(value_text(first[2]),
      value_text(last[2]))
  end
  local interval = last.low and (" (95 %% interval %s to %s)"):format(percent(last.low),
    percent(last.high)) or ""
  if #points == 1 then
    return ("The held-out accuracy is %s%s."):format(percent(last[2]), interval)
  end
  return ("The held-out accuracy went from %s to %s%s."):format(percent(first[2]), percent(last[2]),
    interval)
end

local function outcomes_part(sources)
  local out = {}
  for _, source in ipairs(sources) do
    local text = outcome(source)
    if text and #sources > 1 then text = source.run.name .. ": " .. text end
    if text then out[#out + 1] = "<p>" .. escape(text) .. "</p>" end
  end
  return '<div id="outcome">' .. table.concat(out) .. "</div>"
end

-- A fact of the environment, which resumes may have changed: "avx2; generic from step 5".
-- text_of: of a table of such facts.
local function fact_over_time(run, text_of)
  local facts, parts = {}, {}
  for name, value in pairs(run.env) do facts[name] = value end
  parts[1] = text_of(facts)
  local last = parts[1]
  for _, e in history.rows(run.dir, "events") do
    for name, value in pairs(e.kind == "environment" and e.facts or {}) do facts[name] = value end
    local now = text_of(facts)
    if now ~= last then parts[#parts + 1] = ("%s from step %d"):format(now, e.step + 1) end
    last = now
  end
  return parts[1] and table.concat(parts, "; ") or false
end

local function kernels_of(env) return env.kernels and value_text(env.kernels) end

local function version_of(env)
  return env.version and ("%s (%s)"):format(env.version, tostring(env.commit))
end

-- Returns the facts of a run as a list of { name, text }.
local function facts_of(source)
  local run, last = source.run, source.metrics.last or {}
  local info, env = run.info, run.env
  local ended = info.finished or info.heartbeat
  local unjudged = (source.evals.last or {}).unjudged or 0
  local rows = {
    { "state", ("%s, step %s of %s"):format(run.state,
      value_text(math.max(run.step or 0, last.step or 0)), value_text(run.steps or "?")) },
    { "script", info.script or false }, { "model", model_path(run) or false },
    { "stages", #run.stages > 1 and stage_options.kinds(run) },
    { "started", when(info.started) or false },
    { "took", ended and info.started and (ended >= info.started
      and time_taken(ended - info.started) or "unknown, because the clock went back") },
    { "held-out rows", unjudged > 0 and ("%s, and %s that cannot be judged"):format(
      value_text(source.evals.last.n), value_text(unjudged)) },
    { "tokens", last.num_tokens and display.thousands(math.tointeger(last.num_tokens)) or false },
    { "peak memory", last["memory/peak_bytes"]
      and ("%.0f MiB"):format(last["memory/peak_bytes"] / 2 ^ 20) },
    { "seed", env.seed or false }, { "threads", env.threads or false },
    { "kernels", fact_over_time(run, kernels_of) }, { "version", fact_over_time(run, version_of) },
  }
  for _, row in ipairs(rows) do row[2] = row[2] and value_text(row[2]) end
  return rows
end

-- The facts of the runs side by side, as rows of texts; several runs have their names above.
local function fact_rows(sources)
  local rows, by_run = {}, {}
  for k, source in ipairs(sources) do by_run[k] = facts_of(source) end
  if #sources > 1 then
    rows[1] = { "run" }
    for k, source in ipairs(sources) do rows[1][k + 1] = source.run.name end
  end
  for i, fact in ipairs(by_run[1]) do
    local row, any = { fact[1] }, false
    for k, list in ipairs(by_run) do
      row[k + 1], any = list[i][2] or "", any or list[i][2]
    end
    if any then rows[#rows + 1] = row end
  end
  return rows
end

local function table_of(rows)
  local out = {}
  for i, row in ipairs(rows) do
    local cells = {}
    for k, text in ipairs(row) do cells[k] = "<td>" .. escape(text) .. "</td>" end
    out[i] = "<tr>" .. table.concat(cells) .. "</tr>"
  end
  return '<table class="facts" id="facts">' .. table.concat(out) .. "</table>"
end

-- keep(options of the runs): is a row shown?
local function options_table(runs, keep)
  local out, heads = {}, {}
  for k, run in ipairs(runs) do heads[k] = #runs > 1 and escape(run.name) or "value" end
  for _, row in ipairs(stage_options.rows(runs)) do
    if keep(row) then
      local cells = {}
      for k in ipairs(runs) do
        cells[k] = "<td>" .. escape(stage_options.text(row[k]) or "-") .. "</td>"
      end
      if #runs == 1 then
        cells[2] = "<td class=dim>" .. escape(row[1].origin or "") .. "</td>"
      end
      out[#out + 1] = ("<tr><td>%s</td>%s</tr>"):format(escape(row.name), table.concat(cells))
    end
  end
  return ('<div class="wide"><table><tr><th>option</th><th>%s</th>%s</tr>%s</table></div>'):format(
    table.concat(heads, "</th><th>"), #runs == 1 and "<th>from</th>" or "", table.concat(out))
end

-- Whether an option is shown: the script or the command line set it, or several runs differ in it.
local function is_telling(row, count)
  if count == 1 then return row[1] and row[1].origin ~= "default" end
  for k = 2, count do
    if stage_options.text(row[k]) ~= stage_options.text(row[1]) then return true end
  end
  return false
end

local function options_part(runs)
  return ("<h2>%s</h2>%s<details><summary class=dim>all options</summary>%s</details>"):format(
    #runs > 1 and "Options that differ" or "Options that were set",
    options_table(runs, function(row) return is_telling(row, #runs) end),
    options_table(runs, function(row) return #runs > 1 or row[1] end))
end

-- The notes of the runs as one text.
local function notes_text(sources)
  local list = {}
  for _, source in ipairs(sources) do
    local text = table.concat(source.run.notes, "\n")
    if #sources > 1 then text = source.run.name .. "\n" .. text .. "\n" end
    list[#list + 1] = text
  end
  return table.concat(list, "\n")
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
  local names = {}
  for name in sorted_pairs(seen) do names[#names + 1] = name end
  return names
end

local function cell(v)
  return v == nil and core.json_null or v
end

-- Returns completions for the script.  newest: are the newest ones shown first?
function html.completions_json(rows, newest)
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
  return ('{"columns":%s,"rows":%s,"newest":%s}'):format(core.json_encode(titles),
    #list > 0 and core.json_encode(list) or "[]", tostring(newest or false))
end

-- Inside <script> the HTML parser looks for "<" only; older JavaScript forbids U+2028 and U+2029.
local function inside_script(json)
  return (json:gsub("<", "\\u003c"):gsub("\226\128[\168\169]",
    { ["\u{2028}"] = "\\u2028", ["\u{2029}"] = "\\u2029" }))
end

-- Returns the head of the completions as HTML, and their rows for the script, or nil.
local function completions_of(dir, most)
  local rows, count = chosen_rows(dir, most)
  if #rows == 0 then return '<p class="dim">No completion has been recorded.</p>' end
  local shown = #rows < count and ('<p class="dim">%d of %d completions, of evenly spaced steps; '
    .. "<code>--completions N</code> shows more.</p>"):format(#rows, count) or ""
  return shown .. page.controls, html.completions_json(rows)
end

local POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
  .. "base-uri 'none'; form-action 'none'"

-- o: { smooth =, log = : see svg.panel; head = HTML of style and policy, script = HTML of the
-- script, about = HTML above the table of completions, data = JSON for the script, outcome = HTML
-- below the title, optional }
local function page_of(sources, list, marks, o)
  local runs, names = {}, {}
  for i, source in ipairs(sources) do runs[i], names[i] = source.run, source.run.name end
  local title, notes = escape(table.concat(names, ", ")), notes_text(sources)
  return table.concat {
    "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><title>", title, "</title>",
    '<meta name="viewport" content="width=device-width,initial-scale=1">', o.head,
    "</head><body>", "<h1>", title, "</h1>", o.outcome or "",
    '<div class="wide">', table_of(fact_rows(sources)), "</div><h2>Curves</h2>",
    page.curve_controls(o.smooth or 0, o.log), '<div class="panels" id="panels">',
    curves(list, marks, o), '</div><h2>Notes of the run</h2><div class="notes" id="notes">',
    notes ~= "" and escape(notes) or "Nothing.", "</div>", options_part(runs),
    "<h2>Completions</h2>", o.about,
    '<script type="application/json" id="data">', inside_script(o.data), "</script>", o.script,
    "</body></html>\n",
  }
end

-- Returns { run =, metrics =, evals = } of a run from history.open.
function html.source(run)
  return { run = run, metrics = columns.read(history.rows(run.dir, "metrics")),
    evals = columns.read(history.rows(run.dir, "eval")) }
end

local function inline(tag, text) return ("<%s>%s</%s>"):format(tag, text, tag) end

-- Returns the page of one run.  run: from history.open; most: the approximate number of completions
-- to show; look, optional: { smooth =, log = }, see svg.panel
function html.page(run, most, look)
  return html.overlay({ run }, look, most)
end

-- Returns the page of several runs, whose curves are in the same panels.  most: see html.page; nil:
-- no completions.
function html.overlay(runs, look, most)
  local sources = {}
  for i, run in ipairs(runs) do sources[i] = html.source(run) end
  local list, marks = panels.of(sources)
  local about, rows = '<p class="dim">The report of each run has its own.</p>', nil
  if most then about, rows = completions_of(runs[1].dir, most) end
  look = look or {}
  return page_of(sources, list, marks, { smooth = look.smooth, log = look.log, about = about,
    outcome = outcomes_part(sources),
    head = ('<meta http-equiv="Content-Security-Policy" content="%s">'):format(POLICY)
      .. inline("style", page.style),
    script = inline("script", page.script),
    data = ('{"sizes":%s,%s,"completions":%s}'):format(core.json_encode(svg.sizes()),
      panels.json(list, marks), rows or "null") })
end

-- Returns, for a page that follows a run, the JSON of what changes: curves, facts, notes and
-- completions.  rows: those completions; version: of this state, a number
function html.live_data(source, rows, version)
  local list, marks = panels.of { source }
  local json = ('{"version":%d,"state":%s,"sizes":%s,%s,"completions":%s,"facts":%s,"notes":%s}')
    :format(version, core.json_encode(source.run.state), core.json_encode(svg.sizes()),
    panels.json(list, marks), html.completions_json(rows, true),
    core.json_encode(fact_rows { source }), core.json_encode(notes_text { source }))
  return json, list, marks
end

-- Returns the page that follows a run; its style and its script are files beside it.
function html.live_page(source, rows, version, look)
  local json, list, marks = html.live_data(source, rows, version)
  return page_of({ source }, list, marks, { smooth = look.smooth, log = look.log, data = json,
    head = '<link rel="stylesheet" href="style.css">',
    script = '<script src="script.js"></script>',
    about = '<p class="dim">The newest ones.</p>' .. page.controls })
end

return html
