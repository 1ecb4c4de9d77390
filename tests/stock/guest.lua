-- Checks the state of a host after `require "grpo"`, and while limited code runs.  TAP on stdout.
local libraries = { _G, string, table, math, coroutine, debug, os, utf8, io }
local function snapshot()
  local copy = {}
  for i, library in ipairs(libraries) do
    copy[i] = {}
    for k, v in pairs(library) do copy[i][k] = v end
  end
  return copy
end
local function same(a, b)
  for i in ipairs(libraries) do
    for k, v in pairs(a[i]) do
      if b[i][k] ~= v then return false, tostring(k) end
    end
    for k in pairs(b[i]) do
      if a[i][k] == nil then return false, tostring(k) end
    end
  end
  return true
end

local number, bad = 0, 0
local function result(name, ok, why)
  number = number + 1
  print(("%sok %d - %s"):format(ok and "" or "not ", number, name))
  if not ok then
    bad = bad + 1
    print("# " .. tostring(why))
  end
end

-- a host's own ways
local turns = 0
debug.sethook(function() turns = turns + 1 end, "", 1000)
string.lower = function(s)
  return (s:gsub("%u", function(c) return string.char(c:byte() + 32) end))
end
local find, rep = string.find, string.rep
math.randomseed(7)
local drawn = { math.random(), math.random() }
math.randomseed(7)

local before = snapshot()
local grpo = require "grpo"
local core = require "grpo.core"
result("require leaves every global as it was", same(before, snapshot()))
result("no metatable of the host's is touched", getmetatable(_G) == nil
  and getmetatable("").__index == string)
local undefined_is_nil = rawget(_G, "undefined") == nil and undefined == nil -- luacheck: ignore
result("undefined globals are nil", undefined_is_nil)

local limits = { instructions = 1e6, memory = 16 * 2^20, seconds = 60 }
local function dies(name, f, what)
  local start = os.clock()
  local ok, e = core.limited(limits, "reward 'x'", f)
  local fine = not ok and e.code == "ELIMIT" and tostring(e):find(what, 1, true)
    and os.clock() - start < 5
  result(name .. " is stopped", fine, tostring(e))
  result(name .. ": the globals are back", same(before, snapshot()))
end
dies("a loop", function() while true do end end, "instructions")
dies("a loop in coroutines", function()
  while true do coroutine.wrap(function() for _ = 1, 100 do end end)() end
end, "instructions")
dies("a loop around pcall", function()
  while true do pcall(function() while true do end end) end
end, "instructions")
dies("xpcall with a looping handler", function()
  xpcall(function() while true do end end, function() while true do end end)
end, "instructions")
dies("a catastrophic pattern", function()
  return ("a"):rep(60):find(("a*"):rep(12) .. "b")
end, "instructions")
dies("string.rep of 1 GB", function() return ("x"):rep(1 << 30) end, "memory")
dies("string.rep of 1 GB by a local", function() return rep("x", 1 << 30) end, "memory")
dies("a table that grows", function()
  local t = {}
  for i = 1, math.huge do t[i] = {} end
end, "memory")
dies("debug.sethook", function() debug.sethook() end, "debug.sethook")
dies("a finalizer", function() setmetatable({}, { __gc = print }) end, "__gc")
dies("os.exit", function() os.exit(3) end, "os.exit")
result("limited code meets the host's own function", select(2, core.limited(limits, "f", function()
  return string.lower("ABC")
end)) == "abc")
result("limited code inside limited code", (function()
  local ok, inner, value = core.limited(limits, "outer", function()
    return core.limited(limits, "inner", function() return string.find == find end)
  end)
  return ok and inner and value == false
end)())
result("and the globals are back after both", same(before, snapshot()))

-- what it holds is decided alike on every run, whatever garbage there is
local function most()
  local n = 0
  core.limited(limits, "f", function()
    local t = {}
    while true do t[#t + 1] = { #t }; n = n + 1 end
  end)
  return n
end
local first = most()
local garbage = {}
for i = 1, 1e5 do garbage[i] = { i } end
garbage = nil -- luacheck: ignore
result("memory is counted alike beside garbage of the host's", most() == first)

result("the host's random numbers go on", (function()
  core.reseed_math(function() return 0.5 end)
  local _, seeded = core.limited(limits, "f", function() return math.random() end)
  local a, b = math.random(), math.random()
  core.reseed_math()
  return seeded == 0.5 and a == drawn[1] and b == drawn[2]
end)())
local counted = turns
for _ = 1, 1e5 do counted = counted + 0 end
result("the host's hook still runs", turns > counted)
debug.sethook()

local ok, e = pcall(function() grpo.tensor("x") end)
result("errors name the host's line", not ok and tostring(e):find("guest.lua:%d+: ") ~= nil, e)
result("modules of the Lua half are found", pcall(require, "grpo.schedule")
  and pcall(require, "rewards.gsm8k"))

grpo.guard()
local guarded = snapshot()
result("guard() leaves the guarded functions in place", string.find ~= find
  and pcall ~= before[1].pcall)
result("they do what Lua's do", ("a.b"):find(".", 1, true) == 2
  and select(2, pcall(error, "x", 0)) == "x")
local kept = string.find
ok, e = core.limited(limits, "f", function() return kept(("a"):rep(60), ("a*"):rep(12) .. "b") end)
result("and a local holds the guarded one", not ok and e.code == "ELIMIT")
grpo.guard()
result("twice is once", same(guarded, snapshot()))
print("1.." .. number)
os.exit(bad == 0, true)
