-- verl.lua - verl's scorers of answers, for rewards.numeric.verl { method = }.
--
-- They compare text, so "12.0" is not "12", and they reproduce what verl's code does with every
-- text, mistakes included: ext/verl/tests/cases has verl's own values.  Each takes (text, gold) and
-- returns the score and the extracted answer, or nil.  What verl's Python does with a character is
-- done here with a character of UTF-8.  Of white space and digits outside ASCII only white space is
-- known.

local verl = {}

local CHARACTER = "[^\128-\191][\128-\191]*" -- of UTF-8, as a pattern

-- "strict", "flexible" and "dapo" look only at the end of a text.
local WINDOW, BOX_WINDOW = 300, 100

-- The last `most` characters.
local function window(text, most)
  local stop, count = #text, 0
  while stop > 0 and count < most do
    local byte = text:byte(stop)
    if byte < 128 or byte > 191 then count = count + 1 end
    stop = stop - 1
  end
  return text:sub(stop + 1)
end

-- Replaces every occurrence of a plain string.
local function replace(s, what, by)
  return (s:gsub(what:gsub("%W", "%%%0"), (by:gsub("%%", "%%%%"))))
end

local function remove_all(s, list)
  for _, what in ipairs(list) do s = replace(s, what, "") end
  return s
end

