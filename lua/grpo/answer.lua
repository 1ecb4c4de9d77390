-- answer.lua - finds an answer in text, and decides whether two answers are equal.
--
-- extract() tries, in this order: the last balanced \boxed{}, the text after the last ####, the
-- last complete <answer> tag, the last number.  equal() compares exact fractions if both sides
-- are numbers, floats (1e-6 relative) if they are too long for that, and normalised text
-- otherwise.  Equality is never symbolic: 2x and x+x differ.
--
-- The time is linear in the length of any text: only plain strings are searched in it, and only
-- answers of at most MAX_ANSWER bytes are parsed.

local answer = {}

local MAX_ANSWER = 1000 -- longer ones are compared as plain text
local MAX_DIGITS = 38   -- of a numerator or denominator that is compared exactly

local function trim(s)
  local first = s:find("%S")
  if not first then return "" end
  local blank = s:reverse():find("%S") - 1
  return s:sub(first, #s - blank)
end
answer.trim = trim

-- ---- finding --------------------------------------------------------------------------

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
function answer.tagged(text, opts)
  local searched = opts and opts.any_case and text:lower() or text
  local first, last = tag_bounds(searched, opts and opts.first)
  return first and text:sub(first, last)
end

--- The content of the last \boxed{...} (or \fbox) whose braces balance.
---@param text string
---@return string|nil
function answer.boxed(text)
  local boxes, from = {}, nil -- positions of the boxes' braces, and the first of them
  for _, command in ipairs { "\\boxed{", "\\fbox{" } do
    local at, stop = text:find(command, 1, true)
    while at do
      boxes[stop], from = true, math.min(from or stop, stop)
      at, stop = text:find(command, stop, true)
    end
  end
  if not from then return nil end
  local open, depth = {}, 0 -- for each open brace the start of a box's content, or 0
  local first, last = 0, nil
  for brace, after in text:gmatch("([{}])()", from) do
    if brace == "{" then
      depth = depth + 1
      open[depth] = boxes[after - 1] and after or 0
    elseif depth > 0 then
      if open[depth] > first then first, last = open[depth], after - 2 end
      depth = depth - 1
    end
  end
  return last and text:sub(first, last)
end

--- The text after the last #### on its line.
---@param text string
---@return string|nil
function answer.hashed(text)
  local back = text:reverse():find("####", 1, true)
  if not back then return nil end
  local start = #text - back + 2
  local stop = text:find("\n", start, true) or #text + 1
  return trim(text:sub(start, stop - 1))
end

-- Matches 1,234.5 with commas between thousands only, or plain digits.
local function is_decimal(s)
  local whole = s:match("^([%d,]*)%.?%d*$")
  if not whole or not s:find("%d") then return false end
  if not whole:find(",", 1, true) then return true end
  local head, groups = whole:match("^(%d%d?%d?)(,[%d,]+)$")
  return head ~= nil and groups:gsub(",%d%d%d", "") == ""
end

--- The last number in a text, with its sign, or a fraction such as 3/4.
---@param text string
---@return string|nil
function answer.last_number(text)
  local reversed = text:reverse()
  local at = reversed:find("%d")
  if not at then return nil end
  local stop = #text - at + 1
  local before = text:sub(math.max(1, stop - 63), stop)
  local number = before:match("[%d,.]*$")
  if not is_decimal(number) then number = number:match("%d*%.?%d+$") end
  local left = before:sub(1, #before - #number)
  local over = left:match("(%d+)/$")
  if over then
    number, left = over .. "/" .. number, left:sub(1, #left - #over - 1)
  end
  -- A minus belongs to the number unless something precedes it, as in 10-3.
  local sign = left:match("^([-+])%$?$") or left:match("[^%w)]([-+])%$?$")
  return sign == "-" and "-" .. number or number
end

--- The answer that a completion gives, or nil.
---@param text string
---@return string|nil
function answer.extract(text)
  return answer.boxed(text) or answer.hashed(text) or answer.tagged(text)
    or answer.last_number(text)
end

--- The answer that a dataset gives: after ####, in \boxed{} or <answer>, or the whole value.
---@param value string|number
---@return string
function answer.gold(value)
  if type(value) == "number" then return tostring(value) end
  return answer.hashed(value) or answer.boxed(value) or answer.tagged(value)
    or trim(value)
end

-- ---- normalising ------------------------------------------------------------------------

-- Replacements that remove what LaTeX and prose put around an answer, applied in this order.
local clean = {
  { "\u{2212}", "-" },                                   -- the typographic minus
  { "\\[!,;: ]", "" }, { "~", " " },                     -- LaTeX spaces
  { "\\left", "" }, { "\\right", "" }, { "\\[()%[%]]", "" },
  { "%^{?\\circ}?", "" }, { "\u{00B0}", "" },            -- degrees
  { "\\[dt]frac", "\\frac" },
  { "\\frac{([^{}]*)}{([^{}]*)}", "%1/%2" }, { "\\frac(%d)(%d)", "%1/%2" },
  { "\\%a*text%a*%s*{([^{}]*)}", "%1" }, { "\\text%a*%s*{([^{}]*)}", "%1" },
  { "\\math%a+%s*{([^{}]*)}", "%1" }, { "\\mbox%s*{([^{}]*)}", "%1" },
  { "\\?[$%%]", "" },                                    -- dollars, percent signs, $...$
  { "%*%*", "" },                                        -- bold
}

--- The answer that a dataset row gives in one of its fields; raises an error that names the field
--- if there is none.
---@param row table
---@param field string
---@param where string the reward that asks
---@return string
function answer.of_row(row, field, where)
  local value = row and row[field]
  if type(value) ~= "string" and type(value) ~= "number" then
    error(("%s: the row has no field '%s' with a string or a number"):format(where, field), 0)
  end
  return answer.gold(value)
end

--- An answer without `$`, `%`, LaTeX, `x =`, a final full stop.
---@param s string
---@return string
function answer.normalise(s)
  if #s > MAX_ANSWER then return trim(s) end
  local integer = s:match("^%s*([-+]?%d+)%s*$")
  if integer then return integer end -- the replacements below would not change it
  for _, rule in ipairs(clean) do s = s:gsub(rule[1], rule[2]) end
  s = trim(s):gsub("%s+", " "):gsub("^%a%s?=%s?", "")
  if s:find("[^.]%.$") then s = s:sub(1, -2) end
  return (trim(s):lower())
end

-- Words and letters after a number that change its value, so that they are not units.
local not_units = {
  dozen = true, hundred = true, thousand = true, million = true, billion = true, pi = true,
  x = true, y = true, z = true, n = true, i = true,
}

local function without_units(s)
  local number, units = s:match("^([-+]?%s?[%d.,/]+)%s?(%a[%a%s^%d]*)$")
  if not number or units:find("%s[%d^]") or units:find("^e%d") then return s end
  for word in units:gmatch("%a+") do
    if not_units[word] then return s end
  end
  return number
end

-- Converts "012.50" to a fraction, here 1250 / 10^2, as decimal strings without leading zeros.
local function digits_over(s)
  if not is_decimal(s) then return nil end
  local whole, part = s:gsub(",", ""):match("^(%d*)%.?(%d*)$")
  part = part:gsub("0+$", "")
  local n = (whole .. part):gsub("^0+", "")
  return n == "" and "0" or n, "1" .. ("0"):rep(#part)
end

---@class grpo.Rational
---@field negative boolean
---@field n string numerator, decimal digits
---@field d string denominator, decimal digits, not zero

-- Returns the exact product of two numbers in decimal digits; limbs have seven digits.
local function multiply(a, b)
  if #a + #b <= 18 then return ("%d"):format(tonumber(a) * tonumber(b)) end
  local function limbs(s)
    local list = {}
    for stop = #s, 1, -7 do list[#list + 1] = tonumber(s:sub(math.max(1, stop - 6), stop)) end
    return list
  end
  local x, y, product = limbs(a), limbs(b), {}
  for i = 1, #x do
    local carry = 0
    for j = 1, #y do
      local sum = (product[i + j - 1] or 0) + x[i] * y[j] + carry
      product[i + j - 1], carry = sum % 10000000, sum // 10000000
    end
    product[i + #y] = carry
  end
  local text = {}
  for i = #product, 1, -1 do text[#text + 1] = ("%07d"):format(product[i]) end
  local s = table.concat(text):gsub("^0+", "")
  return s == "" and "0" or s
end

--- A normalised answer as an exact fraction; nil when it is not a number.
---@param s string
---@return grpo.Rational|nil
function answer.rational(s)
  if #s > MAX_ANSWER then return nil end
  local minus, digits = s:match("^(%-?)0*(%d+)$")
  if digits then return { negative = minus ~= "" and digits ~= "0", n = digits, d = "1" } end
  s = without_units(s)
  local sign, body = s:match("^([-+]?)%s?(.+)$")
  if not body then return nil end
  local upper, lower = body:match("^([^/]+)/([^/]+)$")
  local n, d = digits_over(upper or body)
  if not n then return nil end
  if lower then
    local m, e = digits_over(lower)
    if not m or m == "0" then return nil end
    n, d = multiply(n, e), multiply(d, m)
  end
  return { negative = sign == "-" and n ~= "0", n = n, d = d }
end

local function value_of(r)
  local v = tonumber(r.n .. ".0") / tonumber(r.d .. ".0")
  return r.negative and -v or v
end

local function same_number(a, b)
  if a.negative ~= b.negative then return false end
  if a.d == b.d then return a.n == b.n end
  if math.max(#a.n, #a.d, #b.n, #b.d) <= MAX_DIGITS then
    return multiply(a.n, b.d) == multiply(b.n, a.d)
  end
  local x, y = value_of(a), value_of(b)
  return math.abs(x - y) <= 1e-6 * math.max(math.abs(x), math.abs(y))
end

-- Patterns that make a text mathematics even where it has words: digits, operators, symbols.
local signs = { "[%d\\+*^=<>_]", "\xE2[\x88-\x8B]", "\u{3C0}", "\u{D7}", "\u{F7}", "\u{B1}" }

--- Whether an answer is mathematics, so that an answer can be judged by it: a number, a formula or
--- single letters.  Words alone are not, nor is an empty text.
---@param s string
---@return boolean
function answer.is_mathematics(s)
  local x = answer.normalise(s)
  for _, sign in ipairs(signs) do
    if x:find(sign) then return true end
  end
  return x:find("%a") ~= nil and not x:find("%a%a") and not x:find("[\128-\255]")
end

--- Whether two answers are the same number, or the same text once normalised.
---@param a string
---@param b string
---@return boolean
function answer.equal(a, b)
  if a == b then return true end
  local x, y = answer.normalise(a), answer.normalise(b)
  if x == y then return x ~= "" end
  local p, q = answer.rational(x), answer.rational(y)
  return p ~= nil and q ~= nil and same_number(p, q)
end

return answer
