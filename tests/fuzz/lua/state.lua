-- Any bytes as a saved tr.state: refused with one line, or a value that is saved as bytes that mean
-- the same.
local core = require "grpo.core"
local expect = require "expect"

local function check(input)
  local ok, value = pcall(core.state_decode, input)
  if not ok then return expect.refused(value, "saved state is corrupt", "EFORMAT") end
  local once = core.state_encode(value)
  expect.equal(once, core.state_encode(core.state_decode(once)), "saved again")
end

return function(input)
  check(input)
  if input:sub(1, 4) ~= "GST1" then check("GST1" .. input) end
end
