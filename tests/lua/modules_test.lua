-- How the modules of the library depend on each other: by storeys, and without circles.

local core = require "grpo.core"
local lua_tokens = require "grpo.base.lua_tokens"
local sorted_pairs = require "grpo.base.sorted"

-- The storeys of the Lua half, lowest first.  A row is a module with all modules below it, and
-- the longest row that fits a module decides.
local storeys = {
  { "base", "base answer schedule statistics" },
  { "data", "data jinja losses samplers" },
  { "models", "models" },
  { "options", "options" },
  { "scoring", "scoring" },
  { "steps", "steps" },
  { "loop", "loop" },
  { "runs", "runs recording test" },
  { "commands", "commands ext" },
}

local height = {} -- by the name of a row
for i, storey in ipairs(storeys) do
  for row in storey[2]:gmatch("%S+") do height["grpo." .. row] = i end
end

-- The number of a module's storey; nil if no row fits it.
local function storey_of(name)
  if name == "grpo" then return #storeys end
  if name == "grpo.options" then return 1 end -- scripts require it; the folder is above
  while name and not height[name] do name = name:match("^(.+)%.[^.]+$") end
  return name and height[name]
end

local function is_core(name)
  local path = "lua/" .. name:gsub("%.", "/")
  return core.fs.exists(path .. ".lua") or core.fs.exists(path .. "/init.lua")
end

-- A module of an extension stands on the highest storey.
local function height_of(name)
  return is_core(name) and storey_of(name) or #storeys
end

-- "lua/grpo/commands/init.lua" is the module "grpo.commands".
local function module_of(path)
  local name = path:match("^lua/(grpo.*)%.lua$")
  if not name or name:find("^grpo/meta/") then return nil end
  return (name:gsub("/init$", ""):gsub("/", "."))
end

local function significant(text)
  local list = {}
  for _, token in ipairs(lua_tokens.tokens(text)) do
    if token.kind ~= "comment" then list[#list + 1] = token end
  end
  return list
end

-- The modules that a text requires, also inside functions, as { [name] = true }; second result: how
-- many calls of require do not say which module they mean.
local function required_by(text)
  local names, unclear, tokens = {}, 0, significant(text)
  for i, token in ipairs(tokens) do
    if token.text == "require" and tokens[i - 1].text ~= "." then
      local argument = tokens[i + 1].text == "(" and tokens[i + 2] or tokens[i + 1]
      local behind = tokens[i + 1].text == "(" and tokens[i + 3].text == ")"
        or argument == tokens[i + 1]
      if argument.kind == "string" and behind then
        names[argument.text:sub(2, -2)] = true
      else
        unclear = unclear + 1
      end
    end
  end
  return names, unclear
end

local modules, unclear = {}, {}
for _, path in ipairs(core.embedded_names()) do
  local name = module_of(path)
  if name then modules[name], unclear[name] = required_by(core.embedded(path)) end
end

-- A circle that begins and ends with `name` or with a module that it leads to: a list of names;
-- nil: there is none.
local function circle_from(name, done, path)
  if done[name] then return nil end
  for i, before in ipairs(path) do
    if before == name then return table.move(path, i, #path, 1, {}) end
  end
  path[#path + 1] = name
  for other in sorted_pairs(modules[name]) do
    local circle = modules[other] and circle_from(other, done, path)
    if circle then return circle end
  end
  path[#path] = nil
  done[name] = true
end

describe("the modules of the library", function()
  it("are found by the test", function()
    assert.is_true(modules["grpo.loop.trainer"]["grpo.loop.stage"])
    assert.is_true(modules["grpo"]["grpo.loop.trainer"], "requires inside functions count")
  end)

  it("require each other without circles", function()
    local done = {}
    for name in sorted_pairs(modules) do
      local circle = circle_from(name, done, {})
      assert.equal("", circle and table.concat(circle, " -> ") or "")
    end
  end)

  it("have a storey", function()
    for name in sorted_pairs(modules) do
      assert.is_true(storey_of(name) ~= nil or not is_core(name),
        name .. " has no row in `storeys`")
    end
  end)

  it("require those of their own storey and of lower ones only", function()
    for name, names in sorted_pairs(modules) do
      for other in sorted_pairs(names) do
        local upward = modules[other] and height_of(other) > height_of(name)
        assert.is_true(not upward, name .. " requires " .. other)
      end
    end
  end)

  it("name the modules that they require, which are there", function()
    for name, names in sorted_pairs(modules) do
      -- commands and extensions, by their names; the user's own modules of a file of settings
      local by_name = name == "grpo.commands" or name == "grpo.options.settings.rewards"
        or name == "grpo.base.extensions" or name == "grpo.options.stage_kinds"
      assert.equal(by_name and 1 or 0, unclear[name], name)
      for other in pairs(names) do
        local own = other:find("^grpo%f[.\0]") and other ~= "grpo.core"
          and other ~= "grpo.bench" -- what make bench builds
        assert.is_true(not own or modules[other] ~= nil, name .. " requires " .. other)
      end
    end
  end)
end)
