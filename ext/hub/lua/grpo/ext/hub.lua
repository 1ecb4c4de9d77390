-- The extension hub: models and datasets of the Hugging Face Hub by their names, and `grpo pull`,
-- which brings them.

local core = require "grpo.core"

return {
  commands = { { name = "pull", before = "export", also = { "download" } } },
  libraries = { { label = "HTTP", name = core.http_library, brief = true } },
  places = { { load = function() return require "grpo.data.hub" end } },
  names = { { name = "hub", load = function()
    return { snapshot = require("grpo.data.hub").snapshot }
  end } },
}
