-- `?NAME` at the prompt explains a name from the annotations and the table of options.

local annotations = require "grpo.base.annotations"
local completions = require "grpo.commands.repl.pretty.completions"
local core = require "grpo.core"
local option_rows = require "grpo.options.option_rows"
local options = require "grpo.options"
local sorted_pairs = require "grpo.base.sorted"

local explain = {}

local MOST = 6 -- the most answers to one question

-- Returns the annotated class of a value, or nil.
function explain.class_of(v)
  local meta = (type(v) == "table" or type(v) == "userdata") and getmetatable(v)
  local name = type(meta) == "table" and rawget(meta, "__name")
  if name and annotations.read().classes[name] then return name end
  if completions.is_one(v) then
    return rawget(v, "rewards") and "grpo.Completion" or "grpo.Generated"
  end
  if completions.is_batch(v) then return "grpo.RolloutBatch" end
end

-- Returns a field of a value, or nil if it cannot be read. Only __index functions of grpo's own
-- types are called, because a script's may have side effects.
function explain.index(v, key)
  if type(v) == "string" then return string[key] end
  local meta = (type(v) == "table" or type(v) == "userdata") and getmetatable(v)
  if type(v) == "table" then
    local own = rawget(v, key)
    if own ~= nil then return own end
  elseif not meta then
    return nil
  end
  if type(meta) ~= "table" then return nil end
  local index = rawget(meta, "__index")
  if type(index) == "table" then return explain.index(index, key) end
  local name = rawget(meta, "__name")
  local ours = rawequal(v, package.loaded.grpo) or (type(name) == "string" and name:find("^grpo%."))
  if type(index) ~= "function" or not ours or type(key) ~= "string" then return nil end
  local ok, found = pcall(function() return v[key] end)
  return ok and found or nil
end

-- ---- texts --------------------------------------------------------------------------------------

local function indented(text, by)
  return by .. text:gsub("\n", "\n" .. by)
end

