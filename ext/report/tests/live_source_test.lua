-- The page that follows a run: what is read of the run's files at each look.

local core = require "grpo.core"
local live_source = require "grpo.report.live_source"
local tiny = require "tests.lua.tiny"

local function encoded(row) return core.json_encode(row) .. "\n" end

local append = tiny.append

local function metrics(first, last)
  local list = {}
  for step = first, last do
    list[#list + 1] = encoded { step = step, stage = 1, stage_step = step, kind = "grpo",
      reward = step / 100 }
  end
  return table.concat(list)
end

local function completions(first, last)
  local list = {}
  for step = first, last do
    list[#list + 1] = encoded { step = step, prompt_index = 1, index = 1, prompt = "p",
      text = ("x"):rep(1000), rewards = {}, reward = 1, finish = "eos", length = 3 }
  end
  return table.concat(list)
end

-- Calls f; returns how many bytes were read from files that io.open has opened meanwhile.
local function bytes_read(f)
  local library = tiny.library().io
  local opened, bytes = library.open, 0
  local function counted(file)
    local proxy = {}
    local function count(result)
      if type(result) == "string" then bytes = bytes + #result end
      return result
    end
    return setmetatable(proxy, { __close = function() file:close() end,
      __index = function(_, name)
        return function(_, ...)
          if name ~= "lines" then return count(file[name](file, ...)) end
          local nexts = file:lines(...)
          return function() return count(nexts()) end
        end
      end })
  end
  library.open = function(...)
    local file, message, code = opened(...)
    if not file then return file, message, code end
    return counted(file)
  end
  local ok, err = pcall(f)
  library.open = opened
  assert(ok, err)
  return bytes
end

describe("a run that a page follows", function()
  local dir, source
  before_each(function()
    dir = os.tmpname()
    os.remove(dir)
    assert(core.fs.mkdirs(dir))
    assert(core.fs.write(dir .. "/run.json", encoded { format = 1, name = "a", script = "a.lua",
      state = "stopped", step = 1, steps = 9 }))
    append(dir .. "/metrics.jsonl", metrics(1, 3000))
    append(dir .. "/completions.jsonl", completions(1, 3000))
    append(dir .. "/run.log", "2026-01-01T00:00:00Z note: first\n")
    source = live_source.new { dir = dir, name = "a", notes = {}, info = {}, env = {}, stages = {} }
    while source:look() do end -- luacheck: ignore 542
  end)
  after_each(function() core.fs.remove_tree(dir) end)

  it("is read whole once, but of its completions the newest alone", function()
    assert.equal(3000, source.metrics.last.step)
    assert.equal(200, #source.rows)
    assert.equal(3000, source.rows[200].step)
    assert.same({ "2026-01-01T00:00:00Z note: first" }, source.run.notes)
  end)

  it("costs as much at each look as there is new, however long it is", function()
    local version = source.version
    assert.is_true(bytes_read(function() source:look() end) < 1000)
    assert.equal(version, source.version)
    append(dir .. "/metrics.jsonl", metrics(3001, 3002))
    append(dir .. "/run.log", "2026-01-01T00:00:00Z note: second\nhalf a li")
    assert.is_true(bytes_read(function() source:look() end) < 2000)
    assert.equal(version + 1, source.version)
    assert.equal(3002, source.metrics.last.step)
    assert.equal(2, #source.run.notes)
    append(dir .. "/completions.jsonl", completions(3001, 3001))
    assert.is_true(bytes_read(function() source:look() end) < 300000)
    assert.equal(3001, source.rows[200].step)
  end)

  it("keeps its last notes, and begins again when a resume cuts its logs", function()
    local lines = {}
    for i = 1, 1000 do lines[i] = ("2026-01-01T00:00:00Z note: %d\n"):format(i) end
    append(dir .. "/run.log", table.concat(lines))
    source:look()
    assert.equal(500, #source.run.notes)
    assert.matches("note: 1000$", source.run.notes[500])
    assert(core.fs.write(dir .. "/metrics.jsonl", metrics(1, 5)))
    while source:look() do end -- luacheck: ignore 542
    assert.equal(5, source.metrics.last.step)
  end)
end)
