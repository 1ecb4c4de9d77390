-- Chat templates: the part of Jinja2 that they use, with Python's semantics, as
-- Hugging Face renders them (trim_blocks, lstrip_blocks, loop controls, {% generation %}).
--
--   local template = require "grpo.jinja".compile(source)      -- also grpo.template(source)
--   local text, spans = template:render { messages = ..., add_generation_prompt = true }
--
-- A template sees the variables that it is given and nothing else; steps, the size of texts
-- and the depth of calls are bounded.  Errors read "template:LINE: message".  `spans` holds
-- the first and last byte of every {% generation %} body.
--
-- Variables are Lua values.  A table with an array part is a list, {} an empty list; any
-- other table is a mapping.  Its keys come in the order that a JSON text or a Parquet file gave
-- them, if the table was read from one; those of other tables, and what was added later, come in
-- the order role, content, type, id, function, name, description, parameters, arguments,
-- properties, required, then the others sorted.  For another order use
-- jinja.dict { { key, value }, ... } or jinja.from_json(text).
-- json.null is none.

local bind = require "grpo.jinja.bind"
local errors = require "grpo.base.errors"
local eval = require "grpo.jinja.eval"
local json = require "grpo.jinja.json"
local methods = require "grpo.jinja.methods"
local parser = require "grpo.jinja.parser"
local values = require "grpo.jinja.values"

local jinja = {}

-- Limits: the steps of one run, the bytes of one text, the bytes of a template's source.
jinja.limits = { steps = 4000000, text = 16 << 20, source = 1 << 20 }

-- ---- functions that every template has ----------------------------------------------------------

local globals = {}

local function global(spec, call) globals[spec:match "^%S+"] = bind.callable(spec, call) end

global("raise_exception message", function(ctx, message)
  values.fail(ctx, "%s", values.text(ctx, message))
end)

-- Makes a dict of what dict() and namespace() take: a mapping or pairs, and names.
local function dict_of(ctx, args, named, what)
  local dict = values.dict()
  if #args > 1 then values.fail(ctx, "%s: want a mapping or names", what) end
  if args[1] ~= nil then
    local from = args[1]
    if values.kind(from) == "dict" then from = values.view(ctx, "dict_items", from) end
    local items, n = values.items(ctx, from)
    values.charge(ctx, n)
    for i = 1, n do
      local pair, m = values.items(ctx, items[i])
      if m ~= 2 then values.fail(ctx, "%s: want pairs", what) end
      values.set(ctx, dict, pair[1], pair[2])
    end
  end
  for _, name in ipairs(named) do values.set(ctx, dict, name, named[name]) end
  return dict
end

globals.dict = values.callable("dict", function(ctx, args, named)
  return dict_of(ctx, args, named, "dict")
end)
globals.dict.fields = { fromkeys = values.callable("fromkeys", function(ctx, args, named)
  return methods.fromkeys(ctx, values.dict(), args, named)
end) }

globals.namespace = values.callable("namespace", function(ctx, args, named)
  local dict = dict_of(ctx, args, named, "namespace")
  for _, key in ipairs(dict.keys) do
    if type(key) == "string" and key:find "^_" then
      values.fail(ctx, "namespace: the name '%s' begins with _", key)
    end
  end
  dict.kind = "namespace"
  return dict
end)

global("range start stop? step? /", function(ctx, from, to, step)
  from, step = bind.int(ctx, from, "range"), bind.int(ctx, step, "range", 1)
  if to == nil then from, to = 0, from end
  return values.range(ctx, from, bind.int(ctx, to, "range"), step)
end)

global("joiner sep?", function(ctx, separator)
  local used = false
  separator = separator == nil and ", " or values.text(ctx, separator)
  return bind.callable("joiner", function()
    local text = used and separator or ""
    used = true
    return text
  end)
end)

globals.cycler = values.callable("cycler", function(ctx, args)
  local at, n = 0, #args
  if n == 0 then values.fail(ctx, "cycler: want at least one value") end
  local fields = { current = args[1] }
  local function go(to)
    at = to % n
    fields.current = args[at + 1]
  end
  fields.next = bind.callable("next", function()
    local now = args[at + 1]
    go(at + 1)
    return now
  end)
  fields.reset = bind.callable("reset", function()
    go(0)
    return values.none
  end)
  return values.new { kind = "object", fields = fields }
end)

