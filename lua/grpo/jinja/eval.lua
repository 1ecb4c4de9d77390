-- Runs a template's tree.  ctx is the state of one run: { line, steps, limit, max_text, out,
-- globals, ... }; a scope is { vars, parent }.

local arithmetic = require "grpo.jinja.arithmetic"
local filters = require "grpo.jinja.filters"
local methods = require "grpo.jinja.methods"
local tests = require "grpo.jinja.tests"
local values = require "grpo.jinja.values"

local charge, fail, kind, truthy = values.charge, values.fail, values.kind, values.truthy

local eval = {}

local max_calls = 60 -- nested calls of macros and recursive loops

local E, S = {}, {} -- expressions, statements: kind of node -> function(ctx, node, scope)

local function value_of(ctx, node, scope)
  local left = ctx.steps - 1
  ctx.steps = left
  if left < 0 then charge(ctx, 0) end
  return E[node.kind](ctx, node, scope)
end

-- ---- output ----------------------------------------------------------------------------------

local function new_output() return { n = 0, bytes = 0 } end

local function write(ctx, text)
  local out = ctx.out
  out.n, out.bytes = out.n + 1, out.bytes + #text
  values.charge_text(ctx, out.bytes > ctx.max_text and out.bytes or #text)
  out[out.n] = text
end

-- Runs statements.  Returns nil, or "break" or "continue".
local function run(ctx, body, scope)
  for i = 1, #body do
    local node = body[i]
    ctx.line = node.line
    charge(ctx, 1)
    local leave = S[node.kind](ctx, node, scope)
    if leave then return leave end
  end
end

-- Returns the text that a body writes.
local function captured(ctx, body, scope)
  local outer = ctx.out
  ctx.out = new_output()
  run(ctx, body, scope)
  local text = table.concat(ctx.out, "", 1, ctx.out.n)
  ctx.out = outer
  return text
end

-- ---- names ------------------------------------------------------------------------------------

local function inner(scope) return { vars = {}, parent = scope } end

function E.constant(_, node) return node.value end

local function find(ctx, name, scope)
  while scope do
    local v = scope.vars[name]
    if v ~= nil then return v end
    scope = scope.parent
  end
  return ctx.globals[name]
end

function E.name(ctx, node, scope)
  local v = find(ctx, node.name, scope)
  if v == nil then return values.undefined(node.name) end
  return v
end

local function assign(ctx, target, value, scope)
  if target.attribute then
    local object = find(ctx, target.name, scope)
    if object == nil or kind(object) ~= "namespace" then
      fail(ctx, "%s.%s cannot be set: only a namespace() takes attributes", target.name,
        target.attribute)
    end
    if target.attribute:find "^_" then
      fail(ctx, "%s.%s cannot be set: the name begins with _", target.name, target.attribute)
    end
    values.set(ctx, object, target.attribute, value)
  elseif target.name then
    scope.vars[target.name] = value
  else
    local items, n = values.items(ctx, value)
    if n ~= #target.targets then
      fail(ctx, "%d names are assigned %d values", #target.targets, n)
    end
    for i, inner_target in ipairs(target.targets) do assign(ctx, inner_target, items[i], scope) end
  end
end

-- ---- expressions --------------------------------------------------------------------------------

local function all(ctx, nodes, scope)
  local items = {}
  for i, node in ipairs(nodes) do items[i] = value_of(ctx, node, scope) end
  return items, #nodes
end

local function name_argument(ctx, named, name, value)
  if type(name) ~= "string" then fail(ctx, "the name of an argument must be a string") end
  if named[name] ~= nil then fail(ctx, "the argument '%s' is given twice", name) end
  named[#named + 1], named[name] = name, value
end

-- Returns the positional arguments of a call, and its named ones: named[name], named[1..n] are the
-- names in order.  After *list and **dict come what they hold.
local function arguments(ctx, node, scope)
  local args = all(ctx, node.args, scope)
  local named = {}
  for _, arg in ipairs(node.named) do
    local value = value_of(ctx, arg.value, scope)
    if arg.name then
      name_argument(ctx, named, arg.name, value)
    elseif arg.list then
      local items, n = values.items(ctx, value)
      values.charge(ctx, n)
      table.move(items, 1, n, #args + 1, args)
    else
      if kind(value) ~= "dict" then fail(ctx, "** wants a mapping") end
      values.charge(ctx, #value.keys)
      for _, key in ipairs(value.keys) do name_argument(ctx, named, key, value.map[key]) end
    end
  end
  return args, named
end

function E.list(ctx, node, scope) return values.list(all(ctx, node.items, scope)) end
function E.tuple(ctx, node, scope) return values.tuple(all(ctx, node.items, scope)) end

function E.dict(ctx, node, scope)
  local dict = values.dict()
  for i, key in ipairs(node.keys) do
    local k = value_of(ctx, key, scope)
    values.set(ctx, dict, k, value_of(ctx, node.items[i], scope))
  end
  return dict
end

E["and"] = function(ctx, node, scope)
  local left = value_of(ctx, node.left, scope)
  if not truthy(left) then return left end
  return value_of(ctx, node.right, scope)
end

E["or"] = function(ctx, node, scope)
  local left = value_of(ctx, node.left, scope)
  if truthy(left) then return left end
  return value_of(ctx, node.right, scope)
end

E["not"] = function(ctx, node, scope) return not truthy(value_of(ctx, node.operand, scope)) end

function E.choose(ctx, node, scope)
  if truthy(value_of(ctx, node.condition, scope)) then return value_of(ctx, node.yes, scope) end
  if node.no then return value_of(ctx, node.no, scope) end
  return values.undefined "inline if without else"
end

function E.concat(ctx, node, scope)
  local parts, size = {}, 0
  for i, part in ipairs(node.parts) do
    parts[i] = values.text(ctx, value_of(ctx, part, scope))
    size = size + #parts[i]
  end
  values.charge_text(ctx, size)
  return table.concat(parts)
end

function E.binary(ctx, node, scope)
  local left, right = value_of(ctx, node.left, scope), value_of(ctx, node.right, scope)
  ctx.line = node.line
  return arithmetic[node.op](ctx, left, right)
end

function E.negate(ctx, node, scope)
  return arithmetic.negate(ctx, value_of(ctx, node.operand, scope))
end

function E.plus(ctx, node, scope)
  local v = value_of(ctx, node.operand, scope)
  if not values.plain_number(v) then fail(ctx, "a %s has no sign", values.type_name(v)) end
  return values.plain_number(v)
end

function E.compare(ctx, node, scope)
  local left = value_of(ctx, node.first, scope)
  for _, step in ipairs(node.rest) do
    local right = value_of(ctx, step.value, scope)
    ctx.line = node.line
    if not arithmetic.compare(ctx, step.op, left, right) then return false end
    left = right
  end
  return true
end

function E.attribute(ctx, node, scope)
  local object = value_of(ctx, node.object, scope)
  ctx.line = node.line
  return methods.attribute(ctx, object, node.name)
end

function E.item(ctx, node, scope)
  local object, key = value_of(ctx, node.object, scope), value_of(ctx, node.key, scope)
  ctx.line = node.line
  return methods.item(ctx, object, key)
end

local function maybe(ctx, node, scope)
  if not node then return values.none end
  return value_of(ctx, node, scope)
end

function E.slice(ctx, node, scope)
  local object = value_of(ctx, node.object, scope)
  return methods.slice(ctx, object, maybe(ctx, node.from, scope), maybe(ctx, node.to, scope),
    maybe(ctx, node.step, scope))
end

-- Calls a callable value; `what` names it in messages.
local function call_value(ctx, callee, args, named, what)
  local k = kind(callee)
  if k == "undefined" then fail(ctx, "'%s' is undefined", callee.name) end
  if type(callee) ~= "table" or not callee.call then
    fail(ctx, "%s cannot be called: it is a %s", what, values.type_name(callee))
  end
  return callee.call(ctx, args, named)
end

function E.call(ctx, node, scope)
  local callee = node.callee
  -- A method is called without making a callable value for it.
  if callee.kind == "attribute" then
    local object = value_of(ctx, callee.object, scope)
    local method = methods.find(object, callee.name)
    if method then
      local args, named = arguments(ctx, node, scope)
      ctx.line = node.line
      return method(ctx, object, args, named)
    end
    ctx.line = callee.line
    local found = methods.attribute(ctx, object, callee.name)
    local args, named = arguments(ctx, node, scope)
    ctx.line = node.line
    if kind(found) == "undefined" then
      fail(ctx, "a %s has no method '%s'", values.type_name(object), callee.name)
    end
    return call_value(ctx, found, args, named, "'" .. callee.name .. "'")
  end
  local v = value_of(ctx, callee, scope)
  local args, named = arguments(ctx, node, scope)
  ctx.line = node.line
  return call_value(ctx, v, args, named, callee.name and "'" .. callee.name .. "'" or "a value")
end

function E.filter(ctx, node, scope)
  local object
  if node.object then object = value_of(ctx, node.object, scope) else object = ctx.filtered end
  local args, named = arguments(ctx, node, scope)
  ctx.line = node.line
  return filters.apply(ctx, node.name, object, args, named)
end

function E.test(ctx, node, scope)
  local object = value_of(ctx, node.object, scope)
  local args, named = arguments(ctx, node, scope)
  ctx.line = node.line
  return tests.apply(ctx, node.name, object, args, named) ~= node.negated
end

-- ---- statements ---------------------------------------------------------------------------------

function S.data(ctx, node) write(ctx, node.text) end

function S.output(ctx, node, scope)
  write(ctx, values.text(ctx, value_of(ctx, node.value, scope)))
end

S["do"] = function(ctx, node, scope) value_of(ctx, node.value, scope) end

S["if"] = function(ctx, node, scope)
  for _, branch in ipairs(node.branches) do
    if truthy(value_of(ctx, branch.condition, scope)) then return run(ctx, branch.body, scope) end
  end
  if node.otherwise then return run(ctx, node.otherwise, scope) end
end

S["break"] = function() return "break" end
S["continue"] = function() return "continue" end

function S.set(ctx, node, scope)
  assign(ctx, node.target, value_of(ctx, node.value, scope), scope)
end

-- Passes a text through a chain of filters; each filter's node has the one before it as its child.
local function through(ctx, chain, text, scope)
  if not chain then return text end
  local outer = ctx.filtered
  ctx.filtered = text
  local value = value_of(ctx, chain, scope)
  ctx.filtered = outer
  return value
end

function S.set_block(ctx, node, scope)
  assign(ctx, node.target,
    through(ctx, node.filter, captured(ctx, node.body, inner(scope)), scope), scope)
end

function S.filter_block(ctx, node, scope)
  write(ctx, values.text(ctx,
    through(ctx, node.filter, captured(ctx, node.body, inner(scope)), scope)))
end

function S.with(ctx, node, scope)
  local own = inner(scope)
  for _, set in ipairs(node.sets) do
    assign(ctx, set.target, value_of(ctx, set.value, scope), own)
  end
  return run(ctx, node.body, own)
end

function S.generation(ctx, node, scope)
  local from = ctx.out.bytes
  local leave = run(ctx, node.body, inner(scope))
  if ctx.out == ctx.main and not leave then
    ctx.spans[#ctx.spans + 1] = { from + 1, ctx.out.bytes }
  end
  return leave
end

local function deeper(ctx, what)
  ctx.depth = ctx.depth + 1
  if ctx.depth > max_calls then
    fail(ctx, "%s: more than %d calls inside each other", what, max_calls)
  end
end

-- ---- loops

local loop_fields = {
  index = function(l) return l.at end,
  index0 = function(l) return l.at - 1 end,
  revindex = function(l) return l.n - l.at + 1 end,
  revindex0 = function(l) return l.n - l.at end,
  first = function(l) return l.at == 1 end,
  last = function(l) return l.at == l.n end,
  length = function(l) return l.n end,
  depth = function(l) return l.depth end,
  depth0 = function(l) return l.depth - 1 end,
  previtem = function(l) return l.at > 1 and l.items[l.at - 1] or nil end,
  nextitem = function(l) return l.items[l.at + 1] end,
  cycle = function(l)
    return values.callable("cycle", function(ctx, args)
      if #args == 0 then fail(ctx, "loop.cycle: want at least one value") end
      return args[(l.at - 1) % #args + 1]
    end)
  end,
  changed = function(l)
    return values.callable("changed", function(ctx, args)
      local now = values.tuple(args)
      local same = l.seen and values.equal(ctx, l.seen, now)
      l.seen = now
      return not same
    end)
  end,
}

-- Makes the fields of a loop, which are computed when they are asked for.
local function fields_of(loop)
  return setmetatable({}, { __index = function(_, name)
    local field = loop_fields[name]
    return field and field(loop)
  end })
end

-- Returns the items of a loop that meet its condition.
local function selected(ctx, node, scope, items, n)
  if not node.condition then return items, n end
  local kept, m = {}, 0
  for i = 1, n do
    local own = inner(scope)
    assign(ctx, node.target, items[i], own)
    if truthy(value_of(ctx, node.condition, own)) then
      m = m + 1
      kept[m] = items[i]
    end
  end
  return kept, m
end

local function loop_over(ctx, node, scope, over, depth)
  local items, n = values.items(ctx, over)
  items, n = selected(ctx, node, scope, items, n)
  local loop = values.new { kind = "loop", items = items, n = n, at = 0, depth = depth }
  loop.fields = fields_of(loop)
  if node.recursive then
    loop.call = function(c, args)
      local outer = c.out
      deeper(c, "loop")
      c.out = new_output()
      loop_over(c, node, scope, args[1] == nil and values.undefined "loop()" or args[1], depth + 1)
      local text = table.concat(c.out, "", 1, c.out.n)
      c.out, c.depth = outer, c.depth - 1
      return text
    end
  end
  for i = 1, n do
    charge(ctx, 1)
    loop.at = i
    local own = { vars = { loop = loop }, parent = scope }
    assign(ctx, node.target, items[i], own)
    if run(ctx, node.body, own) == "break" then break end
  end
  if n == 0 and node.otherwise then return run(ctx, node.otherwise, inner(scope)) end
end

S["for"] = function(ctx, node, scope)
  return loop_over(ctx, node, scope, value_of(ctx, node.over, scope), 1)
end

-- ---- macros

-- Returns the named arguments that a macro has no parameter for, as a dict.
local function other_names(ctx, node, named)
  local known, kwargs = {}, values.dict()
  for _, name in ipairs(node.names) do known[name] = true end
  for _, name in ipairs(named) do
    if name == "caller" and not node.uses.kwargs then
      known.caller = true
    end
    if not known[name] then
      if not node.uses.kwargs then fail(ctx, "%s has no parameter '%s'", node.name, name) end
      values.set(ctx, kwargs, name, named[name])
    end
  end
  return kwargs
end

-- Returns the scope of one call: its arguments by position, by name, then defaults.
local function bind(ctx, node, args, named, scope)
  local own = inner(scope)
  charge(ctx, #node.names + #args)
  for i, name in ipairs(node.names) do
    local value = args[i]
    if value ~= nil and named[name] ~= nil then
      fail(ctx, "%s: '%s' is given twice", node.name, name)
    end
    if value == nil then value = named[name] end
    if value == nil and node.defaults[i] then value = value_of(ctx, node.defaults[i], own) end
    if value == nil then value = values.undefined(name) end
    own.vars[name] = value
  end
  if #args > #node.names and not node.uses.varargs then
    fail(ctx, "%s: %d arguments, it takes %d", node.name, #args, #node.names)
  end
  local caller = named.caller
  local kwargs = other_names(ctx, node, named)
  own.vars.caller = own.vars.caller or caller or values.undefined "caller"
  if node.uses.varargs then
    own.vars.varargs = values.tuple(table.move(args, #node.names + 1, #args, 1, {}))
  end
  if node.uses.kwargs then own.vars.kwargs = kwargs end
  return own
end

local function macro(node, scope)
  local made = values.callable(node.name, function(ctx, args, named)
    local line = ctx.line
    deeper(ctx, node.name)
    local text = captured(ctx, node.body, bind(ctx, node, args, named, scope))
    ctx.depth, ctx.line = ctx.depth - 1, line
    return text
  end)
  made.macro = true
  made.fields = { name = node.name, arguments = values.tuple(node.names),
    caller = node.uses.caller, catch_kwargs = node.uses.kwargs, catch_varargs = node.uses.varargs }
  return made
end

function S.macro(_, node, scope) scope.vars[node.name] = macro(node, scope) end

function S.call_block(ctx, node, scope)
  local callee = value_of(ctx, node.call.callee, scope)
  local args, named = arguments(ctx, node.call, scope)
  name_argument(ctx, named, "caller", macro(node.macro, scope))
  write(ctx, values.text(ctx, call_value(ctx, callee, args, named, "{% call %}'s macro")))
end

-- A block sees the variables of the template's top level; self.NAME() writes it again.
function S.block(ctx, node, scope)
  local top = scope
  while top.parent and top.parent.parent and not node.scoped do top = top.parent end
  return run(ctx, node.body, inner(top))
end

-- Runs a tree in ctx.  Returns the text and the byte ranges of its {% generation %} bodies.
function eval.run(ctx, tree, vars)
  ctx.out, ctx.spans, ctx.depth = new_output(), {}, 0
  ctx.main = ctx.out
  run(ctx, tree, { vars = {}, parent = { vars = vars } })
  return table.concat(ctx.out, "", 1, ctx.out.n), ctx.spans
end

return eval
