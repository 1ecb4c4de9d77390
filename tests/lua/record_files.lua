-- The files of a small run, and what a reader of them must do when one value has another type.

local core = require "grpo.core"
local rundir = require "grpo.runs.directory"
local tiny = require "tests.lua.tiny"

local fs = core.fs
local record_files = {}

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

-- f(dir) with the whole run in a directory of its own
function record_files.with_run(f)
  tiny.temporary(function(root)
    local dir = root .. "/tiny-001"
    assert(fs.mkdirs(dir))
    for name, value in pairs(whole) do
      assert(fs.write(dir .. "/" .. name, encoded(name, value)))
    end
    f(dir)
  end)
end

-- Tests of readers, { NAME = function(dir), ... }, as { TITLE = function() }: each reads the run,
-- and refuses a damaged file by its name and field.
function record_files.tests(readers)
  local tests = {}

  tests["are read as they are written"] = function()
    record_files.with_run(function(dir)
      for name, reader in pairs(readers) do
        local ok, err = pcall(reader, dir)
        assert(ok, ("%s: %s"):format(name, tostring(err)))
      end
      assert(rundir.list(dir:match("^(.*)/"))[1].state == "finished")
    end)
  end

  -- One value of another type, in all places of a file.
  local function refuse_by_name(dir, name)
    local path, tried = dir .. "/" .. name, 0
    spoilt(copy(whole[name]), function(value, where, other)
      local file = assert(io.open(path, "wb")) -- unlike fs.write, waits for no disk
      file:write(encoded(name, value))
      file:close()
      tried = tried + 1
      for what, reader in pairs(readers) do
        local ok, err = pcall(reader, dir)
        local fine = ok or type(err) == "table" and err.code == "EFORMAT"
          and tostring(err):find("/" .. name, 1, true)
        if not fine then
          error(("%s%s = %s: %s: %s"):format(name, where, tostring(other), what, tostring(err)))
        end
      end
    end)
    assert(tried > 12)
  end

  for name in pairs(whole) do
    tests[name .. ": a value of another type is refused by name, or does no harm"] = function()
      record_files.with_run(function(dir) refuse_by_name(dir, name) end)
    end
  end
  return tests
end

return record_files
