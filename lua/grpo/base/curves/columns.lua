-- The metrics of a run as columns that are small enough to draw, made while its rows are read.
--
-- A column holds one metric in at most MOST buckets.  A bucket is one value, or the mean, the least
-- and the greatest of neighbours where there are more values than pixels.  So memory depends on how
-- many metrics there are, and not on how many steps.

local columns = {}

local MOST = 400 -- an even number, about as many as a panel is wide in pixels

-- { steps = sums of steps, sums = of values, least =, most = } of each bucket, lows, highs = of
-- intervals, per = how many values a full bucket has, count = those of the last one
local Column = {}
Column.__index = Column

local function new_column()
  return setmetatable({ steps = {}, sums = {}, least = {}, most = {}, lows = {}, highs = {},
    per = 1, count = 0 }, Column)
end

local function finite(v)
  return type(v) == "number" and v - v == 0
end

local function plus(a, b) return a + b end

-- Joins each bucket with its neighbour; all are full.
function Column:halve()
  for name, join in pairs { steps = plus, sums = plus, least = math.min, most = math.max } do
    local list = self[name]
    for i = 1, MOST // 2 do list[i] = join(list[2 * i - 1], list[2 * i]) end
    for i = MOST, MOST // 2 + 1, -1 do list[i] = nil end
  end
  self.lows, self.highs, self.per, self.count = {}, {}, 2 * self.per, 2 * self.per
end

-- low, high: the interval of this value, or nil.
function Column:add(step, v, low, high)
  if self.count == self.per and #self.sums == MOST then self:halve() end
  local i = #self.sums
  if i > 0 and self.count < self.per then
    self.count = self.count + 1
    self.steps[i], self.sums[i] = self.steps[i] + step, self.sums[i] + v
    self.least[i], self.most[i] = math.min(self.least[i], v), math.max(self.most[i], v)
    return
  end
  i, self.count = i + 1, 1
  self.steps[i], self.sums[i], self.least[i], self.most[i] = step, v, v, v
  if self.per == 1 then self.lows[i], self.highs[i] = low, high end
end

-- Returns the points of a curve: { { step, value, least =, most =, low =, high = }, ... }; low and
-- high only where each point is a single value that has an interval.
function Column:points()
  local list = {}
  for i, sum in ipairs(self.sums) do
    local count = i == #self.sums and self.count or self.per
    local least, most, mean = self.least[i], self.most[i], sum / count
    if not finite(mean) then mean = least / 2 + most / 2 end -- the sum was too large
    list[i] = { self.steps[i] / count, mean, least = least, most = most, low = self.lows[i],
      high = self.highs[i] }
  end
  return list
end

function Column:is_zero()
  for i, most in ipairs(self.most) do
    if most ~= 0 or self.least[i] ~= 0 then return false end
  end
  return true
end

-- Adds the finite metrics of a row to { [name] = column }.
local function add_row(list, row)
  for name, v in pairs(row) do
    if finite(v) then
      local low, high = row[name .. "/low"], row[name .. "/high"]
      local both = finite(low) and finite(high)
      list[name] = list[name] or new_column()
      list[name]:add(row.step, v, both and low or nil, both and high or nil)
    end
  end
end

-- Returns, still empty, { columns = { [name] = column }, given = columns of the steps alone that
-- learn given texts, stages = the steps with which stages after the first one begin, last = the
-- last row, or nil }.
function columns.new()
  return { columns = {}, given = {}, stages = {} }
end

-- Adds a row.
function columns.add(found, row)
  local last = found.last
  if last and last.stage ~= row.stage then found.stages[#found.stages + 1] = row.step end
  add_row(found.columns, row)
  if not row["completions/mean_length"] then add_row(found.given, row) end
  found.last = row
end

-- Reads all rows that next_row gives (number, row).
function columns.read(next_row)
  local found = columns.new()
  for _, row in next_row do columns.add(found, row) end
  return found
end

return columns
