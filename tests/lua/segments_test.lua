-- Logs that continue in further files: rows are read in order whatever files they are in, also
-- while the run writes, and a resume leaves the files of a run that did not die.

local core = require "grpo.core"
local history = require "grpo.runs.history"
local row_log = require "grpo.runs.row_log"
local segments = require "grpo.runs.segments"
local tiny = require "tests.lua.tiny"

local fs = core.fs

local KIB = { segment_mib = 1 / 1024 }

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
local function append(log, from, last, options)
  for step = from + 1, last do
    for index = 1, 2 do
      log:append({ step = step, prompt_index = 1, index = index, prompt = "1=",
        text = ("x"):rep(30), rewards = { right = 1 }, reward = 1, finish = "eos",
        length = 2 }, options or KIB)
    end
  end
end

local function with_log(last, f, options)
  tiny.temporary(function(dir)
    assert(fs.mkdirs(dir))
    local run = run_in(dir)
    local log = row_log.open(run, "completions")
    append(log, 0, last, options)
    f(run, log, dir)
    log:close()
  end)
end

-- { [name] = bytes } of the log's files.
local function files(dir)
  local list = {}
  for _, name in ipairs(fs.list(dir)) do
    if name:find("^completions") then list[name] = fs.read(dir .. "/" .. name) end
  end
  return list
end

local function names(dir)
  return table.concat(segments.numbers(dir, "completions"), " ")
end

-- The steps that a reader sees, and it sees each row of them.
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

local function lost(path) return path:gsub("%p", "%%%0") .. ": it is missing; restore it" end

