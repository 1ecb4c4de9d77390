-- Any text as JSON in Lua: refused with one line, or written, read again and written the same.
local core = require "grpo.core"
local expect = require "expect"

return function(input)
  local ok, value = pcall(core.json_decode, input, "input")
  if not ok then return expect.refused(value, "input", "EFORMAT") end
  local once = core.json_encode(value)
  expect.equal(once, core.json_encode(core.json_decode(once, "once")), "written again")
  local wide = core.json_encode(value, { indent = 2 })
  expect.equal(once, core.json_encode(core.json_decode(wide, "wide")), "indented")
end
