-- tools/gen-signs.lua - writes docs/signs.svg, the curves of docs/guide.md, from the metrics in
-- bench/results/signs.csv: those of the runs of experiments/signs.lua, step by step.
--
--   ./grpo repl <tools/gen-signs.lua        (OUT=DIR writes DIR/docs/signs.svg)

local core = require "grpo.core"
local data = require "grpo.data"

local PANELS = {
  { column = "correct", title = "right answers (rewards/correct/mean)", high = 1 },
  { column = "tied", title = "tied groups (frac_reward_zero_std)", high = 1 },
  { column = "entropy", title = "entropy, nats a token", high = 0.3 },
  { column = "kl", title = "kl, nats a token (at most 1 is shown)", high = 1 },
}
local RUNS = {
  { name = "none", label = "healthy", colour = "#111827", width = 2.5 },
  { name = "rate", label = "lr 50 times too high", colour = "#dc2626" },
  { name = "cold", label = "temperature 0.1", colour = "#2563eb" },
  { name = "tight", label = "kl = 2", colour = "#d97706" },
  { name = "long", label = "length is paid for", colour = "#059669" },
}
local STEPS, MEAN_OF = 60, 5
local WIDTH, HEIGHT, LEFT, TOP, GAP = 340, 150, 40, 62, 46

local out = {}
local function put(format, ...) out[#out + 1] = format:format(...) end

local function text(x, y, value, style)
  put('<text x="%g" y="%g" %s>%s</text>', x, y, style or "", value)
end

-- { [run] = { [column] = { value of each step } } }
local function read()
  local runs = {}
  for _, row in ipairs(data.csv("bench/results/signs.csv")) do
    local run = runs[row.fault] or {}
    runs[row.fault] = run
    for _, panel in ipairs(PANELS) do
      run[panel.column] = run[panel.column] or {}
      run[panel.column][tonumber(row.step)] = tonumber(row[panel.column])
    end
  end
  return runs
end

local function mean_before(values, step)
  local sum, n = 0, 0
  for t = math.max(1, step - MEAN_OF + 1), step do
    if values[t] then sum, n = sum + values[t], n + 1 end
  end
  return n > 0 and sum / n or nil
end

local function draw_curve(panel, values, x0, y0, run)
  local points = {}
  for step = 1, STEPS do
    local v = mean_before(values, step)
    if v then
      points[#points + 1] = ("%.1f,%.1f"):format(x0 + (step - 1) / (STEPS - 1) * WIDTH,
        y0 + HEIGHT * (1 - math.min(v, panel.high) / panel.high))
    end
  end
  put('<polyline points="%s" fill="none" stroke="%s" stroke-width="%g"/>',
    table.concat(points, " "), run.colour, run.width or 1.5)
end

local function draw_axes(panel, x0, y0)
  text(x0, y0 - 8, panel.title, 'font-weight="bold"')
  for i = 0, 2 do
    local y = y0 + HEIGHT * (1 - i / 2)
    put('<line x1="%g" x2="%g" y1="%g" y2="%g" stroke="#e5e7eb"/>', x0, x0 + WIDTH, y, y)
    text(x0 - 6, y + 4, ("%g"):format(panel.high * i / 2), 'text-anchor="end"')
  end
  for _, step in ipairs { 1, 20, 40, 60 } do
    text(x0 + (step - 1) / (STEPS - 1) * WIDTH, y0 + HEIGHT + 16, step, 'text-anchor="middle"')
  end
end

local runs = read()
put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif"'
  .. ' font-size="12" fill="#1f2937" role="img" aria-label="metrics of five runs over 60 steps">',
  2 * (LEFT + WIDTH) + 30, TOP + 2 * HEIGHT + GAP + 26)
put('<rect width="100%%" height="100%%" fill="#ffffff"/>')
local x = LEFT
for _, run in ipairs(RUNS) do
  put('<rect x="%g" y="10" width="14" height="4" fill="%s"/>', x, run.colour)
  text(x + 20, 17, run.label)
  x = x + 36 + 6.6 * #run.label
end
for i, panel in ipairs(PANELS) do
  local x0 = LEFT + (i - 1) % 2 * (LEFT + WIDTH + 10)
  local y0 = TOP + (i - 1) // 2 * (HEIGHT + GAP)
  draw_axes(panel, x0, y0)
  for _, run in ipairs(RUNS) do draw_curve(panel, runs[run.name][panel.column], x0, y0, run) end
end
put("</svg>")
local path = (os.getenv "OUT" or ".") .. "/docs/signs.svg"
assert(core.fs.write(path, table.concat(out, "\n") .. "\n"))
