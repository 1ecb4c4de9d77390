-- Under limits patterns are matched by src/script/match.c, which must do what Lua's own code does.
local core = require "grpo.core"

-- Returns what f returns or raises, without limits and with them, without the position of an error.
local function both(f)
  local function plain(...)
    local out = table.pack(...)
    if not out[1] then out[2] = tostring(out[2]):gsub("^.-:%d+: ", "") end
    return out
  end
  local _, inside = core.limited({ instructions = 1e9 }, "f", function() return plain(pcall(f)) end)
  return plain(pcall(f)), inside
end

describe("a place that a pattern has captured", function()
  it("matches no text, as in Lua", function()
    for _, pattern in ipairs { "()%1", "()a%1", "(a)()%2", "(a)()%1" } do
      local found = select(2, core.limited({}, "f", string.find, "aab", pattern))
      assert.equal(string.find("aab", pattern), found)
      assert.equal(pattern == "(a)()%1" and 1 or nil, found)
    end
  end)
end)

describe("patterns under limits", function()
  it("have Lua's classes, for each byte", function()
    for class in ("acdglpsuwxzACDGLPSUWXZ"):gmatch(".") do
      local outside, inside = both(function()
        local found = {}
        for byte = 0, 255 do found[byte] = string.char(byte):match("%" .. class) ~= nil end
        return found
      end)
      assert.same(outside, inside, class)
    end
  end)
  it("replace by captures as Lua does", function()
    for _, by in ipairs { "%0", "%1", "%2", "%1%1", "%%", "<%1|%0>", "%2%", "%a", "%3", "%9", 7,
      1.5, {}, { ["a"] = 1, ["b"] = false, ["c"] = "%1" }, { a = {} },
      function(a) return a .. "!" end, function() return {} end } do
      for _, pattern in ipairs { "(%a)(%d?)", "%a", "()a", "(a)()", "", "^(a)" } do
        local outside, inside = both(function() return (("a1b2c"):gsub(pattern, by)) end)
        assert.same(outside, inside, pattern .. " by " .. tostring(by))
      end
    end
  end)
  it("count and limit replacements as Lua does", function()
    for _, n in ipairs { -1, 0, 1, 2, 100, 1.0, "2", "x", 1.5 } do
      local outside, inside = both(function() return ("aaa"):gsub("a", "%0b", n) end)
      assert.same(outside, inside, tostring(n))
    end
  end)
end)
