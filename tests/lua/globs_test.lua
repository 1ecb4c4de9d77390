-- Patterns of file names, with the answers of Python's fnmatch.

local core = require "grpo.core"
local globs = require "grpo.data_files.globs"
local listing = require "grpo.hub.listing"

describe("a pattern of file names", function()
  for line in io.lines("tests/cases/globs.jsonl") do
    local case = core.json_decode(line)
    it(("%s and %s"):format(case.glob, case.name), function()
      assert.equal(case.matches, listing.matches(case.name, case.glob))
      if not case.name:find("/", 1, true) and not case.glob:find("[^", 1, true) then
        assert.equal(case.matches, globs.matches(case.name, case.glob))
      end
    end)
  end
  it("of a dataset may negate by ^ too, as in a shell", function()
    assert.is_true(globs.matches("b", "[^a]"))
    assert.is_false(globs.matches("a", "[^a]"))
  end)
end)
