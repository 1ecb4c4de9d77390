-- YAML texts of yaml.jsonl against what PyYAML reads in them.
-- yaml_cases.py wrote the file.

local core = require "grpo.core"

describe("YAML", function()
  it("is read as PyYAML reads it", function()
    if core.yaml_library() == "none" then return end
    local count = 0
    for line in io.lines "ext/yaml/tests/yaml.jsonl" do
      local case = core.json_decode(line)
      assert.equal(core.json_encode(case.value), core.json_encode(
        core.yaml_decode(case.yaml, "case")), case.yaml)
      count = count + 1
    end
    assert.equal(25, count)
  end)
end)