globals.lipsum = values.callable("lipsum", function(ctx)
  values.fail(ctx, "lipsum() is not supported, because its text is random")
end)

-- Works like Python's strftime: "%-d" has no leading zero.
global("strftime_now format", function(ctx, format)
  local now = os.time()
  bind.str(ctx, format, "strftime_now")
  values.charge(ctx, #format)
  return (format:gsub("%%(%-?)(.?)", function(minus, c)
    if c == "%" then return "%" end
    local ok, text = pcall(os.date, "%" .. c, now)
    if not ok or c == "" then values.fail(ctx, "strftime_now: there is no %%%s%s", minus, c) end
    return minus == "-" and text:gsub("^[0 ]+(.)", "%1") or text
  end))
end)

-- ---- templates ----------------------------------------------------------------------------------

local Template = {}
Template.__index = Template
Template.__tostring = function(t) return ("grpo.Template: %d bytes"):format(#t.source) end
Template.__metatable = false
local trees = setmetatable({}, { __mode = "k" })

local function raise(err, line)
  if type(err) == "table" and err.template then
    return errors.raise_plain("EARG", "template:%d: %s", err.line or line, err.message)
  end
  if type(err) == "string" and err:find("stack overflow", 1, true) then
    return errors.raise_plain("EARG", "template:%d: nested too deep", line)
  end
  error(err, 0) -- not an error of the template: the limits of the surrounding script raised it
end

function jinja.compile(source)
  if type(source) ~= "string" then
    errors.raise("EARG", "template: want the source as a string, got a %s", type(source))
  end
  if #source > jinja.limits.source then
    errors.raise("EARG", "template: the source is longer than %d bytes", jinja.limits.source)
  end
  local ok, tree = pcall(parser.run, source)
  if not ok then raise(tree, 1) end
  local template = setmetatable({ source = source }, Template)
  trees[template] = tree
  return template
end

-- Returns the text, and the positions of {% generation %} bodies as { first byte, last byte }.
function Template:render(vars)
  if vars ~= nil and type(vars) ~= "table" then
    errors.raise("EARG", "render: want a table of variables, got a %s", type(vars))
  end
  local variables, state = {}, {}
  local from = vars and getmetatable(vars) == values.meta and vars.map or vars or {}
  for name, value in next, from do
    local ok, made = pcall(values.from_lua, value, state)
    if not ok then errors.raise("EARG", "render: %s: %s", tostring(name), tostring(made)) end
    variables[name] = made
  end
  local limits = jinja.limits
  local ctx = { line = 1, steps = limits.steps, limit = limits.steps, max_text = limits.text,
    globals = globals }
  local ok, text, spans = pcall(eval.run, ctx, trees[self], variables)
  if not ok then raise(text, ctx.line) end
  return text, spans
end

-- ---- values with an order -----------------------------------------------------------------------

-- Returns any JSON text as a value for a template; the order of keys is kept.
function jinja.from_json(text)
  if type(text) ~= "string" then
    errors.raise("EARG", "from_json: want a string, got a %s", type(text))
  end
  local ok, value = pcall(json.read, text)
  if not ok then errors.raise("EARG", "from_json: %s", tostring(value):match("JSON:.*")) end
  return value
end

-- Returns a mapping in the given order: dict { { "role", "user" }, { "content", "hi" } }.
function jinja.dict(list)
  local dict = values.dict()
  for i, entry in ipairs(list) do
    if type(entry) ~= "table" or type(entry[1]) ~= "string" then
      errors.raise("EARG", "dict: entry %d: want { key, value }", i)
    end
    local ok, value = pcall(values.from_lua, entry[2])
    if not ok then errors.raise("EARG", "dict: %s: %s", entry[1], tostring(value)) end
    values.put(dict, entry[1], value)
  end
  return dict
end

-- ---- templates that are used again -------------------------------------------------------------

local kept, nkept = {}, 0

-- Compiles a source, or returns what the last call with it returned.
function jinja.compiled(source)
  local template = kept[source]
  if template then return template end
  template = jinja.compile(source)
  if nkept >= 16 then kept, nkept = {}, 0 end
  kept[source], nkept = template, nkept + 1
  return template
end

return jinja
