local core = require "grpo.core"
local errors = require "grpo.base.errors"
local flags = require "grpo.commands.flags"
local resources = require "grpo.mcp.resources"

local command = {
  name = "mcp",
  summary = "let an assistant start, watch and explain runs, by the Model Context Protocol",
  arguments = {},
  flags = {
    { name = "skill", type = "dir", doc = "write the guide for assistants, SKILL.md and the page "
      .. "that it names, into DIR, and end" },
    flags.dir,
  },
  about = {
    "Speaks JSON-RPC by lines on standard input and output: an assistant starts it with this "
      .. "directory as its own. Scripts, rewards and runs are named by paths below it. "
      .. "ext/mcp/README.md has the lines for its configuration.",
    "Its tools call this program: run, check, test, runs, logs, replay, stop, help. A tool that "
      .. "takes longer than ten minutes is ended; a run continues in the background.",
  },
}

function command.run(o)
  if o.flags.skill then
    for name, text in pairs(resources.skill()) do
      errors.must(core.fs.mkdirs(o.flags.skill))
      errors.must(core.fs.write(o.flags.skill .. "/" .. name, text))
    end
    core.out(o.flags.skill .. "/SKILL.md\n")
    return 0
  end
  return require("grpo.mcp.server").run(o.flags.dir)
end

return command
