-- The annotations, in lua/grpo/meta and in the rewards, agree with what is registered and with the
-- Lua half, both ways.
local annotations = require "grpo.base.annotations"
local extensions = require "grpo.base.extensions"
local grpo = require "grpo"
local core = require "grpo.core"

-- Extensions annotate what they add in files of their own.
local annotations_text = {}
for _, path in ipairs(core.embedded_names()) do
  if path:find("^lua/grpo/meta/") then
    annotations_text[#annotations_text + 1] = core.embedded(path)
  end
end
annotations_text = table.concat(annotations_text)

local function annotated(class)
  local names = {}
  for name in annotations_text:gmatch("\nfunction " .. class .. "[.:]([%w_.]+)%(") do
    names[name] = true
  end
  return names
end

local function methods_of(type_name)
  local index, names = debug.getregistry()[type_name].__index, {}
  if type(index) == "function" then
    local _, methods = debug.getupvalue(index, 1)
    index = methods
  end
  for name in pairs(index) do names[name] = true end
  return names
end

local function functions_of(module)
  local names = {}
  for name, v in pairs(module) do names[name] = type(v) == "function" or nil end
  return names
end

local function methods_in(file)
  local names = {}
  for name in core.embedded(file):gmatch("\nfunction methods:([%w_]+)%(") do names[name] = true end
  return names
end

describe("annotations", function()
  for _, entry in ipairs { { "Regex", "grpo.Regex" }, { "Tensor", "grpo.Tensor" },
    { "Optimizer", "grpo.Optimizer" }, { "Tokenizer", "grpo.Tokenizer" },
    { "Model", "grpo.Model" } } do
    it("name exactly the methods of " .. entry[2], function()
      assert.same(methods_of(entry[2]), annotated(entry[1]))
    end)
  end
  it("name exactly the functions of grpo.data", function()
    assert.same(functions_of(require "grpo.data"), annotated("data"))
  end)

  it("name exactly the methods of a dataset", function()
    assert.same(methods_in "lua/grpo/data.lua", annotated("Dataset"))
  end)

  it("name exactly the functions of grpo.schedule", function()
    assert.same(functions_of(require "grpo.schedule"), annotated("schedule"))
  end)

  it("name exactly the functions of grpo.samplers", function()
    assert.same(functions_of(require "grpo.samplers"), annotated("samplers"))
  end)

  it("name exactly the public methods of a trainer", function()
    local inside = { -- the loop's own
      "begin_stage", "restore", "current_stage", "repeatable_metrics", "hook", "total_steps",
        "refuse_inside", "call_hook", "measure_at", "reopen_stage", "take_batch", "on_first_rank",
    }
    local all = methods_in "lua/grpo/loop/trainer.lua"
    for _, name in ipairs(inside) do
      assert.is_true(all[name], name .. " is not a method")
      all[name] = nil
    end
    assert.same(all, annotated("Trainer"))
  end)

  for _, name in ipairs { "gsm8k", "format", "length", "repetition", "numeric", "text", "dense" } do
    it("name exactly the functions of rewards." .. name, function()
      local names, found = {}, annotations.read()
      for method, f in pairs(found.classes["rewards." .. name].methods) do
        names[method] = found.functions[name .. "." .. method] == f and #f.returns > 0
      end
      assert.same(functions_of(require("rewards." .. name)), names)
    end)
  end

  it("name exactly the functions of grpo", function()
    local names = {}
    for _, name in ipairs { "experiment", "trainer", "calc", "sorted_pairs",
      "template", "reward_model" } do assert.equal("function", type(grpo[name])) end
    for _, row in ipairs(extensions.rows "names") do
      local kind = type(grpo[row.name])
      assert.is_true(kind == "table" or kind == "function", row.name)
    end
    for name, v in pairs(grpo) do
      if type(v) == "function" then
        names[name] = true
      elseif type(v) == "table" and name ~= "data" and name ~= "schedule" and name ~= "losses"
        and name ~= "args" and name ~= "samplers" then
        for sub, f in pairs(v) do
          if type(f) == "function" then names[name .. "." .. sub] = true end
        end
      end
    end
    assert.same(names, annotated("grpo"))
  end)
  it("name exactly the assertions of tests", function()
    local names = annotated("Assert")
    -- words of Lua, in brackets there
    names["true"], names["false"], names["nil"] = true, true, true
    assert.same(functions_of(assert), names)
  end)
  it("tie modules to files: require 'grpo' is meta/grpo.lua, a reward's own file has its class",
    function()
    for file, module in pairs { grpo = "grpo", schedule = "grpo.schedule", data = "grpo.data",
      samplers = "grpo.samplers" } do
      assert.equal("---@meta " .. module, core.embedded("lua/grpo/meta/" .. file .. ".lua")
        :match("^[^\n]*"))
    end
    for _, path in ipairs(core.embedded_names()) do
      local name = path:match("^rewards/(%w+)%.lua$")
      local class = name and ("\n---@class rewards.%s\nlocal %s = {}\n"):format(name, name)
      if name then
        assert.truthy(core.embedded(path):find(class, 1, true))
      end
    end
  end)
  it("are Lua", function()
    for _, path in ipairs(core.embedded_names()) do
      if path:find("^lua/grpo/meta/") then assert(load(core.embedded(path), "=" .. path)) end
    end
  end)
end)
