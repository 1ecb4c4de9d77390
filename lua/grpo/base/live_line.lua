-- The line of a step on a terminal: what matters most of a step in as many columns as there are.
--
--   grpo 41/200 ━━━━━━━─────────────────  20% | reward 0.413 ▂▂▃▅▇ | length 31.0 | ETA 3m20s
--
-- When the columns do not suffice, metrics go first, then the sparkline, then the
-- bar; step, reward and remaining time stay longest.

local text_width = require "grpo.base.text_width"

local live_line = {}

-- Columns of the bar and of the sparkline.  They depend on the width alone, so that nothing moves
-- from step to step.
local WIDE = 110
local function sizes(width)
  if width < WIDE then return 10, 8 end
  return 16, 12
end

-- Returns the progress `fraction` as a bar of n columns.
local function bar_text(fraction, n, is_utf8)
  if not is_utf8 then n = n - 2 end
  local done = math.floor(math.max(0, math.min(1, fraction)) * n + 1e-9)
  if is_utf8 then return ("━"):rep(done), ("─"):rep(n - done) end
  return "[" .. ("#"):rep(done), ("."):rep(n - done) .. "]"
end

local function coloured(one, code, text)
  return one.colour and text ~= "" and ("\27[%sm%s\27[0m"):format(code, text) or text
end

-- The order in which parts get their place: the throughput, which is last, comes second.
local function by_importance(parts)
  local order = {}
  for i = 1, #parts do order[i] = i end
  if #parts > 2 then table.insert(order, 2, table.remove(order)) end
  return order
end

-- Which parts fit.  Returns columns of the bar and the sparkline (0: none), { [part] = is it
-- shown? }, and whether the remaining time is.
local function fitted(one, between)
  local left, shown, order, bar, spark = one.width - #one.head, {}, by_importance(one.parts),
    sizes(one.width)
  local function takes(columns)
    if columns > left then return false end
    left = left - columns
    return true
  end
  local first = one.parts[1]
  shown[1] = first and takes(#between + #first)
  local with_time = takes(#between + #one.eta)
  if not takes(1 + bar + 5) then bar = 0 end
  if bar == 0 or not takes(1 + spark) then spark = 0 end
  for k = 2, spark > 0 and #order or 0 do
    if not takes(#between + #one.parts[order[k]]) then break end
    shown[order[k]] = true
  end
  return bar, spark, shown, with_time
end

-- one: { head = "grpo 41/200", fraction = of the run, parts = { "reward 0.413", ... }, spark = of
-- sparkline.lua, eta = text, width = columns, utf8 = boolean, colour = boolean }
function live_line.text(one)
  local between = " | "
  local essential = #one.head + #(one.parts[1] or "") + #one.eta
  if essential + 6 > one.width then between = " " end
  local bar, spark, shown, with_time = fitted(one, between)
  local out = { text_width.cut(one.head, one.width) }
  if bar > 0 then
    local done, rest = bar_text(one.fraction, bar, one.utf8)
    out[1] = ("%s %s%s %3d%%"):format(out[1], coloured(one, "36", done), coloured(one, "2", rest),
      math.floor(100 * one.fraction + 1e-9))
  end
  for i, part in ipairs(one.parts) do
    if shown[i] then out[#out + 1] = part end
    local course = i == 1 and spark > 0 and one.spark:text(spark, one.utf8) or ""
    if course ~= "" then out[#out] = out[#out] .. " " .. coloured(one, "32", course) end
  end
  if with_time then out[#out + 1] = one.eta end
  return table.concat(out, between)
end

return live_line
