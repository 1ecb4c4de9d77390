-- tasks/wordmath.lua - small word problems in GSM8K's format, made on the spot.
--
--   row = { question = "Tom has 5 apples and gets 3 more. ...",
--           answer = "5 + 3 = <<5+3=8>>8 apples.\n#### 8", template = "gain", numbers = "5,3",
--           steps = 1, index = 1 }
--
-- Twelve templates of one to four steps, whole numbers below 100, 4.9 million different questions
-- (wordmath.possible() counts them).  A hash of a problem's template and numbers decides on which
-- side of the train / eval split it is, so no held-out problem can occur in training, whatever the
-- seeds, and neither can its question with other names and things.
--
-- wordmath.demonstration is a weak teacher on purpose: its steps are right, but every second
-- demonstration slips in the final number or in the format.

local answer = require "grpo.answer"
local options = require "grpo.options"

local wordmath = {}

local people = { "Tom", "Ann", "Ben", "Mia", "Sam", "Eva", "Leo", "Zoe" }
local things = { "apples", "books", "coins", "cards", "pens", "cups", "balls", "eggs" }

local LARGEST = 99 -- no number in a problem is above this, no result below 1
local HELD_OUT = 10 -- one in 10 combinations of template and numbers is for evaluation

-- {P} and {Q} are people, {O} is a thing; small letters are numbers, random ones from their range
-- or results of a step.  Numbers whose steps leave 1..LARGEST, or divide unevenly, are rejected.
local templates = {
  { name = "gain", numbers = { a = { 2, 20 }, b = { 2, 15 } }, steps = { "p=a+b" },
    question = "{P} has {a} {O} and gets {b} more. How many {O} does {P} have now?" },
  { name = "lose", numbers = { a = { 8, 30 }, b = { 2, 15 } }, steps = { "p=a-b" },
    question = "{P} has {a} {O} and loses {b}. How many {O} are left?" },
  { name = "bags", numbers = { a = { 2, 9 }, b = { 2, 9 } }, steps = { "p=a*b" },
    question = "{P} fills {a} bags with {b} {O} each. How many {O} is that?" },
  { name = "loose", numbers = { a = { 2, 5 }, b = { 2, 9 }, c = { 2, 9 } },
    steps = { "p=a*b", "q=p+c" },
    question = "{P} has {a} bags of {b} {O} and {c} loose {O}. How many {O} in all?" },
  { name = "trade", numbers = { a = { 3, 20 }, b = { 2, 10 }, c = { 2, 10 } },
    steps = { "p=a+b", "q=p-c" },
    question = "{P} has {a} {O}, buys {b} and sells {c}. How many {O} does {P} have now?" },
  { name = "more", numbers = { a = { 3, 20 }, b = { 2, 10 } }, steps = { "p=a+b", "q=a+p" },
    question = "{P} has {a} {O}. {Q} has {b} more than {P}. How many {O} do they have together?" },
  { name = "times", numbers = { a = { 2, 9 }, b = { 2, 5 }, c = { 2, 9 } },
    steps = { "p=a*b", "q=p-c" },
    question = "{P} has {a} {O}. {Q} has {b} times as many but loses {c}. How many {O} has {Q}?" },
  { name = "share", numbers = { a = { 2, 20 }, b = { 2, 10 }, c = { 2, 5 } },
    steps = { "p=a+b", "q=p/c" },
    question = "{P} has {a} {O} and {Q} has {b}. They put them evenly into {c} bags. "
      .. "How many {O} are in a bag?" },
  { name = "days", numbers = { a = { 2, 5 }, b = { 2, 5 }, c = { 2, 5 }, d = { 2, 5 } },
    steps = { "p=a*b", "q=c*d", "r=p+q" },
    question = "{P} makes {a} {O} a day for {b} days. {Q} makes {c} a day for {d} days. "
      .. "How many {O} is that together?" },
  { name = "rest", numbers = { a = { 20, 40 }, b = { 2, 5 }, c = { 2, 5 }, d = { 2, 9 } },
    steps = { "p=b*c", "q=a-p", "r=q+d" },
    question = "{P} has {a} {O}, gives {b} friends {c} each and finds {d}. "
      .. "How many {O} does {P} have now?" },
  { name = "boxes",
    numbers = { a = { 2, 5 }, b = { 2, 5 }, c = { 2, 5 }, d = { 2, 5 }, e = { 2, 9 } },
    steps = { "p=a*b", "q=c*d", "r=p+q", "s=r-e" },
    question = "{P} packs {a} boxes of {b} {O} and {c} boxes of {d}, then sells {e} {O}. "
      .. "How many {O} are left?" },
  { name = "week",
    numbers = { a = { 5, 20 }, b = { 2, 9 }, c = { 2, 9 }, d = { 2, 9 }, e = { 2, 9 } },
    steps = { "p=a+b", "q=p-c", "r=q+d", "s=r-e" },
    question = "{P} has {a} {O}, finds {b}, loses {c}, buys {d} and sells {e}. "
      .. "How many {O} does {P} have now?" },
}
for _, t in ipairs(templates) do
  t.names = {} -- of the random numbers, in order
  for name in ("abcde"):gmatch(".") do
    if t.numbers[name] then t.names[#t.names + 1] = name end
  end
end

-- ---- working out ------------------------------------------------------------------------

local apply = {
  ["+"] = function(a, b) return a + b end,
  ["-"] = function(a, b) return a - b end,
  ["*"] = function(a, b) return a * b end,
  ["/"] = function(a, b) return a % b == 0 and a // b or nil end,
}

-- Runs a template's steps on the numbers in `v`, adding each result to it.  Returns
-- { { left, operator, right, result }, ... }, or nil when the numbers do not work out.
local function work_out(t, v)
  local done = {}
  for i, step in ipairs(t.steps) do
    local name, left, op, right = step:match("^(%a)=(%a)(%p)(%a)$")
    local result = apply[op](v[left], v[right])
    if not result or result < 1 or result > LARGEST then return nil end
    v[name] = result
    done[i] = { v[left], op, v[right], result }
  end
  return done
end

-- FNV-1a, 32 bits: the same everywhere, unlike anything built in.
local function hash(text)
  local h = 2166136261
  for i = 1, #text do h = ((h ~ text:byte(i)) * 16777619) & 0xffffffff end
  return (h ~ h >> 15) * 0x2c1b3c6d >> 12 & 0xfffff -- the low bits of FNV alone mix badly
end

local function is_held_out(name, numbers)
  return hash(name .. ":" .. numbers) % HELD_OUT == 0
end

-- ---- problems ---------------------------------------------------------------------------

local function between(rng, low, high)
  return low + math.floor(rng() * (high - low + 1))
end

-- Samples a template's numbers until they work out and are on the wanted side of the split.
local function sample(t, rng, held_out)
  while true do
    local v, list = {}, {}
    for i, name in ipairs(t.names) do
      v[name] = between(rng, t.numbers[name][1], t.numbers[name][2])
      list[i] = v[name]
    end
    local numbers = table.concat(list, ",")
    local steps = work_out(t, v)
    if steps and is_held_out(t.name, numbers) == held_out then return v, numbers, steps end
  end
end

-- A solution in GSM8K's format: lines like "5 + 3 = <<5+3=8>>8 apples.", then "#### 8".
local function written_out(steps, thing)
  local lines = {}
  for i, s in ipairs(steps) do
    local left, op, right, result = table.unpack(s)
    lines[i] = ("%d %s %d = <<%d%s%d=%d>>%d %s."):format(left, op, right, left, op, right, result,
      result, thing)
  end
  lines[#lines + 1] = ("#### %d"):format(steps[#steps][4])
  return table.concat(lines, "\n")
end

--- One problem.
---@param rng fun(): number uniform in [0, 1)
---@param split? "train"|"eval"|"demo" demonstrations are on the training side
---@param index? integer kept in the row; decides whether its demonstration is right
---@return table row
function wordmath.problem(rng, split, index)
  local t = templates[between(rng, 1, #templates)]
  local v, numbers, steps = sample(t, rng, split == "eval")
  local p, q = between(rng, 1, #people), between(rng, 1, #people - 1)
  v.P, v.Q = people[p], people[q < p and q or q + 1]
  v.O = things[between(rng, 1, #things)]
  return {
    question = t.question:gsub("{(%a)}", v),
    answer = written_out(steps, v.O),
    template = t.name, numbers = numbers, steps = #steps, index = index,
  }
end

local stream = { train = 0, eval = 1, demo = 2 } -- so that one seed serves all three

--- A dataset of n problems.
---@param opts? { seed: integer?, n: integer?, split: "train"|"eval"|"demo"? }
function wordmath.dataset(opts)
  local o = options.check(opts, {
    seed = { type = "integer", default = 0 },
    n = { type = "integer", default = 8192, min = 1 },
    split = { type = "string", default = "train", one_of = { "train", "eval", "demo" } },
  }, "wordmath.dataset")
  return require("grpo").data.generate(function(rng, i)
    return wordmath.problem(rng, o.split, i)
  end, { seed = o.seed * 3 + stream[o.split], n = o.n })
end

--- How many different questions there are, exactly, and the number of combinations of template
--- and numbers among them.
---@return integer questions
---@return integer combinations
---@return table<string, integer> by_template combinations of each
function wordmath.possible()
  local questions, combinations, by_template = 0, 0, {}
  for _, t in ipairs(templates) do
    local count = 0
    local function fill(v, i)
      local name = t.names[i]
      if not name then
        if work_out(t, v) then count = count + 1 end
        return
      end
      for x = t.numbers[name][1], t.numbers[name][2] do
        v[name] = x
        fill(v, i + 1)
      end
    end
    fill({}, 1)
    local pairs_of_people = t.question:find("{Q}", 1, true) and #people * (#people - 1) or #people
    questions = questions + count * pairs_of_people * #things
    combinations = combinations + count
    by_template[t.name] = count
  end
  return questions, combinations, by_template
end

-- ---- prompts and demonstrations
-- ------------------------------------------------------------------------

---@param row { question: string }
---@return string
function wordmath.prompt(row) return row.question .. "\n" end

-- The thinking lines, "5+3=8" each, and the final number.
local function parts(row)
  local lines = {}
  for step in row.answer:gmatch("<<([^<>]*)>>") do lines[#lines + 1] = step end
  return table.concat(lines, "\n"), answer.hashed(row.answer)
end

local layout = "<thinking>\n%s\n</thinking>\n<answer>\n%s\n</answer>"

--- The right completion: the steps as bare equations, in the strict layout.
---@param row { answer: string }
---@return string
function wordmath.solution(row) return layout:format(parts(row)) end

-- The faults of the weak teacher.  Each function takes thinking, number and a random integer.
local slips = { 1, -1, 2, -2, 10, -10 }
local faults = {
  slip = function(thinking, number, h)
    local n = math.tointeger(tonumber(number))
    local wrong = n + slips[h % #slips + 1]
    return layout:format(thinking, wrong >= 0 and wrong or n - wrong)
  end,
  unclosed = function(thinking, number)
    return ("<thinking>\n%s\n</thinking>\n<answer>\n%s"):format(thinking, number)
  end,
  unopened = function(thinking, number)
    return ("<thinking>\n%s\n</thinking>\n%s\n</answer>"):format(thinking, number)
  end,
  joined = function(thinking, number)
    return ("<thinking>\n%s\n</thinking>\n<answer>%s</answer>"):format(thinking, number)
  end,
  chatty = function(thinking, number)
    return layout:format(thinking, number) .. ("\nIt is %s."):format(number)
  end,
}
-- Slips of the number are as frequent as all faults of form together.
local fault_of = { "slip", "unclosed", "slip", "unopened", "slip", "joined", "slip", "chatty" }

--- The fault of a row's demonstration: "slip", "unclosed", "unopened", "joined", "chatty", or nil.
--- Every even row has a fault, chosen by a hash of the row, and no odd one.
---@param row table
---@param index? integer default row.index
---@return string|nil fault
---@return integer|nil h a random number for the fault to use
function wordmath.fault(row, index)
  index = index or row.index
  if math.type(index) ~= "integer" then error("wordmath: the row has no index; give one", 2) end
  if index % 2 == 1 then return nil end
  local h = hash(row.question .. index)
  return fault_of[h % #fault_of + 1], h // #fault_of
end

--- The weak teacher's text: of any even number of neighbouring demonstrations exactly half are
--- right.
---@param row table
---@param index? integer default row.index
---@return string
function wordmath.demonstration(row, index)
  local fault, h = wordmath.fault(row, index)
  if not fault then return wordmath.solution(row) end
  local thinking, number = parts(row)
  return faults[fault](thinking, number, h)
end

--- Counts the right and wrong demonstrations of these rows, as judged by the rewards.
---@param rows table[]
---@return { n: integer, right: integer, wrong_answer: integer, wrong_format: integer }
function wordmath.teacher_stats(rows)
  local gsm8k = require "rewards.gsm8k"
  local stats = { n = 0, right = 0, wrong_answer = 0, wrong_format = 0 }
  for i = 1, #rows do
    local row = rows[i]
    local text = wordmath.demonstration(row)
    local verdict = "right"
    if gsm8k.layout(text) ~= 1 then
      verdict = "wrong_format"
    elseif gsm8k.correct(text, row) ~= 1 then
      verdict = "wrong_answer"
    end
    stats.n, stats[verdict] = stats.n + 1, stats[verdict] + 1
  end
  return stats
end

return wordmath
