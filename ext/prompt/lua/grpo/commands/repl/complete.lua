-- Completes the end of a line that is being typed: fields of values, methods, options inside calls,
-- names of modules, runs and files.  It calls no function of the script.
--
--   complete.at(text, env[, classes]) -> first, list
-- text: the line up to the cursor; env: the prompt's variables; classes: { tr = "grpo.Trainer" }
-- for variables of an attached run.  Each item of list can replace text:sub(first).

local annotations = require "grpo.base.annotations"
local core = require "grpo.core"
local display = require "grpo.base.display"
local explain = require "grpo.commands.repl.explain"
local lua_tokens = require "grpo.base.lua_tokens"

local complete = {}

local opening = { ["("] = ")", ["["] = "]", ["{"] = "}" }
local closing = { [")"] = "(", ["]"] = "[", ["}"] = "{" }

-- ---- resolving an expression --------------------------------------------------------------------
-- An expression resolves to { value = } if it has a value here, else to { class = type } from the
-- annotations, or to { f = function } for calls.

-- Returns the index of the token that opens the bracket closed at k.
local function opener(tokens, k)
  local depth = 0
  for i = k, 1, -1 do
    local text = tokens[i].kind == "op" and tokens[i].text
    if closing[text] then depth = depth + 1 elseif opening[text] then depth = depth - 1 end
    if depth == 0 then return i end
  end
end

local function class_of(what)
  if not what then return nil end
  local own = what.value ~= nil and explain.class_of(what.value)
  return own or (what.class and annotations.union(what.class)[1])
end

local function member(owner, name)
  if not owner then return nil end
  local found = annotations.members(class_of(owner) or "")[name]
  local value = owner.value ~= nil and explain.index(owner.value, name)
  if value ~= nil and value ~= false then
    return { value = value, f = found and found.f,
      class = type(value) == "table" and found and found.type or nil }
  end
  if found then return { class = found.type, f = found.f } end
end

local resolve

local function item(owner, token)
  if not owner then return nil end
  if owner.value == nil then return { class = annotations.item(owner.class) } end
  local key = token and token.kind == "number" and math.tointeger(tonumber(token.text)) or 1
  if token and token.kind == "string" then key = token.text:sub(2, -2) end
  if type(owner.value) == "table" then return { value = rawget(owner.value, key) } end
end

-- Resolves the expression that ends with tokens[k].
function resolve(tokens, k, env, classes)
  local t = tokens[k]
  if not t then return nil end
  if t.kind == "string" then return { value = "" } end
  if t.kind == "name" then
    local before = tokens[k - 1] and tokens[k - 1].kind == "op" and tokens[k - 1].text
    if before == "." or before == ":" then
      return member(resolve(tokens, k - 2, env, classes), t.text)
    end
    local value = explain.index(env, t.text)
    if value == nil then value = rawget(_G, t.text) end
    local all = annotations.read()
    if value ~= nil then return { value = value, f = all.functions[t.text] } end
    if classes and classes[t.text] then return { class = classes[t.text] } end
    return all.functions[t.text] and { f = all.functions[t.text] } or nil
  end
  local open = closing[t.text] and opener(tokens, k)
  if not open or (open == 1 and t.text ~= ")") then return nil end
  if t.text == "]" then
    return item(resolve(tokens, open - 1, env, classes), k - open == 2 and tokens[k - 1] or nil)
  end
  local called = tokens[open - 1]
  if not called or called.kind == "keyword"
      or (called.kind == "op" and not closing[called.text]) then
    return resolve(tokens, k - 1, env, classes) -- ("text"):
  end
  local f = complete.callee(tokens, open - 1, env, classes)
  return f and f.returns[1] and { class = f.returns[1].type } or nil
end

-- Returns the dotted name that ends with tokens[k], such as "grpo.tokenizer.load".
local function dotted(tokens, k)
  local parts = { tokens[k].text }
  while tokens[k - 1] and (tokens[k - 1].text == "." or tokens[k - 1].text == ":") and tokens[k - 2]
    and tokens[k - 2].kind == "name" do
    table.insert(parts, 1, tokens[k - 2].text)
    k = k - 2
  end
  return table.concat(parts, ".")
end

-- Returns the annotated function that tokens[k] names, or nil.
function complete.callee(tokens, k, env, classes)
  if not (tokens[k] and tokens[k].kind == "name") then return nil end
  local all = annotations.read()
  local what = resolve(tokens, k, env, classes)
  if what and what.f then return what.f end
  local f = all.functions[dotted(tokens, k)]
  if f then return f end
  local found
  for name, one in pairs(all.functions) do
    if name:match("[%w_]+$") == tokens[k].text then
      if found then return nil end -- the name is ambiguous
      found = one
    end
  end
  return found
end

-- ---- the table that is being written ------------------------------------------------------------

