-- The extension serve: models behind OpenAI's protocol.

local core = require "grpo.core"

return {
  commands = { { name = "serve", before = "export", also = { "server", "api" } } },
  stages = { { name = "agents" } },
  options = {
    { "agents.host", "string", "address of the server for agents; another than this machine's own "
      .. "wants a token in the environment variable GRPO_SERVE_TOKEN", default = "127.0.0.1" },
    { "agents.port", "int", "its port; 0: one that is free, which the log of the run names",
      default = 8090, min = 0, max = 65535 },
    { "agents.sequences", "int", "completions that are decoded side by side", default = 8, min = 1,
      max = 64 },
    { "agents.seconds", "number", "a session of which nothing was heard for so long is given to "
      .. "another program", default = 600, min = 1, max = 1e6 },
  },
  libraries = { { label = "HTTP server",
    name = function() return core.http_server_library() or "none" end } },
}
