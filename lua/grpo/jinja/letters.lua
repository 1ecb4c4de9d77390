-- Converts letters to upper, lower and title case as Python's str methods do (Unicode 14).

local letters = {}

-- Runs of letters with a lower case: first code point, number, step, distance to the lower case.
local lower_runs = [[
41 26 1 32; C0 23 1 32; D8 7 1 32; 100 24 2 1; 132 3 2 1; 139 8 2 1; 14A 23 2 1; 178 1 1 -121; 179
3 2 1; 181 1 1 210; 182 2 2 1; 186 1 1 206; 187 1 1 1; 189 2 1 205; 18B 1 1 1; 18E 1 1 79; 18F 1 1
202; 190 1 1 203; 191 1 1 1; 193 1 1 205; 194 1 1 207; 196 1 1 211; 197 1 1 209; 198 1 1 1; 19C 1 1
211; 19D 1 1 213; 19F 1 1 214; 1A0 3 2 1; 1A6 1 1 218; 1A7 1 1 1; 1A9 1 1 218; 1AC 1 1 1; 1AE 1 1
218; 1AF 1 1 1; 1B1 2 1 217; 1B3 2 2 1; 1B7 1 1 219; 1B8 1 1 1; 1BC 1 1 1; 1C4 1 1 2; 1C5 1 1 1;
1C7 1 1 2; 1C8 1 1 1; 1CA 1 1 2; 1CB 9 2 1; 1DE 9 2 1; 1F1 1 1 2; 1F2 2 2 1; 1F6 1 1 -97; 1F7 1 1
-56; 1F8 20 2 1; 220 1 1 -130; 222 9 2 1; 23A 1 1 10795; 23B 1 1 1; 23D 1 1 -163; 23E 1 1 10792;
241 1 1 1; 243 1 1 -195; 244 1 1 69; 245 1 1 71; 246 5 2 1; 370 2 2 1; 376 1 1 1; 37F 1 1 116; 386
1 1 38; 388 3 1 37; 38C 1 1 64; 38E 2 1 63; 391 17 1 32; 3A3 9 1 32; 3CF 1 1 8; 3D8 12 2 1; 3F4 1 1
-60; 3F7 1 1 1; 3F9 1 1 -7; 3FA 1 1 1; 3FD 3 1 -130; 400 16 1 80; 410 32 1 32; 460 17 2 1; 48A 27 2
1; 4C0 1 1 15; 4C1 7 2 1; 4D0 48 2 1; 531 38 1 48; 10A0 38 1 7264; 10C7 1 1 7264; 10CD 1 1 7264;
13A0 80 1 38864; 13F0 6 1 8; 1C90 43 1 -3008; 1CBD 3 1 -3008; 1E00 75 2 1; 1E9E 1 1 -7615; 1EA0 48
2 1; 1F08 8 1 -8; 1F18 6 1 -8; 1F28 8 1 -8; 1F38 8 1 -8; 1F48 6 1 -8; 1F59 4 2 -8; 1F68 8 1 -8;
1F88 8 1 -8; 1F98 8 1 -8; 1FA8 8 1 -8; 1FB8 2 1 -8; 1FBA 2 1 -74; 1FBC 1 1 -9; 1FC8 4 1 -86; 1FCC 1
1 -9; 1FD8 2 1 -8; 1FDA 2 1 -100; 1FE8 2 1 -8; 1FEA 2 1 -112; 1FEC 1 1 -7; 1FF8 2 1 -128; 1FFA 2 1
-126; 1FFC 1 1 -9; 2126 1 1 -7517; 212A 1 1 -8383; 212B 1 1 -8262; 2132 1 1 28; 2160 16 1 16; 2183
1 1 1; 24B6 26 1 26; 2C00 48 1 48; 2C60 1 1 1; 2C62 1 1 -10743; 2C63 1 1 -3814; 2C64 1 1 -10727;
2C67 3 2 1; 2C6D 1 1 -10780; 2C6E 1 1 -10749; 2C6F 1 1 -10783; 2C70 1 1 -10782; 2C72 1 1 1; 2C75 1
1 1; 2C7E 2 1 -10815; 2C80 50 2 1; 2CEB 2 2 1; 2CF2 1 1 1; A640 23 2 1; A680 14 2 1; A722 7 2 1;
A732 31 2 1; A779 2 2 1; A77D 1 1 -35332; A77E 5 2 1; A78B 1 1 1; A78D 1 1 -42280; A790 2 2 1; A796
10 2 1; A7AA 1 1 -42308; A7AB 1 1 -42319; A7AC 1 1 -42315; A7AD 1 1 -42305; A7AE 1 1 -42308; A7B0 1
1 -42258; A7B1 1 1 -42282; A7B2 1 1 -42261; A7B3 1 1 928; A7B4 8 2 1; A7C4 1 1 -48; A7C5 1 1
-42307; A7C6 1 1 -35384; A7C7 2 2 1; A7D0 1 1 1; A7D6 2 2 1; A7F5 1 1 1; FF21 26 1 32; 10400 40 1
40; 104B0 36 1 40; 10570 11 1 39; 1057C 15 1 39; 1058C 7 1 39; 10594 2 1 39; 10C80 51 1 64; 118A0
32 1 32; 16E40 32 1 32; 1E900 34 1 34
]]

