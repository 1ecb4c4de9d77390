-- Any text as arithmetic: a finite number, or nil and one line, within a reward's limits; brackets
-- around it and white space before it change nothing.
local calc = require "grpo.base.calc"
local expect = require "expect"

local function value_of(text)
  local ok, value, message = expect.within_limits("calc", calc, text)
  if not ok then error(value, 0) end
  if value == nil then
    expect.truth(message:find("^calc: [^\n]+$"), message)
  else
    expect.truth(type(value) == "number" and value - value == 0, tostring(value))
  end
  return value, message
end

return function(input)
  local value = value_of(input)
  if value == nil then return end
  local again, message = value_of(" (" .. input .. ")")
  local too_much = message and (message:find("nested", 1, true) or message:find("bytes", 1, true))
  if not too_much then expect.equal(value, again, "in brackets") end
end
