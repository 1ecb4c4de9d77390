-- The JSON files of a run with one value of another type: read as if nothing were wrong, or refused
-- with the file and the field; never an error of the program's own code.

local core = require "grpo.core"
local model_card = require "grpo.models.card"
local run_diff = require "grpo.runs.diff"
local history = require "grpo.runs.history"
local html = require "grpo.report.html"
local schema = require "grpo.runs.schema"
local script_logs = require "grpo.runs.script_logs"
local inputs = require "grpo.runs.inputs"
local rundir = require "grpo.runs.directory"
local tiny = require "tests.lua.tiny"

local fs = core.fs

local function option(value)
  return { value = value, origin = "script" }
end

local options = { ["train.lr"] = option(1e-3), ["model.path"] = option(core.json_null),
  rewards = option { { name = "right", weight = 0.5 } } }

-- Files of one run, by name; what ends in .jsonl is a list of rows.
local whole = {
  ["run.json"] = { format = 1, name = "tiny", state = "finished", script = "tiny.lua",
    args = { rate = "1" },
    overrides = { "train.steps=2" }, compute = "f32", started = 1.7e9, heartbeat = 1.7e9,
    finished = 1.7e9, pid = 4,
    host = "here", step = 2, steps = 2,
    summary = { ["eval/accuracy"] = 0.5, ["eval/loss"] = core.json_null } },
  ["config.json"] = { options = options, stages = { { kind = "sft", options = options },
    { kind = "grpo", options = options } } },
  ["env.json"] = { kernels = "avx2", threads = 2, seed = 1, version = "0.1.0" },
  ["inputs.json"] = { { path = "rows.jsonl", size = 10, crc32c = 706901074 } },
  ["metrics.jsonl"] = {
    { step = 1, stage = 1, stage_step = 1, kind = "sft", loss = 2.5, num_tokens = 20,
      trained_tokens = 20,
      ["memory/peak_bytes"] = 10559488 },
    { step = 2, stage = 2, stage_step = 1, kind = "grpo", loss = core.json_null, reward = 0.5,
      num_tokens = 40 } },
  ["completions.jsonl"] = {
    { step = 2, prompt_index = 1, index = 1, row = 0, prompt = "1+1=", text = "2",
      rewards = { right = 1 }, reward = 1,
      advantage = 0.7, finish = "eos", length = 2, parts = { { role = "assistant", text = "2" } },
      environment = { reward = 1, done = true, turns = 1 } },
    { step = 2, prompt_index = 1, index = 2, row = 0, prompt = "1+1=", text = "3",
      rewards = { right = core.json_null }, reward = core.json_null, finish = "length",
      length = 2 } },
  ["events.jsonl"] = { { kind = "set", path = "train.lr", value = 0.5, step = 1, stage = 1 },
    { kind = "state", data = "00", step = 1, stage = 1 } },
  ["log_sizes.json"] = { begun = { ["a.txt"] = 0 }, checkpoints = { ["2"] = { ["a.txt"] = 7 } } },
  ["eval.jsonl"] = { { step = 0, stage = 1, label = "before", n = 4, ["eval/accuracy"] = 0.25,
    ["eval/accuracy/low"] = 0.1, ["eval/accuracy/high"] = 0.6 } },
}

local function encoded(name, value)
  if not name:find("%.jsonl$") then return core.json_encode(value) end
  local lines = {}
  for i, row in ipairs(value) do lines[i] = core.json_encode(row) .. "\n" end
  return table.concat(lines)
end

local function copy(v)
  if type(v) ~= "table" then return v end
  local out = {}
  for k, each in pairs(v) do out[k] = copy(each) end
  return next(out) == nil and v or out
end

-- Calls f(value with one thing changed, where, what) for all things and ways.
local function spoilt(value, f)
  local others = { "x", 7, -1.5, true, core.json_null, 1e300, { 1 }, { a = 1 },
    core.json_object {} }
  local function walk(part, path)
    for key in pairs(part) do
      local here = path .. "." .. tostring(key)
      local kept = part[key]
      for _, other in ipairs(others) do
        part[key] = other
        f(value, here, other)
      end
      if type(key) == "string" then
        part[key] = nil
        f(value, here, nil)
      end
      part[key] = kept
      if type(kept) == "table" then walk(kept, here) end
    end
  end
  walk(value, "")
end

-- Everything that reads a run without running its script.
local readers = {
  open = function(dir) history.open(dir) end,
  list = function(dir) rundir.list(dir:match("^(.*)/")) end,
  report = function(dir) html.page(history.open(dir), 1) end,
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

-- f(dir) with the whole run in a directory of its own
local function with_run(f)
  tiny.temporary(function(root)
    local dir = root .. "/tiny-001"
    assert(fs.mkdirs(dir))
    for name, value in pairs(whole) do
      assert(fs.write(dir .. "/" .. name, encoded(name, value)))
    end
    f(dir)
  end)
end

describe("a run's files", function()
  it("are read as they are written", function()
    with_run(function(dir)
      for name, reader in pairs(readers) do
        local ok, err = pcall(reader, dir)
        assert(ok, ("%s: %s"):format(name, tostring(err)))
      end
      assert.equal(rundir.list(dir:match("^(.*)/"))[1].state, "finished")
    end)
  end)

  for name in pairs(whole) do
    it(name .. ": a value of another type is refused by name, or does no harm", function()
      with_run(function(dir)
        local path, tried = dir .. "/" .. name, 0
        spoilt(copy(whole[name]), function(value, where, other)
          local file = assert(io.open(path, "wb")) -- unlike fs.write, waits for no disk
          file:write(encoded(name, value))
          file:close()
          for what, reader in pairs(readers) do
            tried = tried + 1
            local ok, err = pcall(reader, dir)
            local fine = ok or type(err) == "table" and err.code == "EFORMAT"
              and tostring(err):find("/" .. name, 1, true)
            if not fine then
              error(("%s%s = %s: %s: %s"):format(name, where, tostring(other), what, tostring(err)))
            end
          end
        end)
        assert(tried > 100)
      end)
    end)
  end
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
    with_run(function(dir)
      assert(fs.write(dir .. "/config.json", '{"stages": 7}'))
      local ok, err = pcall(model_card.text, { name = "tiny", run = dir, tags = {} })
      assert(not ok and tostring(err):find("stages: is 7, want a list", 1, true), tostring(err))
    end)
  end)
end)
