-- Curves as inline SVG: a panel has a title, axes and some series over the same steps.

local axis = require "grpo.report.axis"

local svg = { number_text = axis.number_text }
local number_text, ticks, scale = axis.number_text, axis.ticks, axis.scale

local WIDTH, HEIGHT = 460, 220
local LEFT, RIGHT, TOP, BOTTOM = 52, 10, 10, 24
local COLOURS = { "#2563eb", "#dc2626", "#059669", "#d97706", "#7c3aed", "#0891b2", "#be185d",
  "#4d7c0f" }

function svg.escape(text)
  return (tostring(text):gsub("[&<>\"']",
    { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;" }))
end

local function range(series, which)
  local low, high = math.huge, -math.huge
  for _, s in ipairs(series) do
    for _, p in ipairs(s.points) do
      low, high = math.min(low, p[which]), math.max(high, p[which])
      if which == 2 then
        low, high = math.min(low, p.low or low, p.least), math.max(high, p.high or high, p.most)
      end
    end
  end
  return low, high
end

local function axes(out, x, y, xs, ys)
  for _, v in ipairs(ticks(ys[1], ys[2])) do
    out[#out + 1] = ('<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>'
      .. '<text class="y" x="%d" y="%.1f">%s</text>'):format(LEFT, WIDTH - RIGHT, y(v), y(v),
        LEFT - 5, y(v) + 3.5, number_text(v))
  end
  for _, v in ipairs(ticks(xs[1], xs[2])) do
    if v == math.floor(v) then
      out[#out + 1] = ('<text class="x" x="%.1f" y="%d">%s</text>'):format(x(v), HEIGHT - 8,
        number_text(v))
    end
  end
end

-- The area between the least and the greatest values, where points stand for several.
local function draw_band(out, points, x, y, colour)
  local parts, wide = {}, false
  for i, p in ipairs(points) do
    wide = wide or p.least < p.most
    parts[i] = ("%s%.1f %.1f"):format(i == 1 and "M" or "L", x(p[1]), y(p.most))
    parts[2 * #points + 1 - i] = ("L%.1f %.1f"):format(x(p[1]), y(p.least))
  end
  if not wide then return end
  out[#out + 1] = ('<path style="fill:%s;fill-opacity:.25;stroke:none" d="%sZ"/>'):format(colour,
    table.concat(parts))
end

local function draw(out, s, x, y, colour)
  local parts = {}
  draw_band(out, s.points, x, y, colour)
  for i, p in ipairs(s.points) do
    parts[i] = ("%s%.1f %.1f"):format(i == 1 and "M" or "L", x(p[1]), y(p[2]))
  end
  out[#out + 1] = ('<path d="%s" stroke="%s"/>'):format(table.concat(parts), colour)
  for _, p in ipairs(s.dots and s.points or {}) do
    if p.low then
      out[#out + 1] = ('<line class="bar" stroke="%s" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>')
        :format(colour, x(p[1]), x(p[1]), y(p.low), y(p.high))
    end
    out[#out + 1] = ('<circle fill="%s" cx="%.1f" cy="%.1f" r="3"><title>step %.0f: %s</title>'
      .. '</circle>'):format(colour, x(p[1]), y(p[2]), p[1], number_text(p[2]))
  end
end

-- Returns a panel as HTML, or nil when there is nothing to draw.
--   title   text
--   series  list of { name =, points = { { x, y, least =, most = [, low =, high =] }, ... },
--           dots = boolean }; numbers are finite; points of columns.lua
--   marks   steps at which a vertical line is drawn
function svg.panel(title, series, marks)
  local some = {}
  for _, s in ipairs(series) do
    if #s.points > 0 then some[#some + 1] = s end
  end
  if #some == 0 then return nil end
  local x0, x1 = range(some, 1)
  local y0, y1 = range(some, 2)
  local pad = y1 > y0 and (y1 - y0) * 0.05 or math.max(1e-9, math.abs(y1) * 0.1)
  y0, y1 = y0 - pad, y1 + pad
  local x, y = scale(x0, x1, LEFT, WIDTH - RIGHT), scale(y0, y1, HEIGHT - BOTTOM, TOP)
  local out = { ('<figure><figcaption>%s</figcaption><svg viewBox="0 0 %d %d" role="img" '
    .. 'aria-label="%s">'):format(svg.escape(title), WIDTH, HEIGHT, svg.escape(title)) }
  axes(out, x, y, { x0, x1 }, { y0, y1 })
  for _, at in ipairs(marks or {}) do
    if at > x0 and at < x1 then
      out[#out + 1] = ('<line class="mark" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>'):format(x(at),
        x(at), TOP, HEIGHT - BOTTOM)
    end
  end
  local legend = {}
  for i, s in ipairs(some) do
    local colour = COLOURS[(i - 1) % #COLOURS + 1]
    draw(out, s, x, y, colour)
    legend[i] = ('<span><i style="background:%s"></i>%s</span>'):format(colour, svg.escape(s.name))
  end
  out[#out + 1] = '</svg><div class="legend">' .. table.concat(legend) .. "</div></figure>"
  return table.concat(out)
end

return svg
