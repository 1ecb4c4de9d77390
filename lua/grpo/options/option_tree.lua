-- The options of an experiment as a tree, and what a value of an option must be.  The rows are in
-- option_rows.lua.

local data = require "grpo.data"
local literal = require "grpo.base.literal"
local number_text = require "grpo.base.number_text"
local option_rows = require "grpo.options.option_rows"
local options = require "grpo.options"
local other_programs = require "grpo.base.other_programs"
local schedule = require "grpo.schedule"

local option_tree = {}

-- ---- the tree of options ---------------------------------------------------------

local tree

-- A node is { row = row of the option, children = { [name] = node } }; either may be absent.
function option_tree.root()
  if tree then return tree end
  tree = { children = {} }
  for _, row in ipairs(option_rows.rows) do
    local node = tree
    for part in row.path:gmatch("[^.]+") do
      node.children = node.children or {}
      node.children[part] = node.children[part] or {}
      node = node.children[part]
    end
    node.row = row
  end
  return tree
end

function option_tree.child(node, key)
  return node.children and key and node.children[key]
end

-- The node at a path; nil if there is none.
function option_tree.find(path)
  local node = option_tree.root()
  for part in path:gmatch("[^.]+") do node = node and option_tree.child(node, part) end
  return node
end

function option_tree.child_names(node)
  local names = {}
  for name in pairs(node.children or {}) do names[#names + 1] = name end
  table.sort(names)
  return names
end

-- The value of the option at a path in a table of options, or nil.
function option_tree.get(t, path)
  for part in path:gmatch("[^.]+") do
    if type(t) ~= "table" then return nil end
    t = t[part]
  end
  return t
end

-- The option whose last name is `name`, if there is exactly one: "train.lr" for "lr"; nil for a
-- name in a section.
function option_tree.whole_name(name)
  local found
  for _, row in ipairs(option_rows.rows) do
    if row.path ~= name and row.path:match("[^.]+$") == name then
      if found then return nil end
      found = row.path
    end
  end
  return found
end

-- ---- checking one value ---------------------------------------------------------

-- The module is loaded when a dataset may be meant: its own scripts have loaded it before.
function option_tree.is_dataset(v)
  return type(v) == "table" and data.is_dataset(v)
end

local accepts = {
  int = function(v) return math.tointeger(v) ~= nil and type(v) == "number" end,
  number = function(v) return type(v) == "number" and v - v == 0 end, -- finite
  boolean = function(v) return type(v) == "boolean" end,
  string = function(v) return type(v) == "string" end,
  enum = function(v, row) return options.among(v, row.choices or {}) end,
  schedule = function(v) return type(v) == "number" and v - v == 0 or type(v) == "function" end,
  ["function"] = function(v) return type(v) == "function" end,
  table = function(v) return type(v) == "table" end,
  list = function(v) return type(v) == "table" end,
  dataset = option_tree.is_dataset,
  any = function() return true end,
}

local wanted_text = {
  int = "a whole number", number = "a number", boolean = "true or false", string = "a string",
  schedule = "a number or a function(p)", ["function"] = "a function", table = "a table",
  list = "a list", dataset = "a dataset (grpo.data.load, .text, .list or .generate)",
}

-- A bound as one writes it: 1e9 and not 1000000000.0.
local function bound(v)
  return literal.of(math.abs(v) < 1e7 and math.tointeger(v) or v)
end

local function range_text(row)
  if row.min and row.max then return (", %s to %s"):format(bound(row.min), bound(row.max)) end
  if row.min then return (", %s or more"):format(bound(row.min)) end
  if row.max then return (", %s or less"):format(bound(row.max)) end
  return ""
end

function option_tree.wanted(row)
  local texts = {}
  for kind in row.type:gmatch("[^|]+") do
    if kind == "enum" then
      texts[#texts + 1] = "one of " .. table.concat(row.choices, ", ")
    else
      texts[#texts + 1] = wanted_text[kind]
    end
  end
  return table.concat(texts, " or ") .. range_text(row)
end

function option_tree.shown(v)
  if type(v) == "string" then return ("'%s'"):format(#v > 40 and v:sub(1, 40) .. "..." or v) end
  if type(v) == "number" and v - v == 0 then return literal.of(v) end
  if type(v) == "number" or type(v) == "boolean" then return number_text(v) end
  return "a " .. type(v)
end

-- A text that says why the option cannot have this value; nil if it can.
function option_tree.problem(row, v)
  local fits = false
  for kind in row.type:gmatch("[^|]+") do
    if accepts[kind](v, row) then fits = true break end
  end
  if not fits then
    local advice = other_programs.ask("value_advice", row.path, v)
    if advice then return "got " .. option_tree.shown(v) .. advice end
    if row.type == "dataset" and type(v) == "string" and v ~= "" then
      return ("got %s, want a dataset; write grpo.data.load(%q)"):format(option_tree.shown(v), v)
    end
    if row.type == "list" and type(v) == "string" and v:find("^{.*}$") then
      return ("got %s, want a list; write [%s]"):format(option_tree.shown(v), v:sub(2, -2))
    end
    return ("got %s, want %s%s"):format(option_tree.shown(v), option_tree.wanted(row),
      options.hint(v, row.choices or {}))
  end
  if type(v) == "number" and ((row.min and v < row.min) or (row.max and v > row.max)) then
    return ("got %s, want %s"):format(option_tree.shown(v), option_tree.wanted(row))
  end
end

-- The value that an option gets from what was written: a schedule may be written as text.  nil and
-- a text that says why the option cannot have this value.
function option_tree.value(row, v)
  if type(v) == "string" and row.type:find("schedule", 1, true) then
    local made, message = schedule.parse(v)
    if made == nil and v:find(":", 1, true) then
      return nil, ("the schedule %s: %s"):format(option_tree.shown(v), message)
    elseif made == nil then
      return nil, ("got %s, want %s, or a schedule such as \"cosine:peak=1e-4,warmup=20\"")
        :format(option_tree.shown(v), option_tree.wanted(row))
    end
    v = made
  end
  local message = option_tree.problem(row, v)
  if message then return nil, message end
  return v
end

return option_tree
