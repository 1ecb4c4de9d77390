-- tools/gen-chart.lua - writes docs/performance.svg, the chart of docs/performance.md, from data in
-- bench/results/steps.csv.
--
--   ./grpo repl <tools/gen-chart.lua        (OUT=DIR writes DIR/docs/performance.svg)

local core = require "grpo.core"
local data = require "grpo.data"

local MACHINE = "zen5"
local LEFT, WIDTH, BAR, GAP, TOP = 44, 330, 15, 12, 50
local SIDES = {
  { column = "grpo_seconds", name = "grpo", colour = "#2563eb" },
  { column = "torch_seconds", name = "PyTorch 1.13.1", colour = "#9ca3af" },
}

local out = {}
local function put(format, ...) out[#out + 1] = format:format(...) end

local function text(x, y, value, style)
  put('<text x="%g" y="%g" %s>%s</text>', x, y, style or "", value)
end

local rows, longest = {}, 0
for _, row in ipairs(data.csv("bench/results/steps.csv")) do
  if row.machine == MACHINE then
    rows[#rows + 1] = row
    for _, side in ipairs(SIDES) do
      longest = math.max(longest, tonumber(row[side.column]))
    end
  end
end

local height = TOP + 4 * (2 * BAR + GAP) + 6
put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif"'
  .. ' font-size="12" fill="#1f2937" role="img" aria-label="seconds per step, grpo and PyTorch">',
  2 * (LEFT + WIDTH + 46), height)
put('<rect width="100%%" height="100%%" fill="#ffffff"/>')
for i, side in ipairs(SIDES) do
  local x = LEFT + (i - 1) * 70
  put('<rect x="%d" y="8" width="10" height="10" fill="%s"/>', x, side.colour)
  text(x + 15, 18, side.name)
end
text(LEFT + 190, 18, "seconds per step, 2 cores of an AMD EPYC (Zen 5)", 'fill="#6b7280"')
for panel, compute in ipairs { "f32", "bf16" } do
  local x, y = LEFT + (panel - 1) * (LEFT + WIDTH + 46), TOP
  text(x, TOP - 8, compute, 'font-weight="bold"')
  for _, row in ipairs(rows) do
    if row.compute == compute then
      text(x - 8, y + BAR + 4, row.workload, 'text-anchor="end"')
      for i, side in ipairs(SIDES) do
        local seconds, top = tonumber(row[side.column]), y + (i - 1) * BAR
        local length = seconds / longest * WIDTH
        put('<rect x="%d" y="%d" width="%.1f" height="%d" fill="%s"/>', x, top, length, BAR - 1,
          side.colour)
        text(x + length + 5, top + BAR - 4, ("%.3g s"):format(seconds))
      end
      y = y + 2 * BAR + GAP
    end
  end
end
put("</svg>")
local path = (os.getenv "OUT" or ".") .. "/docs/performance.svg"
assert(core.fs.write(path, table.concat(out, "\n") .. "\n"))
