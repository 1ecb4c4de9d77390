-- The course of a number in one row of characters.
--
-- Memory is bounded: neighbours are joined when there are many values, so that the whole course is
-- shown, not its end.

local MOST = 64 -- an even number of buckets

local Sparkline = {}
Sparkline.__index = Sparkline

local sparkline = {}

local blocks = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }
local ascii = { "_", ".", "-", "=", "+", "*", "#", "@" }

-- sums: of the values in each bucket, per: how many values a full bucket has, count: those of the
-- last one
function sparkline.new()
  return setmetatable({ sums = {}, per = 1, count = 0 }, Sparkline)
end

function Sparkline:add(v)
  if type(v) ~= "number" or v - v ~= 0 then return end
  local sums = self.sums
  if #sums == MOST and self.count == self.per then
    for i = 1, MOST // 2 do sums[i] = sums[2 * i - 1] + sums[2 * i] end
    for i = MOST, MOST // 2 + 1, -1 do sums[i] = nil end
    self.per = 2 * self.per
    self.count = self.per
  end
  if #sums > 0 and self.count < self.per then
    sums[#sums], self.count = sums[#sums] + v, self.count + 1
  else
    sums[#sums + 1], self.count = v, 1
  end
end

-- Returns the means of the buckets in at most `width` cells.
local function cells_of(self, width)
  local cells, count = {}, #self.sums
  local shown = math.min(count, width)
  for cell = 1, shown do
    local first, last = (cell - 1) * count // shown + 1, cell * count // shown
    local sum = 0
    for i = first, last do sum = sum + self.sums[i] / (i == count and self.count or self.per) end
    cells[cell] = sum / (last - first + 1)
  end
  return cells
end

-- Returns at most `width` characters; "" for less than two values.
function Sparkline:text(width, is_utf8)
  local cells, levels = cells_of(self, width), is_utf8 and blocks or ascii
  if #cells < 2 then return "" end
  local low, high = math.min(table.unpack(cells)), math.max(table.unpack(cells))
  for i, v in ipairs(cells) do
    local level = high > low and math.floor((v - low) / (high - low) * #levels) + 1 or 1
    cells[i] = levels[math.min(level, #levels)]
  end
  return table.concat(cells)
end

return sparkline
