local core = require "grpo.core"
local runner = require "grpo.test"
local tiny = require "tests.lua.tiny"

-- Runs a test file with this text; returns the counts and the report.
local function run(source, opts)
  local path, out = tiny.file(source), {}
  opts = opts or {}
  opts.write = function(s) out[#out + 1] = s end
  local counts = runner.run({ path }, opts)
  os.remove(path)
  return counts, table.concat(out):gsub(path:gsub("%W", "%%%0"), "FILE")
end

describe("the test runner", function()
  it("counts what passes, fails and waits", function()
    local counts, report = run [[
      describe("a", function()
        it("passes", function() assert.equal(1, 1.0) end)
        it("fails", function()
          assert.equal(1, 2)
        end)
        pending("waits")
        it("gives up", function() pending("no data") end)
      end)]]
    assert.same({ passed = 1, failed = 1, skipped = 2, files = 1 }, counts)
    assert.matches("FAILED a fails\n    FILE:4: expected 1, got 2\n", report)
    assert.matches("skipped a gives up: no data", report)
  end)

  it("writes TAP", function()
    local _, report = run([[
      it("one", function() end)
      it("two", function() error { 1 } end)
      pending("three")]], { tap = true })
    assert.matches("^ok 1 %- one\nnot ok 2 %- two\n    .*\nok 3 %- three # SKIP pending\n1%.%.3\n$",
      report)
  end)

  it("says where a test called what raised", function()
    local _, report = run [[
      it("calls", function()
        require("grpo.options").check({ x = 1 }, {}, "here", 1)
      end)]]
    assert.matches("FILE:2: .*here%.x: unknown option", report)
  end)

  it("counts a file that does not load as a failure", function()
    assert.equal(1, run("it(").failed)
    assert.equal(1, run("error 'no'").failed)
    assert.equal(1,
      runner.run({ "/nowhere/x_test.lua" }, { write = function() end }).failed)
  end)

  it("gives each file its own globals and each test the same random numbers", function()
    local counts = run [[
      leak = 1
      local first
      it("draws", function() first = math.random() end)
      it("draws the same", function() assert.equal(first, math.random()) end)]]
    assert.equal(2, counts.passed)
    assert.is_nil(rawget(_G, "leak"))
  end)

  it("runs before_each from the outside in and after_each back", function()
    local counts = run [[
      local log = {}
      local function note(s) return function() log[#log + 1] = s end end
      before_each(note "b1") after_each(note "a1")
      describe("inner", function()
        before_each(note "b2") after_each(note "a2")
        it("runs", note "t")
        it("had all", function() assert.same({ "b1", "b2", "t", "a2", "a1", "b1", "b2" }, log) end)
      end)]]
    assert.equal(2, counts.passed)
  end)

  it("filters by name", function()
    local source = 'for i = 1, 9 do it("t" .. i, function() end) end'
    assert.equal(1, run(source, { filter = "t7" }).passed)
  end)

  it("takes the test files of a directory, in order", function()
    tiny.temporary(function(dir)
      core.fs.mkdirs(dir)
      for _, name in ipairs { "b_test", "a", "a_test" } do
        core.fs.write(("%s/%s.lua"):format(dir, name), ("it('of %s', error)"):format(name))
      end
      local out = ""
      local counts = runner.run({ dir .. "/" }, { write = function(s) out = out .. s end })
      assert.equal(2, counts.files)
      assert.equal(2, counts.failed)
      assert.matches("of a_test.*of b_test", out)
    end)
  end)
end)

describe("assertions", function()
  it("hold for what they say", function()
    assert(true)
    assert.is_true(true)
    assert.is_false(false)
    assert.is_nil(nil)
    assert.truthy(0)
    assert.falsy(nil)
    assert.near(1, 1.001, 0.01)
    assert.same({ a = { 1, 2 } }, { a = { 1, 2 } })
    assert.matches("^%a+$", "abc")
    assert.has_error(function() error("boom") end, "boom")
    assert.has_error(function() error({ 1 }) end, { 1 })
    assert.error_matches(function() error("boom 42") end, "%d+")
    assert.are.equal(1, 1)
    assert.is_not.equal(1, 2)
    assert.has_no.errors(function() end)
    assert.is_not_nil(1)
  end)

  it("fail for what is otherwise", function()
    for _, fn in ipairs {
      function() assert(false) end,
      function() assert.is_true(1) end,
      function() assert.is_false(nil) end,
      function() assert.is_nil(false) end,
      function() assert.truthy(nil) end,
      function() assert.falsy(0) end,
      function() assert.near(1, 1.1, 0.01) end,
      function() assert.near(1, 0 / 0, 0.01) end,
      function() assert.same({ 1 }, { 1, 2 }) end,
      function() assert.matches("b", "aaa") end,
      function() assert.has_error(function() end) end,
      function() assert.has_error(function() error("a") end, "b") end,
      function() assert.is_not.equal(1, 1) end,
      function() assert.has_no.errors(function() error("x") end) end,
      function() assert.equals_to(1, 1) end,
    } do
      assert.is_false((pcall(fn)))
    end
  end)
end)
