-- tools/gen-trl.lua - writes docs/trl.svg and docs/trl-gemma.svg, the curves of docs/performance.md
-- beside TRL, from the steps of all runs in bench/results/trl.csv.
--
--   ./grpo repl <tools/gen-trl.lua        (OUT=DIR writes into DIR/docs)

local core = require "grpo.core"
local data = require "grpo.data"

-- tops: of the panels that have no `high`, by mode.
local MODELS = {
  { name = "smol", title = "SmolLM2-135M", file = "trl.svg",
    tops = { lora = { kl = 2, grad_norm = 2 }, full = { kl = 2, grad_norm = 20 } } },
  { name = "gemma", title = "Gemma 3 270M", file = "trl-gemma.svg",
    tops = { lora = { kl = 4, grad_norm = 10 }, full = { kl = 4, grad_norm = 60 } } },
}
local MODES = { { name = "lora", title = "LoRA" }, { name = "full", title = "all weights" } }
local PANELS = {
  { column = "reward", title = "reward", high = 1 },
  { column = "kl", title = "kl, nats a token" },
  { column = "entropy", title = "entropy, nats a token", high = 4 },
  { column = "grad_norm", title = "gradient norm" },
}
local SIDES = {
  { name = "trl", label = "TRL 1.16", colour = "#d97706" },
  { name = "grpo", label = "grpo", colour = "#2563eb" },
}
local STEPS, MEAN_OF = 100, 10
local WIDTH, HEIGHT, LEFT, TOP, GAP = 340, 110, 40, 76, 42

local out
local function put(format, ...) out[#out + 1] = format:format(...) end

local function text(x, y, value, style)
  put('<text x="%g" y="%g" %s>%s</text>', x, y, style or "", value)
end

-- { [mode .. side] = { [seed] = { [column] = { value of each step } } } }
local function read(model)
  local sides = {}
  for _, row in ipairs(data.csv("bench/results/trl.csv")) do
    if row.model == model.name then
      local seeds = sides[row.mode .. row.side] or {}
      sides[row.mode .. row.side] = seeds
      local run = seeds[row.seed] or {}
      seeds[row.seed] = run
      for _, panel in ipairs(PANELS) do
        run[panel.column] = run[panel.column] or {}
        run[panel.column][tonumber(row.step)] = tonumber(row[panel.column])
      end
    end
  end
  return sides
end

-- The mean of the last steps, of each run that has this step: lowest, mean and highest.
local function at(seeds, column, step)
  local low, high, sum, n = math.huge, -math.huge, 0, 0
  for _, run in pairs(seeds) do
    local values = run[column]
    if values[step] then
      local total, first = 0, math.max(1, step - MEAN_OF + 1)
      for t = first, step do total = total + values[t] end
      local mean = total / (step - first + 1)
      low, high, sum, n = math.min(low, mean), math.max(high, mean), sum + mean, n + 1
    end
  end
  if n > 0 then return low, sum / n, high end
end

local function draw(seeds, panel, top, x0, y0, side)
  local upper, lower, middle = {}, {}, {}
  for step = 1, STEPS do
    local low, mean, high = at(seeds, panel.column, step)
    if low then
      local function point(v)
        return ("%.1f,%.1f"):format(x0 + (step - 1) / (STEPS - 1) * WIDTH,
          y0 + HEIGHT * (1 - math.min(v, top) / top))
      end
      upper[#upper + 1], middle[#middle + 1] = point(high), point(mean)
      table.insert(lower, 1, point(low))
    end
  end
  put('<polygon points="%s %s" fill="%s" fill-opacity="0.18"/>', table.concat(upper, " "),
    table.concat(lower, " "), side.colour)
  put('<polyline points="%s" fill="none" stroke="%s" stroke-width="1.8"/>',
    table.concat(middle, " "), side.colour)
end

local function axes(title, top, x0, y0)
  text(x0, y0 - 8, title, 'font-weight="bold"')
  for i = 0, 2 do
    local y = y0 + HEIGHT * (1 - i / 2)
    put('<line x1="%g" x2="%g" y1="%g" y2="%g" stroke="#e5e7eb"/>', x0, x0 + WIDTH, y, y)
    text(x0 - 6, y + 4, ("%g"):format(top * i / 2), 'text-anchor="end"')
  end
  for _, step in ipairs { 1, 25, 50, 75, 100 } do
    text(x0 + (step - 1) / (STEPS - 1) * WIDTH, y0 + HEIGHT + 15, step, 'text-anchor="middle"')
  end
end

local function head(model)
  put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif"'
    .. ' font-size="12" fill="#1f2937" role="img" aria-label="metrics of runs of grpo and of TRL'
    .. ' on %s">', 2 * (LEFT + WIDTH) + 30, TOP + #PANELS * (HEIGHT + GAP) - 10, model.title)
  put('<rect width="100%%" height="100%%" fill="#ffffff"/>')
  for i, side in ipairs(SIDES) do
    put('<rect x="%g" y="10" width="14" height="8" fill="%s"/>', LEFT + (i - 1) * 90, side.colour)
    text(LEFT + 20 + (i - 1) * 90, 18, side.label)
  end
  text(LEFT + 190, 18, "by step: the mean of the runs, and their lowest and highest; "
    .. "means of ten steps, cut at the top", 'fill="#6b7280"')
end

local function column(model, mode, sides, x0)
  text(x0, 44, model.title .. ", " .. mode.title, 'font-weight="bold" font-size="14"')
  for i, panel in ipairs(PANELS) do
    local y0 = TOP + (i - 1) * (HEIGHT + GAP)
    local top = panel.high or model.tops[mode.name][panel.column]
    axes(panel.title, top, x0, y0)
    for _, side in ipairs(SIDES) do
      local seeds = sides[mode.name .. side.name]
      if seeds then draw(seeds, panel, top, x0, y0, side) end
    end
  end
end

for _, model in ipairs(MODELS) do
  out = {}
  head(model)
  local sides = read(model)
  for m, mode in ipairs(MODES) do
    column(model, mode, sides, LEFT + (m - 1) * (LEFT + WIDTH + 10))
  end
  put("</svg>")
  local path = ("%s/docs/%s"):format(os.getenv "OUT" or ".", model.file)
  assert(core.fs.write(path, table.concat(out, "\n") .. "\n"))
end
