-- The extension hub: `grpo pull`, which brings models and datasets from the Hugging Face Hub.

local core = require "grpo.core"

return {
  commands = { { name = "pull", before = "export", also = { "download" } } },
  libraries = { { label = "HTTP", name = core.http_library, brief = true } },
}
