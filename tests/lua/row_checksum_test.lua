-- The checksum of a row: equal rows have equal ones, whatever their tables are made of.

local core = require "grpo.core"
local row_checksum = require "grpo.train.row_checksum"

local function many(order)
  local row = {}
  for _, i in ipairs(order) do row["field" .. i] = { i, text = ("x"):rep(i) } end
  return row
end

describe("row_checksum", function()
  it("does not depend on the order of keys", function()
    local up, down = {}, {}
    for i = 1, 50 do up[i], down[51 - i] = i, i end
    assert.equal(row_checksum.of(many(up)), row_checksum.of(many(down)))
  end)

  it("tells rows apart that differ in one value", function()
    local seen = {}
    for _, row in ipairs { {}, { a = 1 }, { a = 1.0 }, { a = "1" }, { b = 1 }, { a = { 1 } },
      { a = 1, b = false }, { a = 1, b = true }, { a = 1 / 0 }, { a = -0.0 }, { a = 0.0 }, "text",
      { a = core.json_null }, { print }, { { { 2 } } } } do
      local sum = row_checksum.of(row)
      assert.is_nil(seen[sum])
      seen[sum] = true
    end
  end)

  it("takes rows that no checkpoint could hold", function()
    local function row()
      local r = { name = "x", f = function() end, none = core.json_null, flag = false }
      r.itself, r[r] = r, 1
      return r
    end
    assert.equal(row_checksum.of(row()), row_checksum.of(row()))
    local other = row()
    other.name = "y"
    assert.is_false(row_checksum.of(row()) == row_checksum.of(other))
  end)
end)
