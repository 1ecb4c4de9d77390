-- The panels of curves in a report, as data: for the drawing in Lua (svg.lua) and for the page's
-- script, which draws them again with other smoothing, another axis or newer rows.

local core = require "grpo.core"
local sorted_pairs = require "grpo.base.sorted"

local panels = {}

-- A panel is its title and the metrics it shows; * in a name matches any text without "/".
local rows = {
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
  { "Explained variance of the returns", "val/explained_variance" },
  { "Gradient norm", "grad_norm" },
  { "Loss of supervised steps", "loss", only = "given" },
  { "Learning rate", "learning_rate" },
  { "Weight of the KL", "beta" },
  { "Seconds a step", "step_time", "time/generate", "time/reward", "time/train" },
}

-- Metrics that every step records and that no panel shows.
local unshown = { "step", "update", "update_tokens", "stage", "stage_step", "num_tokens",
  "num_sequences", "trained_tokens", "loss", "ratio_max_deviation", "time/forward",
  "time/backward", "time/optimizer",
  "tokens_per_second/generate", "tokens_per_second/train", "memory/peak_bytes",
  "completions/mean_terminated_length", "clip_ratio/low_min", "clip_ratio/high_max" }

local function pattern_of(name)
  return "^" .. name:gsub("[%-%.%+%[%]%(%)%$%^%%%?]", "%%%0"):gsub("%*", "([^/]+)") .. "$"
end

-- Returns the sorted names for which keep(name) holds.
local function names_of(list, keep)
  local names = {}
  for name in sorted_pairs(list) do
    if keep(name) then names[#names + 1] = name end
  end
  return names
end

-- Returns the names of columns that a name in a panel matches.
local function matching(list, name)
  if not name:find("*", 1, true) then return { name } end
  local pattern = pattern_of(name)
  return names_of(list, function(key) return key:match(pattern) end)
end

local function columns_for(row, source)
  if row.from == "eval" then return source.evals.columns end
  return source.metrics[row.only or "columns"]
end

-- A panel of several runs: a series has the colour of its run, and a dash of its own for each
-- metric after the first.
local function series_of(row, sources)
  local series, dashes, count = {}, {}, 0
  for number, source in ipairs(sources) do
    local list = columns_for(row, source)
    for i = 2, #row do
      for _, name in ipairs(matching(list, row[i])) do
        local column = list[name]
        if column and not column:is_zero() then
          if not dashes[name] then dashes[name], count = count, count + 1 end
          local one = #sources == 1
          series[#series + 1] = { name = one and name or source.run.name .. ": " .. name,
            points = column:points(), dots = row.from == "eval",
            colour = one and #series or number - 1, dash = one and 0 or dashes[name] }
        end
      end
    end
  end
  return series
end

-- Returns the names of metrics without a panel: the script's own (tr:log) and rare ones.
local function own_metrics(sources)
  local known, all = {}, {}
  for _, name in ipairs(unshown) do known[name] = true end
  for _, row in ipairs(rows) do
    for i = 2, #row do known[row[i]] = true end
  end
  for _, source in ipairs(sources) do
    for name in pairs(source.metrics.columns) do all[name] = true end
  end
  return names_of(all, function(name) return not known[name] and not name:find("^rewards/") end)
end

-- Returns where stages begin and where the run was resumed: { { step, text, run = number }, ... }.
local function marks_of(sources)
  local list = {}
  for number, source in ipairs(sources) do
    local prefix = #sources > 1 and source.run.name .. ": " or ""
    for i, step in ipairs(source.metrics.stages) do
      list[#list + 1] = { step - 0.5, ("%sstage %d begins"):format(prefix, i + 1), run = number }
    end
    for _, note in ipairs(source.run.notes) do
      local step = math.tointeger(tonumber(note:match("^%S+ resumed at step (%d+)$")))
      if step then
        list[#list + 1] = { step + 0.5, ("%sresumed at step %d"):format(prefix, step),
          run = number, resumed = true }
      end
    end
  end
  return list
end

-- The first and the last step that any panel shows.
local function steps_of(list)
  local first, last = math.huge, -math.huge
  for _, panel in ipairs(list) do
    for _, s in ipairs(panel.series) do
      first, last = math.min(first, s.points[1][1]), math.max(last, s.points[#s.points][1])
    end
  end
  return { first, last }
end

-- sources: a list of { run = from history.open, metrics =, evals = of columns.lua }.  Returns a
-- list of { title =, steps = { first, last } of all panels, series = { { name =, points =, dots =
-- boolean, colour = number from 0, dash = number from 0 }, ... } }, and the marks.
function panels.of(sources)
  local list = {}
  local function add(title, row)
    local series = series_of(row, sources)
    if #series > 0 then list[#list + 1] = { title = title, series = series } end
  end
  for _, row in ipairs(rows) do add(row[1], row) end
  for _, name in ipairs(own_metrics(sources)) do add(name, { name, name }) end
  local steps = steps_of(list)
  for _, panel in ipairs(list) do panel.steps = steps end
  return list, marks_of(sources)
end

-- ---- for the script -----------------------------------------------------------------------------

local function number_json(v)
  return (("%.6g"):format(v):gsub("e%+?(-?)0*(%d)", "e%1%2"))
end

-- [x, y], or with the least and the greatest value, or with an interval too
local function point_json(p)
  local parts = { number_json(p[1]), number_json(p[2]) }
  if p.low then
    parts[3], parts[4], parts[5], parts[6] = number_json(p.least), number_json(p.most),
      number_json(p.low), number_json(p.high)
  elseif p.least < p.most then
    parts[3], parts[4] = number_json(p.least), number_json(p.most)
  end
  return "[" .. table.concat(parts, ",") .. "]"
end

local function series_json(s)
  local points = {}
  for i, p in ipairs(s.points) do points[i] = point_json(p) end
  return ('{"name":%s,"dots":%s,"colour":%d,"dash":%d,"points":[%s]}'):format(
    core.json_encode(s.name), tostring(s.dots), s.colour, s.dash, table.concat(points, ","))
end

-- Returns the panels and marks as JSON: { panels: [...], marks: [[step, text, resumed], ...] }
-- without its braces.
function panels.json(list, marks)
  local texts, places = {}, {}
  for i, panel in ipairs(list) do
    local series = {}
    for k, s in ipairs(panel.series) do series[k] = series_json(s) end
    texts[i] = ('{"title":%s,"series":[%s]}'):format(core.json_encode(panel.title),
      table.concat(series, ","))
  end
  for i, mark in ipairs(marks) do
    places[i] = ("[%s,%s,%s]"):format(number_json(mark[1]), core.json_encode(mark[2]),
      tostring(mark.resumed or false))
  end
  return ('"panels":[%s],"marks":[%s]'):format(table.concat(texts, ","), table.concat(places, ","))
end

return panels
