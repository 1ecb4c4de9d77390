-- The grid of a sweep: from the words of a command line to runs, each with a value for every option
-- and a name.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local parse_override = require "grpo.options.layers".parse_override

local grid = {}

local fail = errors.of "sweep"

local LONGEST = 40 -- characters of a value in a name
local LONGEST_NAME = 200

-- ---- the words ---------------------------------------------------------------------------------

-- The values in the text behind the "=".  Commas part them, but not within brackets, braces or a
-- JSON string, which begins a value or stands within brackets.
function grid.split(text)
  local list, first, depth, quoted, i = {}, 1, 0, false, 1
  while i <= #text do
    local ch = text:sub(i, i)
    if quoted then
      if ch == "\\" then i = i + 1 elseif ch == '"' then quoted = false end
    elseif ch == '"' and (i == first or depth > 0) then
      quoted = true
    elseif ch == "[" or ch == "{" then
      depth = depth + 1
    elseif ch == "]" or ch == "}" then
      depth = math.max(0, depth - 1)
    elseif ch == "," and depth == 0 then
      list[#list + 1], first = text:sub(first, i - 1), i + 1
    end
    i = i + 1
  end
  list[#list + 1] = text:sub(first)
  return list
end

-- A value as it is compared: 1e-5 and 0.00001 are the same.
local function key_of(text)
  local ok, value = pcall(core.json_decode, text)
  if not ok then value = text end
  if math.type(value) == "float" and math.tointeger(value) then value = math.tointeger(value) end
  return core.json_encode(value)
end

local function axis_of(word)
  local path = parse_override(word).path
  local axis, seen = { path = path, values = grid.split(word:sub(#path + 2)) }, {}
  for _, text in ipairs(axis.values) do
    if text == "" and #axis.values > 1 then
      fail("EARG", "%s: a value between two commas is empty; write a string that holds commas as "
        .. "JSON, as in '%s=\"a,b\"'", word, path)
    end
    local key = key_of(text)
    if seen[key] then fail("EARG", "%s: the value %s is given twice", path, text) end
    seen[key] = true
  end
  return axis
end

-- { { path =, values = { texts } }, ... } in the order of the words "key=value,value".
function grid.axes(words)
  local axes, seen = {}, {}
  for i, word in ipairs(words) do
    local axis = axis_of(word)
    if seen[axis.path] then
      fail("EARG", "%s is given twice; write all of its values in one list", axis.path)
    end
    axes[i], seen[axis.path] = axis, true
  end
  return axes
end

-- All combinations of the axes, the last one fastest: lists of { path =, text = }.
function grid.product(axes)
  local list = { {} }
  for _, axis in ipairs(axes) do
    local longer = {}
    for _, options in ipairs(list) do
      for _, text in ipairs(axis.values) do
        local copy = table.move(options, 1, #options, 1, {})
        copy[#copy + 1] = { path = axis.path, text = text }
        longer[#longer + 1] = copy
      end
    end
    list = longer
  end
  return list
end

-- The words of a command line for a list of { path =, text = }.
function grid.words(options)
  local words = {}
  for i, option in ipairs(options) do words[i] = option.path .. "=" .. option.text end
  return words
end

-- A text that is equal for runs with equal options, in whatever order they stand; without `except`.
function grid.identity(options, except)
  local parts = {}
  for _, option in ipairs(options) do
    if option.path ~= except then parts[#parts + 1] = option.path .. "=" .. key_of(option.text) end
  end
  table.sort(parts)
  return table.concat(parts, "\n")
end

-- ---- names -------------------------------------------------------------------------------------

-- The options in which some of these lists differ, in the order in which they first stand.
function grid.varied(lists)
  local order, keys, count = {}, {}, {}
  for _, options in ipairs(lists) do
    for _, option in ipairs(options) do
      local path, key = option.path, key_of(option.text)
      if keys[path] == nil then order[#order + 1], keys[path], count[path] = path, key, 0 end
      count[path] = count[path] + (keys[path] == key and 1 or -math.huge)
    end
  end
  local varied = {}
  for _, path in ipairs(order) do
    if count[path] ~= #lists then varied[#varied + 1] = path end -- it differs, or some lack it
  end
  return varied
end

-- { [path] = the last part of it, or all of it where that means two of them }
function grid.labels(paths)
  local uses, labels = {}, {}
  for _, path in ipairs(paths) do
    local last = path:match("[^.]+$")
    uses[last] = (uses[last] or 0) + 1
  end
  for _, path in ipairs(paths) do
    local last = path:match("[^.]+$")
    labels[path] = uses[last] == 1 and last or path
  end
  return labels
end

-- A value within the name of a directory.
local function plain(text)
  text = text:gsub('[%[%]{}"%s]', ""):gsub("[^%w.+_-]+", "-")
  return #text > LONGEST and text:sub(1, LONGEST) or text
end

-- "lr=1e-5,seed=0": the values of these paths and the seed.  taken: { [name] = true } of others.
function grid.name(options, paths, taken)
  local labels, values, parts = grid.labels(paths), {}, {}
  for _, option in ipairs(options) do values[option.path] = option.text end
  for _, path in ipairs(paths) do
    if values[path] and path ~= "seed" then
      parts[#parts + 1] = labels[path] .. "=" .. plain(values[path])
    end
  end
  parts[#parts + 1] = "seed=" .. plain(values.seed)
  local name, n = table.concat(parts, ","):sub(-LONGEST_NAME), 1
  name = name:gsub("^%.+", "-") -- a hidden directory is not a run
  local unique = name
  while taken[unique] do
    n = n + 1
    unique = ("%s,%d"):format(name, n)
  end
  return unique
end

return grid