-- Letters whose upper case has another lower case, or several letters.
local upper_only = [[
B5 39C; DF 53 53; 131 49; 149 2BC 4E; 17F 53; 1C5 1C4; 1C8 1C7; 1CB 1CA; 1F0 4A 30C; 1F2 1F1; 345
399; 390 399 308 301; 3B0 3A5 308 301; 3C2 3A3; 3D0 392; 3D1 398; 3D5 3A6; 3D6 3A0; 3F0 39A; 3F1
3A1; 3F5 395; 587 535 552; 1C80 412; 1C81 414; 1C82 41E; 1C83 421; 1C84 422; 1C85 422; 1C86 42A;
1C87 462; 1C88 A64A; 1E96 48 331; 1E97 54 308; 1E98 57 30A; 1E99 59 30A; 1E9A 41 2BE; 1E9B 1E60;
1F50 3A5 313; 1F52 3A5 313 300; 1F54 3A5 313 301; 1F56 3A5 313 342; 1F80 1F08 399; 1F81 1F09 399;
1F82 1F0A 399; 1F83 1F0B 399; 1F84 1F0C 399; 1F85 1F0D 399; 1F86 1F0E 399; 1F87 1F0F 399; 1F88 1F08
399; 1F89 1F09 399; 1F8A 1F0A 399; 1F8B 1F0B 399; 1F8C 1F0C 399; 1F8D 1F0D 399; 1F8E 1F0E 399; 1F8F
1F0F 399; 1F90 1F28 399; 1F91 1F29 399; 1F92 1F2A 399; 1F93 1F2B 399; 1F94 1F2C 399; 1F95 1F2D 399;
1F96 1F2E 399; 1F97 1F2F 399; 1F98 1F28 399; 1F99 1F29 399; 1F9A 1F2A 399; 1F9B 1F2B 399; 1F9C 1F2C
399; 1F9D 1F2D 399; 1F9E 1F2E 399; 1F9F 1F2F 399; 1FA0 1F68 399; 1FA1 1F69 399; 1FA2 1F6A 399; 1FA3
1F6B 399; 1FA4 1F6C 399; 1FA5 1F6D 399; 1FA6 1F6E 399; 1FA7 1F6F 399; 1FA8 1F68 399; 1FA9 1F69 399;
1FAA 1F6A 399; 1FAB 1F6B 399; 1FAC 1F6C 399; 1FAD 1F6D 399; 1FAE 1F6E 399; 1FAF 1F6F 399; 1FB2 1FBA
399; 1FB3 391 399; 1FB4 386 399; 1FB6 391 342; 1FB7 391 342 399; 1FBC 391 399; 1FBE 399; 1FC2 1FCA
399; 1FC3 397 399; 1FC4 389 399; 1FC6 397 342; 1FC7 397 342 399; 1FCC 397 399; 1FD2 399 308 300;
1FD3 399 308 301; 1FD6 399 342; 1FD7 399 308 342; 1FE2 3A5 308 300; 1FE3 3A5 308 301; 1FE4 3A1 313;
1FE6 3A5 342; 1FE7 3A5 308 342; 1FF2 1FFA 399; 1FF3 3A9 399; 1FF4 38F 399; 1FF6 3A9 342; 1FF7 3A9
342 399; 1FFC 3A9 399; FB00 46 46; FB01 46 49; FB02 46 4C; FB03 46 46 49; FB04 46 46 4C; FB05 53
54; FB06 53 54; FB13 544 546; FB14 544 535; FB15 544 53B; FB16 54E 546; FB17 544 53D
]]

