-- The program's commands in a stock Lua: lua5.4 tests/stock/run.lua DIR-OF-grpo.so COMMAND ...
package.cpath = table.remove(arg, 1) .. "/?.so;" .. package.cpath
require "grpo"
os.exit(require "grpo.commands".main(arg), true)
