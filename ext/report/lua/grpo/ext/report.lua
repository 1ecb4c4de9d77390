local core = require "grpo.core"

return {
  commands = { { name = "report", before = "replay",
    also = { "tensorboard", "plot", serve = "report RUN --serve" } } },
  libraries = { { label = "pages of runs", name = core.http_server_library } },
}
