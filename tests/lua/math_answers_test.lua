-- Pairs of answers with the verdict of a person, beside math_verify's: tests/oracles/math_pairs.py.

local answer = require "grpo.answer"
local compare = require "grpo.answer.compare"
local grpo = require "grpo"
local numeric = require "rewards.numeric"
local parse = require "grpo.answer.parse"
local rational = require "grpo.answer.rational"
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

describe("many answers", function()
  it("get the number of the first one to which they are equal", function()
    local answers = { false, " " }
    for _, row in ipairs(by_kind[kinds[1]]) do answers[#answers + 1] = row[2] end
    for _, kind in ipairs(kinds) do
      for i = 1, math.min(4, #by_kind[kind]) do
        local row = by_kind[kind][i]
        table.move({ row[2], row[3], row[2], false }, 1, 4, #answers + 1, answers)
      end
    end
    local distinct, of_text, want = {}, {}, {}
    for i, text in ipairs(answers) do
      local place = text and of_text[text]
      for k = 1, text and not place and #distinct or 0 do
        place = place or answer.equal(text, distinct[k]) and k
      end
      if text and not place then
        distinct[#distinct + 1] = text
        place = #distinct
      end
      if text then of_text[text] = place end
      want[i] = place
    end
    assert.same(want, answer.numbered(answers))
    assert.is_true(#distinct < #answers - 20 and #distinct > 40)
  end)

  it("are the same work whatever was compared before", function()
    for _, pair in ipairs { { "x^2+sin(y)", "y^2+sin(x)" }, { "1/3+2^{0.5}", "2/7" },
      { "x = 2y + 1", "2y = x - 1" }, { "\\{1, 2\\}", "\\{2, 1\\}" } } do
      local a, b = parse.answer(pair[1]), nil
      b = parse.answer(pair[2])
      local function work()
        rational.budget = 100000
        compare.same(a, b)
        return 100000 - rational.budget
      end
      local first = work()
      assert.is_true(first > 20)
      assert.equal(first, work())
      compare.same(b, a)
      assert.equal(first, work())
    end
  end)
end)
