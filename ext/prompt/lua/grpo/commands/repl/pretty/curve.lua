-- Curves in characters: braille dots, or one mark for each series where dots cannot be told apart.

local axis = require "grpo.base.curves.axis"
local text_width = require "grpo.base.text_width"

local curve = {}

local COLOURS = { "36", "33", "35", "32", "31", "34" } -- of terminals
local MARKS = { "*", "+", "o", "x", "#", "@" }
-- The bit of each dot in a cell of braille, by row and column.
local BITS = { { 0x01, 0x08 }, { 0x02, 0x10 }, { 0x04, 0x20 }, { 0x40, 0x80 } }
local HEIGHT = 12

-- ---- the canvas: cells with dots or a mark, and the number of the series that was there last ----

-- across, down: points in a cell
local function new_canvas(width, height, with_dots)
  return { width = width, height = height, across = with_dots and 2 or 1,
    down = with_dots and 4 or 1, bits = {}, series = {} }
end

local function put(canvas, x, y, number)
  local column, row = x // canvas.across, y // canvas.down
  if column < 0 or column >= canvas.width or row < 0 or row >= canvas.height then return end
  local cell = row * canvas.width + column
  local bit = canvas.down > 1 and BITS[y % 4 + 1][x % 2 + 1] or 1
  canvas.bits[cell] = (canvas.bits[cell] or 0) | bit
  canvas.series[cell] = number
end

-- Draws from point to point, and in each column or row once.
local function put_line(canvas, x0, y0, x1, y1, number)
  local count = math.max(math.abs(x1 - x0), math.abs(y1 - y0))
  for i = 0, count do
    local t = count > 0 and i / count or 0
    put(canvas, math.floor(x0 + t * (x1 - x0) + 0.5), math.floor(y0 + t * (y1 - y0) + 0.5), number)
  end
end

local function coloured(canvas, number, text, look)
  if not (number and look.colour and canvas.down > 1) then return text end
  return ("\27[%sm%s\27[0m"):format(COLOURS[(number - 1) % #COLOURS + 1], text)
end

local function cell_text(canvas, cell)
  local number = canvas.series[cell]
  if not number then return " " end
  if canvas.down == 1 then return MARKS[(number - 1) % #MARKS + 1] end
  return utf8.char(0x2800 + canvas.bits[cell])
end

-- Returns a row; cells of one series beside each other share their colour.
local function row_text(canvas, row, look)
  local parts, text, of = {}, "", nil
  for cell = row * canvas.width, (row + 1) * canvas.width - 1 do
    if canvas.series[cell] ~= of then
      parts[#parts + 1] = coloured(canvas, of, text, look)
      text, of = "", canvas.series[cell]
    end
    text = text .. cell_text(canvas, cell)
  end
  if of then parts[#parts + 1] = coloured(canvas, of, text, look) end
  return table.concat(parts)
end

-- ---- around it ---------------------------------------------------------------------------------

local function range_of(series, is_logarithmic)
  local x0, x1, y0, y1 = math.huge, -math.huge, math.huge, -math.huge
  for _, s in ipairs(series) do
    for _, p in ipairs(s.points) do
      if not is_logarithmic or p[2] > axis.LEAST then
        x0, x1 = math.min(x0, p[1]), math.max(x1, p[1])
        y0, y1 = math.min(y0, p[2]), math.max(y1, p[2])
      end
    end
  end
  if y0 == y1 then
    local pad = y0 ~= 0 and math.abs(y0) * 0.1 or 1
    if is_logarithmic then return x0, x1, y0 / 2, y1 * 2 end
    return x0, x1, y0 - pad, y1 + pad
  end
  return x0, x1, y0, y1
end

-- { [row] = label } and the columns of the longest one
local function labels_of(low, high, height, is_logarithmic)
  local row_of = axis.scale(low, high, height - 1, 0, is_logarithmic)
  local labels, widest = {}, 0
  for _, v in ipairs(axis.ticks(low, high, is_logarithmic)) do
    local text = axis.number_text(v)
    labels[math.floor(row_of(v) + 0.5)] = text
    widest = math.max(widest, #text)
  end
  return labels, widest
end

-- Returns the line below the curves and the line with the steps.
local function bottom_of(low, high, width, margin, look)
  local dash, tick = look.utf8 and "─" or "-", look.utf8 and "┬" or "+"
  local column_of, cells, text = axis.scale(low, high, 0, width - 1), {}, ""
  for i = 1, width do cells[i] = dash end
  for _, v in ipairs(axis.ticks(low, high)) do
    local column, label = math.floor(column_of(v) + 0.5), axis.number_text(v)
    if v == math.floor(v) then label = ("%.0f"):format(v) end
    local from = math.max(0, math.min(column - #label // 2, width - #label))
    if v == math.floor(v) and (from > #text or text == "") then
      cells[column + 1] = tick
      text = text .. (" "):rep(from - #text) .. label
    end
  end
  local space = (" "):rep(margin)
  if #text + 5 <= width then text = text .. (" "):rep(width - #text - 4) .. "step" end
  return space .. (look.utf8 and "└" or "+") .. table.concat(cells), space .. " " .. text
end

-- Returns lines that name each series with its last value.
local function legend_of(series, canvas, look)
  local lines, line = {}, ""
  for i, s in ipairs(series) do
    local sign = canvas.down == 1 and MARKS[(i - 1) % #MARKS + 1] or look.utf8 and "━" or "-"
    local text = ("%s %s %s"):format(sign, s.name, axis.number_text(s.points[#s.points][2]))
    text = text_width.cut(text, look.width)
    if line ~= "" and text_width.columns(line) + 3 + text_width.columns(text) > look.width then
      lines[#lines + 1], line = line, ""
    end
    text = coloured(canvas, i, text, look)
    line = line == "" and text or line .. "   " .. text
  end
  lines[#lines + 1] = line
  return lines
end

-- series: a list of { name =, points = { { x, y }, ... } }, each with a point; look: { width =,
-- colour =, utf8 = }; o: { log = is the axis of values logarithmic?, height = rows }
function curve.text(series, look, o)
  local x0, x1, y0, y1 = range_of(series, o.log)
  if x0 > x1 then return "(no value is above 0, so a logarithmic axis shows none)" end
  local height = o.height or HEIGHT
  local labels, margin = labels_of(y0, y1, height, o.log)
  local width = math.max(8, look.width - margin - 3)
  local canvas = new_canvas(width, height, look.utf8 and (look.colour or #series == 1))
  local column_of = axis.scale(x0, x1, 0, width * canvas.across - 1)
  local row_of = axis.scale(y0, y1, height * canvas.down - 1, 0, o.log)
  for i, s in ipairs(series) do
    local x, y
    for _, p in ipairs(s.points) do
      if not o.log or p[2] > axis.LEAST then
        local at, to = math.floor(column_of(p[1]) + 0.5), math.floor(row_of(p[2]) + 0.5)
        put_line(canvas, x or at, y or to, at, to, i)
        x, y = at, to
      end
    end
  end
  local lines = {}
  for row = 0, height - 1 do
    local label = labels[row]
    local edge = label and (look.utf8 and "┤" or "+") or (look.utf8 and "│" or "|")
    lines[#lines + 1] = (text_width.pad(label or "", margin, true) .. edge
      .. row_text(canvas, row, look))
  end
  lines[#lines + 1], lines[#lines + 2] = bottom_of(x0, x1, width, margin, look)
  for _, line in ipairs(legend_of(series, canvas, look)) do lines[#lines + 1] = line end
  return table.concat(lines, "\n")
end

return curve
