-- Python and C in Lua source: what a syntax error leads to.
--
-- A rule is { PATTERN, REPLACEMENT, HINT }, for one line, as string.gsub takes them.
-- A hint is given only if the text with that replacement has no error, or has its first error
-- further on.

local foreign_arguments = require "grpo.options.scripts.foreign_arguments"

local foreign_syntax = {}

local LINES_BACK = 12 -- an error may show lines after its cause
local LARGEST, LONGEST = 200000, 400 -- bytes of a text and of a line that are looked at

local declaring = { let = true, const = true, var = true, int = true, float = true, double = true,
  bool = true, string = true, auto = true, str = true }

local function declaration(space, word, rest)
  return declaring[word] and space .. "local" .. rest or nil
end

local block = "a block is %s ... end in Lua, without a colon"
local rules = {
  { "^(.-function.-%))%s*{%s*$", "%1", "a function is function name(x) ... end in Lua" },
  { "\u{201c}(.-)\u{201d}", '"%1"', "a text is in plain quotation marks, \"...\"" },
  { "\u{2018}(.-)\u{2019}", "'%1'", "a text is in plain quotation marks, \"...\"" },
  { "^%s*import%s.*$", "", 'Lua loads a module with local name = require "name"' },
  { "^%s*from%s.-%simport%s.*$", "", 'Lua loads a module with local name = require "name"' },
  { "^(%s*)async%s+def%s.*$", "", "a function is function name(x) ... end in Lua" },
  { "^(%s*)def%s+(.-%))[^:]*:%s*$", "%1function %2",
    "a function is function name(x) ... end in Lua" },
  { "^(%s*)def%s+(.-%))[^:]*:%s*(.*)$", "%1function %2 %3 end",
    "a function is function name(x) ... end in Lua" },
  { "^%s*class%s.*$", "do", "Lua has tables and functions instead of classes" },
  { "^%s*@%a.*$", "", "Lua has no decorators; call the function with the other one" },
  { "^%s*try%s*:.*$", "do", "Lua catches errors with local ok, result = pcall(f, x)" },
  { "^(%s*)elif%s+(.-)%s*:%s*(.*)$", "%1elseif %2 then %3", "\"elif x:\" is elseif x then in Lua" },
  { "%f[%w_]elif%f[^%w_]", "elseif", "\"elif\" is elseif in Lua" },
  { "else%s+if%f[^%w_]", "elseif",
    "\"else if\" is one word in Lua, elseif, or needs an end of its own" },
  { "^(%s*)if%s+(.-)%s*:%s*$", "%1if %2 then", block:format("if x then") },
  { "^(%s*)if%s+(.-)%s*:%s+(.*)$", "%1if %2 then %3 end", block:format("if x then") },
  { "^(%s*)else%s*:%s*(.*)$", "%1else %2", block:format("if x then ... else") },
  { "^(%s*)while%s+(.-)%s*:%s*$", "%1while %2 do", block:format("while x do") },
  { "^(%s*)while%s+(.-)%s*:%s+(.*)$", "%1while %2 do %3 end", block:format("while x do") },
  { "^(%s*)for%s+(.-)%s+in%s+(.-)%s*:%s*$", "%1for %2 in %3 do",
    block:format("for i, x in ipairs(list) do") },
  { "^(%s*)for%s+(.-)%s+in%s+(.-)%s*:%s+(.*)$", "%1for %2 in %3 do %4 end",
    block:format("for i, x in ipairs(list) do") },
  { "^(%s*)for%s+([%w_]+)%s+in%s+range%((.-)%)", "%1for %2 = 1, %3",
    "a loop over numbers is for i = 1, n do ... end in Lua" },
  { "!=", "~=", "\"!=\" is ~= in Lua" },
  { "&&", " and ", "\"&&\" is and in Lua" },
  { "||", " or ", "\"||\" is or in Lua" },
  { "!%s*([%w_(])", "not %1", "\"!\" is not in Lua" },
  { "^(%s*)([%w_.%[%]\"']+)%s*([-+*/%%])=%s*(.-)%s*$", "%1%2 = %2 %3 (%4)",
    "Lua has no \"+=\"; write x = x + 1" },
  { "^(%s*)([%w_.]+)(%+%+)%s*;?%s*$", "%1%2 = %2 + 1", "Lua has no \"++\"; write x = x + 1" },
  { "^(%s*)([%w_.]+)(%-%-)%s*;?%s*$", "%1%2 = %2 - 1", "Lua has no \"--\"; write x = x - 1" },
  { "^(.-)%f[#]#.*$", "%1", "a comment begins with -- in Lua" },
  { "^(.-)%f[/]//.*$", "%1", "a comment begins with -- in Lua" },
  { "/%*.-%*/", "", "a comment of several lines is --[[ ... ]] in Lua" },
  { "%s+is%s+not%s+None", " ~= nil", "\"is not None\" is ~= nil in Lua" },
  { "%s+is%s+None", " == nil", "\"is None\" is == nil in Lua" },
  { "%s+is%s+not%s", " ~= ", "\"is not\" is ~= in Lua" },
  { "%s+is%s", " == ", "\"is\" is == in Lua" },
  { "%f[%w_]lambda%s*([%w_, ]*):%s*([^,)}]*)", "function(%1) return %2 end",
    "\"lambda x: y\" is function(x) return y end in Lua" },
  { "([=(,]%s*)([^=(,]-)%s+if%s+(.-)%s+else%s+(.*)$", "%1%3 and %2 or %4",
    "\"a if c else b\" is c and a or b in Lua" },
  { "([=(,]%s*)([^=(,]-)%s*%?(.-)%s:(.*)$", "%1%2 and %3 or %4",
    "\"c ? a : b\" is c and a or b in Lua" },
  { "^(%s*)print%s+([^(%s].*)$", "%1print(%2)", "print is a function; write print(x)" },
  { "^(%s*)(%a+)(%s+[%a_][%w_]*%s*=)", declaration, "a variable is local x = ... in Lua" },
  { "(['\"])%1%1", "", "a text of several lines is [[ ... ]] in Lua" },
  { "%f[%w_][rbfu](['\"])", "%1", "Lua has no f-strings; write (\"%d of %s\"):format(n, name)" },
  { "%[([^%[%]]*)%]", "{%1}", "a list is { 1, 2 } in Lua" },
  { "(['\"][%w_ %-]*['\"])%s*:", "[%1] =", "a table of names is { name = value } in Lua" },
  { "([{,]%s*)([%w_]+)%s*:%s+", "%1%2 = ", "a table of names is { name = value } in Lua" },
  { "^(%s*)([%w_]+)%s*:%s+(.-,)%s*$", "%1%2 = %3", "a table of names is { name = value } in Lua" },
}

