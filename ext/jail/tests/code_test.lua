local code = require "rewards.code"
local core = require "grpo.core"
local grpo = require "grpo"

local no_jail = grpo.jail.problem()

-- A test that runs programs.
local function runs(name, f)
  it(name, function()
    if no_jail then pending(no_jail) end
    f()
  end)
end

local function fenced(body, language) return ("```%s\n%s\n```"):format(language or "sh", body) end

-- The reward of one program, and its columns.
local function score(opts, body, tests)
  local rewards, columns = code.passes(opts)({ fenced(body, opts.language) }, { tests = tests })
  return rewards[1], columns[1]
end

it("the functions of rewards.code that make a reward are known", function()
  local reward_factory = require "grpo.options.reward_factory"
  assert.equal("code.passes", reward_factory.of(code.passes).name)
  assert.is_nil(reward_factory.of(code.block))
end)

describe("code.block", function()
  it("is the last block of the language, or the first", function()
    local text = "a\n```python\nx = 1\n```\nb\n```sh\nls\n```\n```py\nx = 2\n\ny = 3\n```\nc"
    assert.equal("x = 2\n\ny = 3", code.block(text, "python"))
    assert.equal("x = 1", code.block(text, "python", "first"))
    assert.equal("ls", code.block(text, "sh"))
    assert.equal("x = 1", code.block(text, nil, "first"))
    assert.is_nil(code.block(text, "lua"))
  end)

  it("reads fences as Markdown does", function()
    for _, case in ipairs {
      { "```python\nx", nil },                                  -- not closed
      { "```python\n```", "" },
      { "```python\nx\n``` ", "x" },
      { "````python\n```\nx\n```\n````", "```\nx\n```" },       -- shorter fences are text
      { "~~~python\nx\n```\n~~~", "x\n```" },
      { "   ```python\nx\n   ```", "x" },
      { "    ```python\nx\n    ```", nil },                     -- indented code
      { "say ```python\nx\n```", nil },                         -- the line begins with a word
      { "```Python title=\"a\"\nx\n```", "x" },
      { "```python3\nx\n```", "x" },
      { "```pythonic\nx\n```", nil },
      { "```\nx\n```", nil },
      { "```text\n```python\n```\nno", nil },
      { "```python\nx\n```x\n```", "x\n```x" },                 -- a closing fence has no word
      { "", nil }, { "```", nil },
    } do assert.equal(case[2], code.block(case[1], "python"), case[1]) end
  end)
end)

describe("code.block in quotes and lists", function()
  it("takes the indentation of the fence off the lines", function()
    for _, case in ipairs {
      { "  ```python\n  x = 1\n  ```", "x = 1" },
      { "  ```python\n x\n    y\n  ```", "x\n  y" },
      { "   ~~~~python\n   x\n   ~~~\n    y\n  ~~~~~ ", "x\n~~~\n y" }, -- a longer fence closes
      { "  ```python\n\tx\n\t\ty\n  ```", "  x\n  \ty" },            -- two columns of a tab
      { "```python\n\tx\n```", "\tx" },
    } do assert.equal(case[2], code.block(case[1], "python"), case[1]) end
  end)

  it("finds fences in items", function()
    local body = "def add(a, b):\n    return a + b\n\nx = 1"
    local function indented(with)
      return (("```python\n" .. body .. "\n```"):gsub("([^\n]+)", with .. "%1"))
    end
    for _, text in ipairs {
      "1. Solution:\n\n" .. indented "   ", "10. Solution:\n\n" .. indented "    ",
      "- a\n  1) b\n\n" .. indented "     ", "* a\n" .. indented "  " .. "\n* b",
      "- " .. indented "  ":sub(3), "-\n" .. indented "  ", "-   a\n" .. indented "      ",
      "-\ta\n\n" .. indented "\t", "1.\ta\n\t- b\n\n" .. indented "\t  ",
      "- - - " .. indented "      ":sub(7), "123456789. a\n" .. indented "           ",
      "1. a\nlazy\n" .. indented "      ",   -- the paragraph continues
      "1. Solution:\n\n   ```python\n" .. body .. "\n```",       -- lines that are not indented
      "1. Solution:\n" .. indented "",
    } do assert.equal(body, code.block(text, "python"), text) end
    assert.is_nil(code.block("1. a\n\nb\n\n" .. indented "    ", "python")) -- the list has ended
    assert.is_nil(code.block("1. a\n\n" .. indented "       ", "python"))   -- indented code
    assert.is_nil(code.block("1. a\n   ```python\n   x", "python"))
    assert.is_nil(code.block("1968 was\n    ```python\n    x\n    ```", "python"))
  end)

  it("finds fences in quotes", function()
    for _, case in ipairs {
      { "> ```python\n> x\n>   y\n>\n> ```", "x\n  y\n" },
      { ">```python\n>x\n>```", "x" },
      { "> > ```python\n> > x\n> > ```", "x" },
      { "> - a\n>\n>   ```python\n>   x\n>   ```", "x" },
      { "- a\n  > ```python\n  > x\n  > ```", "x" },
      { "> ```python\n> x\n```python\ny\n```", "y" },  -- the quote ends, and its fence with it
      { "> ```python\nx\n```", nil },
      { "- ```python\n  x\n\ntext\n\n```python\ny\n```", "y" },
    } do assert.equal(case[2], code.block(case[1], "python"), case[1]) end
  end)

  it("is linear in the length of the text", function()
    for _, text in ipairs { ("- "):rep(50000), (">"):rep(20000) .. ("\n>"):rep(20000),
      ("- "):rep(200) .. ("\n"):rep(20000), (" "):rep(100000), ("```\n"):rep(25000),
      ("1. a\n"):rep(20000), ("- "):rep(90) .. "\n" .. ((" "):rep(1000) .. "\n"):rep(100) } do
      local limits = core.limits { instructions = 1e8, memory = 2^27 }
      local ok, found = core.limited(limits, "reward", code.block, text, "python")
      assert.is_true(ok, tostring(found))
      assert.is_nil(found)
    end
  end)
end)

