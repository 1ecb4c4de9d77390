local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local function round(v) return core.state_decode(core.state_encode(v)) end

describe("tr.state as bytes", function()
  it("keeps every kind of value exactly", function()
    local v = { 1, -1, math.maxinteger, math.mininteger, 0.1, -0.0, 1 / 0, -1 / 0, "a\0b", "", true,
      false,
      { x = { y = {} } },
      [true] = 1, [2.5] = "f" }
    local r = round(v)
    assert.same(v, r)
    assert.equal(-1 / 0, 1 / r[6])
    assert.equal("float", math.type(round(1.0)))
    assert.equal("integer", math.type(round(1)))
    assert.is_nil(round(nil))
    local nan = round(0 / 0)
    assert.is_true(nan ~= nan)
  end)
  it("keeps shared tables and cycles", function()
    local shared = { 1 }
    local v = { a = shared, b = shared }
    v.me = v
    local r = round(v)
    assert.is_true(rawequal(r.a, r.b))
    assert.is_true(rawequal(r, r.me))
  end)
  it("keeps JSON's null and its empty objects", function()
    local r = round { null = core.json_null, object = core.json_decode("{}"), list = {} }
    assert.is_true(rawequal(r.null, core.json_null))
    assert.equal('{"list": [], "null": null, "object": {}}', core.json_encode(r))
  end)
  it("is the same bytes however the table was filled", function()
    local a, b = {}, {}
    for i = 1, 100 do a["k" .. i] = i end
    for i = 100, 1, -1 do b["k" .. i] = i end
    assert.equal(core.state_encode(a), core.state_encode(b))
  end)
  it("names the path of what it cannot hold", function()
    tiny.refused("state%.a%.b is a function", core.state_encode, { a = { b = print } })
    tiny.refused("state%[1%]%.x is a userdata", core.state_encode, { { x = io.stdout } })
    assert.error_matches(function() core.state_encode { [{}] = 1 } end, "key that is a table")
    tiny.refused("state%.a has a metatable", core.state_encode, { a = setmetatable({}, {}) })
    local deep = {}
    for _ = 1, 500 do deep = { deep } end
    assert.error_matches(function() core.state_encode(deep) end, "nested deeper")
  end)
  it("refuses damaged bytes", function()
    local good = core.state_encode { a = { 1, "two", 3.0 }, b = true }
    assert.error_matches(function() core.state_decode("") end, "corrupt")
    for i = 1, #good - 1 do assert.is_false(pcall(core.state_decode, good:sub(1, i))) end
    assert.is_false(pcall(core.state_decode, good .. "x"))
    for i = 1, #good do
      for _, byte in ipairs { 0, 1, 127, 255 } do
        pcall(core.state_decode, good:sub(1, i - 1) .. string.char(byte) .. good:sub(i + 1))
      end
    end
    local ok, err = pcall(core.state_decode, "GST1{\255\255\255\255")
    assert.is_false(ok)
    assert.equal("EFORMAT", err.code)
    ok, err = pcall(core.state_decode, "GST1{\1\0\0\0{\0\0\0\0T") -- a table as a key
    assert.is_false(ok)
    assert.equal("EFORMAT", err.code)
  end)
end)
