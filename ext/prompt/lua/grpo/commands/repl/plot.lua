-- plot("reward", "eval/accuracy") at the prompt: curves of a run's metrics.

local columns = require "grpo.base.curves.columns"
local curve = require "grpo.commands.repl.pretty.curve"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local follow = require "grpo.runs.follow"
local history = require "grpo.runs.history"
local options = require "grpo.options"
local pretty = require "grpo.commands.repl.pretty"
local smooth = require "grpo.base.curves.smooth"
local sorted_pairs = require "grpo.base.sorted"
local wrap = require "grpo.base.wrap"

local plot = {}

-- ---- the metrics of a run -----------------------------------------------------------------------

-- Logs are followed, so that the next plot reads new rows alone.
local function new_source(dir)
  local source = { dir = dir }
  for _, name in ipairs { "metrics", "eval" } do
    source[name] = { follower = follow.new(dir, name), found = columns.new() }
  end
  return source
end

local function read(source)
  for _, name in ipairs { "metrics", "eval" } do
    local log = source[name]
    local more = true
    while more do
      more = log.follower:read(function(row) columns.add(log.found, row) end,
        function() log.found = columns.new() end)
    end
  end
end

local function column_of(source, name)
  return source.metrics.found.columns[name] or source.eval.found.columns[name]
end

local uninteresting = { step = true, stage = true, stage_step = true, n = true }

local function names_of(source)
  local all, list = {}, {}
  for _, log in ipairs { source.metrics, source.eval } do
    for name in pairs(log.found.columns) do all[name] = not uninteresting[name] or nil end
  end
  for name in sorted_pairs(all) do list[#list + 1] = name end
  return list
end

local MOST_NEAR = 5

-- Returns names that are near to one that is unknown: those that hold it, or have a part of it.
local function near_names(name, names)
  local found, seen = {}, {}
  local function add(candidate)
    if candidate and not seen[candidate] and #found < MOST_NEAR then
      seen[candidate], found[#found + 1] = true, candidate
    end
  end
  add(options.nearest(name, names))
  for _, part in ipairs { name, name:match "[^/]*$", name:match "^[^/_]*" } do
    for _, candidate in ipairs(names) do
      if #part > 2 and candidate:lower():find(part:lower(), 1, true) then add(candidate) end
    end
  end
  return found
end

-- ---- what plot() returns ------------------------------------------------------------------------

local Plot = { __name = "grpo.Plot" }
local Names = { __name = "grpo.PlotNames" }

pretty.register("grpo.Plot", function(p, look)
  return curve.text(p.series, look, p.options)
end)

pretty.register("grpo.PlotNames", function(list, look)
  return wrap.paragraph("metrics: " .. display.clean(table.concat(list, ", ")),
    math.min(look.width, 100))
end)

local known = { run = "string", from = "number", to = "number", smooth = "number",
  log = "boolean", height = "number" }

local function check_options(o)
  for name, v in sorted_pairs(o) do
    if not known[name] then
      errors.raise("EARG", "plot: unknown option '%s'%s", tostring(name),
        options.hint(name, { "run", "from", "to", "smooth", "log", "height" }))
    elseif type(v) ~= known[name] then
      errors.raise("EARG", "plot: %s is a %s, want a %s", name, type(v), known[name])
    end
  end
  local weight, height = o.smooth, o.height
  if weight and not (weight >= 0 and weight < 1) then
    errors.raise("EARG", "plot: smooth is %s, want 0 to below 1", tostring(weight))
  end
  if height and (math.type(height) ~= "integer" or height < 3 or height > 100) then
    errors.raise("EARG", "plot: height is %s, want a whole number of rows, 3 to 100",
      tostring(height))
  end
  return o
end

local function points_of(column, o)
  local list = {}
  for _, p in ipairs(column:points()) do
    if p[1] >= (o.from or -math.huge) and p[1] <= (o.to or math.huge) then list[#list + 1] = p end
  end
  return o.smooth and smooth.points(list, o.smooth) or list
end

local function series_of(source, name, o)
  if type(name) ~= "string" then
    errors.raise("EARG", "plot: got %s, want the name of a metric, as in plot(\"reward\")",
      type(name) == "table" and "a table that is not last" or tostring(name))
  end
  local column = column_of(source, name)
  if not column then
    local near = near_names(name, names_of(source))
    errors.raise("EARG", "plot: %s has no metric '%s'%s; plot() lists them", source.dir, name,
      #near > 0 and ("; near: %s"):format(table.concat(near, ", ")) or "")
  end
  local points = points_of(column, o)
  if #points == 0 then
    errors.raise("EARG", "plot: no value of '%s' lies between from and to", name)
  end
  return { name = name, points = points }
end

-- Returns the function plot of a session.  dir: of its run, nil if it has none.
function plot.plotter(dir)
  local sources = {}
  return function(...)
    local names = table.pack(...)
    local o = type(names[names.n]) == "table" and names[names.n] or {}
    if o == names[names.n] then names.n = names.n - 1 end
    check_options(o)
    local from = o.run and history.find(o.run) or dir
    if not from then
      errors.raise("EARG", "plot: this prompt has no run; name one, as in plot(\"reward\", { run = "
        .. "\"my-001\" })")
    end
    local source = sources[from] or new_source(from)
    sources[from] = nil -- a read that fails half way is not continued
    read(source)
    sources[from] = source
    if names.n == 0 then return setmetatable(names_of(source), Names) end
    local series = {}
    for i = 1, names.n do series[i] = series_of(source, names[i], o) end
    return setmetatable({ series = series, options = o }, Plot)
  end
end

return plot
