-- The JSON files of a run with one value of another type: read as if nothing were wrong, or refused
-- with the file and the field; never an error of the program's own code.

local core = require "grpo.core"
local model_card = require "grpo.runs.card"
local run_diff = require "grpo.runs.diff"
local history = require "grpo.runs.history"
local schema = require "grpo.loop.schema"
local script_logs = require "grpo.loop.script_logs"
local inputs = require "grpo.runs.inputs"
local rundir = require "grpo.runs.directory"
local record_files = require "tests.lua.record_files"

local fs = core.fs

-- Everything that reads a run without running its script.
local readers = {
  open = function(dir) history.open(dir) end,
  list = function(dir) rundir.list(dir:match("^(.*)/")) end,
  card = function(dir) model_card.text { name = "tiny", run = dir, step = 2, tags = {} } end,
  settings = function(dir) run_diff.settings(history.open(dir), history.open(dir)) end,
  changes = function(dir) run_diff.changes(history.open(dir), history.open(dir)) end,
  logs = function(dir)
    script_logs.keep_sizes(dir, 1)
    script_logs.cut(dir, 2)
  end,
  metrics = function(dir) run_diff.metrics(history.open(dir), history.open(dir)) end,
  completions = function(dir) run_diff.completions(history.open(dir), history.open(dir)) end,
  ends = function(dir) run_diff.ends(history.open(dir), history.open(dir)) end,
  changed = function(dir)
    local run = rundir.open(dir)
    local ok, err = pcall(inputs.changed, dir)
    run:close()
    if not ok then error(err, 0) end
  end,
}

describe("a run's files", function()
  for title, test in pairs(record_files.tests(readers)) do it(title, test) end
end)

describe("record.check", function()
  local function refused(pattern, shape, value)
    local ok, err = pcall(schema.check, shape, value, "runs/x/file.json")
    assert(not ok and err.code == "EFORMAT" and tostring(err):find(pattern), tostring(err))
  end

  it("names the file, the field, what is there and what is wanted", function()
    refused("^runs/x/file%.json: step: is \"two\", want a whole number; the file is damaged$",
      schema.shapes.run,
      { format = 1, state = "running", script = "a.lua", step = "two" })
    refused("^runs/x/file%.json: state: is missing, want a string", schema.shapes.run,
      { format = 1, script = "a.lua" })
    refused("stages%.2%.kind: is \"dance\", want a kind of stage", schema.shapes.config,
      { stages = { { kind = "sft" }, { kind = "dance" } } })
    refused("^runs/x/file%.json: is %[1, 2%], want an object", schema.shapes.run, { 1, 2 })
    refused("written by another version %(format 2%); this one reads format 1", schema.shapes.run,
      { format = 2 })
  end)

  it("takes what has its shape, and returns it", function()
    local value = { format = 1, state = "running", script = "a.lua", more = true }
    assert.equal(schema.check(schema.shapes.run, value, "x"), value)
  end)
end)

describe("export's card", function()
  it("refuses a config.json whose stages are none", function()
    record_files.with_run(function(dir)
      assert(fs.write(dir .. "/config.json", '{"stages": 7}'))
      local ok, err = pcall(model_card.text, { name = "tiny", run = dir, tags = {} })
      assert(not ok and tostring(err):find("stages: is 7, want a list", 1, true), tostring(err))
    end)
  end)
end)
