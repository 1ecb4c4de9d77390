-- The report of a run: of a long one within a bound of memory, and of one with damaged files.

local columns = require "grpo.base.curves.columns"
local history = require "grpo.runs.history"
local html = require "grpo.report.html"
local long_runs = require "tests.lua.long_runs"
local record_files = require "tests.lua.record_files"
local svg = require "grpo.report.svg"

local STEPS, with_run, bounded = long_runs.STEPS, long_runs.with_run, long_runs.bounded

local readers = { report = function(dir) html.page(history.open(dir), 1) end }

describe("a run's files, for the report", function()
  for title, test in pairs(record_files.tests(readers)) do it(title, test) end
end)

-- Returns the next step and its row, whose metric x is values[step], at each call.
local function rows_of(values)
  local step = 0
  return function()
    step = step + 1
    if values[step] then return step, { step = step, stage = 1, x = values[step] } end
  end
end

describe("a long run", function()
  it("is reported with each of its spikes", function()
    with_run(function(dir)
      bounded(function()
        local page = html.page(history.open(dir), 20)
        assert.matches("20 of " .. STEPS .. " completions", page)
        local reward = page:match("<figcaption>Reward<.-</figure>")
        assert.matches(">40<", reward) -- on the axis
      end)
    end)
  end)
end)

describe("a column of a report", function()
  it("is drawn with the area between least and greatest", function()
    local function panel(values)
      local points = columns.read(rows_of(values)).columns.x:points()
      local series = { name = "x", points = points, colour = 0, dash = 0 }
      return svg.panel({ title = "x", steps = { 1, #values }, series = { series } }, {}, {})
    end
    local values = {}
    for i = 1, 1000 do values[i] = i % 10 end
    assert.matches("class=\"band\"", panel(values))
    assert.is_nil(panel({ 1, 2, 3 }):find("class=\"band\"", 1, true))
  end)
end)
