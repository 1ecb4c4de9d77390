-- Patterns of file names, with the answers of Python's fnmatch.

local core = require "grpo.core"
local glob = require "grpo.base.glob"
local globs = require "grpo.data.data_files.globs"

describe("a pattern of file names", function()
  for line in io.lines("tests/cases/globs.jsonl") do
    local case = core.json_decode(line)
    it(("%s and %s"):format(case.glob, case.name), function()
      assert.equal(case.matches, glob.matcher(case.glob, "!")(case.name))
      if not case.name:find("/", 1, true) and not case.glob:find("[^", 1, true) then
        assert.equal(case.matches, globs.matcher(case.glob)(case.name))
      end
    end)
  end
  it("of a dataset may negate by ^ too, as in a shell", function()
    assert.is_true(globs.matcher("[^a]")("b"))
    assert.is_false(globs.matcher("[^a]")("a"))
  end)
  it("takes a ? for a character and not for a byte", function()
    assert.is_true(globs.matcher("?.txt")("é.txt"))
    assert.is_false(globs.matcher("??.txt")("é.txt"))
  end)
  it("ends soon, whatever the pattern", function()
    local limits = core.limits { instructions = 20000000 }
    local function answer(f, ...)
      local ok, result = core.limited(limits, "glob", f, ...)
      assert.is_true(ok, tostring(result))
      return result
    end
    local name = ("a"):rep(1000)
    assert.is_false(answer(glob.matcher(("*a?"):rep(400) .. "b", "!"), name))
    assert.is_true(answer(glob.matcher(("*a?"):rep(400) .. "*", "!"), name))
    assert.is_false(answer(globs.matcher(("**/"):rep(500) .. "x"), "a/b/c/d/e/f/g/h/i/j"))
    assert.is_true(answer(globs.matcher(("**/"):rep(500) .. "j"), "a/b/c/d/e/f/g/h/i/j"))
    assert.is_false(answer(globs.matcher(("**/*/"):rep(40) .. "x"), "a/b/c/d/e/f/g/h/i/j"))
  end)
end)
