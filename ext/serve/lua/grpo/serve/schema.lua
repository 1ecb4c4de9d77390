-- A JSON schema as a grammar (GBNF) that sampling is bound to.
--
-- Every text of the grammar is valid under the schema, but that oneOf is read as anyOf; not every
-- valid text is one of it: properties come in the schema's order, and an object has no others than
-- those that are named.  A word of a schema that a grammar cannot hold to is refused by name.

local core = require "grpo.core"
local sorted_pairs = require "grpo.base.sorted"

local schema = {}

local MOST_RULES, DEEPEST = 1000, 64

-- The rules that all grammars share; numbers and space have an end.
local BASE = [[
s ::= ( " " | "\n" [ \t]{0,20} )?
char ::= [^"\\\x00-\x1F] | "\\" ( ["\\/bfnrt] | "u" four )
four ::= [0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] [0-7] [0-9a-fA-F]{2}
string ::= "\"" char* "\""
integer ::= "-"? ( "0" | [1-9] [0-9]{0,14} )
number ::= integer ( "." [0-9]{1,15} )? ( [eE] [-+]? [0-9]{1,2} )?
boolean ::= "true" | "false"
null ::= "null"
pair ::= string s ":" s value
object ::= "{" s ( pair s ( "," s pair s )* )? "}"
array ::= "[" s ( value s ( "," s value s )* )? "]"
value ::= object | array | string | number | boolean | null
]]

local simple = { string = true, integer = true, number = true, boolean = true, null = true,
  object = true, array = true }

local function words(text)
  local set = {}
  for word in text:gmatch "%S+" do set[word] = true end
  return set
end

-- Words that say nothing about which texts are valid, and those that do.
local said = words [[title description default examples deprecated readOnly writeOnly $schema $id
  $comment $defs definitions strict]]
local binding = words [[type properties required additionalProperties items minItems maxItems
  minLength maxLength enum const anyOf oneOf allOf $ref]]

local Maker = {}
Maker.__index = Maker

local function refuse(path, format, ...)
  error({ schema = path .. ": " .. format:format(...) }, 0)
end

local function is_object(v) return type(v) == "table" and #v == 0 end

-- A value of a request as a message shows it.
local function shown(v) return type(v) == "string" and v or core.json_encode(v) end

