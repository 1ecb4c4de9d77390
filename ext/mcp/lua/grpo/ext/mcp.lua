-- The extension mcp: the program as a server of the Model Context Protocol, and the tools of other
-- servers in a rollout.

return {
  commands = { { name = "mcp", before = "help" } },
  names = { { name = "mcp", load = function() return require("grpo.mcp.rollout").new end } },
  runs = { { opened = function(...) require("grpo.mcp.rollout").opened(...) end } },
}
