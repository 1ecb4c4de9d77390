local core = require "grpo.core"
local flags = require "grpo.cli.flags"

local command = {
  usage = "test [FILE|DIR ...] [--filter TEXT] [--tap] [--junit OUT] | test --record RUN [--n N] | test --fuzz SCRIPT",
  summary = "run reward tests (files NAME_test.lua)",
  flags = { filter = "text", tap = "flag", junit = "value", record = "value", n = "value", fuzz = "value" },
  help = [[
Runs every *_test.lua below the given files and directories (default: rewards/ if it is there, else
the current directory), written with describe, it and assert as in busted.  --filter keeps tests whose
name contains TEXT; --tap prints the Test Anything Protocol; --junit OUT also writes JUnit's XML, for CI servers.
Exit status 1 when a test failed or none was found.

  --record RUN    prints a test file made of N (default 20) of the run's completions: it holds the rewards of
                  the run's script to what they gave then.  Save it as NAME_test.lua beside the script
  --fuzz SCRIPT   calls the rewards of SCRIPT (an experiment, or a file that returns rewards) with degenerate
                  text and random pieces of it, beside the first rows of the dataset in turn; prints what fails,
                  what answers differently when it is asked again, and what changes its row, once for each line]],
}

local function wrong(format, ...)
  error(core.error("EARG", "test: " .. format:format(...)), 0)
end

local function record(o)
  local run = require("grpo.runs.history").open(o.flags.record)
  local e = require("grpo.scripts.script").of_run(run.dir, run.info)
  local here = core.fs.exists(run.info.script) and run.info.script or run.dir .. "/source/main.lua"
  local text, count = require("grpo.runs.record_tests").test_file(run, e, here, flags.integer(o, "n", 1, 20))
  core.out(text)
  core.err(("%d cases, with the rewards of %s\n"):format(count, here))
end

local function fuzz(o)
  local result = require("grpo.reward_checks.fuzz").run(o.flags.fuzz, flags.integer(o, "n", 0, 200), o)
  for _, line in ipairs(result.failures) do core.out("FAILED " .. line .. "\n") end
  core.out(("%d rewards, %d texts, %d failures\n"):format(result.rewards, result.texts, #result.failures))
  return #result.failures > 0 and 1 or 0
end

function command.run(o)
  if o.flags.record and o.flags.fuzz then wrong("--record and --fuzz are two things; choose one") end
  if o.flags.record then return record(o) end
  if o.flags.fuzz then return fuzz(o) end
  local runner = require "grpo.test"
  package.path = "./?.lua;./lua/?.lua;" .. package.path
  local paths = #o.words > 0 and o.words or { core.fs.isdir("rewards") and "rewards" or "." }
  for _, path in ipairs(paths) do
    local beside = path:gsub("%.lua$", "") .. "_test.lua"
    local hint = path:find("%.lua$") and not path:find("_test%.lua$") and core.fs.exists(beside)
      and (", did you mean '%s'?"):format(beside) or ""
    if hint ~= "" then wrong("%s: holds no tests%s", path, hint) end
    if not core.fs.exists(path) then
      error(core.error("ENOENT", ("test: %s: no such file or directory"):format(path)), 0)
    end
  end
  local junit = o.flags.junit and {} or nil
  local result = runner.run(paths, { tap = o.flags.tap, filter = o.flags.filter, list = core.fs.list,
    write = core.out, junit = junit })
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
