-- The extension mcp: the program as a server of the Model Context Protocol.

return {
  commands = { { name = "mcp", before = "help" } },
}
