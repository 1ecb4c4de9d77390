-- The extension openenv: environments behind an address that speaks OpenEnv's protocol.

local core = require "grpo.core"

return {
  names = { { name = "openenv", load = function() return require("grpo.openenv").new end } },
  libraries = { { label = "WebSockets", name = core.websocket_library } },
}
