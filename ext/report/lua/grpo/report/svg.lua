-- Curves as inline SVG: a panel has a title, axes and some series over the same steps.  The script
-- of the page (curves_script.lua) draws the same again when the reader chooses another look.

local axis = require "grpo.base.curves.axis"
local smooth = require "grpo.base.curves.smooth"

local svg = { number_text = axis.number_text }

local WIDTH, HEIGHT = 460, 220
local LEFT, RIGHT, TOP, BOTTOM = 52, 10, 10, 24
local COLOURS = { "#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d",
  "#4d7c0f" }
local DASHES = { "", "5 3", "2 3", "8 3 2 3" }

function svg.escape(text)
  return (tostring(text):gsub("[&<>\"']",
    { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }))
end

-- { width =, height =, left =, right =, top =, bottom =, colours =, dashes = } for the script.
function svg.sizes()
  return { width = WIDTH, height = HEIGHT, left = LEFT, right = RIGHT, top = TOP, bottom = BOTTOM,
    colours = COLOURS, dashes = DASHES }
end

-- Returns the points that an axis can show.
local function shown_points(points, is_logarithmic)
  if not is_logarithmic then return points end
  local list = {}
  for _, p in ipairs(points) do
    if p[2] > axis.LEAST then list[#list + 1] = p end
  end
  return list
end

-- The least and the greatest value that are drawn, with some room.
local function range(series, is_logarithmic)
  local y0, y1 = math.huge, -math.huge
  for _, s in ipairs(series) do
    for _, p in ipairs(s.points) do
      local low, high = math.min(p.low or p[2], p.least), math.max(p.high or p[2], p.most)
      if is_logarithmic and low <= axis.LEAST then low = p[2] end
      y0, y1 = math.min(y0, low), math.max(y1, high)
    end
  end
  if is_logarithmic then
    local pad = y1 > y0 and (y1 / y0) ^ 0.05 or 2
    return y0 / pad, y1 * pad
  end
  local pad = y1 > y0 and (y1 - y0) * 0.05 or math.max(1e-9, math.abs(y1) * 0.1)
  return y0 - pad, y1 + pad
end

local function draw_axes(out, x, y, xs, ys)
  for _, v in ipairs(ys) do
    out[#out + 1] = ('<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>'
      .. '<text class="y" x="%d" y="%.1f">%s</text>'):format(LEFT, WIDTH - RIGHT, y(v), y(v),
        LEFT - 5, y(v) + 3.5, axis.number_text(v))
  end
  for _, v in ipairs(xs) do
    if v == math.floor(v) then
      out[#out + 1] = ('<text class="x" x="%.1f" y="%d">%s</text>'):format(x(v), HEIGHT - 8,
        axis.number_text(v))
    end
  end
end

local function draw_marks(out, marks, x, x0, x1)
  for _, mark in ipairs(marks) do
    if mark[1] > x0 and mark[1] < x1 then
      out[#out + 1] = ('<line class="%s" x1="%.1f" x2="%.1f" y1="%d" y2="%d"><title>%s</title>'
        .. '</line>'):format(mark.resumed and "resumed" or "mark", x(mark[1]), x(mark[1]), TOP,
        HEIGHT - BOTTOM, svg.escape(mark[2]))
    end
  end
end

local function path_of(points, x, y)
  local parts = {}
  for i, p in ipairs(points) do
    parts[i] = ("%s%.1f %.1f"):format(i == 1 and "M" or "L", x(p[1]), y(p[2]))
  end
  return table.concat(parts)
end

-- The area between the least and the greatest values, where points stand for several.
local function draw_band(out, points, x, y, colour, is_logarithmic)
  local parts, wide = {}, false
  for i, p in ipairs(points) do
    local least = is_logarithmic and p.least <= axis.LEAST and p[2] or p.least
    wide = wide or least < p.most
    parts[i] = ("%s%.1f %.1f"):format(i == 1 and "M" or "L", x(p[1]), y(p.most))
    parts[2 * #points + 1 - i] = ("L%.1f %.1f"):format(x(p[1]), y(least))
  end
  if not wide then return end
  out[#out + 1] = ('<path class="band" fill="%s" d="%sZ"/>'):format(colour, table.concat(parts))
end

local function draw_line(out, points, x, y, colour, dash, class)
  out[#out + 1] = ('<path%s d="%s" stroke="%s"%s/>'):format(class and ' class="' .. class .. '"'
    or "", path_of(points, x, y), colour, dash ~= "" and ' stroke-dasharray="' .. dash .. '"' or "")
end

local function draw_dots(out, points, x, y, colour, is_logarithmic)
  for _, p in ipairs(points) do
    if p.low and (not is_logarithmic or p.low > axis.LEAST) then
      out[#out + 1] = ('<line class="bar" stroke="%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>')
        :format(colour, x(p[1]), x(p[1]), y(p.low), y(p.high))
    end
    out[#out + 1] = ('<circle fill="%s" cx="%.1f" cy="%.1f" r="3"><title>step %.0f: %s</title>'
      .. '</circle>'):format(colour, x(p[1]), y(p[2]), p[1], axis.number_text(p[2]))
  end
end

local function draw_series(out, s, x, y, look)
  local colour, dash = COLOURS[s.colour % #COLOURS + 1], DASHES[s.dash % #DASHES + 1]
  if s.dots then
    draw_line(out, s.points, x, y, colour, dash)
    draw_dots(out, s.points, x, y, colour, look.log)
  elseif (look.smooth or 0) > 0 then
    draw_line(out, s.points, x, y, colour, dash, "faint")
    draw_line(out, smooth.points(s.points, look.smooth), x, y, colour, dash)
  else
    draw_band(out, s.points, x, y, colour, look.log)
    draw_line(out, s.points, x, y, colour, dash)
  end
end

local function legend_of(series)
  local list = {}
  for i, s in ipairs(series) do
    local dash = DASHES[s.dash % #DASHES + 1]
    list[i] = ('<span><svg viewBox="0 0 16 10"><path d="M0.0 5.0L16.0 5.0" stroke="%s"%s/></svg>'
      .. '%s</span>'):format(COLOURS[s.colour % #COLOURS + 1],
      dash ~= "" and ' stroke-dasharray="' .. dash .. '"' or "", svg.escape(s.name))
  end
  return '<div class="legend">' .. table.concat(list) .. "</div>"
end

-- Returns a panel as HTML, or nil when there is nothing to draw.
--   panel   of panels.lua; its points are finite, and panel.steps is the axis of the page
--   marks   of panels.lua: steps at which a vertical line is drawn
--   look    { smooth = weight of an average or nil, log = is the axis of values logarithmic? }
function svg.panel(panel, marks, look)
  local some = {}
  for _, s in ipairs(panel.series) do
    local points = shown_points(s.points, look.log)
    if #points > 0 then
      some[#some + 1] = { name = s.name, points = points, dots = s.dots, colour = s.colour,
        dash = s.dash }
    end
  end
  local title = svg.escape(panel.title)
  if #some == 0 then
    return ('<figure><figcaption>%s</figcaption><p class="dim">No value is above 0.</p></figure>')
      :format(title)
  end
  local x0, x1 = panel.steps[1], panel.steps[2]
  local y0, y1 = range(some, look.log)
  local x = axis.scale(x0, x1, LEFT, WIDTH - RIGHT)
  local y = axis.scale(y0, y1, HEIGHT - BOTTOM, TOP, look.log)
  local out = { ('<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" role="img" '
    .. 'aria-label="%s">'):format(title, WIDTH, HEIGHT, title) }
  draw_axes(out, x, y, axis.ticks(x0, x1), axis.ticks(y0, y1, look.log))
  draw_marks(out, marks, x, x0, x1)
  for _, s in ipairs(some) do draw_series(out, s, x, y, look) end
  out[#out + 1] = "</svg>" .. legend_of(some) .. "</figure>"
  return table.concat(out)
end

return svg
