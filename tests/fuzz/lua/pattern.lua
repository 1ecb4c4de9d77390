-- A Lua pattern, a subject and a replacement, separated by NULs: the bounded functions of limited
-- calls (src/script/match.c) give what Lua's own functions give, or both refuse.
local core = require "grpo.core"
local expect = require "expect"

local LIMITS = { instructions = 300000, memory = 1 << 24 }

local function all(s, pattern)
  local list = {}
  for a, b in s:gmatch(pattern) do
    list[#list + 1] = tostring(a) .. "/" .. tostring(b)
    if #list > 200 then break end
  end
  return table.concat(list, ",")
end

local calls = {
  function(s, p) return string.find(s, p) end,
  function(s, p) return string.find(s, p, 3) end,
  function(s, p) return string.find(s, p, -2, true) end,
  function(s, p) return string.match(s, p) end,
  function(s, p, r) return string.gsub(s, p, r) end,
  function(s, p) return string.gsub(s, p, { a = "b" }, 2) end,
  function(s, p) return string.gsub(s, p, function(x) return x == "a" and "c" end) end,
  all,
}

local function shown(results)
  local list = {}
  for i = 1, results.n do list[i] = tostring(results[i]) end
  return table.concat(list, "\n")
end

return function(input)
  local pattern, subject, by = expect.parts(input, 3)
  if #subject > 64 then subject = subject:sub(1, 64) end
  for i, f in ipairs(calls) do
    local bounded = table.pack(core.limited(LIMITS, "target", f, subject, pattern, by))
    if not bounded[1] and bounded[2].code == "ELIMIT" then return end
    local own = table.pack(pcall(f, subject, pattern, by))
    local what = ("call %d"):format(i)
    expect.equal(bounded[1], own[1], what .. ": " .. tostring(bounded[2]) .. " / "
      .. tostring(own[2]))
    if own[1] then expect.equal(shown(bounded), shown(own), what) end
  end
end
