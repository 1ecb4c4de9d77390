-- The tests' own library (engine_parts.c), which `make test` builds beside the program; nil where
-- it was not built.

local core = require "grpo.core"

local binary = core.binary() -- build/MODE/grpo, or build/MODE/lua/grpo.so in a stock Lua
local build = binary:match("^(.*)/lua/grpo%.so$") or binary:match("^(.*)/[^/]*$")
local open = package.loadlib(build .. "/tests/lua/engine_parts.so", "luaopen_engine_parts")

return open and open()
