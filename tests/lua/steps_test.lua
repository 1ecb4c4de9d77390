-- The kinds of stages: the core's, and those that an extension adds by one row and one module.

local extensions = require "grpo.base.extensions"
local option_rules = require "grpo.options.option_rules"
local steps = require "grpo.options.stage_kinds"

describe("an extension's kind of stage", function()
  local rows

  before_each(function()
    rows = extensions.rows
    extensions.rows = function(kind)
      return kind == "stages" and { { name = "pairs" } } or rows(kind)
    end
    package.loaded["grpo.steps.pairs"] = { title = "Pairs",
      lengths = function() return 3, 4 end }
  end)

  after_each(function()
    extensions.rows = rows
    package.loaded["grpo.steps.pairs"], steps.pairs = nil, nil
  end)

  it("is a kind like the core's", function()
    assert.is_true(steps.is_kind "pairs" and steps.is_kind "grpo")
    assert.equal("Pairs", steps.pairs.title)
    assert.same({ 3, 4 }, { steps.lengths("pairs", {}) })
  end)

  it("is named where a stage is of an unknown kind", function()
    local ok, message = pcall(option_rules.check_stage, { kind = "pair" }, "stages[1]",
      function(path, format, ...) error(path .. ": " .. format:format(...), 0) end)
    assert.is_false(ok)
    assert.matches('^stages%[1%]%.kind: .* or "pairs", did you mean', message)
  end)

  it("is none without the row", function()
    extensions.rows = rows
    assert.is_false(steps.is_kind "pairs")
    assert.is_nil(steps.pairs)
  end)
end)