-- The keys of an object in the order in which they were written.
local function keys(t)
  local list = core.key_order(t) or {}
  if #list == 0 then
    for key in sorted_pairs(t) do list[#list + 1] = key end
  end
  return list
end

-- Text as a literal of the grammar.
local function literal(text)
  return '"' .. text:gsub('[\\"]', "\\%0"):gsub("\n", "\\n") .. '"'
end

function Maker:rule(text)
  self.count = self.count + 1
  if self.count > MOST_RULES then refuse(self.path, "it has more than %d parts", MOST_RULES) end
  local name = "r" .. self.count
  self.lines[#self.lines + 1] = ("%s ::= %s"):format(name, text)
  return name
end

local function bounds(path, node, low, high)
  local least, most = node[low] or 0, node[high]
  for name, value in pairs { [low] = least, [high] = most } do
    local whole = type(value) == "number" and math.tointeger(value) -- it takes "0" for a number
    if not whole or value < 0 then refuse(path, "%s: want an integer", name) end
  end
  if most and most < least then refuse(path, "%s is below %s", high, low) end
  return math.tointeger(least), most and math.tointeger(most)
end

local function repeated(part, least, most)
  return ("%s{%d,%s}"):format(part, least, most and ("%d"):format(most) or "")
end

local makers = {}

function makers.string(_, node, path)
  if not node.minLength and not node.maxLength then return "string" end
  return '"\\"" ' .. repeated("char", bounds(path, node, "minLength", "maxLength")) .. ' "\\""'
end

function makers.array(self, node, path)
  local least, most = bounds(path, node, "minItems", "maxItems")
  local item = node.items == nil and "value" or self:of(node.items, path .. ".items")
  if most == 0 then return '"[" s "]"' end
  local more = repeated(('( "," s %s s )'):format(item), math.max(least - 1, 0), most and most - 1)
  local some = ("%s s %s"):format(item, more)
  return ('"[" s %s "]"'):format(least > 0 and some or ("( %s )?"):format(some))
end

-- The members of an object: with optional ones a comma stands before each but the first.
local function members(self, list, must)
  local rest, start = '""', '""' -- behind a member, and where none has been written
  for i = #list, 1, -1 do
    local pair, name = list[i].pair, list[i].name
    local first = ("%s s %s"):format(pair, rest)
    if must[name] then
      start = first
      rest = self:rule(('"," s %s s %s'):format(pair, rest))
    else
      start = self:rule(("%s | %s"):format(first, start))
      rest = self:rule(('( "," s %s s )? %s'):format(pair, rest))
    end
  end
  return start
end

local function required(path, node)
  local must = {}
  if node.required ~= nil and type(node.required) ~= "table" then
    refuse(path, "required: want a list")
  end
  for _, name in ipairs(node.required or {}) do
    if not (node.properties or {})[name] then
      refuse(path, "required: '%s' is none of its properties", shown(name))
    end
    must[name] = true
  end
  return must
end

function makers.object(self, node, path)
  local more = node.additionalProperties
  if node.properties ~= nil and not is_object(node.properties) then
    refuse(path, "properties: want an object")
  end
  local must, list = required(path, node), {}
  for i, name in ipairs(node.properties and keys(node.properties) or {}) do
    local value = self:of(node.properties[name], ("%s.%s"):format(path, name))
    local key = literal(core.json_encode(name))
    list[i] = { name = name, pair = ('%s s ":" s %s'):format(key, value) }
  end
  if #list > 0 then return ('"{" s %s "}"'):format(self:rule(members(self, list, must))) end
  if more == false then return '"{" s "}"' end
  if not is_object(more) or next(more) == nil then return "object" end
  local pair = 'string s ":" s ' .. self:of(more, path .. ".additionalProperties")
  return ('"{" s ( %s s ( "," s %s s )* )? "}"'):format(pair, pair)
end

function Maker:any(list, path, word)
  if type(list) ~= "table" or #list == 0 then refuse(path, "%s: want a list", word) end
  local parts = {}
  for i, one in ipairs(list) do parts[i] = self:of(one, ("%s.%s[%d]"):format(path, word, i - 1)) end
  return table.concat(parts, " | ")
end

-- A definition becomes one rule, which may lead to itself.
function Maker:reference(ref, path)
  local name = type(ref) == "string" and (ref:match "^#/%$defs/([^/]+)$"
    or ref:match "^#/definitions/([^/]+)$")
  local all = name and (ref:find("$defs", 1, true) and self.root["$defs"] or self.root.definitions)
  local node = is_object(all) and all[name]
  if not node then
    refuse(path, "$ref: '%s' is not a definition in #/$defs of this schema", shown(ref))
  end
  if not self.known[ref] then
    self.count = self.count + 1
    self.known[ref] = "d" .. self.count
    local text = self:text(node, ref)
    self.lines[#self.lines + 1] = ("%s ::= %s"):format(self.known[ref], text)
  end
  return self.known[ref]
end

-- The type that the other words of a node mean.
local function type_of(node)
  if node.properties or node.required or node.additionalProperties ~= nil then return "object" end
  if node.items ~= nil or node.minItems or node.maxItems then return "array" end
  return (node.minLength or node.maxLength) and "string" or nil
end

local function of_type(self, node, path)
  local types = node.type or type_of(node)
  if types == nil then return "value" end
  local parts = {}
  for i, name in ipairs(type(types) == "table" and types or { types }) do
    if not simple[name] then refuse(path, "type: '%s' is not a type of JSON", shown(name)) end
    parts[i] = makers[name] and makers[name](self, node, path) or name
  end
  if #parts == 0 then refuse(path, "type: the list is empty") end
  return table.concat(parts, " | ")
end

-- Refuses words beside the one that decides which texts are valid.
local function alone(node, path, word, beside)
  for other in pairs(node) do
    if binding[other] and other ~= word and other ~= beside then
      refuse(path, "'%s' stands beside '%s', and a grammar cannot join them; leave one out", other,
        word)
    end
  end
end

local function enumerated(node, path)
  local list = node.const ~= nil and { node.const } or node.enum
  if type(list) ~= "table" or #list == 0 then refuse(path, "enum: want a list") end
  local parts = {}
  for i, value in ipairs(list) do parts[i] = literal(core.json_encode(value)) end
  return table.concat(parts, " | ")
end

local function check_words(node, path)
  if not is_object(node) then refuse(path, "want a schema") end
  for word in sorted_pairs(node) do
    if not said[word] and not binding[word] then
      refuse(path, "'%s' is not supported, because the schema becomes a grammar; leave it out",
        tostring(word))
    end
  end
end

-- The texts that a node allows, as the right side of a rule.
function Maker:text(node, path)
  self.depth, self.path = self.depth + 1, path
  if self.depth > DEEPEST then refuse(path, "it is nested more than %d deep", DEEPEST) end
  local text = self:text_of(node, path)
  self.depth = self.depth - 1
  return text
end

function Maker:text_of(node, path)
  if node == true then return "value" end
  check_words(node, path)
  for _, word in ipairs { "$ref", "anyOf", "oneOf", "allOf", "const", "enum" } do
    if node[word] ~= nil then
      local listed = word == "const" or word == "enum"
      alone(node, path, word, listed and "type" or nil)
      if word == "$ref" then return self:reference(node[word], path) end
      if listed then return enumerated(node, path) end
      if word == "allOf" and (type(node.allOf) ~= "table" or #node.allOf ~= 1) then
        refuse(path, "allOf: want one schema")
      end
      return self:any(node[word], path, word)
    end
  end
  return of_type(self, node, path)
end

-- The name of a rule for a node.
function Maker:of(node, path)
  local text = self:text(node, path)
  return text:find "^%a%w*$" and text or self:rule(text)
end

local function grammar(path, make)
  local maker = setmetatable({ lines = {}, count = 0, known = {}, depth = 0, path = path }, Maker)
  local ok, root = pcall(make, maker)
  if not ok and type(root) == "table" and root.schema then return nil, root.schema end
  if not ok then error(root, 0) end
  return ("root ::= %s\n%s\n%s"):format(root, table.concat(maker.lines, "\n"), BASE)
end

-- The rule of one call of a tool, as turns.format = "chat" reads it.
local function call_of(maker, tool)
  local about = tool["function"]
  maker.root = about.parameters or core.json_object { type = "object" }
  maker.known = {}
  local path = ("tools: %s.parameters"):format(about.name)
  return ([["{" s "\"name\"" s ":" s %s s "," s "\"arguments\"" s ":" s %s s "}"]]):format(
    literal(core.json_encode(about.name)), maker:of(maker.root, path))
end

-- A grammar of the given forms, of which a text has one, or nil and what is wrong.
--   { object = true }: any JSON object; { schema = }: an instance of it; { tools = }: a call
function schema.grammar(forms)
  return grammar("schema", function(maker)
    local parts = {}
    if forms.object then parts[1] = "object" end
    if forms.schema ~= nil then
      maker.root = forms.schema
      parts[1] = maker:of(forms.schema, "schema")
    end
    if forms.tools then
      local calls = {}
      for i, tool in ipairs(forms.tools) do calls[i] = call_of(maker, tool) end
      parts[#parts + 1] = ('"<tool_call>" s ( %s ) s "</tool_call>"'):format(
        table.concat(calls, " | "))
    end
    return table.concat(parts, " | ")
  end)
end

return schema
