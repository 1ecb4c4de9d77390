-- The extension serve: models behind OpenAI's protocol.

local core = require "grpo.core"

return {
  commands = { { name = "serve", before = "export", also = { "server", "api" } } },
  libraries = { { label = "HTTP server",
    name = function() return core.http_server_library() or "none" end } },
}