describe("a log that is full", function()
  it("continues in a new file, between two steps", function()
    with_log(20, function(run, _, dir)
      local list = segments.numbers(dir, "completions")
      assert.is_true(#list >= 3, #list .. " segments")
      assert.same(from_to(1, #list), list)
      assert.same({ first = 1, last = #list }, run.info.segments.completions)
      for _, number in ipairs(list) do
        local text = fs.read(segments.path(dir, "completions", number))
        assert.is_true(#text >= 1024)
        local last = text:match('"step": (%d+)[^\n]*\n$')
        assert.equal(2, select(2, text:gsub(('"step": %s[,}]'):format(last), "")))
      end
      assert.same(from_to(1, 20), steps_of(dir))
    end)
  end)

  it("continues where its run is, which gets its directory when its files are there",
    function()
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

  it("stays one file by default", function()
    with_log(20, function(run, _, dir)
      assert.equal("", names(dir))
      assert.is_nil(run.info.segments)
    end, { segment_mib = 256.0 })
  end)

  it("loses its oldest segments if few are kept", function()
    with_log(30, function(run, log, dir)
      local counted = run.info.segments.completions
      assert.is_true(counted.last > 4)
      assert.equal(("%d %d"):format(counted.last - 1, counted.last), names(dir))
      assert.equal(counted.last - 1, counted.first)
      local steps = steps_of(dir)
      assert.is_true(steps[1] > 1)
      assert.same(from_to(steps[1], 30), steps)
      append(log, 30, 60, { segment_mib = 1 / 1024, keep_segments = 1 })
      assert.equal(tostring(run.info.segments.completions.last), names(dir))
      append(log, 60, 90)
      assert.same(from_to(steps_of(dir)[1], 90), steps_of(dir))
    end, { segment_mib = 1 / 1024, keep_segments = 2 })
  end)

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
      local of_rows = #calls
      local ok_full, err_full = pcall(append, log, 2, 9)
      for name, f in pairs(real) do fs[name] = f end
      assert.is_true(ok and ok_full, tostring(err or err_full))
      assert.equal(2, of_rows) -- the sums of two rows
      assert.is_true(#calls > 16)
    end)
  end)
end)

describe("a reader of segments", function()
  it("names a file that is missing, the first, one in the middle, or the last", function()
    with_log(20, function(run, _, dir)
      local last = run.info.segments.completions.last
      for _, number in ipairs { 1, 2, last } do
        local path = segments.path(dir, "completions", number)
        local text = fs.read(path)
        os.remove(path)
        tiny.refused(lost(path), history.list, dir, "completions")
        assert.same({ path }, segments.lost(dir, "completions", run.info))
        assert(fs.write(path, "")) -- as the message advises
        assert.is_true(#history.list(dir, "completions") < 40)
        assert(fs.write(path, text))
      end
      assert.same(from_to(1, 20), steps_of(dir))
    end)
  end)

  it("names one that run.json does not count yet, if there is a later one", function()
    with_log(20, function(run, _, dir)
      local last = run.info.segments.completions.last
      run.info.segments = nil
      run:set_state("running")
      assert.same(from_to(1, 20), steps_of(dir))
      os.remove(segments.path(dir, "completions", last - 1))
      tiny.refused(lost(segments.path(dir, "completions", last - 1)), history.list, dir,
        "completions")
    end)
  end)

  it("takes half a line for damage where nothing is written any more", function()
    with_log(20, function(_, _, dir)
      for _, number in ipairs { 1, 2 } do
        local path = segments.path(dir, "completions", number)
        local text = fs.read(path)
        for _, cut in ipairs { 2, 20 } do
          assert(fs.write(path, text:sub(1, -1 - cut)))
          tiny.refused(path:gsub("%p", "%%%0") .. ":%d+: .*the file is damaged", history.list, dir,
            "completions")
        end
        assert(fs.write(path, text))
      end
      local path = segments.path(dir, "completions")
      assert(fs.write(path, fs.read(path):sub(1, -20)))
      assert.equal(39, #history.list(dir, "completions"))
    end)
  end)

  it("leaves other files alone", function()
    with_log(20, function(_, _, dir)
      for _, name in ipairs { "completions.1.jsonl", "completions.0000001.jsonl",
        "completions.000001.jsonl.damaged", "completions.000000.jsonl", "completions.x.jsonl",
        "my.completions.000009.jsonl" } do
        assert(fs.write(dir .. "/" .. name, "not ours"))
      end
      assert.same(from_to(1, 20), steps_of(dir))
    end)
  end)

  it("reads a run that fills files meanwhile without a gap", function()
    for every = 1, 7 do
      with_log(20, function(_, log, dir)
        local written, read, seen = 20, 0, {}
        for _, row in history.rows(dir, "completions") do
          read = read + 1
          seen[#seen + 1] = row.step
          if read % every == 0 and written < 60 then
            append(log, written, written + 1)
            written = written + 1
          end
        end
        for i, step in ipairs(seen) do assert.equal((i + 1) // 2, step) end
        assert.is_true(#seen >= 40)
      end)
    end
  end)

  it("goes on behind files that the run has removed meanwhile", function()
    with_log(20, function(_, log, dir)
      local seen, last = 0, 0
      for _, row in history.rows(dir, "completions") do
        if row.step == 3 and row.index == 1 then
          append(log, 20, 40, { segment_mib = 1 / 1024, keep_segments = 1 })
        end
        assert.is_true(row.step >= last)
        seen, last = seen + 1, row.step
      end
      assert.equal(40, last)
      assert.is_true(seen < 80)
    end)
  end)
end)

describe("a resume", function()
  it("leaves the files of a run that did not die, from any step", function()
    with_log(24, function(_, _, whole)
      local want = files(whole)
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
            assert.same(want, files(dir))
            log:close()
          end)
        end
      end
    end)
  end)

  it("does so when it died at any change of a file, too", function()
    local changing = { "rename", "remove_tree", "truncate", "append", "write" }
    -- Calls f until a change of a file fails, the n-th; returns whether it did.
    local function dies(n, f)
      local real, count = {}, 0
      for _, name in ipairs(changing) do
        real[name] = fs[name]
        fs[name] = function(...)
          count = count + 1
          if count == n then error("dead", 0) end
          return real[name](...)
        end
      end
      local ok, err = pcall(f)
      for name, call in pairs(real) do fs[name] = call end
      if not ok and err ~= "dead" then error(err, 0) end
      return not ok
    end
    -- Returns the files of a run that died at the n-th change and was resumed; nil: it did not die.
    local function resumed(step, n, options)
      local found
      with_log(14, function(run, log, dir)
        log:close()
        local dead = dies(n, function()
          local dying = row_log.open(run, "completions")
          dying:cut(step)
          append(dying, math.max(step, 0), 20, options)
        end)
        if not dead then return end
        run.info = core.json_decode(fs.read(dir .. "/run.json"))
        run = again(run)
        steps_of(dir) -- a reader is not refused
        log = row_log.open(run, "completions")
        log:cut(step)
        assert.same({}, run.said)
        append(log, math.max(step, 0), 24, options)
        local steps = steps_of(dir)
        assert.same(from_to(steps[1], 24), steps)
        found = files(dir)
        log:close()
      end, options)
      return found
    end
    with_log(24, function(_, _, dir)
      local whole, trials = files(dir), 0
      for _, step in ipairs { -1, 8, 11, 13, 14 } do
        local n, found = 1, resumed(step, 1, KIB)
        while found do
          assert.same(whole, found)
          n, trials = n + 1, trials + 1
          found = resumed(step, n, KIB)
        end
      end
      assert.is_true(trials > 80, trials .. " trials")
    end)
    -- the oldest rows are gone for good
    local options, n = { segment_mib = 1 / 1024, keep_segments = 2 }, 0
    repeat
      n = n + 1
      local found = resumed(8, n, options)
      local count = 0
      for _ in pairs(found or {}) do count = count + 1 end
      assert.is_true(count <= 3)
    until not found
    assert.is_true(n > 20, n .. " trials")
  end)

  it("keeps the evaluations of its step that are known, in whatever file", function()
    tiny.temporary(function(dir)
      assert(fs.mkdirs(dir))
      local run = run_in(dir)
      local log = row_log.open(run, "eval")
      for _, step in ipairs { 1, 2, 3, 3, 3, 4 } do
        log:append({ step = step, label = ("x"):rep(200) }, { segment_mib = 0.0001 })
      end
      assert.equal(3, #segments.numbers(dir, "eval"))
      log:cut(3, 2)
      local steps = {}
      for _, row in history.rows(dir, "eval") do steps[#steps + 1] = row.step end
      assert.same({ 1, 2, 3, 3 }, steps)
      assert.same({ 1, 2 }, segments.numbers(dir, "eval"))
      log:append({ step = 3, label = "" }, { segment_mib = 0.0001 })
      assert.same({ 1, 2 }, segments.numbers(dir, "eval"))
      log:cut(3, 0) -- the checkpoint was written before the evaluations of its step
      assert.same({ 1 }, segments.numbers(dir, "eval"))
      log:append({ step = 3, label = "" }, { segment_mib = 0.0001 })
      assert.same({ 1, 2 }, segments.numbers(dir, "eval"))
      log:close()
    end)
  end)

end)
