-- Code that runs out of a budget, by accident or on purpose, and the budget that ends it.  For the
-- tests of limits and for bench/limits:
-- { name =, budget = "instructions" | "memory", run = function }.
-- luacheck: ignore 241 (tables that only grow)

return {
  { name = "a loop around pcall", budget = "instructions",
    run = function() while true do pcall(function() while true do end end) end end },
  { name = "a pcall that returns at once", budget = "instructions",
    run = function() pcall(function() while true do end end) return 1 end },
  { name = "an xpcall whose handler loops", budget = "instructions", run = function()
    xpcall(function() error("x") end, function() while true do end end)
  end },
  { name = "a loop around such an xpcall", budget = "instructions", run = function()
    while true do xpcall(function() while true do end end, function() while true do end end) end
  end },
  { name = "a coroutine", budget = "instructions",
    run = function() coroutine.wrap(function() while true do end end)() end },
  { name = "a loop around resume", budget = "instructions", run = function()
    while true do coroutine.resume(coroutine.create(function() while true do end end)) end
  end },
  { name = "a chain of coroutines", budget = "instructions", run = function()
    local function deeper() coroutine.wrap(deeper)() end
    while true do pcall(deeper) end
  end },
  { name = "many short coroutines", budget = "instructions", run = function()
    while true do coroutine.wrap(function() for _ = 1, 200 do end end)() end
  end },
  { name = "a to-be-closed variable that loops", budget = "instructions", run = function()
    while true do
      pcall(function()
        local _ <close> = setmetatable({}, { __close = function() while true do end end })
        while true do end
      end)
    end
  end },
  { name = "a metamethod", budget = "instructions",
    run = function()
      return setmetatable({}, { __index = function() while true do end end }).x
    end },
  { name = "a comparator", budget = "instructions", run = function()
    table.sort({ 3, 2, 1 }, function() while true do end end)
  end },
  { name = "a sort of a table that lies about its length", budget = "instructions", run = function()
    table.sort(setmetatable({}, { __len = function()
      return 1 << 30
    end }), function() return true end)
  end },
  { name = "a pathological pattern for find", budget = "instructions",
    run = function() return (("a"):rep(60)):find(("a*"):rep(12) .. "b") end },
  { name = "a pathological pattern for match", budget = "instructions",
    run = function() return (("a"):rep(60)):match(("a*"):rep(12) .. "b") end },
  { name = "a pathological pattern for gmatch", budget = "instructions", run = function()
    for _ in (("a"):rep(60)):gmatch(("a*"):rep(12) .. "b") do end
  end },
  { name = "a pathological pattern for gsub", budget = "instructions",
    run = function() return (("a"):rep(60)):gsub(("a*"):rep(12) .. "b", "") end },
  { name = "%b over a long text, again and again", budget = "instructions", run = function()
    local s = ("("):rep(20000)
    return s:find("%b()x")
  end },
  { name = "table.move over everything, counted in floats", budget = "instructions",
    run = function() table.move({}, 1, 2 ^ 50, 2) end },
  { name = "table.insert into what lies about its length", budget = "instructions", run = function()
    table.insert(setmetatable({}, { __len = function() return 1 << 50 end }), 1.0, 3)
  end },
  { name = "a number repeated for ever", budget = "memory", run = function()
    return string.rep(5, 2 ^ 40)
  end },
  { name = "table.move over everything", budget = "instructions", run = function()
    table.move({}, 1, 1 << 50, 2)
  end },
  { name = "table.concat over everything", budget = "instructions",
    run = function() table.concat(setmetatable({},
    { __len = function() return 1 << 50 end,
    __index = function() return "" end })) end },
  { name = "table.insert into a table that lies about its length", budget = "instructions",
    run = function()
    table.insert(setmetatable({}, { __len = function() return 1 << 50 end }), 1, 1)
  end },
  { name = "table.unpack", budget = "instructions",
    run = function() while true do pcall(table.unpack, {}, 1, 200000) end end },
  { name = "a reader function", budget = "instructions", run = function()
    load(function() while true do end end)
  end },
  { name = "a reader whose text never ends", budget = "instructions", run = function()
    local s = (" "):rep(1 << 20)
    load(function() return s end)
  end },
  { name = "a letter more of a long text", budget = "instructions", run = function()
    local s = ("a"):rep(1 << 20)
    while true do local _ = s .. "b" end
  end },
  { name = "a number of a long text", budget = "instructions", run = function()
    local s = ("0"):rep(1 << 20)
    while true do tonumber(s) end
  end },
  { name = "a sort of one long text", budget = "instructions", run = function()
    local t, s = {}, ("a"):rep(1 << 20)
    for i = 1, 1000 do t[i] = s end
    while true do table.sort(t) end
  end },
  { name = "a replacement that is long and empty", budget = "instructions", run = function()
    return (("a"):rep(10000):gsub("a-", ("%0"):rep(1 << 19)))
  end },
  { name = "a regular expression that backtracks", budget = "instructions", run = function()
    local re = require "grpo.core".regex("(a+)+$")
    local s = ("a"):rep(60) .. "!"
    while true do pcall(re.find, re, s) end
  end },
  { name = "plain find in a long text", budget = "instructions", run = function()
    local s = ("a"):rep(1 << 20)
    while true do s:find("b", 1, true) end
  end },
  { name = "upper of a long text", budget = "instructions", run = function()
    local s = ("a"):rep(1 << 20)
    while true do s:upper() end
  end },
  { name = "collectgarbage", budget = "instructions", run = function()
    while true do collectgarbage() end
  end },
  { name = "a debug hook taken away", budget = "instructions", run = function()
    pcall(debug.sethook)
    while true do end
  end },
  { name = "a finalizer that loops", budget = "instructions", run = function()
    pcall(setmetatable, {}, { __gc = function() while true do end end })
    while true do collectgarbage() end
  end },
  { name = "code that is loaded", budget = "instructions", run = function()
    load("while true do end")()
  end },
  { name = "a table that grows", budget = "memory", run = function()
    local t = {}
    for i = 1, 1 << 40 do t[i] = { i } end
  end },
  { name = "a string that doubles", budget = "memory", run = function()
    local s = "x"
    while true do s = s .. s end
  end },
  { name = "a memory error that is caught", budget = "memory", run = function()
    while true do pcall(string.rep, "x", 1 << 30) end
  end },
  { name = "a table that grows, again and again", budget = "memory", run = function()
    while true do
      pcall(function()
        local t = {}
        for i = 1, 1 << 40 do t[i] = { i } end
      end)
    end
  end },
  { name = "string.rep to a gigabyte", budget = "memory", run = function()
    return ("x"):rep(1 << 30)
  end },
  { name = "table.concat of a long list", budget = "memory", run = function()
    local t, s = {}, ("x"):rep(1 << 16)
    for i = 1, 1 << 14 do t[i] = s end
    return table.concat(t)
  end },
}
