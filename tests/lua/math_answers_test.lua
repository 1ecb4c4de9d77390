-- Pairs of answers with the verdict of a person, beside math_verify's: tests/oracles/math_pairs.py.

local grpo = require "grpo"
local numeric = require "rewards.numeric"
local tiny = require "tests.lua.tiny"

local function equal(given, gold)
  return numeric.equal("\\boxed{" .. given .. "}", { answer = gold })
end

local function where(gold, given) return ("gold %s, given %s"):format(gold, given) end

local by_kind, kinds = {}, {}
for line in io.lines("tests/cases/math/pairs.jsonl") do
  local row = grpo.json.decode(line)
  if not by_kind[row[1]] then
    by_kind[row[1]], kinds[#kinds + 1] = {}, row[1]
  end
  table.insert(by_kind[row[1]], row)
end

describe("numeric.equal on answers in prose", function()
  for want, name in pairs { [1] = "finds them", [0] = "is not deceived" } do
    it(name, function()
      local count = 0
      for line in io.lines("tests/cases/math/prose.jsonl") do -- [text, gold, want], by hand
        local row = grpo.json.decode(line)
        if row[3] == want then
          assert.equal(want, numeric.equal(row[1], { answer = row[2] }), where(row[2], row[1]))
          count = count + 1
        end
      end
      assert.is_true(count > 35)
    end)
  end
end)

describe("numeric.equal on pairs of answers", function()
  for _, kind in ipairs(kinds) do
    it(("%s: %d pairs"):format(kind, #by_kind[kind]), function()
      for _, row in ipairs(by_kind[kind]) do
        local want = row[4]
        if want == grpo.json.null then want = nil end
        assert.equal(want, equal(row[3], row[2]), where(row[2], row[3]))
      end
    end)
  end

  it("agrees with math_verify and a person on 179 pairs", function()
    local oracle = tiny.oracle "math/cases"
    if not oracle then return pending("needs GRPO_SHARED with oracles/math/cases.json") end
    for _, c in ipairs(oracle.cases) do
      assert.equal(c.want and 1 or 0, equal(c.answer, c.gold), where(c.gold, c.answer))
    end
    assert.equal(179, #oracle.cases)
  end)
end)
