-- Any text of a model as calls of tools: every form reads it within a reward's limits, every call
-- has an answer, and what was called can be logged.
local core = require "grpo.core"
local expect = require "expect"
local tools = require "grpo.options.tools"

local function complain(path, format, ...) error(path .. ": " .. format:format(...)) end
local list = tools.list({
  add = { parameters = { a = "number", b = "integer" },
    fn = function(p) return p.a + p.b end },
  echo = { parameters = { text = "string" }, fn = function(p) return p.text end },
  give = { parameters = { v = "object" }, fn = function(p) return p.v end },
  calc = { parameters = { expression = "string" },
    fn = function(p) return require "grpo.base.calc"(p.expression) end },
  none = function() return nil, "nothing" end,
}, complain)
local limits = { instructions = 1000000, memory = 1 << 24 }

local function call_one(call)
  local answer, failed = tools.call(list, call, limits, { rng = function() return 0.5 end })
  expect.truth(type(answer) == "string", "an answer that is not a text")
  expect.truth(not failed or answer:find("^error: "), answer)
  expect.truth(not answer:find(expect.own_line), answer)
  core.json_encode { name = call.name, arguments = call.arguments, argument = call.argument,
    error = call.error }
  return answer
end

return function(input)
  for _, name in ipairs { "chat", "json", "compact" } do
    local form = tools.form(name)
    local ok, calls = expect.within_limits(name, form.read, input)
    if not ok then error(calls, 0) end
    for _, call in ipairs(calls or {}) do
      local answer = call_one(call)
      if form.write then form.write(answer) end
    end
  end
end
