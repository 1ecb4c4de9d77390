-- The white space of Python's str methods: ASCII's and Unicode's.

local spaces = {}

local wide = {}
for _, code in ipairs { 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000 } do
  wide[utf8.char(code)] = true
end
for code = 0x2000, 0x200A do wide[utf8.char(code)] = true end

local ascii = "[\t-\r\28-\31 ]"

-- Returns the length in bytes of the space at `at`, 0 when there is none.
local function size_at(s, at)
  if s:find("^" .. ascii, at) then return 1 end
  if wide[s:sub(at, at + 1)] then return 2 end
  return wide[s:sub(at, at + 2)] and 3 or 0
end
spaces.size_at = size_at

-- Returns the first position from `at` that does not hold a space.
function spaces.skip(s, at)
  while true do
    at = s:match("^" .. ascii .. "*()", at)
    local n = size_at(s, at)
    if n == 0 then return at end
    at = at + n
  end
end

function spaces.lstrip(s) return s:sub(spaces.skip(s, 1)) end

function spaces.rstrip(s)
  local last = #s
  while last > 0 do
    local c = s:sub(last, last)
    if c:find(ascii) then
      last = last - 1
    elseif c:byte() >= 0x80 and wide[s:sub(last - 1, last)] and last >= 2 then
      last = last - 2
    elseif c:byte() >= 0x80 and last >= 3 and wide[s:sub(last - 2, last)] then
      last = last - 3
    else
      break
    end
  end
  return s:sub(1, last)
end

function spaces.blank(s) return spaces.skip(s, 1) > #s end

return spaces
