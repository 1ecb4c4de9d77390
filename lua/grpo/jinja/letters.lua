-- Converts Latin, Greek and Cyrillic letters to upper and lower case.

local letters = {}

local upper, lower = {}, {}

local function pair(big, small)
  upper[utf8.char(small)], lower[utf8.char(big)] = utf8.char(big), utf8.char(small)
end

for code = 65, 90 do pair(code, code + 32) end
for code = 0xC0, 0xDE do
  if code ~= 0xD7 then pair(code, code + 32) end
end
for code = 0x100, 0x136, 2 do
  if code ~= 0x130 then pair(code, code + 1) end
end
for code = 0x139, 0x147, 2 do pair(code, code + 1) end
for code = 0x14A, 0x176, 2 do pair(code, code + 1) end
for code = 0x179, 0x17D, 2 do pair(code, code + 1) end
pair(0x178, 0xFF)
for code = 0x391, 0x3A9 do
  if code ~= 0x3A2 then pair(code, code + 32) end
end
for code = 0x410, 0x42F do pair(code, code + 32) end
for code = 0x400, 0x40F do pair(code, code + 80) end
upper["ß"] = "SS"

local one = "[%z\1-\127\194-\244][\128-\191]*"

local function map(s, with)
  return (s:gsub(one, with))
end

function letters.upper(s) return map(s, upper) end
function letters.lower(s) return map(s, lower) end

function letters.capitalize(s)
  local first = s:match("^" .. one) or ""
  return letters.upper(first) .. letters.lower(s:sub(#first + 1))
end

-- Makes a letter upper case unless it follows a letter (Python's title).
function letters.title(s)
  local inside = false
  return (s:gsub(one, function(c)
    local letter = upper[c] or lower[c]
    local made = letter and (inside and lower[c] or not inside and upper[c]) or c
    inside = letter ~= nil
    return made
  end))
end

return letters