-- Returns the positions in tokens of the brackets that are open, outermost first.
local function open_brackets(tokens)
  local stack = {}
  for i, t in ipairs(tokens) do
    if t.kind == "op" and opening[t.text] then
      stack[#stack + 1] = i
    elseif t.kind == "op" and closing[t.text] then
      stack[#stack] = nil
    end
  end
  return stack
end

-- Returns the number of the argument that begins after token `upto`, in the call opened at `open`.
local function argument_number(tokens, open, upto)
  local depth, n = 0, 1
  for i = open + 1, upto do
    local text = tokens[i].kind == "op" and tokens[i].text
    if opening[text] then depth = depth + 1 elseif closing[text] then depth = depth - 1 end
    if text == "," and depth == 0 then n = n + 1 end
  end
  return n
end

-- Returns the type of the value that begins after token i, inside the brackets stack[1..level].
local function type_at(tokens, stack, level, i, env, classes)
  local before = tokens[i]
  if not before then return nil end
  local open = stack[level]
  local bracket = open and tokens[open].text
  if bracket == "{" and before.text == "=" and tokens[i - 1] then
    local outer = type_at(tokens, stack, level - 1, open - 1, env, classes)
    local field = annotations.fields(outer)[tokens[i - 1].text]
    return field and field.type or annotations.item(outer or "")
  end
  if bracket == "{" and (i == open or before.text == "," or before.text == ";") then
    return annotations.item(type_at(tokens, stack, level - 1, open - 1, env, classes) or "")
  end
  if bracket == "(" and (i == open or before.text == ",") then
    local f = complete.callee(tokens, open - 1, env, classes)
    local p = f and f.params[argument_number(tokens, open, i)]
    return p and p.type
  end
  local f = before.kind == "name" and complete.callee(tokens, i, env, classes)
  return f and f.params[1] and f.params[1].type -- f{ ... }, f"..."
end

-- Returns the set of names that the table opened at `open` has already.
local function given_fields(tokens, open)
  local given, depth = {}, 0
  for i = open + 1, #tokens do
    local text = tokens[i].kind == "op" and tokens[i].text
    if opening[text] then depth = depth + 1 elseif closing[text] then depth = depth - 1 end
    if text == "=" and depth == 0 then given[tokens[i - 1].text] = true end
  end
  return given
end

-- ---- lists --------------------------------------------------------------------------------------

local function matching(names, word)
  local list = {}
  for name in pairs(names) do
    local hidden = name:sub(1, 1) == "_" and word == ""
    if not hidden and name:sub(1, #word) == word then list[#list + 1] = name end
  end
  table.sort(list)
  return list
end

local function is_name(k)
  return type(k) == "string" and k:find("^[%a_][%w_]*$") ~= nil and not lua_tokens.keywords[k]
end

-- Adds the string keys of a table and of the tables it inherits from.
local function add_keys(names, t, only_functions)
  local meta = getmetatable(t)
  meta = type(meta) == "table" and meta or nil
  local ours = meta and type(rawget(meta, "__name")) == "string"
    and rawget(meta, "__name"):find("^grpo%.")
  local iterate = ours and rawget(meta, "__pairs") and pairs or function(x) return next, x end
  for k, v in iterate(t) do
    if is_name(k) and (not only_functions or type(v) == "function") then names[k] = true end
  end
  local index = meta and rawget(meta, "__index")
  if type(index) == "table" and index ~= t then add_keys(names, index, only_functions) end
end

local function members_of(what, methods_only, path)
  local names = {}
  local class = class_of(what)
  for name, m in pairs(annotations.members(class or "")) do
    if m.f or not methods_only then names[name] = true end
  end
  local v = what.value
  if type(v) == "string" then v = string end
  if type(v) == "table" and not (class and getmetatable(v)) then
    add_keys(names, v, methods_only)
    -- Modules that are loaded only when they are first used are not among the keys.
    if v == package.loaded.grpo or path:find("^grpo%.") then
      for name in pairs(annotations.read().functions) do
        local rest = name:sub(1, #path + 1) == path .. "." and name:sub(#path + 2)
        if rest then names[rest:match("^[%w_]+")] = true end
      end
    end
  end
  return names
end

local function globals(env, classes)
  local names = {}
  for word in pairs(lua_tokens.keywords) do names[word] = true end
  for name in pairs(classes or {}) do names[name] = true end
  for name in pairs(classes and annotations.read().functions or {}) do
    if is_name(name) then names[name] = true end -- the prompt's own
  end
  add_keys(names, env)
  for name in next, _G do if is_name(name) then names[name] = true end end
  return names
end

-- ---- inside strings -----------------------------------------------------------------------------

-- The names in a directory, none if it is not one; "" is the current one.  A name that a terminal
-- would obey is left out.
local function listed(dir)
  local names = {}
  if dir:find("\0", 1, true) then return names end
  for _, name in ipairs(core.fs.list(dir == "" and "." or dir) or {}) do
    if display.name(name) == name then names[#names + 1] = name end
  end
  return names
end

local function file_names(part)
  local dir, prefix = part:match("^(.*/)([^/]*)$")
  dir, prefix = dir or "", prefix or part
  local list = {}
  for _, name in ipairs(listed(dir)) do
    if name:sub(1, #prefix) == prefix and (prefix ~= "" or name:sub(1, 1) ~= ".") then
      list[#list + 1] = dir .. name .. (core.fs.isdir(dir .. name) and "/" or "")
    end
  end
  for _, name in ipairs(core.embedded_names()) do
    if name:find("^configs/") and part ~= "" and name:sub(1, #part) == part
        and not core.fs.exists(name) then
      list[#list + 1] = name
    end
  end
  if dir == "" then
    for _, name in ipairs(listed "runs") do
      local shown = name:sub(1, #part) == part and name:sub(1, 1) ~= "."
      if shown and core.fs.exists("runs/" .. name .. "/run.json") then list[#list + 1] = name end
    end
  end
  return list
end

local function add_modules(names, dir, prefix)
  for _, name in ipairs(listed(dir)) do
    local module = name:match("^([%w_-]+)%.lua$")
      or core.fs.isdir(dir .. name) and name:match("^[%a_][%w_]*$")
    local public = module and not module:find("_test$") and not (prefix .. module):find("^grpo%.")
    if public then names[prefix .. module] = true end
  end
end

local function module_names(part)
  local names = { grpo = true, ["grpo.schedule"] = true, ["grpo.data"] = true,
    ["grpo.losses"] = true }
  for _, file in ipairs(core.embedded_names()) do
    local name = file:match("^(rewards/.*)%.lua$")
    if name and not name:find("_test$") then names[(name:gsub("/", "."))] = true end
  end
  local prefix = part:match("^(.*%.)") or ""
  for _, root in ipairs { "", "lua/" } do
    add_modules(names, root .. prefix:gsub("%.", "/"), prefix)
  end
  return matching(names, part)
end

-- Completes inside a string; tokens: those before it.
local function in_string(tokens, token, env, classes)
  local part = token.text:gsub("^%[=*%[", ""):gsub("^[\"']", "")
  local first = token.last - #part + 1
  local quote = token.text:match("^[\"']") or ""
  local before = tokens[#tokens]
  local called = before and before.text == "(" and tokens[#tokens - 1] or before
  if called and called.text == "require" then return first, module_names(part) end
  if before and before.text == "[" then
    local owner = resolve(tokens, #tokens - 1, env, classes)
    local names = {}
    for k in next, owner and type(owner.value) == "table" and owner.value or {} do
      if type(k) == "string" then names[k] = true end
    end
    return first, matching(names, part)
  end
  local stack = open_brackets(tokens)
  local list = {}
  for _, choice in ipairs(annotations.choices(type_at(tokens, stack, #stack, #tokens, env, classes)
      or "")) do
    if choice:sub(1, #part) == part then list[#list + 1] = choice .. quote end
  end
  if #list > 0 then return first, list end
  return first, file_names(part)
end

-- ---- the whole ----------------------------------------------------------------------------------

local function field_names(tokens, stack, word, env, classes)
  local open, before = stack[#stack], tokens[#tokens]
  if not open or tokens[open].text ~= "{" then return nil end
  if not (before.text == "{" or before.text == "," or before.text == ";") then return nil end
  local fields = annotations.fields(type_at(tokens, stack, #stack - 1, open - 1, env, classes)
    or "")
  if next(fields) == nil then return nil end
  for name in pairs(given_fields(tokens, open)) do fields[name] = nil end
  local list = matching(fields, word)
  for i, name in ipairs(list) do list[i] = name .. " = " end
  return #list > 0 and list or nil
end

local function choice_strings(tokens, stack, env, classes)
  local list = {}
  for _, choice in ipairs(annotations.choices(type_at(tokens, stack, #stack, #tokens, env, classes)
      or "")) do
    list[#list + 1] = ("%q"):format(choice)
  end
  return list
end

function complete.at(text, env, classes)
  local asked = text:match("^%s*%?%s*()")
  if asked then text = (" "):rep(asked - 1) .. text:sub(asked) end
  local tokens = {}
  for _, t in ipairs(lua_tokens.tokens(text)) do
    if t.kind ~= "comment" then tokens[#tokens + 1] = t elseif t.open then return #text + 1, {} end
  end
  local last = tokens[#tokens]
  if last and last.open then
    tokens[#tokens] = nil
    return in_string(tokens, last, env, classes)
  end
  local word, first = "", #text + 1
  if last and (last.kind == "name" or last.kind == "keyword") and last.last == #text then
    word, first = last.text, last.first
    tokens[#tokens] = nil
  end
  local before = tokens[#tokens]
  local mark = before and before.kind == "op" and before.text
  if mark == "." or mark == ":" then
    local what = resolve(tokens, #tokens - 1, env, classes)
    if not what then return first, {} end
    local path = tokens[#tokens - 1].kind == "name" and dotted(tokens, #tokens - 1) or ""
    return first, matching(members_of(what, mark == ":", path), word)
  end
  local stack = open_brackets(tokens)
  local list = before and field_names(tokens, stack, word, env, classes)
  if not list and word == "" and before then list = choice_strings(tokens, stack, env, classes) end
  if list and #list > 0 then return first, list end
  if word == "" and before and not asked then return first, {} end
  return first, matching(globals(env, classes), word)
end

return complete
