-- tools/gen-results.lua - prints the tables of experiments/addition.md, parity.md and coverage.md,
-- and writes their pictures, from bench/results/: NAME.csv is logs/solved.csv of the runs, one
-- after another under one header; addition-control.csv is that of runs with --arg control=yes;
-- coverage-temperatures.csv and coverage-matched.csv are logs/temperatures.csv and
-- logs/matched.csv.
--
--   ./grpo repl <tools/gen-results.lua        (OUT=DIR writes DIR/experiments/*.svg)

local core = require "grpo.core"
local data = require "grpo.data"
local statistics = require "grpo.statistics"

local WIDTH, HEIGHT, LEFT, TOP, GAP = 340, 170, 44, 62, 46
local RED, BLUES = "#dc2626", { "#93c5fd", "#60a5fa", "#3b82f6", "#1d4ed8", "#1e3a8a" }

-- ---- pictures -----------------------------------------------------------------------------------

local out
local function put(format, ...) out[#out + 1] = format:format(...) end

local function text(x, y, value, style)
  put('<text x="%g" y="%g" %s>%s</text>', x, y, style or "", value)
end

-- p: { title =, below =, high =, ticks = { x }, lines = { { label =, colour =, { x, y }, ... } } }
local function draw_panel(p, x0)
  local from, to = p.ticks[1], p.ticks[#p.ticks]
  local function x(v) return x0 + (v - from) / (to - from) * WIDTH end
  local function y(v) return TOP + HEIGHT * (1 - v / p.high) end
  text(x0, TOP - 10, p.title, 'font-weight="bold"')
  for i = 0, 2 do
    local v = p.high * i / 2
    put('<line x1="%g" x2="%g" y1="%g" y2="%g" stroke="#e5e7eb"/>', x0, x0 + WIDTH, y(v), y(v))
    text(x0 - 6, y(v) + 4, ("%g"):format(v), 'text-anchor="end"')
  end
  for _, v in ipairs(p.ticks) do
    text(x(v), TOP + HEIGHT + 16, ("%g"):format(v), 'text-anchor="middle"')
  end
  text(x0 + WIDTH / 2, TOP + HEIGHT + 34, p.below, 'text-anchor="middle"')
  for _, line in ipairs(p.lines) do
    local points = {}
    for i, at in ipairs(line) do points[i] = ("%.1f,%.1f"):format(x(at[1]), y(at[2])) end
    put('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>',
      table.concat(points, " "), line.colour)
  end
end

local function draw(name, label, panels)
  out = {}
  put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif"'
    .. ' font-size="12" fill="#1f2937" role="img" aria-label="%s">',
    #panels * (LEFT + WIDTH + 10) + 20, TOP + HEIGHT + GAP, label)
  put('<rect width="100%%" height="100%%" fill="#ffffff"/>')
  local x = LEFT
  for _, line in ipairs(panels[1].lines) do
    put('<rect x="%g" y="10" width="14" height="4" fill="%s"/>', x, line.colour)
    text(x + 20, 17, line.label)
    x = x + 36 + 6.4 * #line.label
  end
  for i, p in ipairs(panels) do draw_panel(p, LEFT + (i - 1) * (LEFT + WIDTH + 10)) end
  put("</svg>")
  local path = ("%s/experiments/%s.svg"):format(os.getenv "OUT" or ".", name)
  assert(core.fs.write(path, table.concat(out, "\n") .. "\n"))
end

-- ---- tables -------------------------------------------------------------------------------------

-- Rows of the same key, added up; the columns that are means count by the row's problems.
local MEANS = { "greedy", "pass_at_1", "length" }
local function gather(rows, key)
  local sums, order = {}, {}
  for _, row in ipairs(rows) do
    local k, n = key(row), row.problems
    local s = sums[k]
    if not s then
      s = { problems = 0, solved = 0, greedy = 0, pass_at_1 = 0, length = 0, row = row }
      sums[k], order[#order + 1] = s, k
    end
    s.problems, s.solved = s.problems + n, s.solved + row.solved
    for _, name in ipairs(MEANS) do s[name] = s[name] + n * row[name] end
  end
  for _, s in pairs(sums) do
    for _, name in ipairs(MEANS) do s[name] = s[name] / s.problems end
  end
  return sums, order
end

local function read(name)
  local path, rows = ("bench/results/%s.csv"):format(name), {}
  for i, row in ipairs(data.csv(path)) do
    rows[i] = {}
    for column, value in pairs(row) do rows[i][column] = tonumber(value) end
  end
  return rows
end

-- The p of McNemar's exact test, two-sided, for numbers of problems that were gained and lost.
local function mcnemar(gained, lost)
  local before, after = {}, {}
  for i = 1, gained + lost do before[i], after[i] = i > gained and 1 or 0, i > gained and 0 or 1 end
  return ("%.0e"):format(statistics.paired_test(before, after).p)
end

local function before_and_after(name, rows, first, last)
  print(("| %s | solved before | after | p | pass@1 before | after | greedy before | after |")
    :format(name))
  print "|---|---|---|---|---|---|---|---|"
  local function at(step)
    local chosen = {}
    for _, row in ipairs(rows) do if row.step == step then chosen[#chosen + 1] = row end end
    return gather(chosen, function(row) return row.class end)
  end
  local before, classes = at(first)
  local after = at(last)
  for _, class in ipairs(classes) do
    local b, a = before[class], after[class]
    local p = b.solved == 0 and a.solved > 0 and mcnemar(a.solved, 0) or ""
    print(("| %d | %d of %d | %d of %d | %s | %.4f | %.4f | %.3f | %.3f |"):format(class, b.solved,
      b.problems, a.solved, a.problems, p, b.pass_at_1, a.pass_at_1,
      b.greedy, a.greedy))
  end
end

-- The steps of the evaluations after the supervised stage.
local function evaluations(rows)
  local steps, seen = {}, {}
  for _, row in ipairs(rows) do
    if row.round >= 0 and not seen[row.step] then
      seen[row.step], steps[#steps + 1] = true, row.step
    end
  end
  table.sort(steps)
  return steps
end

-- ---- the experiments ----------------------------------------------------------------------------

local function addition()
  local rows = read "addition"
  local steps = evaluations(rows)
  before_and_after("digits", rows, steps[1], steps[#steps])
  local panels = {
    { title = "pass@1", below = "digits", high = 1, ticks = {}, lines = {} },
    { title = "solved in at least one of 128 samples", below = "digits", high = 1, ticks = {},
      lines = {} },
  }
  for i, step in ipairs(steps) do
    local sums, classes = gather(rows, function(row)
      return row.step == step and row.class or 0
    end)
    table.sort(classes)
    local label = i == 1 and "after imitation" or ("%d steps"):format(step - steps[1])
    local colour = i == 1 and RED or BLUES[math.min(i - 1, #BLUES)]
    local once, any = { label = label, colour = colour }, { label = label, colour = colour }
    for _, class in ipairs(classes) do
      if class > 0 then
        once[#once + 1] = { class, sums[class].pass_at_1 }
        any[#any + 1] = { class, sums[class].solved / sums[class].problems }
      end
    end
    panels[1].lines[i], panels[2].lines[i] = once, any
  end
  for _, at in ipairs(panels[1].lines[1]) do panels[1].ticks[#panels[1].ticks + 1] = at[1] end
  panels[2].ticks = panels[1].ticks
  draw("addition", "held-out sums by length, mean of three seeds", panels)
  print ""
  local control = read "addition-control"
  steps = evaluations(control)
  before_and_after("digits", control, steps[1], steps[#steps])
end

local function parity()
  local rows = read "parity"
  local steps, seeds = evaluations(rows), {}
  local panels = {
    { title = "greedy accuracy", below = "steps of GRPO", high = 1, ticks = {}, lines = {} },
    { title = "tokens of the greedy answers", below = "steps of GRPO", high = 24, ticks = {},
      lines = {} },
  }
  local cells = {} -- [step]: of each seed
  for _, row in ipairs(rows) do
    if row.round >= 0 then
      local step = row.step - steps[1]
      cells[step] = cells[step] or {}
      cells[step][#cells[step] + 1] = ("%.3f | %.1f | %.3f"):format(row.greedy, row.length,
        row.pass_at_1)
      if not seeds[row.seed] then
        local colour = ({ RED, BLUES[3], BLUES[5] })[row.seed + 1]
        seeds[row.seed] = { label = ("seed %d"):format(row.seed), colour = colour }
        panels[1].lines[#panels[1].lines + 1] = seeds[row.seed]
        panels[2].lines[#panels[2].lines + 1] = { colour = colour }
      end
      local line, at = seeds[row.seed], #panels[1].lines
      line[#line + 1] = { step, row.greedy }
      line = panels[2].lines[at]
      line[#line + 1] = { step, row.length }
    end
  end
  local n = #panels[1].lines
  print("| step of GRPO |" .. (" greedy | length | pass@1 |"):rep(n))
  print("|---|" .. ("---|---|---|"):rep(n))
  for _, step in ipairs(steps) do
    print(("| %d | %s |"):format(step - steps[1], table.concat(cells[step - steps[1]], " | ")))
  end
  for i, step in ipairs(steps) do panels[1].ticks[i] = step - steps[1] end
  panels[2].ticks = panels[1].ticks
  draw("parity", "greedy accuracy and length of three seeds over 60 steps", panels)
end

-- One cell for each key and each of the rounds 0 and 1: cells[key][seed][round].
local function rounds_of(rows, key)
  local cells, order, seeds = {}, {}, {}
  for _, row in ipairs(rows) do
    local k = row[key]
    if not cells[k] then cells[k], order[#order + 1] = {}, k end
    if not cells[k][row.seed] then cells[k][row.seed] = {} end
    cells[k][row.seed][row.round] = row
    if order[1] == k and row.round == 0 then seeds[#seeds + 1] = row.seed end
  end
  return cells, order, seeds
end

local function temperatures_table(panel)
  local cells, order, seeds = rounds_of(read "coverage-temperatures", "temperature")
  print("| temperature |" .. (" before | after |"):rep(#seeds))
  print("|---|" .. ("---|---|"):rep(#seeds))
  for _, temperature in ipairs(order) do
    local texts, sums = {}, { [0] = 0, 0 }
    for i, seed in ipairs(seeds) do
      local at = cells[temperature][seed]
      texts[i] = ("%.3f | %.3f"):format(at[0].pass_at_1, at[1].pass_at_1)
      for round = 0, 1 do sums[round] = sums[round] + at[round].pass_at_1 / #seeds end
    end
    print(("| %g | %s |"):format(temperature, table.concat(texts, " | ")))
    for round = 0, 1 do
      local line = panel.lines[round + 1]
      line[#line + 1] = { temperature, sums[round] }
    end
  end
end

-- Problems by their pass@1 before the rewards, of all seeds.
local function matched_table()
  local groups, order = {}, {}
  for _, row in ipairs(read "coverage-matched") do
    local g = groups[row.up_to]
    if not g then
      g = { problems = 0, before = 0, after = 0, solved = 0 }
      groups[row.up_to], order[#order + 1] = g, row.up_to
    end
    for _, name in ipairs { "before", "after" } do g[name] = g[name] + row.problems * row[name] end
    g.problems, g.solved = g.problems + row.problems, g.solved + row.solved
  end
  print "| pass@1 before | problems | mean before | mean after | solved after |"
  print "|---|---|---|---|---|"
  for i, up_to in ipairs(order) do
    local g = groups[up_to]
    local n = math.max(1, g.problems)
    print(("| %s | %d | %.4f | %.4f | %d |"):format(i == 1 and "0"
      or ("above %g, to %g"):format(order[i - 1], up_to), g.problems, g.before / n, g.after / n,
      g.solved))
  end
end

-- For each seed the problems that were never right before and once after, and the other way round.
local function seeds_table(rows, first, last)
  local gained, lost = {}, {}
  for _, row in ipairs(read "coverage-matched") do
    if row.up_to == 0 then
      gained[row.seed], lost[row.seed] = row.solved, 0
    else
      lost[row.seed] = lost[row.seed] + row.problems - row.solved
    end
  end
  print("| seed | solved before | after | gained | lost | p | pass@1 before | after |"
    .. " greedy before | after |")
  print "|---|---|---|---|---|---|---|---|---|---|"
  local sums = gather(rows, function(row) return ("%d %d"):format(row.seed, row.step) end)
  for seed = 0, #rows do
    local b, a = sums[("%d %d"):format(seed, first)], sums[("%d %d"):format(seed, last)]
    if not b then break end
    print(("| %d | %d of %d | %d of %d | %d | %d | %s | %.3f | %.3f | %.3f | %.3f |"):format(seed,
      b.solved, b.problems, a.solved, a.problems, gained[seed], lost[seed],
      mcnemar(gained[seed], lost[seed]), b.pass_at_1, a.pass_at_1, b.greedy, a.greedy))
  end
end

local function coverage()
  local rows = read "coverage"
  local steps = evaluations(rows)
  local panels = {}
  for i, p in ipairs {
    { title = "pass@1", below = "temperature", ticks = { 0, 0.2, 0.4, 0.6, 0.8, 1, 1.2 } },
    { title = "solved in at least one of 128 samples", below = "actions",
      ticks = { 5, 6, 7, 8, 9, 10 } },
  } do
    p.high, panels[i] = 1, p
    p.lines = { { label = "after imitation", colour = RED },
      { label = "after GRPO", colour = BLUES[4] } }
  end
  seeds_table(rows, steps[1], steps[#steps])
  print ""
  temperatures_table(panels[1])
  for i, step in ipairs { steps[1], steps[#steps] } do
    local sums, classes = gather(rows, function(row)
      return row.step == step and row.class or 0
    end)
    table.sort(classes)
    local line = panels[2].lines[i]
    for _, class in ipairs(classes) do
      if class > 0 then line[#line + 1] = { class, sums[class].solved / sums[class].problems } end
    end
  end
  print ""
  matched_table()
  draw("coverage", "held-out problems before and after rewards, mean of three seeds", panels)
end

addition()
print ""
parity()
print ""
coverage()
