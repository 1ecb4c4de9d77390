-- Axes of curves: the values at which they are labelled, and where a value lies on them.

local axis = {}

-- A logarithmic axis shows values that are greater: smaller ones are 0 up to rounding.
axis.LEAST = 1e-12

-- Returns a number in a few characters.
function axis.number_text(v)
  if v == 0 or math.abs(v) < axis.LEAST then return "0" end
  local size = math.abs(v)
  if size >= 1e4 or size < 1e-3 then
    return (("%.2g"):format(v):gsub("e([+-])0*(%d)", "e%1%2"):gsub("e%+", "e"))
  end
  return ("%.4g"):format(v)
end

-- Returns 1, 2 and 5 times the powers of ten between low and high, or the powers alone if there are
-- many.
local function logarithmic_ticks(low, high)
  local first, last = math.floor(math.log(low, 10)), math.ceil(math.log(high, 10))
  local list, factors = {}, last - first > 2 and { 1 } or { 1, 2, 5 }
  local every = math.max(1, (last - first) // 6)
  for power = first, last, every do
    for _, factor in ipairs(factors) do
      local v = factor * 10.0 ^ power
      if v >= low * (1 - 1e-9) and v <= high * (1 + 1e-9) then list[#list + 1] = v end
    end
  end
  return #list > 0 and list or { low }
end

-- Returns round numbers that divide low .. high into about 4 parts.
function axis.ticks(low, high, is_logarithmic)
  if is_logarithmic then return logarithmic_ticks(low, high) end
  local raw = (high - low) / 4
  if raw <= 0 then return { low } end
  local power = 10 ^ math.floor(math.log(raw, 10))
  local step = 10 * power
  for _, m in ipairs { 1, 2, 5 } do
    if m * power >= raw then
      step = m * power
      break
    end
  end
  local list = {}
  for i = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) do
    list[#list + 1] = i * step
  end
  return list
end

-- Returns the function that maps low .. high to from .. to; with low = high all is in the middle.
function axis.scale(low, high, from, to, is_logarithmic)
  local place = is_logarithmic and math.log or function(v) return v end
  local first, last = place(low), place(high)
  local by = last > first and (to - from) / (last - first) or 0
  return function(v) return last > first and from + (place(v) - first) * by or (from + to) / 2 end
end

return axis