local upper, lower, title = {}, {}, {}

for first, count, step, distance in lower_runs:gmatch "(%x+)%s(%d+)%s(%d+)%s(%-?%d+)" do
  for i = 0, count - 1 do
    local code = tonumber(first, 16) + i * step
    local big, small = utf8.char(code), utf8.char(code + distance)
    lower[big] = small
    upper[small] = upper[small] or big
  end
end
for letter, becomes in upper_only:gmatch "(%x+)([%s%x]+)" do
  local made = {}
  for code in becomes:gmatch "%x+" do made[#made + 1] = utf8.char(tonumber(code, 16)) end
  upper[utf8.char(tonumber(letter, 16))] = table.concat(made)
end
lower["\u{130}"] = "i\u{307}"
for first in ("ǄǇǊǱ"):gmatch(utf8.charpattern) do -- digraphs have a third form
  local code = utf8.codepoint(first)
  for at = code, code + 2 do title[utf8.char(at)] = utf8.char(code + 1) end
end

local one = "[%z\1-\127\194-\244][\128-\191]*"

local function cased(c) return upper[c] ~= nil or lower[c] ~= nil end

function letters.upper(s) return (s:gsub(one, upper)) end

-- A capital sigma at the end of a word has a form of its own.
local function sigma(s)
  return (s:gsub("()Σ()", function(at, behind)
    local before = s:sub(math.max(1, at - 4), at - 1):match(one .. "$")
    local ends = before and cased(before) and not cased(s:match("^" .. one, behind) or "")
    return ends and "ς" or nil
  end))
end

function letters.lower(s)
  if s:find("Σ", 1, true) then s = sigma(s) end
  return (s:gsub(one, lower))
end

function letters.casefold(s) return (letters.upper(s):gsub(one, lower)) end

local function titled(c)
  local big = title[c] or upper[c]
  if not big or utf8.len(big) == 1 then return big or c end
  local first = big:match(one)
  return first .. letters.lower(big:sub(#first + 1))
end

function letters.swapcase(s)
  return (s:gsub(one, function(c) return lower[c] or upper[c] end))
end

function letters.capitalize(s)
  local first = s:match("^" .. one) or ""
  return titled(first) .. letters.lower(s:sub(#first + 1))
end

-- Makes a letter upper case unless it follows a letter.
function letters.title(s)
  local inside = false
  return (letters.lower(s):gsub(one, function(c)
    local was = inside
    inside = cased(c)
    return was and c or titled(c)
  end))
end

-- Is every word's first letter a capital, and no other?
function letters.istitle(s)
  local inside, found = false, false
  for c in s:gmatch(one) do
    local big = lower[c] ~= nil
    if cased(c) and big == inside then return false end
    inside = cased(c)
    found = found or inside
  end
  return found
end

return letters
