local gsm8k = require "rewards.gsm8k"
local wordmath = require "experiments.tasks.wordmath"

-- A generator of numbers in [0, 1) that needs no engine.
local function stream(seed)
  local state = seed * 7919 + 1
  return function()
    state = (state * 48271 + 11) % 2147483647
    return state / 2147483647
  end
end

local function problems(split, seed, n)
  local rng, rows = stream(seed), {}
  for i = 1, n do rows[i] = wordmath.problem(rng, split, i) end
  return rows
end

describe("wordmath problems", function()
  it("number in the millions, from at least six templates", function()
    local questions, combinations, by_template = wordmath.possible()
    assert.equal(4888384, questions)
    assert.equal(71131, combinations)
    local templates = 0
    for _ in pairs(by_template) do templates = templates + 1 end
    assert.equal(12, templates)
  end)

  it("keep the held-out ones apart, in question and in template and numbers", function()
    local question, numbers = {}, {}
    for seed, split in pairs { [1] = "train", [2] = "demo" } do
      for _, row in ipairs(problems(split, seed, 10000)) do
        question[row.question] = true
        numbers[row.template .. ":" .. row.numbers] = true
      end
    end
    local seen = {}
    for _, row in ipairs(problems("eval", 1, 2000)) do
      assert.is_nil(question[row.question])
      assert.is_nil(numbers[row.template .. ":" .. row.numbers])
      seen[row.template] = true
    end
    local templates = 0
    for _ in pairs(seen) do templates = templates + 1 end
    assert.equal(12, templates) -- every template has held-out problems too
  end)

  it("are in GSM8K's format, with one to four right steps in small whole numbers", function()
    local steps_seen = {}
    for _, row in ipairs(problems("train", 3, 5000)) do
      local steps, last = 0, nil
      for left, op, right, result, again in row.answer:gmatch("<<(%d+)(%p)(%d+)=(%d+)>>(%d+)") do
        local value = load(("return %s %s %s"):format(left, op, right))()
        assert.equal(value, tonumber(result))
        assert.equal(result, again)
        assert.is_true(value >= 1 and value <= 99)
        steps, last = steps + 1, result
      end
      assert.equal(row.steps, steps)
      assert.equal(last, row.answer:match("\n#### (%d+)$"))
      steps_seen[steps] = true
    end
    assert.same({ true, true, true, true }, steps_seen)
  end)

  it("are short, and fully filled in", function()
    for _, row in ipairs(problems("train", 4, 5000)) do
      local _, words = row.question:gsub("%S+", "")
      assert.is_true(words <= 35)
      assert.is_nil(row.question:find("[{}]"))
      assert.is_true(#wordmath.prompt(row) + #wordmath.solution(row) <= 200)
      local first, second = row.question:match("(%u%a%a) .*(%u%a%a) has")
      if row.template == "more" then assert.is_not.equal(first, second) end
    end
  end)

  it("are the same for the same numbers drawn", function()
    assert.same(problems("eval", 5, 50), problems("eval", 5, 50))
  end)

  it("come as a dataset", function()
    local ds = wordmath.dataset { seed = 1, n = 10, split = "eval" }
    assert.equal(10, #ds)
    assert.equal(1, ds[1].index)
    assert.error_matches(function() wordmath.dataset { splt = "eval" } end, "did you mean 'split'")
  end)
end)

describe("wordmath.solution", function()
  it("earns every reward its maximum", function()
    for _, row in ipairs(problems("eval", 6, 2000)) do
      local text = wordmath.solution(row)
      assert.equal(1, gsm8k.correct(text, row))
      assert.equal(1, gsm8k.integer(text))
      assert.equal(1, gsm8k.layout(text))
      assert.equal(0, gsm8k.nothing_after(text))
    end
  end)

  it("is a line per step", function()
    local row = { answer = "5 + 3 = <<5+3=8>>8 cups.\n8 * 2 = <<8*2=16>>16 cups.\n#### 16" }
    assert.equal("<thinking>\n5+3=8\n8*2=16\n</thinking>\n<answer>\n16\n</answer>",
      wordmath.solution(row))
  end)
end)

describe("wordmath.demonstration", function()
  local rows = problems("demo", 7, 4000)

  it("is wrong in exactly half of any even number of neighbours", function()
    local wrong_before = { [0] = 0 }
    for i, row in ipairs(rows) do
      local text, fault = wordmath.demonstration(row), wordmath.fault(row)
      local right = gsm8k.correct(text, row) == 1 and gsm8k.layout(text) == 1
        and gsm8k.integer(text) == 1 and gsm8k.nothing_after(text) == 0
      assert.equal(fault == nil, right)
      wrong_before[i] = wrong_before[i - 1] + (right and 0 or 1)
    end
    for _, size in ipairs { 2, 4, 50, 1000, 4000 } do
      for first = 1, #rows - size + 1, 7 do
        assert.equal(size / 2, wrong_before[first + size - 1] - wrong_before[first - 1])
      end
    end
  end)

  it("has right steps even where it is wrong, and keeps to one text", function()
    for _, row in ipairs(rows) do
      local text = wordmath.demonstration(row)
      assert.equal(text, wordmath.demonstration(row, row.index))
      assert.equal(wordmath.solution(row):match("^.-</thinking>"), text:match("^.-</thinking>"))
    end
  end)

  it("errs in every way it knows, as often in the number as in the form", function()
    local stats = wordmath.teacher_stats(rows)
    assert.equal(4000, stats.n)
    assert.equal(2000, stats.right)
    assert.near(1000, stats.wrong_answer, 120)
    assert.equal(2000, stats.wrong_answer + stats.wrong_format)
    local kinds = {}
    for _, row in ipairs(rows) do
      local fault = wordmath.fault(row)
      kinds[fault or "none"] = (kinds[fault or "none"] or 0) + 1
    end
    for _, kind in ipairs { "slip", "unclosed", "unopened", "joined", "chatty" } do
      assert.is_true((kinds[kind] or 0) > 150)
    end
  end)

  it("cannot be told from the question", function()
    local wrong = {}
    for i, row in ipairs(rows) do
      wrong[row.template] = wrong[row.template] or { 0, 0 }
      local w = wrong[row.template]
      w[1], w[2] = w[1] + (i % 2 == 0 and 1 or 0), w[2] + 1
    end
    for _, w in pairs(wrong) do assert.near(0.5, w[1] / w[2], 0.1) end
  end)

  it("wants an index", function()
    assert.error_matches(function()
      wordmath.demonstration { question = "x", answer = "#### 1" }
    end, "no index")
  end)
end)
