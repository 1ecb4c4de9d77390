-- Several names of other programs at once, as the options that they are here: a block to paste.

local core = require "grpo.core"
local foreign = require "grpo.options.foreign"
local literal = require "grpo.base.literal"
local option_rows = require "grpo.options.option_rows"
local option_tree = require "grpo.options.option_tree"
local sorted_pairs = require "grpo.base.sorted"

local foreign_block = {}

-- The value of a name in the table or in one of its sections.
local function find_in(t, name)
  if t[name] ~= nil then return t[name] end
  for _, section in pairs(t) do
    if type(section) == "table" and not getmetatable(section) and section[name] ~= nil then
      return section[name]
    end
  end
end

-- A function that finds what stands beside a name: see foreign.translation.
function foreign_block.beside(all, found)
  local values = {}
  for _, one in ipairs(found) do
    values[one.path:match("[^.]+$") or ""] = one.value
    values[one.path:match("[^.]+%.[^.]+$") or ""] = one.value
  end
  return function(name, is_option)
    if is_option then return option_tree.get(all, name) end
    if values[name] ~= nil then return values[name] end
    return find_in(all, name)
  end
end

-- The option here that the end of a path names: train.lr of args.train.lr and of args.lr.
function foreign_block.own_option(path)
  local rest = path
  while rest do
    local node = option_tree.find(rest)
    if node and node.row then return rest end
    rest = rest:match("^[^.]+%.(.+)$")
  end
  return option_tree.whole_name(path:match("[^.]+$") or path)
end

-- A name without the section of ours in which it was written.
function foreign_block.shown(path)
  local head, name = path:match("^(.*)%.([^.]+)$")
  return head and option_tree.find(head) and name or path
end

-- ---- what each name becomes ------------------------------------------------------------------

-- A dataset as a file of settings has it.
local function as_settings(name, opts)
  local is_file = name:find("%.%w+$") ~= nil -- a file has no splits
  return { path = name, config = opts and opts.config,
    split = not is_file and opts and opts.split or nil }
end

local stand_ins = { grpo = { data = { load = as_settings } } }

-- The value that Lua source has by itself: true and the value, or true alone if it only compiles.
local function value_of(source)
  if source:find("...", 1, true) then return false end
  local chunk = load("return " .. source, "=value", "t", stand_ins)
  if not chunk then return false end
  local ok, v = pcall(chunk)
  if ok then return true, v end
  return true, nil
end

-- Can all fields of a table be written one by one?
local function is_plain(value)
  for key, v in pairs(value) do
    if not literal.of(v) or key:find(".", 1, true) then return false end
  end
  return true
end

local function is_keyed(v) return type(v) == "table" and type((next(v))) == "string" end

-- Notes in `left` that the value of a name is not written.
local function note_loss(left, lost, path, kept)
  if lost.word then return end
  left[#left + 1] = ("%s: %s is not written, because %s gives %s = %s"):format(lost.names[1],
    lost.given or "it", kept.names[1], path, kept.source)
end

