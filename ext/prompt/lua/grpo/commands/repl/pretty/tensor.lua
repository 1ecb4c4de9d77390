-- Shows a tensor: its shape, statistics, and corners.

local core = require "grpo.core"
local paint = require "grpo.commands.repl.pretty.paint"

local EDGE = 3 -- numbers shown at each end of an axis

-- Returns the positions of an axis that are shown as two runs { first, n }; the second may be nil.
local function runs(n, edge)
  if n <= 2 * edge + 1 then return { { 1, n } } end
  return { { 1, edge }, { n - edge + 1, edge } }
end

-- Returns one line with the values of a list of numbers, and "..." for the gap.
local function row_text(parts)
  local texts = {}
  for i, values in ipairs(parts) do
    if i > 1 then texts[#texts + 1] = "     ..." end
    for _, v in ipairs(values) do texts[#texts + 1] = ("%8s"):format(("%.4g"):format(v)) end
  end
  return table.concat(texts, " ")
end

-- Returns lists of the numbers in the runs along the last axis.
local function values_of(vector, edge)
  local parts = {}
  for _, run in ipairs(runs(#vector, edge)) do
    parts[#parts + 1] = vector:narrow(1, run[1], run[2]):totable()
  end
  return parts
end

local function matrix_lines(matrix, edge)
  local lines = {}
  for i, run in ipairs(runs(#matrix, EDGE)) do
    if i > 1 then lines[#lines + 1] = "       ..." end
    for at = run[1], run[1] + run[2] - 1 do
      lines[#lines + 1] = row_text(values_of(matrix[at], edge))
    end
  end
  return lines
end

local function corners(t, look)
  local shape = t.shape
  local edge = math.max(1, math.min(EDGE, (look.width - 12) // 18))
  if #shape == 0 then return {} end
  if #shape == 1 then return { row_text(values_of(t, math.max(1, (look.width - 12) // 18))) } end
  local place = {}
  while #t.shape > 2 do
    t = t[1]
    place[#place + 1] = "1"
  end
  local lines = matrix_lines(t, edge)
  if #place > 0 then table.insert(lines, 1, ("[%s, :, :]"):format(table.concat(place, ", "))) end
  return lines
end

return function(t, look)
  local head = tostring(t)
  local ok, shape = pcall(function() return t.shape end)
  if not ok then return head end
  for _, n in ipairs(shape) do
    if n == 0 then return head end
  end
  local fine, lines = pcall(core.no_grad, corners, t, look)
  if not fine or #lines == 0 then return head end
  return paint.colour(look, "bold", head) .. "\n  " .. table.concat(lines, "\n  ")
end
