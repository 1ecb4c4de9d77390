#!/bin/sh
# client.sh URL : grpo.mcp as a client of a server of the conformance tests, which has the tool add_numbers, or none
"$GRPO" repl <<LUA
local found, tools = pcall(grpo.mcp, { url = "$1", timeout = 10 })
if found then print(tools.add_numbers.fn { a = 5, b = 3 }) end
if not found and not tostring(tools):find "has no tools" then error(tools, 0) end
LUA
