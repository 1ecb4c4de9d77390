-- Scripts see tr.config, the resolved options of the stage.  Those that are marked live may be
-- assigned, with a value that the option accepts; assigning another one is an error that names it.

local errors = require "grpo.base.errors"
local option_tree = require "grpo.options.option_tree"
local plain_copy = require "grpo.base.plain_copy"
local unknown = require "grpo.options.unknown"

local live_options = {}

local views = setmetatable({}, { __mode = "k" }) -- [trainer][table of options] = its view

-- The value that the option gets; raises unless it may be given between two steps.
local function check(node, full, key, value)
  local below = option_tree.child(node, key)
  local row = below and below.row
  if not below then
    errors.raise("EARG", "tr.config: %s", unknown.assigned(full, value, node))
  end
  if not row or not row.live then
    errors.raise("EARG", "tr.config.%s: cannot be changed while the run trains; set it in the "
      .. "experiment (docs/options.md marks the options that are live)", full)
  end
  if value ~= nil then
    local read, problem = option_tree.value(row, value)
    if problem then errors.raise("EARG", "tr.config.%s: %s", full, problem) end
    return plain_copy(read)
  elseif row.default ~= nil then
    errors.raise("EARG", "tr.config.%s: got nil, want %s", full, option_tree.wanted(row))
  end
end

local function join(path, key)
  return path == "" and tostring(key) or path .. "." .. tostring(key)
end

-- A view of options; node: their place in the tree of options.
local function view_of(tr, t, node, path)
  local of_trainer = views[tr]
  if of_trainer[t] then return of_trainer[t] end
  local meta = { __name = "grpo.Config" }
  function meta.__index(_, key)
    local value, below = t[key], option_tree.child(node, key)
    if type(value) == "table" and below and below.children then
      return view_of(tr, value, below, join(path, key))
    end
    return value
  end
  function meta.__newindex(_, key, value)
    local full = join(path, key)
    local read = check(node, full, key, value)
    if tr.on_option then tr.on_option(full, value) end
    t[key] = read
  end
  function meta.__pairs(view)
    return function(_, key)
      key = next(t, key)
      return key, key ~= nil and view[key] or nil
    end, view, nil
  end
  of_trainer[t] = setmetatable({}, meta)
  return of_trainer[t]
end

-- config: of a stage (tr.settings).  tr.on_option(path, value), if set, is called before an option
-- changes, and may raise.
function live_options.view(config, tr)
  views[tr] = views[tr] or setmetatable({}, { __mode = "k" })
  return view_of(tr, config, option_tree.root(), "")
end

-- Is it the path of an option that may be changed between two steps?
function live_options.is_live(path)
  local node = option_tree.root()
  for part in path:gmatch("[^.]+") do node = node and option_tree.child(node, part) end
  return node and node.row and node.row.live or false
end

-- The same assignment by path: "train.lr".
function live_options.set(config, path, value)
  local t, node, key = config, option_tree.root(), nil
  for part in path:gmatch("[^.]+") do
    if key then t, node = t[key], option_tree.child(node, key) end
    key = part
  end
  t[key] = check(node, path, key, value)
end

return live_options
