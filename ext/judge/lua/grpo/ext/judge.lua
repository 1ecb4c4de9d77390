-- The extension judge: grpo.judge, a reward that asks a model, a program or an address.

local core = require "grpo.core"

return {
  names = { { name = "judge", load = function() return require("grpo.judge").new end } },
  runs = { { opened = function(dir, writes) require("grpo.judge.answers").open(dir, writes) end } },
  libraries = { { label = "HTTP of judges", name = core.http_client_library } },
}
