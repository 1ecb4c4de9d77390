-- verl.lua - verl's scorers of answers, for rewards.numeric.verl { method = }.
--
-- They compare text, so "12.0" is not "12".  Each takes (text, gold) and returns
-- the score and the extracted answer, or nil.  Like verl they look only at the end of a text:
-- 300 bytes, or, for \boxed, the content of the last one.

local answer = require "grpo.answer"

local verl = {}

local WINDOW = 300

-- Replaces every occurrence of a plain string.
local function replace(s, what, by)
  return (s:gsub(what:gsub("%W", "%%%0"), (by:gsub("%%", "%%%%"))))
end

local function last_match(s, pattern)
  local found
  for m in s:gmatch(pattern) do found = m end
  return found
end

--- The number after the last ####.
function verl.strict(text, gold)
  local number = last_match(text:sub(-WINDOW), "#### (%-?[%d.,]+)")
  number = number and replace(number, ",", "")
  return number == replace(gold, ",", "") and 1 or 0, number
end

--- The last run of digits, commas and full stops that is more than a full stop.
function verl.flexible(text, gold)
  local number
  for m in text:sub(-WINDOW):gmatch("%-?[%d.,]+") do
    if m ~= "." or not number then number = m end
  end
  return number == replace(gold, ",", "") and 1 or 0, number
end

-- ---- MATH: normalised text of the last \boxed -----------------------------------------------

-- "\frac12" and "\frac1{2}" become "\frac{1}{2}"; s has no spaces.
local function full_fractions(s)
  local parts = {}
  local at = 1
  while true do
    local start, stop = s:find("\\frac", at, true)
    if not start then break end
    parts[#parts + 1] = s:sub(at, stop)
    at = stop + 1
    local a, b = s:match("^([^{])([^{])", at)
    if a then
      parts[#parts + 1] = ("{%s}{%s}"):format(a, b)
      at = at + 2
    elseif s:match("^[^{]{", at) then
      parts[#parts + 1] = ("{%s}"):format(s:sub(at, at))
      at = at + 1
    end
  end
  return table.concat(parts) .. s:sub(at)
end

local removed_from_maths = {
  "\n", "\\!", "\\left", "\\right", "^{\\circ}", "^\\circ", "\\$", "\\%", "%",
}

local function normalise_maths(s)
  s = replace(replace(s, "\\\\", "\\"), "tfrac", "frac")
  s = replace(s, "dfrac", "frac")
  for _, what in ipairs(removed_from_maths) do s = replace(s, what, "") end
  local units = s:find("\\text{ ", 1, true)
  if units then s = s:sub(1, units - 1) end
  s = replace(replace(s, " .", " 0."), "{.", "{0.")
  if s:sub(1, 1) == "." then s = "0" .. s end
  local name, value = s:match("^([^=]*)=([^=]*)$")
  if name and #name <= 2 then s = value end
  s = replace(s:gsub("\\sqrt([^{])", "\\sqrt{%1}"), " ", "")
  s = full_fractions(s)
  if s == "0.5" then return "\\frac{1}{2}" end
  local a, b = s:match("^(%-?%d+)/(%-?%d+)$")
  return a and ("\\frac{%s}{%s}"):format(a, b) or s
end

--- The last \boxed{}, compared as normalised LaTeX.
function verl.math(text, gold)
  local boxed = answer.boxed(text)
  if not boxed then return 0, nil end
  return normalise_maths(boxed) == normalise_maths(gold) and 1 or 0, "\\boxed{" .. boxed .. "}"
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
  "\\text{.}", "\\text{}^2", "\\text{}^3", "\\text{}", "\\mathrm{th}", "^\\circ", "^{\\circ}",
  "\\;", ",\\!", "{,}", "\"", "\\dots",
}

local function normalise_line(s)
  s = s:match("[^=]*$")
  for _, pair in ipairs(substitutions) do s = replace(s, pair[1], pair[2]) end
  for _, what in ipairs(removed) do s = replace(s, what, "") end
  s = s:match("%$(.-)%$") or s
  for _, command in ipairs { "text", "textbf", "overline", "boxed" } do
    s = s:gsub("\\" .. command .. "{([^{}]*)}", "%1")
  end
  s = s:gsub("frac([^{])(.)", "frac{%1}{%2}"):gsub("sqrt([^{])", "sqrt{%1}"):gsub("%$", "")
  local plain = s:gsub(",", "")
  if plain:find("^%d+$") then s = plain end
  return answer.trim(s)
end

--- Scores the last line "Answer: ...", else the last \boxed{}: 1 or -1.
function verl.dapo(text, gold)
  text = text:sub(-WINDOW)
  local line
  for at in text:lower():gmatch("answer%s*:%s*()[^\n]") do line = text:match("^[^\n]+", at) end
  local given = line or answer.boxed(text)
  given = given and normalise_line(given)
  return given == normalise_line(gold) and 1 or -1, given
end

return verl