describe("code.passes", function()
  local reads = { { input = "2 3\n", output = "5" }, { input = "4 4\n", output = "8\n" },
    { input = "1 1", output = "2" }, { input = "0 9\n", output = "10" } }

  runs("is the share of the tests that pass", function()
    local reward, columns = score({ language = "sh" }, "read a b; echo $((a + b))", reads)
    assert.equal(0.75, reward)
    assert.same({ runs = 4, passed = 3, failed = 1 }, columns.counts)
    assert.equal("test 4: wrong output", columns.problem)
    assert.equal(0, score({ language = "sh", all = true }, "read a b; echo $((a + b))", reads))
  end)

  runs("puts a test that is code behind the program", function()
    local add = "add() { echo $(($1 + $2)); }"
    local tests = { '[ "$(add 1 2)" = 3 ]', '[ "$(add 1 2)" = 4 ]\n[ 1 = 1 ]' }
    assert.equal(0.5, score({ language = "sh" }, add, tests))
  end)

  runs("gives nothing to a program that ends before its tests", function()
    for _, body in ipairs { "exit 0", "kill -9 $$", "exec true", "echo passed; exit 0" } do
      assert.equal(0, score({ language = "sh" }, body, { "true" }))
    end
  end)

  -- Programs that leave open what comes behind them, or change what a test means.
  local fakes = {
    sh = { "cat <<E", "cat <<'E'\nx", "alias set=:", "alias [=true test=true", "alias false=true",
      "false() { :; }\ntest() { :; }", "trap 'exit 0' EXIT", "x='", 'x="', "x=`", "set -n",
      "trap 'eval \"$(tail -n 3 main.sh)\"' EXIT", "exec cat main.sh", "if false; then", "(",
      "eval \"$(tail -n 2 main.sh | head -n 1)\"; exit 0", "case x in x)", "x=$(cat <<E", "{",
      "return 0", "while read x; do", "f() {", "\\", "false &&", "false ||", "! ",
      "printf() { :; }", "exec 0<&-; exit" },
    python = { '"""', "x = (", "if False:", "def f():", "x = '''", "x = 1 \\", "raise SystemExit",
      "import os; print(open('main.py').read()); os._exit(0)", "@print", "#", "try:", "f'''{",
      "import atexit; atexit.register(lambda: print(open('main.py').read()))",
      "exec(open('main.py').read().split('\\n')[-2])\nraise SystemExit" },
    lua = { "--[[", "--[==[", "x = [[", "if false then", "do return end", "os.exit(0)", "x = (",
      "x = '\\", "goto e", "return", "function f()", "repeat", "--", "if true then return end",
      "for l in io.lines('main.lua') do print(l) end os.exit(0)" },
    javascript = { "/*", "`", "if (false)", "while (false)", "for (; 0;)", "if (1) {} else", "`${",
      "process.exit(0)", "return", "x = '\\", "if (false) {", "0 &&", "do", "x =>", "l:", "//",
      "let text = require('fs').readFileSync(__filename, 'utf8')\n"
        .. "console.log('\\n' + text.match(/passed-\\w+/)[0]); process.exit(0)",
      "console.log('\\n' + String(arguments.callee).match(/passed-\\w+/)[0]); process.exit(0)",
      "(function f() { console.log('\\n' + String(f.caller).match(/passed-\\w+/)[0]) })()\n"
        .. "process.exit(0)",
      "Error.prepareStackTrace = (e, s) => s.map(c => String(c.getFunction())).join()\n"
        .. "console.log('\\n' + new Error().stack.match(/passed-\\w+/)[0]); process.exit(0)",
      "let p = require('vm').Script.prototype\np.runInThisContext = () => {}\n"
        .. "Object.getPrototypeOf(p).runInContext = () => {}", "eval = globalThis.eval = () => {}",
      "Function.prototype.call = Function.prototype.apply = Reflect.apply = () => {}",
      "process.on('uncaughtException', () => {})",
      "const fs = require('fs')\nfor (const f of fs.readdirSync('.'))\n"
        .. "  console.log('\\n' + (fs.readFileSync(f, 'utf8').match(/passed-\\w+/) || [])[0])\n"
        .. "process.exit(0)" },
  }
  local failing = {
    sh = { "false", "[ 1 = 2 ]", "test 1 = 2", "cat <<E >/dev/null\nE\nfalse", "(exit 1) # E" },
    python = { "assert False", "'''a'''\nassert False", '"""b"""\nassert False',
      "if True:\n  assert False" },
    lua = { "error('no')", "--[[ x ]] error('no')", "error('no') --[==[ ]==]", "error([[no]])" },
    javascript = { "throw 1", "throw 1 /* c */", "throw 1 // `", "/* a */ throw `b`",
      "throw `c` // `" },
  }
  local programs = { sh = "sh", python = "python3", lua = "lua5.4", javascript = "node" }
  local function not_here(language)
    return grpo.jail.problem { command = { programs[language] } }
  end

  for _, language in ipairs { "sh", "python", "lua", "javascript" } do
    runs("pays nothing for a program of " .. language .. " that swallows its tests", function()
      if not_here(language) then pending "is not installed" end
      local texts = {}
      for i, body in ipairs(fakes[language]) do texts[i] = fenced(body, language) end
      local passes = code.passes { language = language, wall_seconds = 60 }
      for i, reward in ipairs(passes(texts, { tests = failing[language] })) do
        assert.equal(0, reward, texts[i])
      end
    end)
  end

  runs("lets a test see what the program has defined", function()
    for language, case in pairs {
      sh = { "add() { echo $(($1 + $2)); }\nfalse", '[ "$(add 1 2)" = 3 ]\ncat <<E\nx\nE' },
      lua = { "#!/bin/lua\nlocal function add(a, b) return a + b end", "assert(add(1, 2) == 3)" },
      javascript = { "const add = (a, b) => a + b", "require('assert').equal(add(1, 2), 3)" },
      python = { "from __future__ import annotations\nimport sys\ndef add(a, b):\n  return a + b\n"
        .. "if __name__ == '__main__': x = 1", "assert add(x, 2) == 3\nassert len(sys.argv) == 1" },
    } do
      if not not_here(language) then
        local opts = { language = language, wall_seconds = 60 }
        local reward, columns = score(opts, case[1], { case[2] })
        assert.equal(1, reward, columns.problem)
      end
    end
  end)

  runs("lets a script of JavaScript do what a module may", function()
    if not_here "javascript" then pending "is not installed" end
    local program = "#!/usr/bin/env node\nconst assert = require('assert')\nlet n = 1\n"
      .. "exports.two = () => 2\nclass A {}\nif (require.main === module) n = 5"
    local reward, columns = score({ language = "javascript", wall_seconds = 60 }, program, {
      "assert(module.exports.two() === 2 && n === 5 && new A())",
      "/* \u{2028} \"quotes\" \\ %s */\nassert.equal(`a\\n`, 'a\\n')",
      "import('fs').then(m => assert(m.readFileSync))",
      "(async () => { await null; throw 1 })()", "assert(false)" })
    assert.equal(3 / 5, reward, columns.problem)
  end)

  runs("lets a test in sh reach a tool past the program's functions", function()
    local program = "grep() { return 0; }\ncommand() { return 0; }\nPATH=."
      .. "\nprintf '#!/bin/sh\\n' > grep; chmod +x grep"
    local tests = { "echo a | command -p grep -q b", "echo a | command -p grep -q a" }
    assert.equal(0.5, score({ language = "sh" }, program, tests))
  end)

  runs("raises an error where the interpreter cannot start", function()
    local function refused(opts, pattern)
      assert.error_matches(function() code.passes(opts) end, pattern)
    end
    if not not_here "javascript" then
      refused({ language = "javascript", memory_mib = 256 },
        "'node' cannot start, because [^\n]*memory[^\n]*; raise memory_mib %(256%)[^\n]*$")
    end
    if not not_here "python" then
      refused({ memory_mib = 8 }, "'python3' cannot start, [^\n]*; raise memory_mib %(8%)[^\n]*$")
    end
    refused({ language = "sh", command = { "sh", "-c", "kill -11 $$" } }, "'sh' cannot start, ")
    refused({ language = "x", command = { "no-such-program" }, file = "x" },
      "cannot run 'no%-such%-program'[^\n]*; install it")
    code.passes { language = "x", command = { "sh", "-c", "test -s x" }, file = "x" }
  end)

  runs("tells how runs ended", function()
    local function counts(body, opts)
      local o = { language = "sh" }
      for name, v in pairs(opts or {}) do o[name] = v end
      local reward, columns = score(o, body, { { output = "x" } })
      assert.equal(0, reward)
      return columns.counts, columns.problem
    end
    assert.same({ runs = 1, passed = 0, failed = 1 }, (counts "echo y"))
    assert.same({ runs = 1, passed = 0, crashed = 1 }, (counts "kill -11 $$"))
    assert.same({ runs = 1, passed = 0, out_of_time = 1 },
      (counts("while :; do :; done", { seconds = 0.5, wall_seconds = 60 })))
    assert.same({ runs = 1, passed = 0, waited = 1 }, (counts("sleep 99", { wall_seconds = 0.5 })))
    assert.same({ runs = 1, passed = 0, flooded = 1 }, (counts("yes", { output_bytes = 100 })))
    local _, problem = counts "echo first >&2; echo last >&2; exit 7"
    assert.equal("test 1: exit status 7: last", problem)
    local rewards, columns = code.passes { language = "sh" }({ "no code", "" },
      { tests = { "true" } })
    assert.same({ 0, 0 }, rewards)
    assert.same({ without_code = 1 }, columns[2].counts)
  end)

  runs("gives each program its own reward, in order", function()
    local texts = {}
    for i = 1, 7 do texts[i] = fenced("echo " .. i % 3) end
    local rewards = code.passes { language = "sh", at_once = 3 }(texts,
      { tests = { { output = "1" } } })
    assert.same({ 1, 0, 0, 1, 0, 0, 1 }, rewards)
  end)

  runs("judges any output within the limits of a reward", function()
    local passes = code.passes { language = "sh" }
    local spaces = "head -c 65000 /dev/zero | tr '\\0' ' '"
    local letters = "head -c 65000 /dev/zero | tr '\\0' x"
    local body = ("%s; echo x; (%s; echo; echo last) >&2; exit 1"):format(spaces, letters)
    local limits = core.limits { instructions = 5e6, memory = 2^26 }
    local ok, rewards, columns = core.limited(limits, "reward", passes, { fenced(body) },
      { tests = { { output = "x" } } })
    assert.is_true(ok, tostring(rewards))
    assert.same({ 0 }, rewards)
    assert.equal("test 1: exit status 1: last", columns[1].problem)
  end)

  runs("gives the program more files", function()
    local opts = { language = "sh", files = function(row) return { ["in/a.txt"] = row.text } end }
    local rewards = code.passes(opts)({ fenced "cat in/a.txt" },
      { text = "hello", tests = { { output = "hello" } } })
    assert.equal(1, rewards[1])
  end)

  runs("knows Python, where it is installed", function()
    if grpo.jail.problem { command = { "python3" } } then return end
    local opts = { language = "python" }
    local tests = { "assert add(1, 2) == 3", "assert add(2, 2) == 5" }
    assert.equal(0.5, score(opts, "def add(a, b):\n  return a + b", tests))
    for _, body in ipairs { "import os; os._exit(0)", "import sys; sys.exit()", "raise SystemExit",
      "import socket; socket.create_connection(('127.0.0.1', 22))", "x = 'a' * 10**10" } do
      assert.equal(0, score(opts, body, { "pass" }))
    end
  end)

  runs("names what is wrong", function()
    local function fails(opts, row, pattern)
      assert.error_matches(function() code.passes(opts)({ fenced "true" }, row) end, pattern)
    end
    fails({ language = "sh", second = 1 }, {}, "did you mean 'seconds'")
    fails({ language = "cobol" }, {}, "how cobol is run is not known %(javascript, lua, python, sh")
    fails({ language = "cobol", command = { "no-such-program" }, file = "x" }, {},
      "cannot run 'no%-such%-program'")
    fails({ language = "sh" }, {}, "row.tests is nil, want a list of tests")
    fails({ language = "sh" }, { tests = {} }, "row.tests is empty")
    fails({ language = "sh" }, { tests = { 7 } }, "row.tests%[1%]: got a number, want code")
    assert.error_matches(function() code.passes { language = "sh" }("text", {}) end,
      "is a group_fn")
  end)
end)
