local core = require "grpo.core"
local errors = require "grpo.base.errors"
local flags = require "grpo.commands.flags"

local command = flags.extend {
  name = "test",
  summary = "run the tests of rewards (files NAME_test.lua)",
  arguments = {
    { name = "FILE|DIR", type = { "file", "dir" }, optional = true, repeated = true },
  },
  flags = {
    { name = "filter", type = "text", doc = "run only tests whose name contains TEXT" },
    { name = "tap", doc = "print the Test Anything Protocol" },
    { name = "junit", type = "file", value = "OUT",
      doc = "also write the results to OUT as JUnit's XML, for servers that run tests" },
    { name = "record", type = "run",
      doc = "print a test file made of N completions of RUN; it holds the rewards of the run's "
        .. "script to the values that they gave in the run. Save it as NAME_test.lua beside the "
        .. "script" },
    { name = "count", type = "integer", min = 0, instead_of = { "n" },
      doc = "set the number of completions of --record (default: 20)" },
    flags.arg,
  },
  about = {
    "Runs every *_test.lua in the files and directories that are given. Without any it looks in "
      .. "rewards/ if there is such a directory, else in the current one. Tests are written with "
      .. "describe, it and assert, as for busted.",
  },
  notes = { "The exit status is 1 when a test failed or none was found." },
}

local fail = errors.of "test"

local function record(o)
  local run = require("grpo.runs.history").open(o.flags.record)
  local e = require("grpo.loop.script").of_run(run.dir, run.info)
  local here = core.fs.exists(run.info.script) and run.info.script or run.dir .. "/source/main.lua"
  local text, count = require("grpo.runs.record_tests").test_file(run, e, here, o.flags.count or 20)
  core.out(text)
  core.err(("%d cases, with the rewards of %s\n"):format(count, here))
end

function command.run(o)
  for _, flag in ipairs(command.flags) do
    local run = flag.run and o.flags[flag.name] and flag.run
    if run and o.flags.record then
      fail("EARG", "--record and --%s cannot be combined; choose one", flag.name)
    end
    if run then return run(o) end
  end
  if o.flags.record then return record(o) end
  local runner = require "grpo.test"
  package.path = "./?.lua;./lua/?.lua;" .. package.path
  local paths = #o.words > 0 and o.words or { core.fs.isdir("rewards") and "rewards" or "." }
  for _, path in ipairs(paths) do
    local beside = path:gsub("%.lua$", "") .. "_test.lua"
    local hint = path:find("%.lua$") and not path:find("_test%.lua$") and core.fs.exists(beside)
      and (", did you mean '%s'?"):format(beside) or ""
    if hint ~= "" then fail("EARG", "%s holds no tests%s", path, hint) end
    if not core.fs.exists(path) then fail("ENOENT", "%s: no such file or directory", path) end
  end
  local junit = o.flags.junit and {} or nil
  local result = runner.run(paths, { tap = o.flags.tap, filter = o.flags.filter, write = core.out,
    junit = junit })
  if junit then
    local ok, message = core.fs.write(o.flags.junit, runner.junit(junit))
    if not ok then error(core.error("EIO", tostring(message)), 0) end
  end
  if result.passed + result.failed + result.skipped == 0 then
    core.err("grpo: test: no test was found\n")
    return 1
  end
  return result.failed > 0 and 1 or 0
end

return command
