-- Checks that the targets in Lua share; each raises an error if it does not hold.

-- own_line: the place of an error that grpo did not raise on purpose.
local expect = { own_line = "lua/grpo/[%w_/]+%.lua:%d+:" }

local function fail(format, ...)
  error(("unexpected: " .. format):format(...), 0)
end

-- An error has a code that says what is wrong with the input, and one line that begins with `place`
-- (nil: with anything) and names no line of ours; names that are not known are a list below it.
function expect.refused(err, place, code)
  local text = tostring(err):gsub("^[%w_/]*tests/fuzz/[^:]+:%d+: ", "") -- the target's line
  if type(err) ~= "table" or type(err.code) ~= "string" then fail("no code: %s", text) end
  if err.code == "EINTERNAL" or code and err.code ~= code then fail("%s: %s", err.code, text) end
  local lines = text:gsub("\n  [^\n]*", ""):gsub("\nand [^\n]*:", "")
  if lines:find("\n", 1, true) then fail("several lines: %s", text) end
  if text:find(expect.own_line) then fail("a line of ours: %s", text) end
  if place and text:sub(1, #place) ~= place then fail("does not begin with %s: %s", place, text) end
end

function expect.equal(a, b, what)
  if a ~= b and (a == a or b == b) then fail("%s: %s, but %s", what or "differ", a, b) end
end

function expect.truth(v, what)
  return v or fail("%s", what)
end

-- Calls fn(...) with the limits of a reward; returns its results, or nothing and an error that is
-- not a spent budget, because no text within the limits of a run may spend one.
function expect.within_limits(name, fn, ...)
  local core = require "grpo.core"
  local limits = { instructions = 50000000, memory = 67108864 }
  local results = table.pack(core.limited(limits, name, fn, ...))
  if not results[1] and type(results[2]) == "table" and results[2].code == "ELIMIT" then
    fail("%s", tostring(results[2]))
  end
  return table.unpack(results, 1, results.n)
end

-- Cuts an input at its NUL bytes; the last of n parts is the rest.
function expect.parts(input, n)
  local parts, at = {}, 1
  for i = 1, n - 1 do
    local nul = input:find("\0", at, true)
    parts[i] = input:sub(at, (nul or #input + 1) - 1)
    at = nul and nul + 1 or #input + 1
  end
  parts[n] = input:sub(at)
  return table.unpack(parts, 1, n)
end

local directories = 0

-- A new directory, in memory where the system has that; it is removed at the end.
function expect.directory()
  local core = require "grpo.core"
  local root = core.fs.isdir("/dev/shm") and "/dev/shm" or "/tmp"
  directories = directories + 1
  local dir = ("%s/grpo-fuzz-%d-%d"):format(root, core.getpid(), directories)
  core.fs.remove_tree(dir)
  assert(core.fs.mkdirs(dir))
  expect[directories] = setmetatable({}, { __gc = function() core.fs.remove_tree(dir) end })
  return dir
end

function expect.put(path, text)
  local file <close> = assert(io.open(path, "wb"))
  assert(file:write(text))
end

return expect
