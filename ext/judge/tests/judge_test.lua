-- grpo.judge: programs that answer, or do not; verdicts of a model; what is kept.

local grpo = require "grpo"
local answers = require "grpo.judge.answers"
local core = require "grpo.core"
local tiny = require "tests.lua.tiny"
local verdicts = require "grpo.judge.verdicts"

local function program(mode, file) return { "sh", "ext/judge/tests/cases/grade.sh", mode, file } end

-- A group of completions.
local function group(texts, step)
  local cs = {}
  for i, text in ipairs(texts) do
    cs[i] = { text = text, prompt = "?", row = { answer = "x" }, step = step or 1, index = i }
  end
  return cs
end

-- The list of scores, the columns.
local function asked(judge, texts, step)
  return judge.group_fn(texts, { answer = "x" }, group(texts, step))
end

local function quick(o)
  o.timeout, o.backoff, o.retries = o.timeout or 0.5, o.backoff or 0.01, o.retries or 1
  return grpo.judge(o)
end

-- Forgets what was answered, as another process does.
local function forget() tiny.temporary(function(path)
  assert(core.fs.mkdirs(path))
  answers.open(path, false)
end) end

-- Notices are counted, not shown.
local function quiet(f)
  local notice, lines = core.notice, {}
  core.notice = function(text) lines[#lines + 1] = text end
  local ok, err = pcall(f)
  core.notice = notice
  if not ok then error(err, 0) end
  return lines
end

describe("a judge that is a program", function()
  it("scores each completion", function()
    forget()
    local judge = grpo.judge { command = program "good" }
    assert.same({ 1, 3, 0 }, (asked(judge, { "ab", "aaa", "b" })))
    assert.equal("grpo.Judge of sh ext/judge/tests/cases/grade.sh good", tostring(judge))
  end)

  it("may answer in any order, and is asked several questions at once", function()
    forget()
    local judge = grpo.judge { command = program "backwards", in_flight = 2 }
    assert.same({ 1, 3, 0, 2 }, (asked(judge, { "ab", "aaa", "b", "aa" })))
  end)

  it("is asked once for a text", function()
    forget()
    tiny.temporary(function(file)
      local judge = grpo.judge { command = program("good", file) }
      assert.same({ 1, 1, 2 }, (asked(judge, { "a", "a", "aa" })))
      assert.same({ 2, 1 }, (asked(judge, { "aa", "a" }, 9)))
      assert.equal(2, select(2, core.fs.read(file):gsub("\n", "")))
    end)
  end)

  for _, mode in ipairs { "hang", "dies", "garbage", "huge", "flood" } do
    it("costs a line if it is of the kind " .. mode, function()
      forget()
      local list, columns
      local lines = quiet(function()
        list, columns = asked(quick { command = program(mode) }, { "a", "b" })
      end)
      assert.same({ grpo.none, grpo.none }, list)
      assert.equal(2, #lines)
      assert.equal(1, columns[1].counts.silent)
      assert.matches(({ hang = "within 0.5 seconds", dies = "ended", garbage = "not an answer",
        huge = "mebibyte", flood = "nobody asks" })[mode], columns[1].problem)
      quiet(function()
        assert.same({ -2 }, (asked(quick { command = program(mode), on_error = -2 }, { "c" })))
        local strict = quick { command = program(mode), on_error = "stop" }
        tiny.refused("judge: ", asked, strict, { "d" })
      end)
    end)
  end

  it("is started again, and then asked again", function()
    forget()
    tiny.temporary(function(file)
      quiet(function()
        assert.same({ 1, 0 }, (asked(quick { command = program("once", file) }, { "a", "b" })))
      end)
      os.remove(file .. ".again")
    end)
  end)

  it("loses the answers that are late, and no other", function()
    forget()
    quiet(function()
      local list = asked(quick { command = program "some", in_flight = 1 }, { "a", "b", "aa" })
      assert.same({ 1, grpo.none, 2 }, list)
    end)
  end)

  it("may be none at all", function()
    forget()
    local lines = quiet(function()
      assert.same({ grpo.none }, (asked(quick { command = { "no/such/program" } }, { "a" })))
    end)
    assert.matches("ended", lines[1])
  end)

  it("cannot give what a reward cannot be", function()
    forget()
    for _, score in ipairs { "1e300", "-1e31", "[]", [["good"]] } do
      local say = [[while read -r l; do id=${l#*\"id\": }; id=${id%%[!0-9]*}; ]]
        .. ([[echo "{\"id\": $id, \"score\": %s}"; done]]):format((score:gsub('"', '\\"')))
      quiet(function()
        local list, columns = asked(quick { command = say }, { "a" })
        assert.same({ grpo.none }, list)
        assert.matches("without a score", columns[1].problem)
      end)
    end
  end)

  it("gives answers that parse reads, and is refused without one", function()
    forget()
    local say = [[while read -r l; do id=${l#*\"id\": }; id=${id%%[!0-9]*}; ]]
      .. [[echo "{\"id\": $id, \"answer\": \"grade 4\"}"; done]]
    local judge = grpo.judge { command = say,
      parse = function(answer) return tonumber(answer:match "%d") end }
    local list, columns = asked(judge, { "a" })
    assert.same({ 4 }, list)
    assert.equal("grade 4", columns[1].answer)
    -- another parse reads the kept answer
    judge = grpo.judge { command = say, parse = function() return true end }
    assert.same({ 1 }, (asked(judge, { "a" })))
    list, columns = asked(grpo.judge { command = say, parse = function() end }, { "a" })
    assert.same({ grpo.none }, list)
    assert.matches("parse found no number", columns[1].problem)
  end)
end)

describe("what is kept of judges", function()
  it("is read again, scores and failures alike", function()
    tiny.temporary(function(dir)
      assert(core.fs.mkdirs(dir))
      forget()
      local texts = { "a", "ab", "aa" }
      local asked_of = dir .. "/asked"
      local judge = quick { command = program("some", asked_of), in_flight = 1 }
      local first
      quiet(function()
        asked(judge, { "aaa" }) -- before the run has its directory
        answers.open(dir, true)
        first = asked(judge, texts, 3)
      end)
      assert.same({ 1, grpo.none, 2 }, first)
      os.remove(asked_of)
      answers.open(dir, true) -- a resume
      judge = grpo.judge { command = program("some", asked_of), in_flight = 1 }
      assert.same(first, (asked(judge, texts, 3)))
      assert.same({ 3 }, (asked(judge, { "aaa" }, 1)))
      assert.is_false(core.fs.exists(asked_of))
      quiet(function() -- in another step the silent one is asked again
        asked(quick { command = program("some", asked_of), in_flight = 1 }, { "ab" }, 4)
      end)
      assert.is_true(core.fs.exists(asked_of))
      -- a line that was cut short, and one that was changed, are asked for again
      local text = core.fs.read(dir .. "/judge.jsonl")
      assert(core.fs.write(dir .. "/judge.jsonl", text:gsub('"score": 2', '"score": 5') .. '{"ke'))
      os.remove(asked_of)
      answers.open(dir, true)
      assert.same({ 1, 2 }, (asked(judge, { "a", "aa" }, 3)))
      assert.equal(1, select(2, core.fs.read(asked_of):gsub("\n", "")))
      answers.open(dir, true)
      assert.same({ 2 }, (asked(judge, { "aa" }, 8)))
      forget()
    end)
  end)

  it("has the bits of every score", function()
    tiny.temporary(function(dir)
      assert(core.fs.mkdirs(dir))
      local score = 0.1 + 1 / 3 * 1e-7
      answers.open(dir, true)
      answers.keep { key = "k", judge = "j", score = score }
      answers.open(dir, false)
      assert.equal(score, answers.find("k", 1).score)
      forget()
    end)
  end)
end)

describe("verdicts", function()
  it("are weighed by their probabilities", function()
    local grades = { ["1"] = 1, ["2"] = 2, ["3"] = 3 }
    local logprobs = { ["1"] = math.log(0.1), ["2"] = math.log(0.2), ["3"] = math.log(0.05) }
    assert.near((0.1 + 0.4 + 0.15) / 0.35, verdicts.expected(grades, logprobs), 1e-12)
    assert.near(3, verdicts.expected(grades, { ["3"] = -900.0 }), 1e-12)
    assert.is_nil(verdicts.expected(grades, {}))
    assert.equal("2", verdicts.likeliest(grades, logprobs))
  end)
end)

describe("a judge that is a model", function()
  local function model()
    return grpo.model.new(tiny.llama { initializer_range = 0.3, max_position_embeddings = 64 },
      { seed = 4, tokenizer = grpo.tokenizer.chars("abcdefghijklmnopqrstuvwxyz?: ") })
  end

  it("gives the mean grade of its next token", function()
    forget()
    local m = model()
    local judge = grpo.judge { model = m, prompt = "is {completion} good? ",
      verdicts = { y = 1, n = 0, m = 0.5 } }
    local texts = { "abc", "", "zz" }
    local list = asked(judge, texts)
    for i, text in ipairs(texts) do
      local ids = m.tokenizer:encode("is " .. text .. " good? ", { special = true })
      local p = m:logits(ids)[#ids]:softmax(1):totable()
      local y, n, half = p[m.tokenizer:id "y" + 1], p[m.tokenizer:id "n" + 1],
        p[m.tokenizer:id "m" + 1]
      assert.near((y + half / 2) / (y + n + half), list[i], 1e-6)
    end
  end)

  it("takes verdicts of several tokens", function()
    forget()
    local m = model()
    local judge = grpo.judge { model = m, prompt = "{completion}?", verdicts = { yes = 1, no = 0 } }
    local function p(text)
      local ids = m.tokenizer:encode "ab?"
      local sum = 0.0
      for _, id in ipairs(m.tokenizer:encode(text)) do
        sum = sum + m:logits(ids)[#ids]:log_softmax(1):totable()[id + 1]
        ids[#ids + 1] = id
      end
      return math.exp(sum)
    end
    assert.near(p "yes" / (p "yes" + p "no"), asked(judge, { "ab" })[1], 1e-5)
  end)

  it("costs a line where a prompt is longer than its context", function()
    forget()
    local m = model()
    for _, o in ipairs { { verdicts = { yes = 1, no = 0 } },
      { parse = function(answer) return #answer end } } do
      o.model, o.prompt = m, "{completion}?"
      local list, columns
      local lines = quiet(function()
        list, columns = asked(grpo.judge(o), { ("a"):rep(63), "ab" })
      end)
      assert.equal(grpo.none, list[1])
      assert.equal("number", type(list[2]))
      assert.matches("64 tokens.*context of 64", columns[1].problem)
      assert.equal(1, #lines)
    end
  end)

  it("answers in words for parse", function()
    forget()
    local m = model()
    local seen = {}
    local judge = grpo.judge { model = m, max_new_tokens = 5,
      prompt = function(c) return c.text .. c.row.answer end,
      parse = function(answer, c)
        seen[c.index] = answer
        return #answer
      end }
    local list = asked(judge, { "ab", "ba" })
    for i, text in ipairs { "abx", "bax" } do
      local said = m:generate({ text }, { max_new_tokens = 5, temperature = 0 })[1].text
      assert.same({ said, #said }, { seen[i], list[i] })
    end
  end)
end)

describe("a judge's options", function()
  it("are checked", function()
    for words, o in pairs {
      ["judge: give one of model"] = {},
      ["judge: give one of model (a model of this process), command"] = { command = "x",
        url = "y" },
      ["judge.command: is empty"] = { command = {} },
      ["judge.url: got ftp://x, want an http:// or https:// address"] = { url = "ftp://x",
        prompt = "x", parse = print },
      ["judge.prompt: is missing"] = { url = "http://x", parse = print },
      ["judge: give verdicts = { yes = 1, no = 0 }, or parse"] = { url = "http://x", prompt = "x" },
      ["judge: give verdicts or parse, not both"] = { url = "http://x", prompt = "x", parse = print,
        verdicts = { yes = 1 } },
      ["judge.verdicts: want numbers by verdict"] = { url = "http://x", prompt = "x",
        verdicts = { "yes", "no" } },
      ["judge.on_error: got zero, want \"skip\", \"stop\" or a number"] = { command = "x",
        on_error = "zero" },
      ["judge.model: got a number, want the path of a model"] = { model = 3, prompt = "x",
        verdicts = { yes = 1 } },
      ["did you mean 'retries'"] = { command = "x", retrys = 3 },
      ["judge.verdicts: are weighed by a model"] = { command = "x", verdicts = { yes = 1 } },
      ["judge.key_env: the variable NO_SUCH_KEY is not set"] = { url = "http://x", prompt = "x",
        parse = print, key_env = "NO_SUCH_KEY" },
    } do
      tiny.fails(nil, words, grpo.judge, o)
    end
    tiny.fails(nil, "judge.command: is empty", grpo.judge, { command = "" })
  end)
end)

-- tests/oracles/judge.py wrote tests/cases/judge.jsonl with transformers.
describe("verdicts of a model", function()
  it("have the probabilities of transformers", function()
    forget()
    local tokenizer = grpo.tokenizer.chars("abcdefghijklmnopqrstuvwxyz .,:!?0")
    local models, n = {}, 0
    for line in io.lines "tests/cases/judge.jsonl" do
      local case = grpo.json.decode(line)
      models[case.model] = models[case.model]
        or grpo.model.load("tests/cases/families/" .. case.model, { tokenizer = tokenizer })
      local grades = {}
      for i, ids in ipairs(case.verdicts) do grades[tokenizer:decode(ids)] = case.grades[i] end
      local judge = grpo.judge { model = models[case.model], prompt = "{completion}",
        verdicts = grades }
      local score = asked(judge, { tokenizer:decode(case.prompt) })[1]
      assert.near(case.score, score, 2e-5)
      n = n + 1
    end
    assert.equal(48, n)
  end)
end)
