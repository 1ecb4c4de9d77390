-- test.lua - the test runner of `grpo test`, with busted's vocabulary.
--
--   describe(name, fn)  it(name, fn)  before_each(fn)  after_each(fn)  pending(name_or_reason)
--   assert.equal(expected, actual)  assert.same (deep)  assert.near(expected, actual, tolerance)
--   assert.is_true  is_false  is_nil  is_number  is_string  is_table  is_boolean  is_function
--   assert.truthy  falsy
--   assert.matches(pattern, s)
--   assert.has_error(fn[, message])  error_matches(fn, pattern)
-- `assert.is_not.X` negates any of them; `assert.are`, `assert.is` and `assert.has` change
-- nothing; assert(value, message) is still Lua's own.  pending("why") inside a test skips it.
--
-- A file is NAME_test.lua.  Each runs in an environment of its own, tests run in the order in
-- which they are written, and math.random is re-seeded before each: a test that passes alone
-- passes in company.

local core = require "grpo.core"
local options = require "grpo.options"
local sorted_pairs = require "grpo.base.sorted"
local loaded_sources = require "grpo.options.scripts.loaded_sources"

local test = {}

-- ---- assertions: each returns true, or false and what was expected ------------------------

local function show(value, depth)
  if type(value) == "string" then
    local text = #value > 200 and value:sub(1, 200) .. "..." or value
    return (("%q"):format(text):gsub("\\\n", "\\n"))
  end
  if type(value) ~= "table" or (depth or 0) > 3 then return tostring(value) end
  local parts, named = {}, {}
  for i, v in ipairs(value) do parts[i] = show(v, (depth or 0) + 1) end
  for k, v in pairs(value) do
    if math.type(k) ~= "integer" or k < 1 or k > #parts then
      named[#named + 1] = ("[%s] = %s"):format(show(k, 9), show(v, (depth or 0) + 1))
    end
  end
  table.sort(named)
  table.move(named, 1, #named, #parts + 1, parts)
  return "{ " .. table.concat(parts, ", ", 1, math.min(#parts, 20)) .. " }"
end

local function same(a, b, seen)
  if a == b then return true end
  if type(a) ~= "table" or type(b) ~= "table" then return false end
  seen = seen or {}
  if seen[a] == b then return true end
  seen[a] = b
  for k, v in pairs(a) do
    if not same(v, b[k], seen) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

local function expected(want, got)
  return ("expected %s, got %s"):format(want, show(got))
end

-- Returns the text of an error value without the position in front, which busted ignores too.
local function bare(err)
  return (tostring(err):gsub("^[^\n]-:%d+: ", "", 1))
end

local checks = {
  equal = function(want, got) return want == got, expected(show(want), got) end,
  same = function(want, got) return same(want, got), expected(show(want), got) end,
  is_true = function(got) return got == true, expected("true", got) end,
  is_false = function(got) return got == false, expected("false", got) end,
  is_nil = function(got) return got == nil, expected("nil", got) end,
  truthy = function(got) return not not got, expected("a true value", got) end,
  falsy = function(got) return not got, expected("nil or false", got) end,
  near = function(want, got, tolerance)
    local ok = type(got) == "number" and math.abs(want - got) <= tolerance
    return ok, expected(("%s within %s"):format(want, tolerance), got)
  end,
  matches = function(pattern, got)
    return type(got) == "string" and got:find(pattern) ~= nil,
      expected("text matching " .. show(pattern), got)
  end,
  has_error = function(fn, message)
    local ok, err = pcall(fn)
    if ok then return false, expected("an error", nil) end
    return message == nil or same(message, err) or bare(err) == message,
      expected(message == nil and "an error" or "the error " .. show(message), err)
  end,
  error_matches = function(fn, pattern)
    local ok, err = pcall(fn)
    return not ok and tostring(err):find(pattern) ~= nil,
      expected("an error matching " .. show(pattern), not ok and tostring(err) or nil)
  end,
}
for alias, name in pairs {
  equals = "equal", ["true"] = "is_true", ["false"] = "is_false", ["nil"] = "is_nil",
  is_truthy = "truthy", is_falsy = "falsy", match = "matches",
  error = "has_error", errors = "has_error",
} do
  checks[alias] = checks[name]
end
for _, kind in ipairs { "number", "string", "table", "boolean", "function" } do
  checks["is_" .. kind] = function(got) return type(got) == kind, expected("a " .. kind, got) end
  if kind ~= "function" then checks[kind] = checks["is_" .. kind] end -- assert.is.number
end
local function assertions()
  local plain, negated = {}, {}
  for name, check in pairs(checks) do
    plain[name] = function(...)
      local ok, message = check(...)
      if not ok then error(message, 2) end
      return ...
    end
    negated[name] = function(...)
      local ok, message = check(...)
      if ok then error("not " .. message, 2) end
      return ...
    end
  end
  plain.are, plain.is, plain.has = plain, plain, plain
  plain.is_not, plain.are_not, plain.has_no, plain.no = negated, negated, negated, negated
  plain.is_not_nil, plain.not_equal, plain.has_no_error =
    negated.is_nil, negated.equal, negated.has_error
  return setmetatable(plain, {
    __call = function(_, ok, ...)
      if not ok then
        local message = ...
        if message == nil then message = "assertion failed!" end
        error(message, 2) -- Lua's own message, with the line added
      end
      return ok, ...
    end,
    __index = function(_, name)
      local known = {}
      for key in sorted_pairs(checks) do known[#known + 1] = key end
      error(("assert.%s: unknown, %s"):format(tostring(name), options.advice(name, known)), 2)
    end,
  })
end

-- ---- collecting -------------------------------------------------------------------------

local Pending = {}

-- Loads one file and appends its tests { name, fn, before = {}, after = {}, pending } to `list`.
local function collect(path, list)
  local scope = { name = nil, before = {}, after = {} }
  local running = false
  local env = setmetatable({ assert = assertions() }, { __index = _G })
  env._G = env

  local function add(name, fn, pending)
    local full = scope.name and scope.name .. " " .. name or name
    list[#list + 1] = { name = full, fn = fn, scope = scope, pending = pending, path = path,
      start = function() running = true end }
  end
  function env.describe(name, fn)
    local outer = scope
    scope = { name = outer.name and outer.name .. " " .. name or name, outer = outer,
      before = {}, after = {} }
    fn()
    scope = outer
  end
  function env.it(name, fn)
    if running then error("it(): a test cannot define another test", 2) end
    add(name, fn)
  end
  function env.before_each(fn) table.insert(scope.before, fn) end
  function env.after_each(fn) table.insert(scope.after, fn) end
  function env.pending(name)
    if running then error(setmetatable({ why = tostring(name or "pending") }, Pending), 0) end
    add(tostring(name), nil, "pending")
  end

  local text, message, code = core.fs.read(path)
  if code == "ENOMEM" then error(core.error(code, message), 0) end
  if not text then return nil, message end
  local chunk, why = loaded_sources.compile(path, text, env)
  if not chunk then return nil, why end
  local ok, err = core.protected(chunk)
  if not ok then return nil, tostring(err) end
  return true
end

-- ---- running ----------------------------------------------------------------------------

-- before_each runs from the outermost describe inwards, after_each the other way.
local function setups(scope)
  local calls = {}
  while scope do
    for i = #scope.before, 1, -1 do table.insert(calls, 1, scope.before[i]) end
    scope = scope.outer
  end
  return calls
end

local function teardowns(scope)
  local calls = {}
  while scope do
    for _, fn in ipairs(scope.after) do calls[#calls + 1] = fn end
    scope = scope.outer
  end
  return calls
end

-- No test has failed then: the run of the tests ends.
local function is_no_memory(err)
  return type(err) == "table" and err.code == "ENOMEM"
end

-- Returns the failure's message, with a traceback only for an error raised outside the test file.
local function describe_error(err, path)
  if getmetatable(err) == Pending or is_no_memory(err) then return err end
  local text = tostring(err)
  if text:sub(1, #path) == path then return text end
  for line in debug.traceback("", 2):gmatch("[^\n]+") do
    local at = line:match("^%s*(.-:%d+):")
    if at and at:sub(1, #path) == path then return at .. ": " .. text end
  end
  return text
end

-- Returns "passed", "failed" or "skipped", and the reason for the latter two.
local function run_one(t)
  if t.pending then return "skipped", t.pending end
  math.randomseed(0x5eed)
  t.start()
  local function handler(err) return describe_error(err, t.path) end
  local ok, err = xpcall(function()
    for _, fn in ipairs(setups(t.scope)) do fn() end
    t.fn()
  end, handler)
  for _, fn in ipairs(teardowns(t.scope)) do
    local fine, why = xpcall(fn, handler)
    if not fine and ok then ok, err = false, why end
  end
  if ok then return "passed" end
  if is_no_memory(err) then error(err, 0) end
  if getmetatable(err) == Pending then return "skipped", err.why end
  return "failed", err
end

-- Replaces directories on the command line by their *_test.lua files; other names stay.
local function find(paths)
  local files = {}
  for _, path in ipairs(paths) do
    local names = core.fs.list(path)
    if not names then
      files[#files + 1] = path
    else
      table.sort(names)
      for _, name in ipairs(names) do
        if name:match("_test%.lua$") then
          files[#files + 1] = path:gsub("/*$", "") .. "/" .. name
        end
      end
    end
  end
  return files
end

-- Prints one test's line in TAP, or else only a test that did not pass.
local function report(write, tap, number, t, result, why)
  local comment = why and tostring(why):gsub("\n", "\n    ") or ""
  if tap then
    write(("%sok %d - %s%s\n"):format(result == "failed" and "not " or "", number,
      t.name:gsub("[#\n]", " "), result == "skipped" and " # SKIP " .. comment or ""))
    if result == "failed" then write("    " .. comment .. "\n") end
  elseif result == "failed" then
    write(("FAILED %s\n    %s\n"):format(t.name, comment))
  elseif result == "skipped" then
    write(("skipped %s: %s\n"):format(t.name, comment))
  end
end

-- A file that does not load counts as a failed test.
local function collect_all(files)
  local tests = {}
  for _, path in ipairs(files) do
    local ok, why = collect(path, tests)
    if not ok then
      tests[#tests + 1] = { name = path .. " loads", path = path, start = function() end,
        fn = function() error(why, 0) end }
    end
  end
  return tests
end

---@class grpo.test.Options
---@field tap? boolean write the Test Anything Protocol
---@field filter? string plain text that a test's full name must contain
---@field write? fun(text: string) where the report goes; default stdout
---@field junit? table[] gets a row { name=, path=, result=, why=, seconds= } for each test

--- Runs test files.
---@param paths string[] files, or directories whose *_test.lua are taken
---@param opts? grpo.test.Options
---@return { passed: integer, failed: integer, skipped: integer, files: integer }
function test.run(paths, opts)
  opts = options.check(opts, {
    tap = { type = "boolean" }, filter = { type = "string" },
    write = { type = "function", default = function(s) io.stdout:write(s) end },
    junit = { type = "table" },
  }, "test.run")
  local files = find(paths)
  local tests, number = collect_all(files), 0
  local counts = { passed = 0, failed = 0, skipped = 0, files = #files }
  for _, t in ipairs(tests) do
    if not opts.filter or t.name:find(opts.filter, 1, true) then
      local started = os.clock()
      local result, why = run_one(t)
      number = number + 1
      if opts.junit then
        table.insert(opts.junit, { name = t.name, path = t.path, result = result, why = why,
          seconds = os.clock() - started })
      end
      counts[result] = counts[result] + 1
      report(opts.write, opts.tap, number, t, result, why)
    end
  end
  if opts.tap then
    opts.write(("1..%d\n"):format(number))
  else
    opts.write(("%d passed, %d failed, %d skipped in %d file%s\n"):format(counts.passed,
      counts.failed, counts.skipped, counts.files, counts.files == 1 and "" or "s"))
  end
  return counts
end

--- Skips the running test; for helpers that tests call.
---@param why string
function test.skip(why)
  error(setmetatable({ why = why }, Pending), 0)
end

local function xml(text)
  text = tostring(text):gsub("[%z\1-\8\11\12\14-\31]", "?")
  if not utf8.len(text) then text = text:gsub("[\128-\255]", "?") end
  return (text:gsub("[&<>\"]",
    { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;" }))
end

--- The rows that `run` put into opts.junit, as JUnit's XML: a suite for each file.
---@param rows table[]
---@return string
function test.junit(rows)
  local suites, by_path = {}, {}
  for _, row in ipairs(rows) do
    local suite = by_path[row.path]
    if not suite then
      suite = { path = row.path, failed = 0, skipped = 0 }
      by_path[row.path], suites[#suites + 1] = suite, suite
    end
    suite[#suite + 1] = row
    if row.result ~= "passed" then suite[row.result] = suite[row.result] + 1 end
  end
  local out = { '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>' }
  for _, suite in ipairs(suites) do
    out[#out + 1] = ('<testsuite name="%s" tests="%d" failures="%d" skipped="%d">'):format(
      xml(suite.path), #suite, suite.failed, suite.skipped)
    for _, row in ipairs(suite) do
      local inside = row.result == "failed" and ("<failure>%s</failure>"):format(xml(row.why))
        or row.result == "skipped" and ('<skipped message="%s"/>'):format(xml(row.why or "")) or ""
      out[#out + 1] = ('<testcase classname="%s" name="%s" time="%.4f">%s</testcase>'):format(
        xml(suite.path), xml(row.name), row.seconds, inside)
    end
    out[#out + 1] = "</testsuite>"
  end
  out[#out + 1] = "</testsuites>\n"
  return table.concat(out, "\n")
end

return test
