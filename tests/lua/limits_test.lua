-- Budgets of script code: every attack named in docs, decided the same on every run.
local attacks = require "tests.lua.attacks"
local core = require "grpo.core"
local test = require "grpo.test"

-- Wall-clock time passes as the machine is loaded: here it only ends a test that hangs.  How little
-- an attack does after its budget is spent is counted in tests/script/test_budget.c.
local limits = { instructions = 1e6, memory = 16 * 2^20, seconds = 600 }

local function fails(f, code, pattern)
  local ok, err = core.limited(limits, "reward 'x'", f)
  assert.is_false(ok)
  assert.equal(code, err.code)
  assert.matches(pattern, tostring(err))
  return err
end

describe("core.limited", function()
  it("returns what the function returns", function()
    assert.same({ true, 1, nil, "x", n = 4 },
      table.pack(core.limited(limits, "f", function(a, b) return a, nil, b end, 1, "x")))
  end)
  it("keeps file and line of an error, and a traceback", function()
    local err = fails(function() error("boom") end, "ESCRIPT", "limits_test%.lua:%d+: boom")
    assert.matches("stack traceback", err.traceback)
  end)
  it("keeps a raised table as value", function()
    local ok, err = core.limited(limits, "f", function() error({ x = 1 }) end)
    assert.is_false(ok)
    assert.equal(1, err.value.x)
  end)
  it("leaves no limit behind", function()
    fails(function() while true do end end, "ELIMIT", "instructions")
    local n = 0
    for i = 1, 3e6 do n = n + i % 2 end
    assert.equal(1500000, n)
    assert.equal(1 << 20, #("x"):rep(1 << 20))
  end)
  it("runs without limits when none are given", function()
    assert.same({ true, 7, n = 2 }, table.pack(core.limited(nil, "f", function() return 7 end)))
  end)
  it("nests: the outer budget holds for the inner call too", function()
    local err = fails(function()
      return core.limited({ instructions = 1e12 }, "inner", function() while true do end end)
    end, "ELIMIT", "instructions")
    assert.matches("reward 'x'", tostring(err))
  end)
  it("charges an inner call to the outer budget", function()
    fails(function()
      for _ = 1, 100 do
        core.limited({ instructions = 1e5 }, "inner", function() while true do end end)
      end
    end, "ELIMIT", "instructions")
  end)
end)

describe("an instruction budget", function()
  it("is exact: the same number of turns on every run", function()
    local function turns()
      local n = 0
      core.limited({ instructions = 54321 }, "f", function() while true do n = n + 1 end end)
      return n
    end
    local first = turns()
    assert.is_true(first > 10000 and first < 54321)
    for _ = 1, 5 do assert.equal(first, turns()) end
  end)
  it("names the line that was running", function()
    fails(function()
      while true do end
    end, "ELIMIT", "limits_test%.lua:%d+: reward 'x': used up its 1000000 instructions")
  end)
  for _, attack in ipairs(attacks) do
    it("ends " .. attack.name, function()
      fails(attack.run, "ELIMIT", attack.budget)
    end)
  end
  it("does not count what runs outside", function()
    local co = coroutine.wrap(function() for i = 1, 1e9 do coroutine.yield(i) end end)
    for _ = 1, 1000 do co() end
    assert.same({ true, 1001, n = 2 }, table.pack(core.limited(limits, "f", co)))
  end)
  it("reaches a coroutine that was made outside", function()
    if core.is_guest() then
      test.skip("coroutine.wrap is the host's own outside of limited calls (docs/stock-lua.md)")
    end
    local co = coroutine.wrap(function() while true do end end)
    fails(co, "ELIMIT", "instructions")
    local other = coroutine.create(function() while true do end end)
    fails(function() while true do coroutine.resume(other) end end, "ELIMIT", "instructions")
  end)
  it("frees a coroutine that outlives the call", function()
    local co
    core.limited(limits, "f", function()
      co = coroutine.wrap(function() while true do coroutine.yield(1) end end)
      co()
    end)
    for _ = 1, 1e6 do co() end
  end)
  it("ends string.rep of nothing at once", function()
    local ok, s = core.limited(limits, "f", function() return ("").rep("", 1 << 50) end)
    assert.is_true(ok)
    assert.equal("", s)
  end)
end)

-- luacheck: push ignore 241 (tables that only grow)
describe("a memory budget", function()
  before_each(function() limits.instructions = 1e8 end)
  after_each(function() limits.instructions = 1e6 end)
  it("ends a table that grows", function()
    fails(function() local t = {} for i = 1, 1e9 do t[i] = i end end, "ELIMIT",
      "limits_test%.lua:%d+: reward 'x': needs more than its 16 MB")
  end)
  it("ends a string that doubles", function()
    fails(function() local s = "x" while true do s = s .. s end end, "ELIMIT", "16 MB")
  end)
  it("ends string.rep and table.concat", function()
    fails(function() return ("x"):rep(1 << 30) end, "ELIMIT", "16 MB")
    fails(function()
      local t = {}
      for i = 1, 100 do t[i] = "" end
      t[1] = ("x"):rep(2 ^ 20)
      for i = 2, 100 do t[i] = t[1] end
      return table.concat(t)
    end, "ELIMIT", "16 MB")
  end)
  it("cannot be caught", function()
    local after = 0
    fails(function()
      pcall(string.rep, "x", 1 << 30)
      after = after + 1
    end, "ELIMIT", "limits_test%.lua:%d+: reward 'x': needs more than its 16 MB")
    fails(function()
      pcall(function() local t = {} for i = 1, 1e9 do t[i] = i end end)
      after = after + 1
    end, "ELIMIT", "limits_test%.lua:%d+: reward 'x': needs more than its 16 MB")
    assert.equal(0, after)
  end)
  it("counts what is held, not what was thrown away", function()
    local ok, n = core.limited({ memory = 4 * 2^20 }, "f", function()
      local n = 0
      for i = 1, 2000 do n = n + #(("x"):rep(100000) .. i) end
      return n
    end)
    assert.is_true(ok)
    assert.is_true(n > 2e8)
  end)
  it("forgets how large Lua's table of strings was, once it is small again", function()
    local ok, e = core.limited({ memory = 5 * 2^20 }, "f", function()
      for round = 1, 25 do -- each makes the table grow by half a megabyte
        local strings = {}
        for i = 1, 60000 do strings[i] = round .. ":" .. i end
        strings = nil -- luacheck: ignore
        for _ = 1, 6 do collectgarbage() end
      end
    end)
    assert.is_true(ok, tostring(e))
  end)
  it("decides alike whatever garbage lies around", function()
    local function largest()
      local n = 0
      core.limited({ memory = 2^20 }, "f", function()
        local t = {}
        while true do
          t[#t + 1] = { n }
          n = n + 1
        end
      end)
      return n
    end
    collectgarbage()
    local first = largest()
    local litter = {}
    for i = 1, 1e5 do litter[i] = { tostring(i) .. "litter" } end
    litter = nil -- luacheck: ignore
    assert.equal(first, largest())
    collectgarbage("generational")
    assert.equal(first, largest())
    collectgarbage("incremental")
    assert.equal(first, largest())
  end)
  it("covers tensors", function()
    local grpo = require "grpo"
    fails(function() return grpo.zeros { 4096, 4096 } end, "ELIMIT", "MB")
    fails(function()
      local t = {}
      for i = 1, 1000 do t[i] = grpo.zeros { 1024, 64 } end
    end, "ELIMIT", "MB")
  end)
end)

-- luacheck: pop
describe("the wall clock", function()
  it("ends a call and marks the error fatal", function()
    local ok, err = core.limited({ seconds = 0.05 }, "slow", function() while true do end end)
    assert.is_false(ok)
    assert.equal("ELIMIT", err.code)
    assert.is_true(err.fatal)
    assert.matches("slow: took longer than 0.05 seconds", tostring(err))
  end)
end)

describe("limited code", function()
  it("may not have finalizers, hooks or bytecode", function()
    fails(function()
      setmetatable({}, { __gc = function() while true do end end })
    end, "ELIMIT", "__gc")
    fails(function() debug.sethook() end, "ELIMIT", "debug%.sethook")
    fails(function() os.exit(0) end, "ELIMIT", "os%.exit")
    local code = string.dump(function() return 1 end)
    local _, f, message = core.limited(limits, "f", function() return load(code) end)
    assert.is_nil(f)
    assert.matches("attempt to load a binary chunk", message)
    assert.equal(1, load(code)())
  end)
  it("sees the same functions of tables", function()
    local function list() return { 5, 3, "x", 4.5, "y", n = 2 } end
    local like = { __len = function() return 3 end, __index = function(_, i) return i * 2 end,
      __newindex = function(t, k, v) rawset(t, k, v) end }
    local function proxy() return setmetatable({}, like) end
    local bare = setmetatable({}, { __len = function() return "x" end })
    local empty = {}
    local cases = {
      { "insert", 1, 1 }, { "insert", 6, 1 }, { "insert", 7, 1 }, { "insert", 0, 1 },
      { "insert", 1 }, { "insert" }, { "insert", 1, 2, 3 }, { "insert", "x", 1 },
      { "remove" }, { "remove", 1 }, { "remove", 5 }, { "remove", 6 }, { "remove", 7 },
      { "remove", 0 }, { "remove", "2" }, { "remove", 1.5 },
      { "move", 1, 5, 2 }, { "move", 2, 5, 1 }, { "move", 1, 0, 3 }, { "move", 1, 3, 3, empty },
      { "move", math.mininteger, math.maxinteger, 1 }, { "move", 1, 2, math.maxinteger },
      { "move", 1, 2 }, { "concat" }, { "concat", "," }, { "concat", ",", 2, 3 },
      { "concat", ",", 3, 2 }, { "concat", 1 }, { "concat", {} }, { "concat", ",", 1, 9 },
      { "unpack" }, { "unpack", 2 }, { "unpack", 2, 3 }, { "unpack", 3, 2 },
      { "unpack", 1, 1e9 }, { "unpack", math.mininteger, math.maxinteger }, { "unpack", 1.5 },
      { "sort" }, { "sort", 1 }, { "sort", function(a, b) return tostring(a) < tostring(b) end },
      { "sort", rawequal } }
    local function results(t, case)
      local out = table.pack(pcall(table[case[1]], t, table.unpack(case, 2)))
      if type(t) == "table" then
        for k, v in pairs(t) do out["t" .. tostring(k)] = v end
      end
      for k, v in pairs(empty) do out["e" .. tostring(k)], empty[k] = v, nil end
      for i = 1, out.n do if type(out[i]) == "table" then out[i] = "table" end end
      return out
    end
    for _, case in ipairs(cases) do
      for _, make in ipairs { list, proxy, function() return { 3, 1, 2 } end,
        function() return bare end, function() return 7 end, function() return {} end,
        function() return "text" end } do
        local ok, inside = core.limited({ instructions = 1e12 }, "f", results, make(), case)
        assert.is_true(ok)
        assert.same(results(make(), case), inside, case[1] .. " " .. tostring(case[2]))
      end
    end
  end)
  it("sees the same pattern functions", function()
    local subjects = { "", "a", "hello world from Lua", "THE (quick) fox", "  trim me  ",
      "key = value", "2024-01-31",
      "x=1, y=2", "ünïcödé", "a.b.c", "[[x]]", "%d", "aaa", "abcabc", ("ab"):rep(50), "\0\1\0" }
    local patterns = { "", "a", ".", "%a+", "%s*(.-)%s*$", "^%s*(.-)%s*$", "(%w+)%s*=%s*(%w+)",
      "(%d+)-(%d+)-(%d+)",
      "%f[%w]%w+", "%b()", "()a()", "[^%s]+", "[a-c]*", "%[", "(a)(b)?c-", "(.)%1", "a-b", "^a",
      "a$",
        "[%a_][%w_]*", "%z",
      "[]]", "[^]]", "[a-]", "$", "^", "x*", "(()())", "[%-x]", "%.", "%%" }
    local function results(s, p)
      local all = { table.pack(pcall(string.find, s, p)), table.pack(pcall(string.match, s, p)),
        table.pack(pcall(string.match, s, p, 3)), table.pack(pcall(string.find, s, p, -3)),
        table.pack(pcall(string.gsub, s, p, "<%0>")),
        table.pack(pcall(string.gsub, s, p, string.upper, 2)),
        table.pack(pcall(string.gsub, s, p, { a = "A" })) }
      local list = {}
      for a, b in s:gmatch(p) do list[#list + 1] = tostring(a) .. "," .. tostring(b) end
      all[#all + 1] = list
      return all
    end
    for _, s in ipairs(subjects) do
      for _, p in ipairs(patterns) do
        local ok, inside = core.limited(nil, "f", results, s, p)
        assert.is_true(ok)
        assert.same(results(s, p), inside)
      end
    end
  end)
  it("refuses the same malformed patterns", function()
    for _, p in ipairs { "[", "[a", "%", "(", ")", "(()", "%b", "%bx", "%f", "%fx", "%1", "(a)%2",
      "[%" } do
      local a = pcall(string.find, "abc", p)
      local _, b = core.limited(limits, "f", function() return (pcall(string.find, "abc", p)) end)
      assert.equal(a, b, p)
    end
  end)
  it("draws math.random from the given stream", function()
    local function draws()
      core.reseed_math(core.rng(7, "reward", 1, 2, 3))
      local _, t = core.limited(limits, "f", function() -- outside math.random is a host's own
        local list = { math.random(), math.random(10), math.random(5, 6), math.random(-3, 3) }
        math.randomseed(99)
        list[5] = math.random(1, 1000)
        return list
      end)
      core.reseed_math(nil)
      return t
    end
    local first = draws()
    assert.same(first, draws())
    assert.is_true(first[2] >= 1 and first[2] <= 10 and math.type(first[2]) == "integer")
  end)
end)

describe("core.protected", function()
  it("gives an error object with a traceback", function()
    local ok, err = core.protected(function() error("boom") end)
    assert.is_false(ok)
    assert.matches("limits_test%.lua:%d+: boom", tostring(err))
    assert.matches("traceback", err.traceback)
    assert.equal(1, core.status_exit(err))
  end)
end)
