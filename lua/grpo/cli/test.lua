local core = require "grpo.core"

local command = {
  usage = "test [FILE|DIR ...] [--filter TEXT] [--tap]",
  summary = "run reward tests (files NAME_test.lua)",
  flags = { filter = "value", tap = "flag" },
  help = [[
Runs every *_test.lua below the given files and directories (default: rewards), written with
describe, it and assert as in busted.  --filter keeps tests whose name contains TEXT;
--tap prints the Test Anything Protocol.  Exit status 1 when a test failed or none was found.]],
}

function command.run(o)
  local runner = require "grpo.test"
  package.path = "./?.lua;./lua/?.lua;" .. package.path
  local paths = #o.words > 0 and o.words or { "rewards" }
  for _, path in ipairs(paths) do
    if not core.fs.exists(path) then
      error(core.error("ENOENT", ("test: %s: no such file or directory"):format(path)), 0)
    end
  end
  local result = runner.run(paths, { tap = o.flags.tap, filter = o.flags.filter, list = core.fs.list,
    write = core.out })
  if result.passed + result.failed + result.skipped == 0 then
    core.err("grpo: test: no test was found\n")
    return 1
  end
  return result.failed > 0 and 1 or 0
end

return command