-- Returns the fields of a table of options, one on each line.
local function fields_text(kind, by)
  local lines = {}
  for name, f in sorted_pairs(annotations.fields(kind)) do
    lines[#lines + 1] = ("%s%s: %s%s"):format(by, name, f.type, f.doc ~= "" and "  " .. f.doc or "")
  end
  return table.concat(lines, "\n")
end

local function function_text(f, name)
  local returns = {}
  for i, r in ipairs(f.returns) do returns[i] = r.type .. (r.doc ~= "" and " " .. r.doc or "") end
  local lines = { ("%s(%s)%s"):format(name or f.name, f.arguments,
    #returns > 0 and " -> " .. table.concat(returns, ", ") or "") }
  if f.doc ~= "" then lines[#lines + 1] = indented(f.doc, "  ") end
  for _, p in ipairs(f.params) do
    lines[#lines + 1] = ("  %s%s: %s%s"):format(p.name, p.optional and "?" or "", p.type,
      p.doc ~= "" and "  " .. p.doc or "")
    if p.type ~= "grpo.Options" and not p.type:find("^{") then
      local known = p.name:find("^opt") and fields_text(p.type, "    ") or ""
      if known ~= "" then lines[#lines + 1] = known end
    end
  end
  return table.concat(lines, "\n")
end

-- Returns the set of modules that are tables of functions: grpo.data, grpo.tokenizer, ...
local function modules()
  local found = {}
  for name in sorted_pairs(annotations.read().functions) do
    local module = name:match("^grpo%.(%l+)%.[%w_]+$") or name:match("^(%l+)%.[%w_]+$")
    if module and type(explain.index(package.loaded.grpo, module)) == "table" then
      found[module] = true
    end
  end
  return found
end

local function class_text(name)
  local class, lines, methods = annotations.read().classes[name], {}, {}
  lines[1] = name .. (class.doc ~= "" and ": " .. class.doc or "")
  for key, member in sorted_pairs(annotations.members(name)) do
    if member.f then
      methods[#methods + 1] = (":%s(%s)"):format(key, member.f.arguments)
    else
      lines[#lines + 1] = ("  .%s  %s%s"):format(key, member.type,
        member.doc ~= "" and "  " .. member.doc or "")
    end
  end
  for module in sorted_pairs(name == "grpo" and modules() or {}) do
    lines[#lines + 1] = ("  .%s  ?grpo.%s lists it"):format(module, module)
  end
  if #methods > 0 then lines[#lines + 1] = "  " .. table.concat(methods, "  ") end
  return table.concat(lines, "\n")
end

local function field_text(class, name, f)
  return ("%s.%s: %s%s"):format(class, name, f.type, f.doc ~= "" and "\n  " .. f.doc or "")
end

local function option_text(row)
  local about = { row.type }
  if row.choices then about[#about + 1] = "one of " .. table.concat(row.choices, ", ") end
  if row.default ~= nil then
    about[#about + 1] = "default " .. tostring(core.json_encode(row.default))
  end
  if row.live then about[#about + 1] = "live: tr.config." .. row.path .. " = x" end
  return ("option %s (%s)\n  %s"):format(row.path, table.concat(about, "; "), row.doc)
end

-- Lists the options and sections in a section such as "train" or "train.ppo", one on each line; nil
-- if there is no such section.
local function section_text(name)
  local lines, seen = { ("options of %s (help of a name tells more):"):format(name) }, {}
  for _, row in ipairs(option_rows.rows) do
    local begins = row.path:sub(1, #name + 1) == name .. "."
    local child = begins and row.path:match("^[^.]+", #name + 2)
    local path = child and name .. "." .. child
    if row.path == path then
      lines[#lines + 1] = ("  %s  %s"):format(path, (row.doc:gsub("; .*", "")))
    elseif path and not seen[path] then
      lines[#lines + 1] = ("  %s.*  a section"):format(path)
      seen[path] = true
    end
  end
  return lines[2] and table.concat(lines, "\n")
end

-- Explains a table of functions in grpo, such as "grpo.tokenizer".
local function module_text(name)
  local lines = {}
  for full, f in sorted_pairs(annotations.read().functions) do
    if full:sub(1, #name + 1) == name .. "." and not full:find(".", #name + 2, true) then
      lines[#lines + 1] = ("  %s(%s)%s"):format(full, f.arguments,
        f.doc ~= "" and "  " .. f.doc:match("^[^\n]*") or "")
    end
  end
  if #lines > 0 and name:find("^grpo%.") then return name .. "\n" .. table.concat(lines, "\n") end
end

-- ---- finding ------------------------------------------------------------------------------------

local function member_text(class, name, shown)
  local member = class and annotations.members(class)[name]
  if not member then return nil end
  return member.f and function_text(member.f, shown) or field_text(class, name, member)
end

-- Explains OWNER.NAME or OWNER:NAME, where OWNER is a value of env or a class.
local function of_owner(env, name)
  local owner, mark, last = name:match("^(.*)([.:])([%w_]+)$")
  if not owner then return nil end
  local value = env
  for part in owner:gmatch("[%w_]+") do value = explain.index(value, part) end
  return member_text(explain.class_of(value), last, name) or member_text(owner, last)
    or member_text("grpo." .. owner, last, owner .. mark .. last)
end

-- Explains everything whose name ends in `last`.
local function by_last_name(last)
  local all, texts = annotations.read(), {}
  for name, f in sorted_pairs(all.functions) do
    if name:match("[%w_]+$") == last then texts[#texts + 1] = function_text(f) end
  end
  for _, row in ipairs(option_rows.rows) do
    if row.path:match("[%w_]+$") == last then texts[#texts + 1] = option_text(row) end
  end
  for class in sorted_pairs(all.classes) do
    local f = all.classes[class].fields[last]
    if f and not class:find("^grpo%.Options") then
      texts[#texts + 1] = field_text(class, last, f)
    end
  end
  if #texts > MOST then
    texts[MOST + 1] = ("... and %d more; name the owner: ?tr:%s, ?grpo.%s, ?train.%s"):format(
      #texts - MOST, last, last, last)
  end
  return #texts > 0 and table.concat(texts, "\n\n", 1, math.min(#texts, MOST + 1)) or nil
end

local function known_names()
  local all, names = annotations.read(), {}
  for name in sorted_pairs(all.functions) do
    names[#names + 1] = name
    names[#names + 1] = name:match("[%w_]+$")
  end
  for _, row in ipairs(option_rows.rows) do names[#names + 1] = row.path:match("[%w_]+$") end
  return names
end

-- Returns an explanation of a name, or nil; the values in env tell the classes of `tr` or `m`.
function explain.find(name, env)
  local all = annotations.read()
  if all.functions[name] then return function_text(all.functions[name]) end
  local found = module_text(name) or of_owner(env, name)
  if found then return found end
  for _, class in ipairs { name, "grpo." .. name, name == "c" and "grpo.Completion" or nil } do
    if all.classes[class] then return class_text(class) end
  end
  local section = section_text(name)
  for _, row in ipairs(option_rows.rows) do
    if row.path == name then
      return option_text(row) .. (section and "\n" .. section or "")
    end
  end
  local value = env
  for part in name:gmatch("[%w_]+") do value = explain.index(value, part) end
  local class = value ~= nil and explain.class_of(value)
  if class then return class_text(class) end
  found = by_last_name(name:match("[%w_]+$") or name)
  if section or found then
    return section and found and section .. "\n\n" .. found or section or found
  end
  if value ~= nil and name:find("^[%a_]") and name:find("[%w_]$") then
    return ("%s: a %s, of which nothing more is known"):format(name, type(value))
  end
end

-- Returns an explanation of a name, or a sentence saying that nothing is known.
function explain.about(name, env)
  local found = explain.find(name, env)
  if found then return found end
  return ("nothing is known of '%s'%s"):format(name, options.hint(name, known_names()))
end

return explain
