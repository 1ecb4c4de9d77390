-- The annotations of the Lua half (lua/grpo/meta) and its functions agree, both ways.
local annotations = require "grpo.repl.annotations"
local core = require "grpo.core"
local sorted_pairs = require "grpo.base.sorted"

local function annotated(file, class)
  local names = {}
  for name in core.embedded("lua/grpo/meta/" .. file .. ".lua")
    :gmatch("\nfunction " .. class .. "[.:]([%w_]+)%(") do
    names[name] = true
  end
  return names
end

local function functions_of(module, hidden)
  local names = {}
  for name, v in sorted_pairs(module) do
    if type(v) == "function" and not (hidden and hidden[name]) then names[name] = true end
  end
  return names
end

local function methods_in(file)
  local names = {}
  for name in core.embedded(file):gmatch("\nfunction methods:([%w_]+)%(") do names[name] = true end
  return names
end

describe("annotations of the Lua half", function()
  it("name exactly the functions of grpo.data", function()
    assert.same(functions_of(require "grpo.data"), annotated("data", "data"))
  end)

  it("name exactly the methods of a dataset", function()
    assert.same(methods_in "lua/grpo/data.lua", annotated("data", "Dataset"))
  end)

  it("name exactly the functions of grpo.schedule", function()
    assert.same(functions_of(require "grpo.schedule"), annotated("schedule", "schedule"))
  end)

  it("name exactly the public methods of a trainer", function()
    local inside = { -- the loop's own
      "begin_stage", "restore", "current_stage", "repeatable_metrics", "hook", "total_steps",
        "refuse_inside",
    }
    local all = methods_in "lua/grpo/train/trainer.lua"
    for _, name in ipairs(inside) do
      assert.is_true(all[name], name .. " is not a method")
      all[name] = nil
    end
    assert.same(all, annotated("trainer", "Trainer"))
  end)

  for _, name in ipairs { "gsm8k", "format", "length", "repetition", "numeric", "text", "dense" } do
    it("name exactly the functions of rewards." .. name, function()
      local names, found = {}, annotations.read()
      for method, f in pairs(found.classes["rewards." .. name].methods) do
        names[method] = found.functions[name .. "." .. method] == f and #f.returns > 0
      end
      assert.same(functions_of((require("rewards." .. name))), names)
    end)
  end

  it("are Lua", function()
    for _, file in ipairs { "options", "data", "schedule", "trainer" } do
      assert(load(core.embedded("lua/grpo/meta/" .. file .. ".lua")))
    end
  end)
end)
