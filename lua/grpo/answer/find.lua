-- find.lua - finds the answer in a text.
--
-- The time is linear in the length of the text: only plain strings are searched in all of it, and
-- patterns in a window of WINDOW bytes.

local parse = require "grpo.answer.parse"
local symbols = require "grpo.answer.symbols"

local find = {}

local WINDOW = 200 -- bytes before and behind the last digit that are looked at

function find.trim(s)
  local first = s:find("%S")
  if not first then return "" end
  local blank = s:reverse():find("%S") - 1
  return s:sub(first, #s - blank)
end

local trim = find.trim

-- The bounds of what the first or the last complete <answer>...</answer> holds, or nil.
local function tag_bounds(text, take_first)
  local open, close = "<answer>", "</answer>"
  local next_close = text:find(close, 1, true)
  if not next_close then return nil end
  local next_open = text:find(open, 1, true)
  local first, last, start
  while next_close do
    while next_open and next_open < next_close do
      start = next_open + #open -- an opening tag that another one follows is not complete
      next_open = text:find(open, start, true)
    end
    if start then
      first, last, start = start, next_close - 1, nil
      if take_first then break end
    end
    next_close = text:find(close, next_close + #close, true)
  end
  return first, last
end

--- The content of the last complete <answer>...</answer>; if tags are nested, of the innermost.
---@param text string
---@param opts? { first: boolean?, any_case: boolean? }
---   first: of the first complete tag; any_case: <ANSWER> is a tag as well
---@return string|nil content
function find.tagged(text, opts)
  local searched = opts and opts.any_case and text:lower() or text
  local first, last = tag_bounds(searched, opts and opts.first)
  return first and text:sub(first, last)
end

-- The starts of what stands behind each of the commands, as keys, and the first of them.
local function box_starts(text, strict)
  local starts, from = {}, nil
  for _, command in ipairs { "\\boxed", "\\fbox" } do
    local at, stop = text:find(command, 1, true)
    while at do
      local start = text:find("%S", stop + 1) or #text + 1
      if not strict or text:find("^{", stop + 1) then
        starts[start], from = true, math.min(from or start, start)
      end
      at, stop = text:find(command, stop, true)
    end
  end
  return starts, from
end

-- The last \boxed without braces: \boxed 5, behind `first`.
local function boxed_without_braces(text, starts, first)
  local last = first
  for start in pairs(starts) do
    if start > last and text:find("^[^{%s$]", start) then last = start end
  end
  if last == first then return nil end
  return (text:match("^[^%s$]+", last):gsub("[.,;:!?]+$", ""))
end

--- The content of the last \boxed (or \fbox): of {...} if the braces balance and hold anything, or,
--- without braces, up to a space or a dollar sign.
---@param text string
---@param strict? boolean only \boxed{...}, be it empty
---@return string|nil
function find.boxed(text, strict)
  local starts, from = box_starts(text, strict)
  if not from then return nil end
  local open, depth = {}, 0 -- for each open brace the start of a box's content, or 0
  local first, last = 0, nil
  for brace, after in text:gmatch("([{}])()", from) do
    if brace == "{" then
      depth = depth + 1
      open[depth] = starts[after - 1] and after or 0
    elseif depth > 0 then
      local start = open[depth]
      if start > first and (strict or text:find("%S", start) < after - 1) then
        first, last = start, after - 2
      end
      depth = depth - 1
    end
  end
  local bare = not strict and boxed_without_braces(text, starts, first)
  return bare or last and text:sub(first, last)
end

--- The text after the last #### on its line.
---@param text string
---@return string|nil
function find.hashed(text)
  local back = text:reverse():find("####", 1, true)
  if not back then return nil end
  local start = #text - back + 2
  local stop = text:find("\n", start, true) or #text + 1
  return trim(text:sub(start, stop - 1))
end

-- Whether a line behind #### is an answer and not a heading: a number or a formula, perhaps with a
-- unit that is known.
local function is_answer(line)
  local tree = parse.answer(line)
  return tree ~= nil and not (tree[1] == "unit" and not parse.is_known_unit(tree[3]))
end

--- The answer behind the last ####: on its line or, if that is a heading of Markdown, below it.
---@param text string
---@return string|nil
function find.headed(text)
  local line = find.hashed(text)
  if not line then return nil end
  local back = text:reverse():find("####", 1, true)
  local stop = text:find("\n", #text - back + 2, true)
  local start = stop and text:find("%S", stop)
  if not start then return line ~= "" and line or nil end
  if is_answer(line) then return line end
  local below = text:sub(start, (text:find("\n", start, true) or #text + 1) - 1)
  if is_answer(below) then return trim(below) end
  local rest = text:sub(start)
  return find.tagged(rest) or find.last_number(rest) or line
end

-- ---- the last number ------------------------------------------------------------------

-- Matches 1,234.5 with commas between thousands only, or plain digits.
local function is_decimal(s)
  local whole = s:match("^([%d,]*)%.?%d*$")
  if not whole or not s:find("%d") then return false end
  if not whole:find(",", 1, true) then return true end
  local head, groups = whole:match("^(%d%d?%d?)(,[%d,]+)$")
  return head ~= nil and groups:gsub(",%d%d%d", "") == ""
end

-- The formula between $ and $, or \( and \), that the end of `before` lies in.
local function in_delimiters(before, after)
  local line = before:match("[^\n]*$"):gsub("\\%$", "\\_")
  if select(2, line:gsub("%$", "")) % 2 == 1 then
    local rest = after:match("^([^$\n]*)%$")
    return rest and line:match("[^$]*$") .. rest
  end
  local open = line:match(".*\\%(()")
  local rest = open and not line:find("\\)", open, true) and after:match("^([^\n]-)\\%)")
  return rest and line:sub(open) .. rest
end

-- The brackets that close right behind the number, with what is in them: (3, 4], {1, 2}.
local function in_brackets(before, after)
  local close = after:match("^[%)%]]")
  local inside = close and before:match("[%(%[][^()%[%]]*$")
  if inside and inside:find(",", 1, true) then return inside .. close end
  close = after:match("^\\?}")
  inside = close and before:match("\\?{[^{}]*$")
  return inside and inside:find(",%s") and inside .. close or nil
end

local function unbalanced(s)
  return select(2, s:gsub("{", "")) ~= select(2, s:gsub("}", ""))
end

-- The signs of a formula around a number.
local formula_signs = { "\\", "%^", "|", "\u{221A}", "\u{3C0}", "\u{B1}", "%d:%d",
  "\xC2[\xB2\xB3\xB9]", "\xE2\x81[\x84\xB0-\xBF]", "\xC2[\xBC-\xBE]", "\xE2\x85[\x90-\x9E]",
  "%f[%a]%a/%d", "%d/%a%f[^%w]", "%d[a-fijn-rt-z]%f[^%w]", "%d [x-z]%f[^%w]" }

-- Puts spaces in place of commands and names of functions.
local function without_names(piece)
  return (piece:gsub("\\?%a+", function(name)
    local is_name = name:find("^\\") or symbols.functions[name] or symbols.constants[name]
    return is_name and " " or nil
  end))
end

local function is_formula(chunk)
  for _, sign in ipairs(formula_signs) do
    if chunk:find(sign) then return true end
  end
  return without_names(chunk) ~= chunk
end

-- Whether a piece between spaces may belong to a formula: it has no words, nor ends a sentence.
local function is_mathematical(piece)
  return not without_names(piece):find("%a%a") and not piece:find("[.,;:!?]$")
    and piece ~= "a" and piece ~= "I"
end

-- The start of the pieces at the end of a line that may belong to one formula.
local function formula_start(line)
  local starts, pieces = {}, {}
  for start, piece in line:gmatch("()(%S+)") do
    starts[#starts + 1], pieces[#pieces + 1] = start, piece
  end
  local k = #pieces
  while k > 1 and is_mathematical(pieces[k - 1]) do k = k - 1 end
  return starts[k] or 1
end

-- Takes what stands behind the last equals sign, and no marks of Markdown or of a sentence.
local function bare_formula(chunk)
  chunk = chunk:match(".*=%s*(.*)$") or chunk
  return (chunk:gsub("[.,;:!?*%s]+$", ""):gsub("^[*%s]+", ""):gsub("\\?%$", ""))
end

-- The part of `after` that belongs to a formula: up to a space, or a letter or command behind one.
local function formula_end(before, after)
  local right = after:match("^%S*")
  for _ = 1, 4 do
    if not unbalanced(before:match("%S*$") .. right) then break end
    right = right .. after:sub(#right + 1):match("^[^%S\n]*%S*")
  end
  if right ~= "" then return right end
  return after:match("^ [x-z]%f[^%w]") or after:match("^ \u{3C0}")
    or after:match("^ \u{221A}%S+") or after:match("^ \\pi%f[%A]")
    or after:match("^ \\sqrt%S+") or ""
end

-- The formula that the number is in, or nil if it stands alone.
local function around(before, after)
  local line = before:match("[^\n]*$")
  local right = formula_end(line, after)
  local chunk = bare_formula(line:sub(formula_start(line)) .. right)
  if is_formula(chunk) and not unbalanced(chunk) and parse.answer(chunk) then return chunk end
  local short = bare_formula(line:match("%S*$") .. right)
  if unbalanced(short) or not is_formula(short) then return nil end
  if short:find("\\text", 1, true) and not parse.answer(short) then return nil end
  return short
end

local joints = { "(%d%d?%d?)\u{A0}$", "(%d%d?%d?)\u{202F}$", "(%d%d?%d?)\u{2009}$",
  "(%d%d?%d?){,}$", "(%d%d?%d?)\\,$" }

-- Thousands before a number of three digits, with separators that are in no sentence.
local function with_thousands(number, left)
  local head = number:match("^%d+")
  while head and #head == 3 do
    local group
    for _, joint in ipairs(joints) do group = group or left:match(joint) end
    if not group then break end
    left = left:gsub("[^%d]*$", "")
    left = left:sub(1, #left - #group)
    head, number = group, group .. number
  end
  return number, left
end

-- A numerator before the number, and a whole number before that.
local function with_fraction(number, left)
  local over, slash = left:match("(%d+)(%s?/%s?)$")
  if not over then return number, left end
  left = left:sub(1, #left - #over - #slash)
  local denominator = tonumber(number)
  local whole, gap = left:match("%f[%w](%d+)(%s)$")
  number = over .. "/" .. number
  if not whole or not denominator or tonumber(over) >= denominator then return number, left end
  return whole .. " " .. number, left:sub(1, #left - #whole - #gap)
end

local moneys = { "\\?%$$", "\u{20AC}$", "\u{A3}$", "\u{A5}$", "\u{20B9}$" }

-- A minus belongs to the number unless something precedes it, as in 10-3.
local function with_sign(number, left)
  for _, money in ipairs(moneys) do left = left:gsub(money, "") end
  local sign = left:match("^([-+])$") or left:match("[^%w)]([-+])$")
  return sign == "-" and "-" .. number or number
end

-- A percent sign behind a number.  Million and dozen are left out, as the unit that was asked for.
local function behind(after)
  local is_percent = symbols.percent[after:match("^%s(%a+)") or ""] or after:find("^%s?\\?%%")
  return is_percent and "%" or ""
end

--- The last number in a text with its sign, or the formula that it stands in: 3/4, 2 2/3, 1e3,
--- 1.5 x 10^3, \frac{1}{2}, 2\sqrt{3}, $x = 5$, 5%.
---@param text string
---@return string|nil
function find.last_number(text)
  local back = text:reverse():find("%d")
  if not back then return nil end
  local stop = #text - back + 1
  local before = text:sub(math.max(1, stop - WINDOW), stop):gsub("\u{2212}", "-")
    :gsub("\u{2013}", "-")
  local after = text:sub(stop + 1, stop + WINDOW):gsub("<|.*", "") -- a special token
  local formula = in_delimiters(before, after)
  if formula and parse.answer(formula) then return formula end
  formula = in_brackets(before, after)
  if formula and parse.answer(formula) then return formula end
  formula = around(before, after)
  if formula then return formula end
  local number = before:match("%d[%d.,]*[eE][-+]?%d+$") or before:match("[%d,.]*$")
  if not number:find("[eE]") and not is_decimal(number) then number = number:match("%d*%.?%d+$") end
  local left = before:sub(1, #before - #number)
  number, left = with_thousands(number, left)
  number, left = with_fraction(number, left)
  return with_sign(number, left) .. behind(after)
end

-- ---- answers without a number ---------------------------------------------------------

local function readable(s) return s and parse.answer(s) and s or nil end

-- The formula between dollar signs or \( and \) with which a text ends.
local function formula_at_end(tail)
  local line = tail:gsub("[%s.*]+$", "")
  return readable(line:match("%$([^$]+)%$$") or line:match("\\%(([^\n]-)\\%)$")
    or line:match("\\%[%s*(.-)%s*\\%]$"))
end

-- The rest of the line behind the last "answer is" or "answer:", or a text of one short line.
local function said(tail, whole)
  local from
  for at in tail:lower():gmatch("answer%s*i?s?:?%s()") do from = at end
  local rest = from and tail:match("^[^\n]*", from) or whole and not tail:find("\n") and tail or ""
  rest = rest:gsub("^[%s*$:]+", ""):gsub("[%s*$.!]+$", "")
  return rest ~= "" and readable(rest) or nil
end

--- The answer that a text gives: in the last \boxed, behind the last ####, in the last <answer>, a
--- formula with which it ends, the last number, or, in a text without digits, what follows the last
--- "answer is", or the text itself if it is one line.
---@param text string
---@return string|nil
function find.answer(text)
  local marked = find.boxed(text) or find.headed(text) or find.tagged(text)
  if marked then return marked end
  local tail = trim(text:sub(-WINDOW))
  return formula_at_end(tail) or find.last_number(text) or said(tail, #text <= WINDOW)
end

return find
