std = "lua54"
max_line_length = 100
files["**/*_test.lua"] = { globals = { "assert" }, read_globals = { "describe", "it", "before_each", "after_each", "pending" } }
files["lua/grpo/meta"] = { ignore = { ".*" } }
files["ext/*/lua/grpo/meta"] = { ignore = { ".*" } }
files["tests/stock/guest.lua"] = { ignore = { "122", "241", "331" } } -- it replaces what a host may replace
files["luajit"] = { std = "luajit" }
files["tests/luajit"] = { std = "luajit" }
files["examples/embed/love.lua"] = { std = "luajit", globals = { "love" } }
files["tools/*.lua"] = { read_globals = { "grpo" } } -- run by `grpo repl`
