-- The line about an option that is not there: its name here, if another program has it, or the
-- name that is spelt most like it.

local foreign = require "grpo.experiment.foreign"
local option_tree = require "grpo.experiment.option_tree"
local options = require "grpo.options"

local unknown = {}

-- The value of an option in a table of options, or of a name in the table or in a section.
local function find_in(t, name, is_option)
  if is_option then return option_tree.get(t, name) end
  if t[name] ~= nil then return t[name] end
  for _, section in pairs(t) do
    if type(section) == "table" and not getmetatable(section) and section[name] ~= nil then
      return section[name]
    end
  end
end

-- May the option that a path names have this value?
local function fits(path, value)
  local node = option_tree.find(path)
  return node and node.row and (option_tree.value(node.row, value)) ~= nil or false
end

-- An assignment as a command line has it: train.lr=1e-5, without the quotes of a string.
local function as_word(code)
  local path, value = code:match("^([%w_.]+) = (.*)$")
  if not path then return code end
  return ("%s=%s"):format(path, value:match('^"([^"\\ ]*)"$') or value)
end

local function as_it_is(code) return code end

-- How many options of other programs a table has.  node: its place in the tree of options.
function unknown.foreign_count(t, node, path)
  local count = 0
  for key, value in pairs(t) do
    local full = type(key) == "string" and (path == "" and key or path .. "." .. key)
    local below = full and option_tree.child(node, key)
    if full and not below then
      count = count + (foreign.row((foreign.innermost(full, value))) and 1 or 0)
    elseif below and below.children and type(value) == "table" and not getmetatable(value) then
      count = count + unknown.foreign_count(value, below, full)
    end
  end
  return count
end

-- The text of a suggestion by spelling, or "".
local function by_spelling(path, parent)
  local key = path:match("[^.]+$") or path
  local near = option_tree.whole_name(path)
    or options.nearest(key, option_tree.child_names(parent))
  return near and (", did you mean '%s'?"):format(near) or ""
end

-- program: of the name that is told.
local function others(count, program)
  if count < 1 then return "" end
  return (" (%d more %s of other programs here; 'grpo help %s' lists them)"):format(count,
    count == 1 and "name" or "names", program == "verl" and "from-verl" or "from-trl")
end

-- The line about an unknown option.
--   path, value   as it was written; key is the last name of path
--   parent        the node of the tree that holds no such child
--   all           the table of options that it stands in
--   words         true: on a command line
function unknown.text(path, value, parent, all, words)
  local advice, program = foreign.advice(path, value, function(name, is_option)
    return find_in(all, name, is_option)
  end, fits, words and as_word or as_it_is)
  if not advice then return ("%s: unknown option%s"):format(path, by_spelling(path, parent)) end
  local count = words and 0 or unknown.foreign_count(all, option_tree.root(), "") - 1
  return advice .. others(count, program)
end

-- The line about an unknown option that a hook assigns; node: as `parent` above.
function unknown.assigned(path, value, parent)
  local advice = foreign.advice(path, value, function() end, fits, function(code)
    return "tr.config." .. code
  end)
  return advice or ("there is no option '%s'%s"):format(path, by_spelling(path, parent))
end

return unknown
