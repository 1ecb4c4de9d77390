-- The extension yaml: settings, shapes of models and lists of configurations in YAML.

local core = require "grpo.core"

return {
  text_formats = { { name = "yaml", endings = { "yaml", "yml" }, decode = core.yaml_decode } },
  libraries = { { key = "yaml", label = "YAML", name = core.yaml_library, brief = true } },
}