-- Adds an option with its source; the fields of a table one by one, so that others can join them.
-- one: { rank =, name =, given = its value as source, word = is the value only a word? }
local function add(set, left, path, source, value, one)
  if is_keyed(value) and not source:find("^grpo%.") and is_plain(value) then
    for key, v in sorted_pairs(value) do
      add(set, left, path .. "." .. key, literal.of(v), v, one)
    end
    return
  end
  local old = set[path]
  local new = { source = source, value = value, rank = one.rank, word = one.word,
    given = one.given, names = { one.name } }
  if not old then set[path] = new return end
  local kept, lost = old, new
  if new.rank > old.rank then kept, lost = new, old end
  if lost.word or kept.source == lost.source or kept.rank == 3
    and kept.source:find(lost.source, 1, true) then
    kept.names = table.move(new.names, 1, 1, #old.names + 1, old.names)
  else
    note_loss(left, lost, path, kept)
  end
  set[path] = kept
end

-- The code of an unknown option, or what else there is to say of it, and whether it may be left
-- out.
local function translated(one, row, beside, how)
  if row then
    local code, said, idle = foreign.translation(row, one.value, beside, how)
    if code then return code end
    if not row[2] then return nil, "no equivalent, because " .. row[3], one.value == false end
    return nil, ("it is %s%s here%s"):format(row.part and "a part of " or "", row[2], said), idle
  end
  local own, source = one.meant or foreign_block.own_option(one.path), literal.of(one.value)
  if not own then return nil, how.spelling(one) end
  if own and source then return own .. " = " .. source end
  return nil, ("it is %s here"):format(own)
end

-- Adds one name to the options or to the lines about names without a code.
local function add_name(set, left, one, beside, how)
  local row = not one.meant and foreign.row(one.path) or nil
  local code, said, idle = translated(one, row, beside, how)
  if idle and how.without_idle then return end
  local path, source = (code or ""):match("^([%l%d_.]+) = (.*)$")
  local fine, value = false, nil
  if path then fine, value = value_of(source) end
  local name, given = foreign_block.shown(one.path), literal.of(one.value)
  local used = not row or not code or foreign.is_used(row, one.value, how)
  local writable = how.syntax == "lua" or value ~= nil
    and not (how.syntax == "words" and source:find("^grpo%."))
  if not fine or not writable or not used then
    local of = code and not used and given and " for " .. given or ""
    left[#left + 1] = ("%s: %s"):format(name, code and "write " .. code .. of or said)
    return
  end
  local remark = row and foreign.remark(row, one.value, beside) or ""
  add(set, left, path, source, value, { name = name .. remark, given = given,
    rank = row and foreign.rank(row, one.value, how) or 2,
    word = row and foreign.rank(row, one.value, how) == 1 and foreign.is_word(row, one.value) })
end

-- Takes out of a set what belongs to frozen weights, if no adapter is asked for: a run would be
-- refused.
local function without_adapter(set, left, beside)
  if beside("model.lora", true) then return end
  for path in pairs(set) do
    if path:find("^model%.lora%f[.\0]") then return end
  end
  for _, path in ipairs { "model.dtype", "model.quantize" } do
    local one = set[path]
    if one and one.value ~= "f32" and one.value ~= "auto" then
      set[path], left[#left + 1] = nil, ("%s: write %s = %s beside model.lora; without it all "
        .. "weights are trained, in f32"):format(table.concat(one.names, ", "), path, one.source)
    end
  end
end

-- Returns { [option] = { source =, value =, names = } } and lines about names without a code;
-- how.without_idle: without lines about names that change nothing.
function foreign_block.translate(found, beside, how)
  local set, left = {}, {}
  for _, one in ipairs(found) do add_name(set, left, one, beside, how) end
  without_adapter(set, left, beside)
  return set, left
end

-- ---- how they are written --------------------------------------------------------------------

local syntaxes = {
  words = { comment = "" },
  lua = { line = "%s = %s,", open = "%s = {", close = "},", comment = "-- " },
  yaml = { line = "%s: %s", open = "%s:", comment = "# " },
  json = { line = "%q: %s,", open = "%q: {", close = "},", comment = "// " },
}

local places -- [path] = the place of an option, or of the first in a section, among the rows

local function place(path)
  if not places then
    places = {}
    for i, row in ipairs(option_rows.rows) do
      local at = row.path
      while at do
        places[at] = places[at] or i
        at = at:match("^(.*)%.[^.]+$")
      end
    end
  end
  return places[path] or math.huge
end

local function tree_of(set)
  local tree = { children = {} }
  for path, one in pairs(set) do
    local node = tree
    for part in path:gmatch("[^.]+") do
      node.children = node.children or {}
      node.children[part] = node.children[part] or {}
      node = node.children[part]
    end
    node.one = one
  end
  return tree
end

-- The fields of a table as options of their own; nil for another value.
local function fields_of(value)
  if not is_keyed(value) then return nil end
  local children = {}
  for key, v in pairs(value) do
    children[key] = { one = { value = v, names = {} } }
  end
  return children
end

local function written(lines, node, prefix, indent, how)
  local syntax, names = syntaxes[how.syntax], {}
  for name in pairs(node.children) do names[#names + 1] = name end
  table.sort(names, function(a, b)
    local x, y = place(prefix .. a), place(prefix .. b)
    return x < y or x == y and a < b
  end)
  for _, name in ipairs(names) do
    local child, one = node.children[name], node.children[name].one
    local from = one and table.concat(one.names, ", ") or ""
    local comment = from ~= "" and ("  %s%s"):format(syntax.comment, from) or ""
    child.children = child.children or one and how.file and fields_of(one.value) or nil
    if child.children then
      lines[#lines + 1] = indent .. syntax.open:format(name) .. comment
      written(lines, child, prefix .. name .. ".", indent .. "  ", how)
      if syntax.close then lines[#lines + 1] = indent .. syntax.close end
    else
      local source = how.syntax == "lua" and one.source or core.json_encode(one.value)
      lines[#lines + 1] = indent .. syntax.line:format(name, source) .. comment
    end
  end
end

-- Has the script a section of this name in which other options stay?
local function stays(all, name, found)
  if type(all[name]) ~= "table" or getmetatable(all[name]) then return false end
  for key in pairs(all[name]) do
    local gone = false
    for _, one in ipairs(found) do gone = gone or one.path == name .. "." .. tostring(key) end
    if not gone then return true end
  end
  return false
end

-- Adds the sections that are new, and then the lines for each section that the script has already.
local function add_sections(lines, set, all, found, how)
  local fresh, own = { children = {} }, { children = {} }
  for name, node in pairs(tree_of(set).children) do
    local into = node.children and stays(all, name, found) and own or fresh
    into.children[name] = node
  end
  written(lines, fresh, "", "  ", how)
  for name, node in sorted_pairs(own.children) do
    lines[#lines + 1] = ("and in your section %s:"):format(name)
    written(lines, node, name .. ".", "    ", how)
  end
end

local function as_words(set, how)
  local words = {}
  for path, one in sorted_pairs(set) do
    words[#words + 1] = how.as_word(("%s = %s"):format(path, one.source))
  end
  return "  " .. table.concat(words, " ")
end

-- Returns the line about several unknown options, and a block of lines.  how: { fits =, as_word =,
-- spelling = a function that says what may be meant, syntax = "lua", "yaml", "json" or "words" }.
function foreign_block.text(found, all, how)
  local known = 0
  for _, one in ipairs(found) do known = known + (foreign.row(one.path) and 1 or 0) end
  how.file, how.together = how.syntax == "yaml" or how.syntax == "json", known > 1
  local set, left = foreign_block.translate(found, foreign_block.beside(all, found), how)
  local lines = {}
  if how.syntax == "words" and next(set) then
    lines[1] = as_words(set, how)
  elseif next(set) then
    add_sections(lines, set, all, found, how)
  end
  local line = ("%d options are not known by these names; %s"):format(#found,
    #lines > 0 and "write in their place:" or "remove or correct them:")
  if #lines > 0 and #left > 0 then lines[#lines + 1] = "and remove or write by hand:" end
  for _, text in ipairs(left) do
    lines[#lines + 1] = ("  %s%s"):format(syntaxes[how.syntax].comment, text)
  end
  for i, text in ipairs(lines) do lines[i] = text:gsub("%c", "?") end
  return line, table.concat(lines, "\n")
end

return foreign_block
