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
    { name = "http", type = "integer", optional = true, value = "PORT", min = 0, max = 65535,
      doc = "serve http://127.0.0.1:PORT/mcp in place of standard input; 8070 without =PORT, and 0 "
        .. "takes one that is free" },
    { name = "host", type = "word", value = "ADDRESS", default = "127.0.0.1",
      doc = "listen at ADDRESS with --http; another one than this machine's own wants --token" },
    { name = "token", type = "word", value = "TOKEN",
      doc = "serve only those who send 'Authorization: Bearer TOKEN'; GRPO_MCP_TOKEN in the "
        .. "environment is the same, and is not seen in the list of processes" },
    flags.dir,
  },
  about = {
    "Speaks JSON-RPC by lines on standard input and output: an assistant starts it with this "
      .. "directory as its own. Scripts, rewards and runs are named by paths below it. "
      .. "ext/mcp/README.md has the lines for its configuration.",
    "With --http only this machine can reach it, but every user of this machine can, and does "
      .. "what you can, unless there is a token; a page in a browser cannot.",
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
  local server = require "grpo.mcp.server"
  if not o.flags.http then return server.run(o.flags.dir) end
  core.signals_install()
  return server.serve({ address = o.flags.host, port = math.tointeger(o.flags.http) or 8070,
    token = o.flags.token or os.getenv("GRPO_MCP_TOKEN") }, o.flags.dir)
end

return command
