-- Reads the annotations (lua/grpo/meta, and those in rewards/*.lua) into tables, for `?NAME` and
-- completion at the prompt.
--
--   annotations.read() -> { functions = { [name] = f }, classes = { [name] = c },
--                           aliases = { [name] = type } }
--   f: { name =, arguments = "a, b", doc =, class =, params = list, returns = list }
--      the lists have items { name =, optional =, type =, doc = }
--   c: { name =, doc =, parent =, fields = { [name] = { type =, doc = } },
--        methods = { [name] = f } }
--
-- "Model:generate" is both a function of that name and the method `generate` of the class that is
-- bound to Model.

local core = require "grpo.core"

local annotations = {}

local nesting = { ["("] = 1, ["["] = 1, ["{"] = 1, ["<"] = 1,
  [")"] = -1, ["]"] = -1, ["}"] = -1, [">"] = -1 }

-- Returns the type that begins at `at`, and the position of the text after it.
function annotations.type_at(text, at)
  local depth, i = 0, at
  while i <= #text do
    local ch = text:sub(i, i)
    depth = depth + (nesting[ch] or 0)
    if ch == '"' then
      i = text:find('"', i + 1, true) or #text
    elseif depth == 0 and ch:find("%s") then
      local before, after = text:sub(i - 1, i - 1), text:match("^%s*(%S)", i)
      if not before:find("[,|:%s]") and after ~= "|" then return text:sub(at, i - 1), i + 1 end
    end
    i = i + 1
  end
  return text:sub(at), #text + 1
end

local function balanced(text)
  local _, opened = text:gsub("[%({]", "")
  local _, closed = text:gsub("[%)}]", "")
  return opened <= closed
end

-- Parses "opts? TYPE doc" to { name =, optional =, type =, doc = }.
local function named(text)
  local name, mark, rest = text:match("^(%S-)(%??)%s+(.*)$")
  if not name then return { name = text, type = "any", doc = "" } end
  local kind, after = annotations.type_at(rest, 1)
  return { name = name, optional = mark == "?", type = kind, doc = rest:sub(after) }
end

local Block = {}
Block.__index = Block

local function new_block()
  return setmetatable({ docs = {}, params = {}, returns = {} }, Block)
end

local tags = {}

function tags.param(block, text) block.params[#block.params + 1] = named(text) end

tags["return"] = function(block, text)
  local kind, after = annotations.type_at(text, 1)
  block.returns[#block.returns + 1] = { type = kind:gsub(",$", ""), doc = text:sub(after) }
end

function tags.class(block, text)
  local name, parent = text:match("^([%w_.]+)%s*:?%s*([%w_.]*)")
  block.class = { name = name, parent = parent ~= "" and parent or nil, fields = {}, methods = {} }
end

function tags.field(block, text)
  local f = named(text)
  if block.class and f.name:find("^[%a_]") then block.class.fields[f.name] = f end
end

function tags.alias(block, text)
  local name, rest = text:match("^(%S+)%s+(.*)$")
  if name then block.alias = { name, (annotations.type_at(rest, 1)) } end
end

function Block:put(line)
  if self.tag and not balanced(self.text) then
    self.text = self.text .. " " .. line
  elseif line:find("^@") then
    self:flush()
    self.tag, self.text = line:match("^@(%a+)%s*(.*)$")
  elseif self.tag and self.tag ~= "class" then
    self.text = self.text .. " " .. line
  else
    self.docs[#self.docs + 1] = line
  end
end

function Block:flush()
  local f = self.tag and tags[self.tag]
  if f then f(self, self.text) end
  self.tag = nil
end

local function end_block(all, block, bound, line)
  block:flush()
  local doc = table.concat(block.docs, "\n")
  if block.alias then all.aliases[block.alias[1]] = block.alias[2] end
  local class = block.class
  if class then
    class.doc = doc
    local before = all.classes[class.name] -- an extension adds methods to a class
    if before then class.methods = before.methods end
    all.classes[class.name] = class
    local variable = line:match("^local%s+([%w_]+)%s*=") or line:match("^([%w_.]+)%s*=%s*{")
    if variable then bound[variable] = class end
  end
  local name, arguments = line:match("^function%s+([%w_.:]+)%((.-)%)")
  if block.params[1] and (not name or arguments:find("^_")) then -- a name for what is not used
    local names = {}
    for i, param in ipairs(block.params) do names[i] = param.name end
    name, arguments = name or line:match("^([%w_]+%.[%w_]+) = "), table.concat(names, ", ")
  end
  if not name then return end
  local f = { name = name, arguments = arguments, doc = doc, params = block.params,
    returns = block.returns }
  all.functions[name] = f
  local owner, method = name:match("^([%w_]+)[.:]([%w_]+)$")
  if owner and bound[owner] then
    f.class = bound[owner].name
    bound[owner].methods[method] = f
  end
end

local function read_file(all, text)
  local block, bound = new_block(), {}
  for line in (text .. "\n"):gmatch("([^\n]*)\n") do
    local comment = line:match("^%-%-%-%s?(.*)$")
    if comment then
      block:put(comment)
    elseif not line:find("^%-%-") then
      end_block(all, block, bound, line)
      block = new_block()
    end
  end
end

local parsed

function annotations.read()
  if parsed then return parsed end
  parsed = { functions = {}, classes = {}, aliases = {} }
  for _, file in ipairs(core.embedded_names()) do
    if file:find("^lua/grpo/meta/") or file:find("^rewards/%l[%l%d]*%.lua$") then
      read_file(parsed, core.embedded(file))
    end
  end
  return parsed
end

-- ---- types -------------------------------------------------------------------------------------

-- Returns the parts of a union, with aliases resolved: "A|B" -> { "A", "B" }.
function annotations.union(kind, depth)
  local list, level, first = {}, 0, 1
  local text = kind .. "|"
  local quoted = false
  for i = 1, #text do
    local ch = text:sub(i, i)
    if ch == '"' then quoted = not quoted end
    if not quoted then
      level = level + (nesting[ch] or 0)
      if ch == "|" and level == 0 then
        local part = text:sub(first, i - 1):match("^%s*(.-)%s*$")
        part = part:match("^%((.*)%)$") or part
        local alias = annotations.read().aliases[part]
        if (alias or part:find("^[^{\"]*|")) and (depth or 0) < 8
            and not part:find("^[%w_.]*[<(]") then
          for _, p in ipairs(annotations.union(alias or part, (depth or 0) + 1)) do
            list[#list + 1] = p
          end
        elseif part ~= "" then
          list[#list + 1] = part
        end
        first = i + 1
      end
    end
  end
  return list
end

-- Returns the fields of "{ a?: T, b: T }".
local function inline_fields(kind)
  local fields, body, at = {}, kind:match("^{%s*(.-)%s*}$"), 1
  while body and at <= #body do
    local name, rest = body:match("^%s*,?%s*([%a_][%w_]*)%??%s*:%s*()", at)
    if not name then break end
    local depth, i = 0, rest
    while i <= #body do
      local ch = body:sub(i, i)
      depth = depth + (nesting[ch] or 0)
      if ch == "," and depth == 0 then break end
      i = i + 1
    end
    fields[name] = { name = name, type = body:sub(rest, i - 1), doc = "" }
    at = i
  end
  return fields
end

-- Returns the fields and methods of a class and its parents: { [name] = { type =, doc =, f = } }.
function annotations.members(class_name)
  local members, class = {}, annotations.read().classes[class_name]
  if not class then return members end
  if class.parent then members = annotations.members(class.parent) end
  for name, f in pairs(class.fields) do members[name] = f end
  for name, f in pairs(class.methods) do
    members[name] = { name = name, type = "function", doc = f.doc, f = f }
  end
  return members
end

-- Returns the fields that a table of this type may have; {} when none are known.
function annotations.fields(kind)
  local fields = {}
  for _, part in ipairs(annotations.union(kind or "")) do
    local found = part:find("^{") and inline_fields(part) or annotations.members(part)
    for name, f in pairs(found) do fields[name] = fields[name] or f end
  end
  return fields
end

-- Returns the type of the items of a list or map type, nil for other types.
function annotations.item(kind)
  for _, part in ipairs(annotations.union(kind or "")) do
    local item = part:match("^(.*)%[%]$") or part:match("^table<.-,%s*(.*)>$")
    if item then return item end
  end
end

-- Returns the strings that a type allows.
function annotations.choices(kind)
  local list = {}
  for _, part in ipairs(annotations.union(kind or "")) do
    local literal = part:match('^"(.*)"$')
    list[#list + 1] = literal
  end
  return list
end

return annotations
