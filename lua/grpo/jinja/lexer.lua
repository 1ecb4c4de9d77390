-- Splits a template's source into tokens, with Jinja's rules for trim_blocks and lstrip_blocks.
--
-- A token is { type, value, line }: type "data" (text), "begin" and "end" (value "{{" or "{%"),
-- "name", "string", "number", "op" (value: the sign), "eof".

local spaces = require "grpo.jinja.spaces"

local lexer = {}

local function fail(line, format, ...)
  error({ template = true, line = line, message = format:format(...) }, 0)
end

local signs = { "**", "//", "==", "!=", ">=", "<=" }
local two = {}
for _, sign in ipairs(signs) do two[sign] = true end
local closing = { [")"] = "(", ["]"] = "[", ["}"] = "{" }

local simple = { n = "\n", t = "\t", r = "\r", a = "\a", b = "\b", f = "\f", v = "\v",
  ["\\"] = "\\", ["'"] = "'", ['"'] = '"', ["\n"] = "" }
local hex_digits = { x = 2, u = 4, U = 8 }

local function unescape(s, line)
  if not s:find("\\", 1, true) then return s end
  local out, at = {}, 1
  while true do
    local slash = s:find("\\", at, true)
    if not slash then break end
    out[#out + 1] = s:sub(at, slash - 1)
    local c = s:sub(slash + 1, slash + 1)
    local octal = s:match("^[0-7][0-7]?[0-7]?", slash + 1)
    if simple[c] then
      out[#out + 1], at = simple[c], slash + 2
    elseif octal then
      out[#out + 1], at = utf8.char(tonumber(octal, 8)), slash + 1 + #octal
    elseif hex_digits[c] then
      local digits = s:sub(slash + 2, slash + 1 + hex_digits[c])
      local code = #digits == hex_digits[c] and not digits:find "%X" and tonumber(digits, 16)
      if not code or code > 0x10FFFF then fail(line, "a string has a bad \\%s escape", c) end
      out[#out + 1], at = utf8.char(code), slash + 2 + #digits
    elseif c == "N" then
      fail(line, "a string has \\N, a character by its name; write \\u and its number")
    else
      out[#out + 1], at = "\\" .. c, slash + 2
    end
  end
  out[#out + 1] = s:sub(at)
  return table.concat(out)
end

-- ---- the state of one run ---------------------------------------------------------------------

local Lexer = {}
Lexer.__index = Lexer

local function push(self, type, value)
  self.tokens[#self.tokens + 1] = { type = type, value = value, line = self.line }
end

-- Advances to `at` and counts lines.
local function advance(self, at)
  local _, lines = self.source:sub(self.at, at - 1):gsub("\n", "")
  self.line, self.at = self.line + lines, at
end

-- Adds the text before a tag, stripped by the rules of the tag's sign and lstrip_blocks.
local function data(self, text, sign, block)
  if sign == "-" then
    text = spaces.rstrip(text)
  elseif sign ~= "+" and block then
    local last = text:match "^.*()\n"
    local head = last and text:sub(1, last) or ""
    if (last or self.line_starting) and spaces.blank(text:sub(#head + 1)) then text = head end
  end
  if text ~= "" then push(self, "data", text) end
end

-- Returns the position after the closing tag at `at`, or nil if there is none; `close` is "%}",
-- "}}" or "#}".
local function tag_end(self, at, close)
  local s = self.source
  local sign = s:match("^[-+]", at)
  if sign == "+" and close == "}}" then return nil end
  local from = sign and at + 1 or at
  if s:sub(from, from + 1) ~= close then return nil end
  if sign == "-" then return spaces.skip(s, from + 2) end
  if sign ~= "+" and close ~= "}}" and s:sub(from + 2, from + 2) == "\n" then return from + 3 end
  return from + 2
end

local function finish_tag(self, at)
  advance(self, at)
  self.line_starting = self.source:sub(at - 1, at - 1) == "\n"
end

local function comment(self, at)
  local from = at
  while true do
    local close = self.source:find("#}", from, true)
    if not close then fail(self.line, "a comment {# is not closed") end
    local before = self.source:sub(close - 1, close - 1)
    if (before == "-" or before == "+") and close > at then close = close - 1 end
    local stop = tag_end(self, close, "#}")
    if stop then return finish_tag(self, stop) end
    from = close + 2
  end
end

-- Reads {% raw %} text {% endraw %}; `at` is the position after the opening tag.
local function raw(self, at)
  advance(self, at)
  local from = at
  while true do
    local open, behind, sign, name = self.source:find("{%%([-+]?)%s*endraw()", from)
    if not open then fail(self.line, "{%% raw %%} is not closed by {%% endraw %%}") end
    local stop = tag_end(self, (spaces.skip(self.source, name)), "%}")
    if stop then
      data(self, self.source:sub(at, open - 1), sign, true)
      return finish_tag(self, stop)
    end
    from = behind
  end
end

local function number(self)
  local s, at = self.source, self.at
  local prefix, digits = s:match("^0([xXoObB])([%x_]+)", at)
  if prefix then
    local base = ({ x = 16, o = 8, b = 2 })[prefix:lower()]
    local value = tonumber((digits:gsub("_", "")), base)
    if not value then fail(self.line, "malformed number '0%s%s'", prefix, digits) end
    push(self, "number", value)
    return advance(self, at + 2 + #digits)
  end
  local text = s:match("^%d[%d_]*", at)
  local part = s:sub(at - 1, at - 1) == "." -- of a path such as rows.0.1
  local fraction = not part and s:match("^%.%d[%d_]*", at + #text) or ""
  local exponent = not part and s:match("^[eE][+-]?%d+", at + #text + #fraction) or ""
  local value = tonumber(((text .. fraction .. exponent):gsub("_", "")))
  if fraction .. exponent == "" and math.type(value) == "float" then
    fail(self.line, "the whole number %s is out of range", text:sub(1, 40))
  end
  push(self, "number", value)
  advance(self, at + #text + #fraction + #exponent)
end

local function string_token(self, quote)
  local at = self.at + 1
  while true do
    local stop = self.source:find("[\\" .. quote .. "]", at)
    if not stop then fail(self.line, "a string is not closed") end
    if self.source:sub(stop, stop) == quote then
      push(self, "string", unescape(self.source:sub(self.at + 1, stop - 1), self.line))
      return advance(self, stop + 1)
    end
    at = stop + 2
  end
end

local function operator(self, stack)
  local sign = self.source:sub(self.at, self.at + 1)
  if not two[sign] then sign = sign:sub(1, 1) end
  if not sign:find "^[-+/*%%~%[%](){}=!<>.:|,;]" or sign == "!" then
    fail(self.line, "unexpected character '%s'",
      self.source:match(utf8.charpattern, self.at) or sign)
  end
  if sign:find "^[%[({]" then
    stack[#stack + 1] = sign
  elseif closing[sign] and table.remove(stack) ~= closing[sign] then
    fail(self.line, "unexpected '%s'", sign)
  end
  push(self, "op", sign)
  advance(self, self.at + #sign)
end

-- Reads the inside of {{ }} or {% %} and its closing tag.
local function inside(self, open)
  local close = open == "{{" and "}}" or "%}"
  local stack, line = {}, self.line
  push(self, "begin", open)
  while true do
    advance(self, spaces.skip(self.source, self.at))
    local stop = #stack == 0 and tag_end(self, self.at, close)
    local c = self.source:sub(self.at, self.at)
    if stop then
      push(self, "end", open)
      return finish_tag(self, stop)
    elseif c == "" then
      fail(line, "%s is not closed by %s", open, close)
    elseif c:find "[%a_]" then
      local name = self.source:match("^[%w_]+", self.at)
      push(self, "name", name)
      advance(self, self.at + #name)
    elseif c:find "%d" then
      number(self)
    elseif c == "'" or c == '"' then
      string_token(self, c)
    else
      operator(self, stack)
    end
  end
end

-- Returns the list of tokens of a source.
function lexer.run(source)
  source = source:gsub("\r\n?", "\n")
  if source:sub(-1) == "\n" then source = source:sub(1, -2) end
  local self = setmetatable({ source = source, at = 1, line = 1, tokens = {},
    line_starting = true }, Lexer)
  while true do
    local open = source:find("{[{%%#]", self.at)
    if not open then break end
    local tag = source:sub(open, open + 1)
    local sign = source:match("^[-+]", open + 2) or ""
    data(self, source:sub(self.at, open - 1), sign, tag ~= "{{")
    advance(self, open + 2 + #sign)
    local name = tag == "{%" and source:match("^%s*raw%s*()", self.at)
    local stop = name and (source:sub(name, name + 1) == "%}" and name + 2
      or source:sub(name, name + 2) == "-%}" and spaces.skip(source, name + 3))
    if tag == "{#" then
      comment(self, self.at)
    elseif stop then
      raw(self, stop)
    else
      inside(self, tag)
    end
  end
  if self.at <= #source then push(self, "data", source:sub(self.at)) end
  advance(self, #source + 1)
  push(self, "eof")
  return self.tokens
end

return lexer
