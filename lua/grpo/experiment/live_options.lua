-- What scripts see as tr.config: the resolved options of the stage.  Those that are marked live may be assigned,
-- with a value that the option accepts; assigning another one is an error that names it.

local errors = require "grpo.base.errors"
local experiment = require "grpo.experiment"

-- live.recorder(path, value), if set, is called before an option changes, and may raise.
local live_options = {}

local views = setmetatable({}, { __mode = "k" }) -- [table of options] = its view

local function assign(t, node, path, key, value)
  local full = path == "" and tostring(key) or path .. "." .. tostring(key)
  local below = node.children and node.children[key]
  local row = below and below.row
  if not below then errors.raise("EARG", "tr.config: there is no option '%s'", full) end
  if not row or not row.live then
    errors.raise("EARG", "tr.config.%s: cannot be changed while the run goes on; set it in the experiment "
      .. "(docs/options.md marks the options that are live)", full)
  end
  if value ~= nil then
    local problem = experiment.problem(row, value)
    if problem then errors.raise("EARG", "tr.config.%s: %s", full, problem) end
  elseif row.default ~= nil then
    errors.raise("EARG", "tr.config.%s: got nil, want %s", full, experiment.wanted(row))
  end
  if live_options.recorder then live_options.recorder(full, value) end
  t[key] = value
end

-- A view of options; node: their place in the tree of options.
local function view_of(t, node, path)
  if views[t] then return views[t] end
  local meta = { __name = "grpo.Config" }
  function meta.__index(_, key)
    local value, below = t[key], node.children and node.children[key]
    if type(value) == "table" and below and below.children then
      return view_of(value, below, path == "" and key or path .. "." .. key)
    end
    return value
  end
  function meta.__newindex(_, key, value) assign(t, node, path, key, value) end
  function meta.__pairs(view)
    return function(_, key)
      key = next(t, key)
      return key, key ~= nil and view[key] or nil
    end, view, nil
  end
  views[t] = setmetatable({}, meta)
  return views[t]
end

-- config: of a stage (tr.settings).
function live_options.view(config)
  return view_of(config, experiment.tree(), "")
end

-- The same assignment by path: "train.lr".
function live_options.set(config, path, value)
  local view, key = live_options.view(config), nil
  for part in path:gmatch("[^.]+") do
    if key then view = view[key] end
    key = part
  end
  view[key] = value
end

return live_options
