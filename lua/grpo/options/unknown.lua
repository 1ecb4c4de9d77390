-- Messages about options that are not there: the names that they have here, if another program
-- has them, or the names that are spelt most like them.

local literal = require "grpo.base.literal"
local option_tree = require "grpo.options.option_tree"
local options = require "grpo.options"
local other_programs = require "grpo.base.other_programs"

local unknown = {}

local MOST, DEEPEST = 400, 8 -- names that are told at once; tables in tables that are looked at

-- ---- finding them ----------------------------------------------------------------------------

-- May this value be a section?  It is a table of names and values: not a list, and not an object.
local function is_section(v)
  return type(v) == "table" and not getmetatable(v) and type((next(v))) == "string"
end

-- The names of a table that are strings, sorted.
local function names_of(t)
  local names = {}
  for name in pairs(t) do names[#names + 1] = type(name) == "string" and name or nil end
  table.sort(names)
  return names
end

-- Is the table that another program calls by this name one value, and not a section with options?
-- The second result is the path within which its names are looked up.
local function is_whole(path)
  local row = other_programs.ask("row", path)
  local node = row and row[2] and option_tree.find(row[2])
  if node and node.children then return false, row[2] end
  return row ~= nil and row.whole, path
end

-- The field that is meant when a section is given one value, as in model = "NAME".
local meant = { model = "path", data = "train" }

local function meant_by(path)
  return meant[path] and path .. "." .. meant[path]
end

-- Adds the names within a table that is not a section of ours, such as actor_rollout_ref or the
-- arguments of a GRPOConfig, if another program has at least one of them.  Returns whether one has.
local function add_inner(value, path, found, depth)
  local before, any = #found, false
  for _, name in ipairs(names_of(value)) do
    local full, v = path .. "." .. name, value[name]
    if depth > DEEPEST or #found >= MOST then break end
    local whole, within = is_whole(full)
    if not whole and is_section(v) and add_inner(v, within, found, depth + 1) then
      any = true
    else
      found[#found + 1] = { path = full, value = v, parent = option_tree.root(),
        meant = meant_by(name) }
      any = any or other_programs.ask("row", full) ~= nil
    end
  end
  while not any and #found > before do found[#found] = nil end
  return any
end

-- The path and the value of the only option that a section sets; if it sets several, those of the
-- section.
local function only_one(path, value)
  while is_section(value) and next(value, (next(value))) == nil do
    local name = next(value)
    path, value = path .. "." .. name, value[name]
  end
  return path, value
end

local collect

local function add(name, value, node, path, found, depth)
  local row, one = other_programs.ask("row", path), { path = path, value = value, parent = node }
  local whole, within = is_whole(path)
  local near = not row and is_section(value)
    and option_tree.child(node, options.nearest(name, option_tree.child_names(node)))
  if near and near.children then -- a misspelt section
    one.path, one.value = only_one(path, value)
    found[#found + 1] = one
    if is_section(one.value) then collect(value, near, path, found, depth + 1) end
  elseif whole or not is_section(value) or not add_inner(value, within, found, depth) then
    found[#found + 1] = one
  end
end

function collect(t, node, prefix, found, depth)
  for _, name in ipairs(names_of(t)) do
    local value = t[name]
    if depth > DEEPEST or #found >= MOST then break end
    local path = prefix == "" and name or prefix .. "." .. name
    local below = option_tree.child(node, name)
    if not below then
      add(name, value, node, path, found, depth)
    elseif below.children and type(value) == "table" and not option_tree.is_dataset(value) then
      collect(value, below, path, found, depth + 1)
    elseif not below.row and meant_by(path) then
      found[#found + 1] = { path = path, value = value, meant = meant_by(path) }
    end
  end
  return found
end

-- Returns the entries of a table that are not options: { { path =, value =, parent = the node of
-- the tree that has no such child, or meant = the option that is meant }, ... }.
function unknown.names(t)
  return collect(t, option_tree.root(), "", {}, 1)
end

-- ---- one name --------------------------------------------------------------------------------

-- May the option that a path names have this value?
function unknown.fits(path, value)
  local node = option_tree.find(path)
  if not node or not node.row then return false end
  local taken, why = option_tree.value(node.row, value)
  return taken ~= nil, why
end

-- An assignment as a command line has it: train.lr=1e-5, without the quotes of a string.
local function as_word(code)
  local path, value = code:match("^([%w_.]+) = (.*)$")
  if not path then return code end
  return ("%s=%s"):format(path, value:match('^"([^"\\ ]*)"$') or value)
end

local function as_it_is(code) return code end

-- The path of the option that a path with misspelt names may mean, up to the first name that is
-- like no known one; nil if no name had to be mended.
local function near_path(path)
  local node, names, mended = option_tree.root(), {}, false
  for part in path:gmatch("[^.]+") do
    local name = option_tree.child(node, part) and part
      or options.nearest(part, option_tree.child_names(node))
    if not name then break end
    node, names[#names + 1] = option_tree.child(node, name), name
    mended = mended or name ~= part
  end
  return mended and table.concat(names, ".") or nil
end

-- The text of a suggestion by spelling, or "".
local function by_spelling(path, parent)
  local head, key = path:match("^(.*)%.([^.]+)$")
  local in_section = head and option_tree.find(head) == parent
  local near = option_tree.whole_name(path)
    or in_section and options.nearest(key, option_tree.child_names(parent)) or near_path(path)
  if near then return (", did you mean '%s'?"):format(near) end
  local other, ours = other_programs.ask("nearest", key or path)
  return ours and (", did you mean '%s', which is %s here?"):format(other, ours) or ""
end

-- The line about an unknown option.
--   one     an entry of the result of unknown.names
--   all     the table of options that it stands in
--   words   true: on a command line
function unknown.text(one, all, words)
  if one.meant then
    local section, field = one.meant:match("^(.*)%.(.*)$")
    return ("%s: got %s, want a table; write %s = { %s = %s }"):format(section,
      option_tree.shown(one.value), section, field, literal.of(one.value) or "...")
  end
  local advice = other_programs.ask("advice", one, all, unknown.fits, words and as_word or as_it_is)
  return advice or ("%s: unknown option%s"):format(one.path, by_spelling(one.path, one.parent))
end

-- The line about an unknown option that a hook assigns; node: the one that has no such child.
function unknown.assigned(path, value, node)
  local one = { path = path, value = value }
  local advice = other_programs.ask("advice", one, nil, unknown.fits, function(code)
    return "tr.config." .. code
  end)
  return advice or ("there is no option '%s'%s"):format(path, by_spelling(path, node))
end

-- ---- several names ---------------------------------------------------------------------------

-- The line about several unknown options, and a line for each; other programs' names are not known.
local function list(found, spelling)
  local lines = {}
  for i, one in ipairs(found) do
    lines[i] = ("  %s: %s"):format(one.path, spelling(one)):gsub("%c", "?")
  end
  return ("%d options are not known by these names; remove or correct them:"):format(#found),
    table.concat(lines, "\n")
end

-- The line about several unknown options, and the block to paste in their place.  found: the result
-- of unknown.names; syntax: "lua", "json", "yaml" or "words".
function unknown.block(found, all, syntax)
  local function spelling(one)
    return ("unknown option%s"):format(by_spelling(one.path, one.parent))
  end
  local line, block = other_programs.ask("block", found, all, { fits = unknown.fits,
    spelling = spelling, syntax = syntax, as_word = as_word })
  if line then return line, block end
  return list(found, spelling)
end

return unknown
