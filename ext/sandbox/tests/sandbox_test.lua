-- grpo.sandbox.run: code that a model wrote sees nothing of ours, and is ended.
local grpo = require "grpo"
local attacks = require "tests.lua.attacks"
local core = require "grpo.core"
local run = grpo.sandbox.run

for _, isolate in ipairs { false, "process" } do
  local function box(code, opts)
    opts = opts or {}
    opts.isolate, opts.time = isolate, opts.time or 60
    return run(code, opts)
  end
  describe(isolate and "a sandbox in a process" or "a sandbox", function()
    it("gives results and output", function()
      local ok, results, output = box("print('hello', x) io.write(1, 'b') "
        .. "return x + 1, nil, { a = { x } }", { env = { x = 4 } })
      assert.is_true(ok)
      assert.same({ 5, nil, { a = { 4 } }, n = 3 }, results)
      assert.equal("hello\t4\n1b", output)
    end)
    it("gives a message and what was printed before", function()
      local ok, message, output = box("print(1) error('no')")
      assert.is_false(ok)
      assert.equal("sandbox:1: no", message)
      assert.equal("1\n", output)
      ok, message = box("return )")
      assert.is_false(ok)
      assert.matches("^sandbox:1: unexpected symbol", message)
    end)
    it("has no files, processes, modules, debug library or bytecode", function()
      local _, results = box([[return os, require, package, debug, dofile, loadfile, io.open,
        string.dump, grpo, load("\27Lua"), load("return os")()]])
      for i = 1, results.n do assert.is_nil(i ~= 11 and results[i] or nil) end
    end)
    it("draws the same random numbers each time", function()
      local _, first = box("return math.random(1e9), math.random()")
      local _, second = box("return math.random(1e9), math.random()")
      assert.same(first, second)
    end)
    it("shares nothing with the caller", function()
      local env = { t = { 1 } }
      box("t[1] = 2 string.format = nil x = 1", { env = env })
      assert.same({ 1 }, env.t)
      assert.equal("1", string.format("%d", 1))
      assert.is_nil(rawget(_G, "x"))
      local ok = box("return getmetatable('').__index.format('%d', 1)")
      assert.is_true(ok)
    end)
    it("lets values out that mean something outside", function()
      local _, results = box([[return print, coroutine.create(print),
        setmetatable({ 1 }, { __index = print }), 0/0 ~= 0/0]])
      assert.same({ "function", "thread", { 1 }, true, n = 4 }, results)
    end)
    it("keeps a megabyte of output", function()
      local ok, _, output = box("for i = 1, 100 do print(('x'):rep(1e5)) end")
      assert.is_true(ok)
      assert.is_true(#output < 2 ^ 20 + 100)
      assert.matches("the output continues", output)
    end)
    it("ends by the wall clock where nothing else does", function()
      local ok, message = run("while true do end",
        { time = 0.05, instructions = 1e15, isolate = isolate })
      assert.is_false(ok)
      assert.matches("took longer than 0.05 seconds", message)
    end)
  end)
end

describe("grpo.sandbox.run", function()
  local sources = {}
  local text = assert(core.fs.read("tests/lua/attacks.lua"))
  for name, source in text:gmatch('name = "([^"]+)",[^\n]-%s+run = (function.-end) },?\n') do
    sources[#sources + 1] = { name = name, source = source }
  end
  it("knows the attacks", function() assert.is_true(#sources > 20 and #sources <= #attacks) end)
  for _, attack in ipairs(sources) do
    it("ends " .. attack.name, function()
      local ok, message = run("local f = " .. attack.source .. " return f()",
        { instructions = 1e6, memory = 16 * 2 ^ 20, time = 600 })
      assert.is_false(ok)
      assert.is_true(message:find("used up its 1000000 instructions", 1, true) ~= nil
        or message:find("needs more than its 16 MB", 1, true) ~= nil
        or message:find("value %(global '%a+'%)$") ~= nil -- debug and require are not there
        or message:find("finalizer", 1, true) ~= nil, message)
    end)
  end
  -- what the code leaves behind must not be called when it has ended
  local left_behind = {
    { "string.gsub = function() while true do end end error('x')", "x$" },
    { "getmetatable('').__tostring = function() error('x') end error('y')", "y$" },
    { "getmetatable('').__tostring = function() while true do end end error({})",
      "a table was raised" },
    { "local _, e = pcall(string.find, 'a', '%') "
      .. "getmetatable(e).__tostring = function() error('x') end error(e)", "malformed pattern" },
    { "error(setmetatable({}, { __tostring = function() while true do end end }))", "used up its" },
    { "error(setmetatable({}, { __tostring = function() return ('x'):rep(2 ^ 27) end }))",
      "needs more than its 64 MB" },
    { "error(setmetatable({}, { __tostring = function() local s = 'x' "
      .. "for _ = 1, 29 do s = s .. s end return s end }))", "needs more than its 64 MB" },
  }
  for i, row in ipairs(left_behind) do
    it(("ends with what the code raised (%d)"):format(i), function()
      local ok, message = run(row[1], { time = 60 })
      assert.is_false(ok)
      assert.matches(row[2], message)
    end)
  end
  it("repeats numbers and nothing as Lua does", function()
    local ok, results = run("return string.rep(5, 3), string.rep(5, '2', 1), "
      .. "string.rep('', 2 ^ 50), ('x'):rep(2.0)")
    assert.is_true(ok)
    assert.equal("555 515  xx", table.concat(results, " "))
    assert.is_true((run("getmetatable('').__tostring = function() error('x') end return 1")))
  end)
  it("costs the limited call around it what it used", function()
    local function busy(n) return ("for _ = 1, %d do end"):format(n) end
    local ok = core.limited({ instructions = 1e6 }, "reward", function() return run(busy(1e5)) end)
    assert.is_true(ok)
    local good, err = core.limited({ instructions = 1e6 }, "reward", function()
      for _ = 1, 100 do run(busy(1e5)) end
    end)
    assert.is_false(good)
    assert.matches("reward: used up its 1000000 instructions", tostring(err))
  end)
  it("gives no more than the call around it has left", function()
    local ok, inner, message = core.limited({ instructions = 1e6 }, "reward", function()
      return run("while true do end")
    end)
    assert.is_false(ok and inner and message or false)
  end)
  it("says what is wrong with its options", function()
    assert.has_error(function() run() end, "sandbox.run: got nil, want the code as a string")
    assert.matches("sandbox.tiem: unknown option, did you mean 'time'",
      select(2, pcall(run, "", { tiem = 1 })).message)
    assert.matches("sandbox.time: got 0, want a number",
      select(2, pcall(run, "", { time = 0 })).message)
    assert.matches("sandbox.isolate: got vm, want \"process\"",
      select(2, pcall(run, "", { isolate = "vm" })).message)
    assert.matches("sandbox.env.f is a function",
      select(2, pcall(run, "", { env = { f = print } })).message)
  end)
  it("leaves no memory behind", function()
    local code = "local t = {} for i = 1, 1000 do t[i] = {} end return t"
    run(code)
    collectgarbage()
    local before = core.mem().live
    for _ = 1, 20 do run(code) end
    collectgarbage()
    assert.equal(before, core.mem().live)
  end)
end)
