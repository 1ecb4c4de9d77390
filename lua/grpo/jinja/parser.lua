-- Parses tokens to a tree, by Jinja's grammar.  A node is { kind, line, ... }; a list of statements
-- is an array of nodes.

local lexer = require "grpo.jinja.lexer"
local values = require "grpo.jinja.values"

local parser = {}

local max_depth = 100 -- nested brackets, operators and blocks

local Parser = {}
Parser.__index = Parser

local function fail(self, format, ...)
  error({ template = true, line = self.token.line, message = format:format(...) }, 0)
end

local function describe(token)
  if token.type == "eof" then return "the end of the template" end
  if token.type == "end" then return token.value == "{{" and "'}}'" or "'%}'" end
  if token.type == "data" then return "text" end
  return "'" .. tostring(token.value):sub(1, 40) .. "'"
end

local function advance(self)
  local token = self.token
  self.at = self.at + 1
  self.token = self.tokens[self.at] or token
  return token
end

local function is(self, type, value)
  local token = self.token
  return token.type == type and (value == nil or token.value == value)
end

local function op(self, sign)
  if is(self, "op", sign) then return advance(self) end
end

local function word(self, name)
  if is(self, "name", name) then return advance(self) end
end

local function expect(self, type, value, what)
  if is(self, type, value) then return advance(self) end
  fail(self, "want %s, got %s", what or ("'" .. value .. "'"), describe(self.token))
end

local function node(self, kind, fields)
  fields.kind, fields.line = kind, fields.line or self.token.line
  return fields
end

local function deeper(self)
  self.depth = self.depth + 1
  if self.depth > max_depth then fail(self, "nested deeper than %d", max_depth) end
end

-- ---- expressions --------------------------------------------------------------------------

local expression, unary, tuple

local constants = { ["true"] = true, ["True"] = true, ["false"] = false, ["False"] = false,
  ["none"] = values.none, ["None"] = values.none }

-- Calls read() for each item of a list with commas, up to the bracket `close`, which may follow a
-- comma.
local function each_item(self, close, read)
  local first = true
  while not is(self, "op", close) do
    if not first then expect(self, "op", ",") end
    if is(self, "op", close) then break end
    first = false
    read()
  end
  expect(self, "op", close)
end

