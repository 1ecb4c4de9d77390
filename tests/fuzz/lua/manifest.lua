-- Any manifest.json of a checkpoint: refused with one line that names the place, or every file that
-- it lists is in the checkpoint.
local core = require "grpo.core"
local expect = require "expect"

local dir = expect.directory() .. "/step-000001"
assert(core.fs.mkdirs(dir .. "/reference"))
expect.put(dir .. "/a", "abc")
expect.put(dir .. "/b.bin", "")
expect.put(dir .. "/reference/a", "xyz")

return function(input)
  expect.put(dir .. "/manifest.json", input)
  local ok, err = pcall(core.checkpoint_verify, dir)
  if not ok then return expect.refused(err, dir, "EFORMAT") end
  for name, entry in pairs(core.json_decode(input, "manifest").files) do
    expect.equal(core.fs.size(dir .. "/" .. name), entry.size, name)
  end
end
