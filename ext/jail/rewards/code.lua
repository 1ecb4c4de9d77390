-- rewards/code.lua - does the code in a completion pass its tests?
--
--   code.passes { language = "python" }      the share of row.tests that pass, each run in a jail
--   code.block(text, "python")               the last fenced block of that language
--
-- The code runs in grpo.jail: without network, other files or processes, and within limits.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local fences = require "grpo.base.fences"
local options = require "grpo.options"

---@class rewards.code
local code = {}

-- ---- the program and a test that is code ---------------------------------------------------
--
-- A test must not become a part of what the program has left open: a string, a comment, a here
-- document, a condition.  So the program is read whole before the test, from a file of its own
-- (`beside`), or is closed first.  The mark at the end is reached by a test alone that has not
-- failed; the main file, which holds it, is gone before the program runs, where that is possible.

local join = {}

function join.python(test, mark)
  return ([[__import__("os").remove(__file__)
exec(compile(open("completion.py", "rb").read(), "completion.py", "exec"))
%s
print("\n%s")
]]):format(test, mark)
end

-- The braces are read whole before the program runs, which may define aliases.
function join.sh(test, mark)
  return ([[{
rm -f -- "$0"
. ./completion.sh
trap - EXIT
set -e
unset -f test [ true false printf command
%s
printf "\n%%s\n" %s
}
]]):format(test, mark)
end

-- The test sees the program's local variables, so both are one chunk, once the program is one.
function join.lua(test, mark)
  return ([[os.remove(arg[0])
local file, load = assert(io.open("completion.lua", "rb")), loadstring or load
local program = file:read("*a"):gsub("^#[^\n]*", "")
file:close()
assert(load(program, "@completion.lua"))
assert(load(program .. "\n" .. %q, "@completion.lua"))()
]]):format(("%s\nprint(\"\\n%s\")\n"):format(test, mark))
end

-- The program is a script of its own, whose declarations the evaluated test sees.  The main file is
-- strict, so that neither arguments.callee.caller nor a stack trace gives the program its text.
function join.javascript(test, mark)
  return ([["use strict"
const fs = require("fs"), vm = require("vm")
fs.unlinkSync(__filename)
const run = eval
Object.assign(globalThis, { require, module, exports, __filename, __dirname })
vm.runInThisContext(fs.readFileSync("completion.js", "utf8"), { filename: "completion.js",
  importModuleDynamically: vm.constants && vm.constants.USE_MAIN_CONTEXT_DEFAULT_LOADER })
run(%s)
console.log("\n%s")
]]):format(core.json_encode(test), mark)
end

local languages = {
  python = { names = { "python", "python3", "py" }, command = { "python3", "main.py" },
    file = "main.py", beside = "completion.py" },
  sh = { names = { "sh", "bash", "shell" }, command = { "sh", "main.sh" }, file = "main.sh",
    beside = "completion.sh" },
  lua = { names = { "lua" }, command = { "lua5.4", "main.lua" }, file = "main.lua",
    beside = "completion.lua" },
  javascript = { names = { "javascript", "js", "node" }, command = { "node", "main.js" },
    file = "main.js", beside = "completion.js", memory_mib = 4096 },
}

local function lines(text)
  return (text:sub(-1) == "\n" and text or text .. "\n"):gmatch("([^\n]*)\n")
end

local function names_of(language)
  local known = languages[language]
  return known and known.names or { language }
end

--- The code of a fenced block, without its fences; nil if there is none.  A block that is not
--- closed is none.
---@param text string
---@param language? string as it stands after the fence, in any case; nil: every block counts.
---   "python" finds python3 and py too, "sh" bash and shell, "javascript" js and node
---@param which? "last"|"first"
---@return string|nil
function code.block(text, language, which)
  local names = language and names_of(language)
  local function pick(blocks)
    local found
    for _, block in ipairs(blocks) do
      local name = (block.info:match("^%s*([^%s{]*)") or ""):lower()
      if not names or options.among(name, names) then
        found = block.body
        if which == "first" then break end
      end
    end
    return found
  end
  return pick(fences(text)) or pick(fences(text, true)) -- many models forget to indent in a list
end

-- Output as it is compared: without white space at the ends of lines and of the whole.
local function trimmed(text)
  local kept = {}
  for line in lines(text) do kept[#kept + 1] = line:match("^(.*%S)") or "" end
  while kept[#kept] == "" do kept[#kept] = nil end
  return table.concat(kept, "\n")
end

-- A mark that the program cannot know, except by reading its own memory.
local function new_mark()
  return ("passed-%08x%08x"):format(math.random(0, 0xFFFFFFFF), math.random(0, 0xFFFFFFFF))
end

local function ends_with(text, ending)
  return trimmed(text):sub(-#ending) == ending
end

-- Returns the texts of the main file and of the one beside it, and the function(result) that
-- judges the run.
local function of_code(test, program, way)
  if not way.join then
    return { text = program .. "\n" .. test .. "\n" }, function(r) return r.ok end
  end
  local mark = new_mark()
  return { text = way.join(test, mark), beside = program .. "\n" },
    function(r) return r.ok and ends_with(r.output, "\n" .. mark) end
end

-- Returns what a test adds to the task of a program, and the function(result) that judges it.
local function of_test(test, program, way, where)
  if type(test) == "string" then
    return of_code(test, program, way)
  elseif type(test) == "table" and type(test.output) == "string" then
    local input = test.input or ""
    if type(input) ~= "string" then
      error(("%s.input: got %s, want a string"):format(where, type(input)), 0)
    end
    local want = trimmed(test.output)
    return { text = program .. "\n", input = input }, function(r)
      return r.ok and trimmed(r.output) == want
    end
  end
  error(("%s: got %s, want code, or a table { input =, output = }"):format(where,
    type(test) == "table" and "a table without output" or "a " .. type(test)), 0)
end

-- One line about the end of a run.
local function ended(r)
  local how = r.ended == "exit" and (r.code == 0 and "wrong output" or "exit status " .. r.code)
    or r.ended == "signal" and "signal " .. r.code
    or r.ended == "output" and "too much output"
    or r.ended == "cpu" and "used up its processor time" or "used up its wall-clock time"
  local last = ""
  for line in lines(trimmed(r.errors)) do last = line:find("%w") and line or last end
  return how .. (last ~= "" and ": " .. last:sub(1, 200) or "")
end

-- How each end of a run that did not pass is counted.
local counted = { exit = "failed", signal = "crashed", cpu = "out_of_time", wall = "waited",
  output = "flooded" }

local function tests_of(row, tests)
  local list, where
  if type(tests) == "function" then
    list, where = tests(row), "tests(row)"
  else
    list, where = row[tests], "row." .. tests
  end
  if type(list) ~= "table" or #list == 0 then
    error(("code.passes: %s is %s, want a list of tests"):format(where,
      type(list) == "table" and "empty" or type(list)), 0)
  end
  return list, where
end

local function files_of(o, row)
  local files = o.files
  if type(files) == "function" then files = files(row) end
  if type(files) ~= "table" then
    error(("code.passes: files(row) returned %s, want a table { name = text }"):format(
      type(files)), 0)
  end
  return files
end

-- The options that every task has.
local limit_names = { "seconds", "wall_seconds", "memory_mib", "disk_mib", "output_bytes",
  "processes", "read", "env" }

local function task_of(o, way, files, added)
  local task = { command = way.command, files = {}, input = added.input }
  for _, name in ipairs(limit_names) do task[name] = o[name] end
  for name, text in pairs(files) do task.files[name] = text end
  task.files[way.file] = added.text
  if added.beside then task.files[way.beside] = added.beside end
  return task
end

-- The language's row, with what the options put in its place.
local function way_of(o)
  local known = languages[o.language] or {}
  local way = { command = o.command or known.command, file = o.file or known.file,
    beside = known.beside, join = join[o.language] }
  if not way.command or not way.file then
    local names = {}
    for name in pairs(languages) do names[#names + 1] = name end
    table.sort(names)
    error(("code.passes.language: how %s is run is not known (%s are); give command and file")
      :format(o.language, table.concat(names, ", ")), 3)
  end
  return way
end

local function spec_of(jail)
  local spec = {
    language = { type = "string", default = "python" },
    which = { type = "string", default = "last", one_of = { "last", "first" } },
    tests = { type = "string|function", default = "tests" },
    files = { type = "table|function", default = {} },
    command = { type = "table" },
    file = { type = "string" },
    all = { type = "boolean", default = false },
    at_once = { type = "integer", default = 0, min = 0, max = 64 },
  }
  for name, row in pairs(jail.limits) do spec[name] = row end
  return spec
end

-- The options, checked.  Node reserves address space that it does not use, so it needs more.
local function options_of(jail, opts)
  local o = options.check(opts, spec_of(jail), "code.passes", 4)
  local known = languages[o.language]
  if known and not (opts and opts.memory_mib) then
    o.memory_mib = known.memory_mib or o.memory_mib
  end
  return o
end

-- Says why no program can pass; nil if an empty one runs.  What a command of the script's own makes
-- of an empty program is not known, but a signal is a crash.
local function problem_of(jail, o, way)
  local files = type(o.files) == "table" and o.files or {}
  local task = task_of(o, way, files, { text = "" })
  local name = way.command[1]
  local missing = jail.problem(task)
  if missing then
    return missing:find("cannot run", 1, true) and missing .. "; install it" or missing
  end
  task.wall_seconds = math.max(o.wall_seconds or 0, 60) -- a busy machine proves nothing
  local r = jail.run(task)
  local own = o.command or o.file or type(o.files) == "function"
  if r.ok or r.ended == "wall" or (own and r.ended ~= "signal") then return nil end
  return ("'%s' cannot start, because even an empty program fails (%s); raise %s"):format(name,
    ended(r), r.ended == "cpu" and ("seconds (%g)"):format(o.seconds)
    or ("memory_mib (%g) or processes (%d), or mend the installation"):format(o.memory_mib,
      o.processes))
end

-- Adds the tasks of one completion to `tasks`.  Returns nil if there is no code, else its judges.
local function add_tasks(o, way, text, tests, where, files, tasks)
  local program = code.block(text, o.language, o.which)
  if not program then return nil end
  local judges = {}
  for i, test in ipairs(tests) do
    local added, judge = of_test(test, program, way, ("%s[%d]"):format(where, i))
    tasks[#tasks + 1], judges[i] = task_of(o, way, files, added), judge
  end
  return judges
end

-- The reward of a completion whose results begin behind `first`, and its columns.
local function judged(judges, results, first)
  local counts = { runs = #judges, passed = 0 }
  local wrong
  for i, judge in ipairs(judges) do
    local r = results[first + i]
    if judge(r) then
      counts.passed = counts.passed + 1
    else
      local name = counted[r.ended]
      counts[name] = (counts[name] or 0) + 1
      wrong = wrong or ("test %d: %s"):format(i, ended(r))
    end
  end
  return counts.passed / #judges, { counts = counts, problem = wrong }
end

---@class rewards.code.Passes
---@field language? string default "python"; "sh", "lua" and "javascript" are known too
---@field which? "last"|"first" which block of the completion is the program
---@field tests? string|fun(row: table): table[] the row's field (default "tests"), or a function
---@field files? table<string, string>|fun(row: table): table<string, string> more files
---@field command? string[] a program and its arguments in place of the language's
---@field file? string the name that the program gets
---@field all? boolean 1 if all tests pass, else 0
---@field at_once? integer how many run side by side; 0: as many as there are cores
---@field seconds? number processor time of one run, default 5
---@field wall_seconds? number default: five times as long
---@field memory_mib? number address space of each process, default 256; 4096 for "javascript"
---@field disk_mib? number default 16
---@field output_bytes? integer default 65536
---@field processes? integer default 16
---@field read? string[] more directories that the program may read
---@field env? table<string, string> variables that the program finds

--- A group_fn: the share of the row's tests that the program in the completion passes, 0 without
--- one.  A test is code that is put behind the program, as `assert add(1, 2) == 3`, and
--- passes if all of it is executed; or a table { input =, output = }, which passes if the program
--- answers the input with that output, apart from white space at the ends of lines.  A Python
--- program can still redefine what a test calls, such as `__eq__` of an object that it returns.
---@param opts? rewards.code.Passes
---@return fun(texts: string[], row: table, cs: table[]): number[], table[]
function code.passes(opts)
  local jail = require "grpo.jail"
  local o = options_of(jail, opts)
  local way = way_of(o)
  local problem_here = problem_of(jail, o, way)
  if problem_here then errors.raise("EARG", "code.passes: %s", problem_here) end
  jail.needed[#jail.needed + 1] = ("%s (%g s of processor time, %g MiB, %d processes)"):format(
    table.concat(way.command, " "), o.seconds, o.memory_mib, o.processes)
  return function(texts, row)
    if type(texts) ~= "table" then
      error("code.passes: is a group_fn; write { name =, group_fn = code.passes { ... } }", 0)
    end
    local tests, where = tests_of(row, o.tests)
    local files, tasks, places = files_of(o, row), {}, {}
    for i, text in ipairs(texts) do
      local first = #tasks
      local judges = add_tasks(o, way, text, tests, where, files, tasks)
      places[i] = judges and { judges = judges, first = first } or false
    end
    local results, rewards, columns = jail.run_all(tasks, { at_once = o.at_once }), {}, {}
    for i, place in ipairs(places) do
      if place then
        rewards[i], columns[i] = judged(place.judges, results, place.first)
        if o.all then rewards[i] = rewards[i] == 1 and 1 or 0 end
      else
        rewards[i] = 0.0
        columns[i] = { counts = { without_code = 1 }, problem = "no block of " .. o.language }
      end
    end
    return rewards, columns
  end
end

return code
