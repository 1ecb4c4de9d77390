-- The checksum of a row: equal rows have equal ones, whatever their tables are made of.

local core = require "grpo.core"
local row_checksum = require "grpo.options.row_checksum"

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

  -- A random row, the same for equal seeds.
  local function random_row(seed)
    local rng, fields = core.rng(seed, "task", 0, 0, 0), {}
    local function value(depth)
      local kind = math.floor(rng() * (depth < 3 and 6 or 4))
      if kind == 0 then return rng() < 0.5 end
      if kind == 1 then return math.floor(rng() * 1000) end
      if kind == 2 then return rng() end
      if kind == 3 then return ("word "):rep(math.floor(rng() * 5)) .. rng() end
      local t = {}
      for i = 1, 1 + math.floor(rng() * 4) do
        local key = kind == 4 and i or "key" .. i
        t[key] = value(depth + 1)
        fields[#fields + 1] = { t, key }
      end
      return t
    end
    local row = { value(0), name = value(1) }
    fields[#fields + 1], fields[#fields + 2] = { row, 1 }, { row, "name" }
    return row, fields, rng
  end

  it("notices one changed value in 5000 random rows", function()
    for seed = 1, 5000 do
      local row, fields, rng = random_row(seed)
      local sum = row_checksum.of(row)
      assert.equal(sum, row_checksum.of((random_row(seed))))
      local place = fields[math.floor(rng() * #fields) + 1]
      local old = place[1][place[2]]
      place[1][place[2]] = type(old) == "number" and old + 1 or type(old) == "boolean" and not old
        or type(old) == "string" and old .. " " or nil
      assert.is_false(row_checksum.of(row) == sum, "row " .. seed)
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
