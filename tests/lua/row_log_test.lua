-- Logs of a run: a resume leaves the rows of a run that did not die.

local core = require "grpo.core"
local history = require "grpo.runs.history"
local row_log = require "grpo.runs.row_log"
local tiny = require "tests.lua.tiny"

local fs = core.fs

-- A run as row_log needs it; `said` are its remarks.
local function run_in(dir)
  local run = { dir = dir, info = { format = 1, state = "running", script = "s.lua" }, said = {} }
  function run.check_place() end
  function run:set_state(state)
    self.info.state = state
    assert(fs.write(self.dir .. "/run.json", core.json_encode(self.info)))
  end
  function run:remark(text)
    self.said[#self.said + 1] = text
  end
  run:set_state("running")
  return run
end

-- The run as another process finds it.
local function again(run)
  local other = run_in(run.dir)
  other.info = run.info
  other:set_state("running")
  return other
end

-- Two rows for each step after `from`, to `last`.
local function append(log, from, last)
  for step = from + 1, last do
    for index = 1, 2 do
      log:append({ step = step, prompt_index = 1, index = index, prompt = "1=",
        text = ("x"):rep(30), rewards = { right = 1 }, reward = 1, finish = "eos",
        length = 2 })
    end
  end
end

local function with_log(last, f)
  tiny.temporary(function(dir)
    assert(fs.mkdirs(dir))
    local run = run_in(dir)
    local log = row_log.open(run, "completions")
    append(log, 0, last)
    f(run, log, dir)
    log:close()
  end)
end

local function text_of(dir)
  return fs.read(dir .. "/completions.jsonl")
end

-- Returns the steps that a reader sees; it must see each of their rows.
local function steps_of(dir)
  local list, count = {}, 0
  for _, row in history.rows(dir, "completions") do
    if row.step ~= list[#list] then list[#list + 1] = row.step end
    count = count + 1
    assert.equal(2 - count % 2, row.index)
  end
  return list
end

local function from_to(first, last)
  local list = {}
  for step = first, last do list[#list + 1] = step end
  return list
end

describe("a log", function()
  it("asks neither for a size nor for a name when a row is added", function()
    with_log(1, function(_, log)
      local real, calls = {}, {}
      for name, f in pairs(fs) do
        real[name] = f
        fs[name] = function(...)
          calls[#calls + 1] = name
          return f(...)
        end
      end
      local ok, err = pcall(append, log, 1, 2)
      for name, f in pairs(real) do fs[name] = f end
      assert.is_true(ok, tostring(err))
      assert.equal(2, #calls) -- the sums of two rows
    end)
  end)

  it("is written where its run is, which gets its directory when its files are there", function()
    tiny.temporary(function(root)
      assert(fs.mkdirs(root .. "/new"))
      local run = run_in(root .. "/new")
      local log = row_log.open(run, "completions")
      assert(fs.rename(root .. "/new", root .. "/run-001"))
      run.dir = root .. "/run-001"
      append(log, 0, 20)
      assert.same(from_to(1, 20), steps_of(run.dir))
      log:close()
    end)
  end)
end)

describe("a resume", function()
  it("leaves the files of a run that did not die, from any step", function()
    with_log(24, function(_, _, whole)
      local want = text_of(whole)
      for killed = 1, 24, 5 do
        for step = -1, killed do
          with_log(killed, function(run, log, dir)
            log:close()
            run = again(run)
            log = row_log.open(run, "completions")
            log:cut(step)
            assert.same({}, run.said)
            assert.same(from_to(1, step), steps_of(dir))
            append(log, math.max(step, 0), 24)
            assert.equal(want, text_of(dir))
            log:close()
          end)
        end
      end
    end)
  end)

  it("does so when it died while it cut the log, too", function()
    with_log(14, function(_, _, whole)
      local want = text_of(whole)
      for _, name in ipairs { "truncate", "append" } do
        with_log(14, function(run, log, dir)
          log:close()
          local dying, real = row_log.open(run, "completions"), fs[name]
          fs[name] = function() error("dead", 0) end
          local ok, err = pcall(dying.cut, dying, 8)
          fs[name] = real
          assert.is_false(ok)
          assert.equal("dead", err)
          run = again(run)
          log = row_log.open(run, "completions")
          log:cut(8)
          assert.same({}, run.said)
          append(log, 8, 14)
          assert.equal(want, text_of(dir))
          log:close()
        end)
      end
    end)
  end)

  it("keeps the evaluations of its step that are known", function()
    tiny.temporary(function(dir)
      assert(fs.mkdirs(dir))
      local run = run_in(dir)
      local log = row_log.open(run, "eval")
      local function steps()
        local list = {}
        for _, row in history.rows(dir, "eval") do list[#list + 1] = row.step end
        return list
      end
      for _, step in ipairs { 1, 2, 3, 3, 3, 4 } do
        log:append { step = step, label = ("x"):rep(200) }
      end
      log:cut(3, 2)
      assert.same({ 1, 2, 3, 3 }, steps())
      log:cut(3, 0) -- the checkpoint was written before the evaluations of its step
      assert.same({ 1, 2 }, steps())
      log:append { step = 3, label = "" }
      assert.same({ 1, 2, 3 }, steps())
      log:close()
    end)
  end)
end)
