-- Smoothing curves, and following a log.

local core = require "grpo.core"
local follow = require "grpo.runs.follow"
local smooth = require "grpo.base.curves.smooth"
local tiny = require "tests.lua.tiny"

describe("smoothing", function()
  it("begins at the first value, and weighs what came before", function()
    local s = smooth.points({ { 1, 4 }, { 2, 8 }, { 3, 8 } }, 0.5)
    assert.equal(4, s[1][2])
    assert.equal((0.5 * 4 + 8) / 1.5, s[2][2])
    assert.equal((0.25 * 4 + 0.5 * 8 + 8) / 1.75, s[3][2])
    assert.same({ { 1, 4.0 }, { 2, 8.0 } }, smooth.points({ { 1, 4 }, { 2, 8 } }, 0))
  end)
end)

-- ---- a run -----------------------------------------------------------------------------------

local run_directory, row_of, rows = tiny.run_directory, tiny.metrics_row, tiny.metrics_rows
local append = tiny.append

describe("a log that is followed", function()
  local dir, follower, seen, restarts
  before_each(function()
    dir = run_directory { ["metrics.jsonl"] = rows(1, 3) }
    follower, seen, restarts = follow.new(dir, "metrics"), {}, 0
  end)
  after_each(function() core.fs.remove_tree(dir) end)

  local function read(most)
    return follower:read(function(row) seen[#seen + 1] = row.step end, function()
      seen, restarts = {}, restarts + 1
    end, most)
  end

  it("gives each row once, and a row when it is whole", function()
    assert.is_false(read())
    append(dir .. "/metrics.jsonl", rows(4, 4) .. rows(5, 5):sub(1, 9))
    read()
    assert.same({ 1, 2, 3, 4 }, seen)
    append(dir .. "/metrics.jsonl", rows(5, 5):sub(10))
    read()
    assert.same({ 1, 2, 3, 4, 5 }, seen)
    assert.equal(0, restarts)
  end)

  it("gives at most as many rows at a time as it is asked for", function()
    assert.is_true(read(2))
    assert.same({ 1, 2 }, seen)
    read(2)
    assert.same({ 1, 2, 3 }, seen)
  end)

  it("begins again when a resume has cut it", function()
    read()
    assert(core.fs.write(dir .. "/metrics.jsonl", rows(1, 2) .. row_of(3, 9)))
    while read() do end
    assert.same({ 1, 2, 3 }, seen)
    assert.equal(1, restarts)
  end)

  it("reads nothing twice: the bytes that are read are those that are new", function()
    append(dir .. "/metrics.jsonl", rows(4, 2000))
    read()
    local library = tiny.library().io
    local opened, bytes = library.open, 0
    library.open = function(...)
      local file, message = opened(...)
      if not file then return file, message end
      return setmetatable({}, { __index = function(_, name)
        return function(_, ...)
          local result = file[name](file, ...)
          if name == "read" and type(result) == "string" then bytes = bytes + #result end
          return result
        end
      end, __close = function() file:close() end })
    end
    append(dir .. "/metrics.jsonl", rows(2001, 2001))
    local ok, err = pcall(read)
    library.open = opened
    assert(ok, err)
    assert.equal(2001, #seen)
    assert.is_true(bytes > 0 and bytes < 1000, bytes .. " bytes read")
  end)
end)
