-- Any text as code in the sandbox: it ends within its limits, gives the same twice, and changes
-- nothing outside.
local core = require "grpo.core"
local expect = require "expect"
local sandbox = require "grpo.sandbox"

local options = { instructions = 200000, memory = 1 << 22, time = 5, env = { x = { 1, "two" } } }

local function run(code)
  local ok, result, output = sandbox.run(code, options)
  expect.truth(type(output) == "string", "no output")
  expect.truth(ok or type(result) == "string", "no message")
  return tostring(ok) .. core.state_encode(result) .. output
end

-- Addresses are not the same twice.
local function shown(text)
  return (text:gsub("0x%x+", "0x"))
end

return function(input)
  local code = input:gsub("%%p", "%%d") -- of string.format
  expect.equal(#shown(run(code)), #shown(run(code)), "the second time")
  expect.equal(options.env.x[2], "two", "the environment")
end