-- ---- is a rule right? --------------------------------------------------------------------------

-- The line and the column of the error in a message about a text; math.huge for those that are not
-- said.
local function place(problem, lines)
  local number = tonumber(problem:match(":(%d+):") or problem:match(" at line (%d+)")) or math.huge
  local token = problem:match("near '(.*)'$")
  local column = token and lines[number] and lines[number]:find(token, 1, true)
  return number, column or math.huge
end

local function lines_of(text)
  local lines = {}
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do lines[#lines + 1] = line end
  return lines
end

-- Does the text with another line in the place of line `at` get further?
local function gets_further(lines, at, line, number, column)
  local before = lines[at]
  lines[at] = line
  local chunk, problem = load(table.concat(lines, "\n"), "=text", "t")
  local now, where = math.huge, nil
  if not chunk then now, where = place(problem, lines) end
  lines[at] = before
  if chunk or now > number then return true end
  return now == number and at == number and where ~= math.huge and where > column
end

-- Returns the hint of the first rule that is right, and its line; nil without one.
local function find_hint(lines, number, column)
  local last = math.min(number, #lines)
  for at = last, math.max(1, last - LINES_BACK), -1 do
    for _, rule in ipairs(rules) do
      local line, count = lines[at]:sub(1, LONGEST):gsub(rule[1], rule[2])
      if count > 0 and gets_further(lines, at, line, number, column) then return rule[3], at end
    end
  end
end

-- Is the error that of `f(a = 1)`, where an argument has a name?
local function named_arguments(problem, lines, number)
  if not problem:find("'%)' expected .*near '='$") then return false end
  local text = table.concat(lines, "\n")
  local start = #table.concat(lines, "\n", 1, number - 1) + 1
  local equals = text:find("[%w_]%s*=[^=]", start) or start
  for open = equals, 1, -1 do
    if text:sub(open, open) == "(" then
      local inside = text:match("^%b()", open)
      if inside and open + #inside > equals then return true end
    end
  end
  return false
end

-- ---- for those who compile ---------------------------------------------------------------------

-- Returns a message about a text that does not compile, with what Lua wants instead, if that is
-- sure; second, lines to paste in place of the arguments of TRL's classes, or nil.
function foreign_syntax.explained(problem, text)
  if #text > LARGEST then return problem end
  local lines = lines_of(text)
  local number, column = place(problem, lines)
  local block_of_options = foreign_arguments.block(text)
  if number ~= math.huge and named_arguments(problem, lines, number) then
    return problem .. "; named arguments are a table in Lua: f { a = 1 }", block_of_options
  end
  local hint, at = find_hint(lines, number, column)
  if not hint then return problem, block_of_options end
  return ("%s; %s%s"):format(problem, at ~= number and ("line %d: "):format(at) or "", hint),
    block_of_options
end

return foreign_syntax
