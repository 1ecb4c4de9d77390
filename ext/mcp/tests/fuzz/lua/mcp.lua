-- Anything that a server of the Model Context Protocol may send: a list of tools that the program
-- can tell a model, a text that is not longer than asked for, or one problem.
local core = require "grpo.core"
local expect = require "expect"
local messages = require "grpo.mcp.messages"
local tools = require "grpo.options.tools"

local function complain(path, format, ...) error(path .. ": " .. format:format(...), 0) end

local function check(input)
  local message, problem = messages.read(input)
  if not message then return expect.truth(#problem < 400, "a long problem") end
  local result
  result, problem = messages.result(message)
  if not result then return expect.truth(type(problem) == "string", "no problem") end
  local text = messages.text(result, 40)
  expect.truth(#text <= 60, "a text that was not cut")
  local found = {}
  if messages.take_tools(result, found) or next(found) == nil then return end
  messages.fingerprint(found)
  for _, tool in pairs(found) do tool.fn = function() return "" end end
  local list = tools.list(found, complain)
  core.json_encode(tools.for_template(list))
  tools.call(list, { name = list[1].name, arguments = { a = 1 } },
    { instructions = 1e6, memory = 1e7, seconds = 5 }, { rng = core.rng(1, "turn", 0, 0, 0) })
end

return function(input)
  check(input)
  for _, text in ipairs(messages.events(input)) do check(text) end
end