-- Cuts s at every occurrence of a plain string.
local function split(s, at)
  local parts, from = {}, 1
  while true do
    local first, last = s:find(at, from, true)
    parts[#parts + 1] = s:sub(from, (first or 0) - 1)
    if not first then return parts end
    from = last + 1
  end
end

-- The place of the last occurrence of a plain string.
local function last_place(s, what)
  local back = s:reverse():find(what:reverse(), 1, true)
  return back and #s - back - #what + 2
end

-- ---- GSM8K: a number as text ----------------------------------------------------------------

--- The number after the last ####.
function verl.strict(text, gold)
  local number
  for m in window(text, WINDOW):gmatch("#### (%-?[%d.,]+)") do number = m end
  number = number and replace(number, ",", "")
  return number == gold and 1 or 0, number
end

--- The last run of digits, commas and full stops that is more than a full stop.
function verl.flexible(text, gold)
  local number
  for m in window(text, WINDOW):gmatch("%-?[%d.,]+") do
    if m ~= "." or not number then number = m end
  end
  return number == gold and 1 or 0, number
end

-- ---- MATH: normalised text of the last \boxed -----------------------------------------------

-- From s[at] to the brace that closes the first one; nil if none does.
local function through_braces(s, at)
  local depth = 0
  for brace, stop in s:gmatch("([{}])()", at) do
    depth = depth + (brace == "{" and 1 or -1)
    if brace == "}" and depth == 0 then return s:sub(at, stop - 1) end
  end
end

-- The last \boxed or, without any, \fbox.  A "\boxed " with a space comes before all others and
-- ends at a dollar sign.
local function last_boxed(text)
  local space = last_place(text, "\\boxed ")
  if space then return text:match("^[^$]*", space) end
  local at = last_place(text, "\\boxed") or last_place(text, "\\fbox")
  return at and through_braces(text, at)
end

-- \frac12 and \frac1{2} become \frac{1}{2}.  nil: a \frac is last.
local function full_fractions(s)
  local parts = split(s, "\\frac")
  for i = 2, #parts do
    local part = parts[i]
    if part == "" then return nil end
    if part:sub(1, 1) ~= "{" then
      local a, b, rest = part:match(("^(%s)(%s)(.*)$"):format(CHARACTER, CHARACTER))
      if not a then return s end -- a single character is last: nothing is changed
      parts[i] = ("{%s}%s%s"):format(a, b == "{" and b or "{" .. b .. "}", rest)
    end
  end
  return table.concat(parts, "\\frac")
end

-- \sqrt2 becomes \sqrt{2}.  nil: a \sqrt is last.
local function full_roots(s)
  local parts = split(s, "\\sqrt")
  for i = 2, #parts do
    if parts[i] == "" then return nil end
    parts[i] = parts[i]:gsub("^" .. CHARACTER, function(c) return c ~= "{" and "{" .. c .. "}" end)
  end
  return table.concat(parts, "\\sqrt")
end

-- Python's int() refuses more digits.
local MOST_DIGITS = 4300

local function is_integer(s)
  local digits = s:match("^%-?([1-9]%d*)$") or s:match("^0$")
  return digits and #digits <= MOST_DIGITS
end

local function slash_fraction(s)
  local parts = split(s, "/")
  if #parts ~= 2 or not is_integer(parts[1]) or not is_integer(parts[2]) then return s end
  return ("\\frac{%s}{%s}"):format(parts[1], parts[2])
end

local function without_name(s)
  local parts = split(s, "=")
  return #parts == 2 and select(2, parts[1]:gsub(CHARACTER, "")) <= 2 and parts[2] or s
end

-- nil where verl's function fails.
local function normalise_maths(s)
  s = replace(remove_all(s, { "\n", "\\!" }), "\\\\", "\\")
  s = replace(replace(s, "tfrac", "frac"), "dfrac", "frac")
  s = remove_all(s, { "\\left", "\\right", "^{\\circ}", "^\\circ", "\\$" })
  local before_units = split(s, "\\text{ ")
  if #before_units > 2 then return nil end
  s = remove_all(before_units[1], { "\\\\%", "\\%" })
  s = replace(replace(s, " .", " 0."), "{.", "{0.")
  if s:sub(1, 1) == "." then s = "0" .. s end
  s = full_roots(without_name(s))
  s = s and full_fractions(replace(s, " ", ""))
  if s == "0.5" then return "\\frac{1}{2}" end
  return s and slash_fraction(s)
end

local function same_maths(a, b)
  local x, y = normalise_maths(a), normalise_maths(b)
  if x and y then return x == y end
  return a == b
end

--- The last \boxed, compared as normalised LaTeX.
function verl.math(text, gold)
  local boxed = last_boxed(text)
  if not boxed then return 0, nil end
  local content = boxed:match("^\\boxed (.*)$") or boxed:match("^\\boxed{(.*)}$")
  return content and same_maths(content, gold) and 1 or 0, boxed
end

-- ---- DAPO: the last "Answer:" line -----------------------------------------------------------

local substitutions = {
  { "an ", "" }, { "a ", "" }, { ".$", "$" }, { "\\$", "" }, { "\\ ", "" }, { " ", "" },
  { "mbox", "text" }, { ",\\text{and}", "," }, { "\\text{and}", "," }, { "\\text{m}", "\\text{}" },
}
local removed = {
  "square", "ways", "integers", "dollars", "mph", "inches", "hours", "km", "units", "\\ldots",
  "sue", "points", "feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds",
  "meters", "meals", "edges", "students", "childrentickets", "multiples", "\\text{s}",
  "\\text{.}", "\\text{\ns}", "\\text{}^2", "\\text{}^3", "\\text{\n}", "\\text{}",
  "\\mathrm{th}", "^\\circ", "^{\\circ}", "\\;", ",\\!", "{,}", "\"", "\\dots",
}

local spaces = {}
for _, range in ipairs { { 9, 13 }, { 28, 32 }, { 0x85, 0x85 }, { 0xA0, 0xA0 }, { 0x1680, 0x1680 },
  { 0x2000, 0x200A }, { 0x2028, 0x2029 }, { 0x202F, 0x202F }, { 0x205F, 0x205F },
  { 0x3000, 0x3000 } } do
  for code = range[1], range[2] do spaces[utf8.char(code)] = true end
end

local function character_at(s, at)
  return s:match("^" .. CHARACTER, at) or ""
end

-- Returns the place after the white space that begins at s[at], and the place of the last character
-- in it that is not a line feed, or nil.
local function skip_spaces(s, at)
  local c, last = character_at(s, at), nil
  while spaces[c] do
    if c ~= "\n" then last = at end
    at = at + #c
    c = character_at(s, at)
  end
  return at, last
end

-- Removes white space at both ends.
local function strip(s)
  local first = skip_spaces(s, 1)
  local at, stop = first, first
  while at <= #s do
    at = at + math.max(1, #character_at(s, at))
    stop = at
    at = skip_spaces(s, at)
  end
  return s:sub(first, stop - 1)
end

local function normalise_line(s)
  s = s:match("[^=]*$")
  for _, pair in ipairs(substitutions) do s = replace(s, pair[1], pair[2]) end
  s = remove_all(s, removed)
  s = s:gsub("[^\n]+", function(line)
    local inner = line:match("^[^$]*%$([^$]*)%$")
    return inner and "$" .. inner .. "$"
  end)
  for _, command in ipairs { "text", "textbf", "overline" } do
    s = s:gsub("\\" .. command .. "{([^\n}]*)}", "%1")
  end
  s = s:gsub("\\boxed{([^\n]*)}", "%1")
  s = s:gsub("frac([^{\128-\191][\128-\191]*)([^\n\128-\191][\128-\191]*)", "frac{%1}{%2}")
  s = s:gsub("sqrt([^{\128-\191][\128-\191]*)", "sqrt{%1}"):gsub("%$", "")
  local plain = s:gsub(",", "")
  return strip(plain:find("^%d+$") and plain or s)
end

-- "answer" without regard to case; Python also takes U+017F, the long s.
local ANSWER = "[Aa][Nn][Ss\xC5]\xBF?[Ww][Ee][Rr]()"

-- The rest of the last line with "Answer:"; white space around the colon may hold line feeds.
local function answer_line(text)
  local line
  local at = text:match(ANSWER)
  while at do
    local colon = skip_spaces(text, at)
    if text:sub(colon, colon) == ":" then
      local start, space = skip_spaces(text, colon + 1)
      if start > #text then start = space end
      line = start and text:match("^[^\n]+", start) or line
      at = start and start + #line or at
    end
    at = text:match(ANSWER, at)
  end
  return line
end

local NONE = "[INVALID]"

-- The content of the last \boxed{}, if it is at the very end.
local function box_at_end(text)
  text = window(text, BOX_WINDOW)
  local at = last_place(text, "\\boxed{")
  local boxed = at and through_braces(text, at)
  return boxed and boxed:match("{(.*)}")
end

--- Scores the last line "Answer: ...", normalised, else the last \boxed{}, as it is: 1 or -1.
function verl.dapo(text, gold)
  text = window(text, WINDOW)
  local given = normalise_line(answer_line(text) or NONE)
  if given ~= NONE then return given == normalise_line(gold) and 1 or -1, given end
  local boxed = box_at_end(text)
  if boxed then return boxed == gold and 1 or -1, boxed end
  return given == normalise_line(gold) and 1 or -1, nil
end

return verl