local function list_of(self, close)
  local items = {}
  each_item(self, close, function() items[#items + 1] = expression(self) end)
  return items
end

local function dict(self, line)
  local keys, items = {}, {}
  each_item(self, "}", function()
    keys[#keys + 1] = expression(self)
    expect(self, "op", ":")
    items[#items + 1] = expression(self)
  end)
  return node(self, "dict", { keys = keys, items = items, line = line })
end

local function primary(self)
  local token = self.token
  local line = token.line
  if token.type == "name" then
    advance(self)
    if constants[token.value] ~= nil then
      return node(self, "constant", { value = constants[token.value], line = line })
    end
    return node(self, "name", { name = token.value, line = line })
  elseif token.type == "string" then
    local parts = {}
    while is(self, "string") do parts[#parts + 1] = advance(self).value end
    return node(self, "constant", { value = table.concat(parts), line = line })
  elseif token.type == "number" then
    return node(self, "constant", { value = advance(self).value, line = line })
  elseif op(self, "(") then
    local inner = tuple(self, true)
    expect(self, "op", ")")
    return inner
  elseif op(self, "[") then
    return node(self, "list", { items = list_of(self, "]"), line = line })
  elseif op(self, "{") then
    return dict(self, line)
  end
  return fail(self, "unexpected %s", describe(token))
end

-- Parses the arguments of a call: the positional ones, and those with a name, *list and **dict.
local function arguments(self)
  local args, named, lists, dicts = {}, {}, 0, 0
  local function behind(fields)
    if dicts > 0 or fields.list and lists > 0 then
      fail(self, "an argument stands behind *list or **dict")
    end
    if fields.list then lists = 1 elseif not fields.name then dicts = 1 end
    fields.value = expression(self)
    named[#named + 1] = fields
  end
  each_item(self, ")", function()
    local following = self.tokens[self.at + 1]
    if is(self, "name") and following.type == "op" and following.value == "=" then
      local name = advance(self).value
      advance(self)
      behind { name = name }
    elseif op(self, "*") then
      behind { list = true }
    elseif op(self, "**") then
      behind {}
    else
      if #named > 0 then fail(self, "a positional argument follows a named one") end
      args[#args + 1] = expression(self)
    end
  end)
  return args, named
end

local function call(self, callee, line)
  local args, named = arguments(self)
  return node(self, "call", { callee = callee, args = args, named = named, line = line })
end

local function subscript(self, object, line)
  local from, to, step
  if not is(self, "op", ":") then from = tuple(self) end
  if op(self, "]") then return node(self, "item", { object = object, key = from, line = line }) end
  expect(self, "op", ":", "']'")
  if not is(self, "op", ":") and not is(self, "op", "]") then to = expression(self) end
  if op(self, ":") and not is(self, "op", "]") then step = expression(self) end
  expect(self, "op", "]")
  return node(self, "slice", { object = object, from = from, to = to, step = step, line = line })
end

local function postfix(self, object)
  while true do
    local line = self.token.line
    if op(self, ".") then
      local token = self.token
      if token.type == "number" and math.type(token.value) == "integer" then
        object = node(self, "item", { object = object, line = line,
          key = node(self, "constant", { value = advance(self).value }) })
      else
        local name = expect(self, "name", nil, "a name after '.'").value
        object = node(self, "attribute", { object = object, name = name, line = line })
      end
    elseif op(self, "[") then
      object = subscript(self, object, line)
    elseif op(self, "(") then
      object = call(self, object, line)
    else
      return object
    end
  end
end

local function filter(self, object)
  local token = expect(self, "name", nil, "a filter's name")
  local args, named = {}, {}
  if op(self, "(") then args, named = arguments(self) end
  return node(self, "filter",
    { object = object, name = token.value, args = args, named = named, line = token.line })
end

-- These words cannot be the argument of a test without brackets, as in `is divisibleby 3`.
local no_argument = { ["else"] = true, ["or"] = true, ["and"] = true, ["if"] = true, ["is"] = true,
  ["not"] = true, ["in"] = true, ["recursive"] = true }

local function test(self, object)
  local negated = word(self, "not") ~= nil
  local token = expect(self, "name", nil, "a test's name")
  local args, named = {}, {}
  if op(self, "(") then
    args, named = arguments(self)
  else
    local t = self.token
    local begins = t.type == "string" or t.type == "number"
      or (t.type == "name" and not no_argument[t.value])
      or (t.type == "op" and (t.value == "[" or t.value == "{"))
    if begins then args = { postfix(self, primary(self)) } end
  end
  return node(self, "test", { object = object, name = token.value, args = args, named = named,
    negated = negated, line = token.line })
end

local function filters(self, object)
  while true do
    local line = self.token.line
    if op(self, "|") then
      object = filter(self, object)
    elseif word(self, "is") then
      object = test(self, object)
    elseif op(self, "(") then
      object = call(self, object, line)
    else
      return object
    end
  end
end

function unary(self, plain)
  local line = self.token.line
  local object
  deeper(self)
  if op(self, "-") then
    object = node(self, "negate", { operand = unary(self, true), line = line })
  elseif op(self, "+") then
    object = node(self, "plus", { operand = unary(self, true), line = line })
  else
    object = postfix(self, primary(self))
  end
  if not plain then object = filters(self, object) end
  self.depth = self.depth - 1
  return object
end

-- Makes the parser of one level of left-associative operators.
local function left_level(next_level, signs)
  return function(self)
    local left = next_level(self)
    while self.token.type == "op" and signs[self.token.value] do
      local token = advance(self)
      left = node(self, "binary",
        { op = token.value, left = left, right = next_level(self), line = token.line })
    end
    return left
  end
end

local power = left_level(unary, { ["**"] = true })
local product = left_level(power, { ["*"] = true, ["/"] = true, ["//"] = true, ["%"] = true })

local function concatenation(self)
  local first = product(self)
  if not is(self, "op", "~") then return first end
  local parts, line = { first }, self.token.line
  while op(self, "~") do parts[#parts + 1] = product(self) end
  return node(self, "concat", { parts = parts, line = line })
end

local sum = left_level(concatenation, { ["+"] = true, ["-"] = true })

local comparisons = { ["=="] = true, ["!="] = true, ["<"] = true, ["<="] = true, [">"] = true,
  [">="] = true }

local function comparison_sign(self)
  if self.token.type == "op" and comparisons[self.token.value] then return advance(self).value end
  if word(self, "in") then return "in" end
  local following = self.tokens[self.at + 1]
  if is(self, "name", "not") and following.type == "name" and following.value == "in" then
    advance(self)
    advance(self)
    return "not in"
  end
end

local function comparison(self)
  local line = self.token.line
  local first = sum(self)
  local rest = {}
  local sign = comparison_sign(self)
  while sign do
    rest[#rest + 1] = { op = sign, value = sum(self) }
    sign = comparison_sign(self)
  end
  if #rest == 0 then return first end
  return node(self, "compare", { first = first, rest = rest, line = line })
end

local function negation(self)
  local line = self.token.line
  if not word(self, "not") then return comparison(self) end
  deeper(self)
  local operand = negation(self)
  self.depth = self.depth - 1
  return node(self, "not", { operand = operand, line = line })
end

local function logical(next_level, name)
  return function(self)
    local left = next_level(self)
    while is(self, "name", name) do
      local line = advance(self).line
      left = node(self, name, { left = left, right = next_level(self), line = line })
    end
    return left
  end
end

local conjunction = logical(negation, "and")
local disjunction = logical(conjunction, "or")

function expression(self, without_if)
  deeper(self)
  local value = disjunction(self)
  while not without_if and is(self, "name", "if") do
    local line = advance(self).line
    local condition, otherwise = disjunction(self), nil
    if word(self, "else") then otherwise = expression(self) end
    value = node(self, "choose",
      { condition = condition, yes = value, no = otherwise, line = line })
  end
  self.depth = self.depth - 1
  return value
end

local function tuple_ends(self)
  return self.token.type == "end" or is(self, "op", ")") or is(self, "op", "]")
    or is(self, "op", ":")
    or is(self, "name", "recursive")
end

-- Parses one expression, or several with commas; in brackets there may be none.
function tuple(self, brackets, without_if)
  local items, line, comma = {}, self.token.line, false
  while not tuple_ends(self) do
    items[#items + 1] = expression(self, without_if)
    if not op(self, ",") then break end
    comma = true
  end
  if #items == 1 and not comma then return items[1] end
  if #items == 0 and not brackets then
    fail(self, "want an expression, got %s", describe(self.token))
  end
  return node(self, "tuple", { items = items, line = line })
end

-- ---- statements -----------------------------------------------------------------------------

local body

local function close_tag(self) expect(self, "end", nil, "'%}'") end

-- Parses the left side of an assignment: a name, name.attribute, or several with commas, also in
-- brackets.  Returns { name, attribute } or { targets }.
local target

local function one_target(self, attributes)
  local line = self.token.line
  if op(self, "(") then
    local inner = target(self, attributes)
    expect(self, "op", ")")
    return inner
  end
  local name = expect(self, "name", nil, "a name to assign to").value
  if constants[name] ~= nil then fail(self, "'%s' cannot be assigned to", name) end
  local attribute
  if attributes and op(self, ".") then
    attribute = expect(self, "name", nil, "an attribute's name").value
  end
  return node(self, "target", { name = name, attribute = attribute, line = line })
end

function target(self, attributes)
  deeper(self)
  local first = one_target(self, attributes)
  self.depth = self.depth - 1
  if not is(self, "op", ",") then return first end
  local targets = { first }
  while op(self, ",") and (is(self, "name") or is(self, "op", "(")) do
    targets[#targets + 1] = one_target(self, attributes)
  end
  return node(self, "target", { targets = targets, line = first.line })
end

local statements = {}

statements["if"] = function(self, line)
  local branches, otherwise = {}, nil
  local condition = tuple(self)
  local inner, ending
  repeat
    close_tag(self)
    inner, ending = body(self, "if", "elif", "else", "endif")
    branches[#branches + 1] = { condition = condition, body = inner }
    if ending == "elif" then condition = tuple(self) end
  until ending ~= "elif"
  if ending == "else" then
    close_tag(self)
    otherwise = body(self, "if", "endif")
  end
  return node(self, "if", { branches = branches, otherwise = otherwise, line = line })
end

statements["for"] = function(self, line)
  local loop = { target = target(self), line = line }
  expect(self, "name", "in")
  loop.over = tuple(self, false, true)
  if word(self, "if") then loop.condition = expression(self) end
  loop.recursive = word(self, "recursive") ~= nil
  close_tag(self)
  local ending
  self.loops = self.loops + 1
  loop.body, ending = body(self, "for", "else", "endfor")
  self.loops = self.loops - 1
  if ending == "else" then
    close_tag(self)
    loop.otherwise = body(self, "for", "endfor")
  end
  return node(self, "for", loop)
end

local function filter_chain(self)
  local chain
  while op(self, "|") do chain = filter(self, chain) end
  return chain
end

statements.set = function(self, line)
  local where = target(self, true)
  if op(self, "=") then
    return node(self, "set", { target = where, value = tuple(self), line = line })
  end
  local chain = filter_chain(self)
  close_tag(self)
  return node(self, "set_block",
    { target = where, filter = chain, body = body(self, "set", "endset"), line = line })
end

local function parameters(self)
  local names, defaults = {}, {}
  expect(self, "op", "(")
  while not is(self, "op", ")") do
    if #names > 0 then expect(self, "op", ",") end
    names[#names + 1] = expect(self, "name", nil, "a parameter's name").value
    if op(self, "=") then
      defaults[#names] = expression(self)
    elseif next(defaults) then
      fail(self, "the parameter '%s' without a default follows one with a default", names[#names])
    end
  end
  expect(self, "op", ")")
  return names, defaults
end

-- Parses a macro, which {% break %} cannot leave.  `uses` says which of the names varargs, kwargs
-- and caller its body has.
local function macro(self, name, kind, line, names, defaults)
  local loops, from = self.loops, self.at
  close_tag(self)
  self.loops = 0
  local inner = body(self, kind, "end" .. kind)
  self.loops = loops
  local uses = { varargs = false, kwargs = false, caller = false }
  for at = from, self.at do
    local token = self.tokens[at]
    if token.type == "name" and uses[token.value] ~= nil
        and self.tokens[at - 1].value ~= "." then
      uses[token.value] = true
    end
  end
  for i, parameter in ipairs(names) do
    if parameter == "caller" and defaults[i] == nil then
      fail(self, "the parameter 'caller' wants a default")
    end
    uses[parameter] = nil
  end
  return node(self, "macro",
    { name = name, names = names, defaults = defaults, line = line, body = inner, uses = uses })
end

statements.macro = function(self, line)
  local name = expect(self, "name", nil, "a macro's name").value
  return macro(self, name, "macro", line, parameters(self))
end

statements.call = function(self, line)
  local names, defaults = {}, {}
  if is(self, "op", "(") then names, defaults = parameters(self) end
  local what = expression(self)
  if what.kind ~= "call" then fail(self, "{%% call %%} wants the call of a macro") end
  return node(self, "call_block", { call = what, line = line,
    macro = macro(self, "caller", "call", line, names, defaults) })
end

-- Chat templates are one file: a block is written where it stands.
statements.block = function(self, line)
  local name = expect(self, "name", nil, "a block's name").value
  local scoped = word(self, "scoped") ~= nil
  close_tag(self)
  local inner = body(self, "block", "endblock")
  word(self, name)
  return node(self, "block", { body = inner, scoped = scoped, line = line })
end

statements.autoescape = function(self, line)
  local value = expression(self)
  if value.kind ~= "constant" or value.value ~= false then
    fail(self, "{%% autoescape %%} is supported with false only: a chat template writes plain text")
  end
  close_tag(self)
  return node(self, "with",
    { sets = {}, body = body(self, "autoescape", "endautoescape"), line = line })
end

for _, name in ipairs { "include", "import", "from", "extends" } do
  statements[name] = function(self)
    fail(self, "{%% %s %%} is not supported, because a chat template is a single file", name)
  end
end

statements.filter = function(self, line)
  local chain = filter(self, nil)
  while op(self, "|") do chain = filter(self, chain) end
  close_tag(self)
  return node(self, "filter_block",
    { filter = chain, body = body(self, "filter", "endfilter"), line = line })
end

statements.with = function(self, line)
  local sets = {}
  while not is(self, "end") do
    if #sets > 0 then expect(self, "op", ",") end
    local where = one_target(self)
    expect(self, "op", "=")
    sets[#sets + 1] = { target = where, value = expression(self) }
  end
  close_tag(self)
  return node(self, "with", { sets = sets, body = body(self, "with", "endwith"), line = line })
end

statements.generation = function(self, line)
  close_tag(self)
  return node(self, "generation", { body = body(self, "generation", "endgeneration"), line = line })
end

statements["do"] = function(self, line)
  return node(self, "do", { value = tuple(self), line = line })
end

for _, name in ipairs { "break", "continue" } do
  statements[name] = function(self, line)
    if self.loops == 0 then fail(self, "{%% %s %%} is outside a loop", name) end
    return node(self, name, { line = line })
  end
end

local function is_ending(name, ...)
  for i = 1, select("#", ...) do
    if name == select(i, ...) then return true end
  end
  return false
end

local function statement(self, token)
  local make = statements[token.value]
  if not make then
    local hint = token.value:find "^end" or token.value == "else" or token.value == "elif"
    fail(self, hint and "{%% %s %%} without its beginning" or "there is no statement '%s'",
      token.value)
  end
  deeper(self)
  local made = make(self, token.line)
  self.depth = self.depth - 1
  close_tag(self)
  return made
end

-- Parses statements up to the ending tag (its name is read, its end is not) or the template's end.
function body(self, owner, ...)
  local list, begun = {}, self.token.line
  while not is(self, "eof") do
    local token = advance(self)
    if token.type == "data" then
      list[#list + 1] = node(self, "data", { text = token.value, line = token.line })
    elseif token.value == "{{" then
      list[#list + 1] = node(self, "output", { value = tuple(self), line = token.line })
      expect(self, "end", nil, "'}}'")
    else
      local name = expect(self, "name", nil, "a statement's name")
      if is_ending(name.value, ...) then return list, name.value end
      list[#list + 1] = statement(self, name)
    end
  end
  if owner then fail(self, "{%% %s %%} from line %d is not closed", owner, begun) end
  return list
end

function parser.run(source)
  local self = setmetatable({ tokens = lexer.run(source), at = 1, depth = 0, loops = 0 }, Parser)
  self.token = self.tokens[1]
  return body(self)
end

return parser
