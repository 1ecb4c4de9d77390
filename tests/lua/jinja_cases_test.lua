-- Expressions and statements of Jinja2 give what transformers makes of them, and are refused where
-- it refuses.  The script tests/oracles/jinja_cases.py wrote tests/cases/jinja.jsonl.

local grpo = require "grpo"
local jinja = require "grpo.jinja"

describe("Jinja2 as transformers uses it", function()
  it("gives the same text for every case", function()
    local n = 0
    for line in io.lines "tests/cases/jinja.jsonl" do
      local case = jinja.from_json(line).map
      local ok, text = pcall(function()
        return (grpo.template(case.source):render(case.context))
      end)
      n = n + 1
      local refused = type(case.want) ~= "string"
      local name = case.source .. ": "
      assert.equal(name .. (refused and "refused" or case.want),
        name .. (ok and text or refused and "refused" or tostring(text)))
      if not ok then assert.matches("^template:%d+: [^\n]*$", tostring(text)) end
    end
    assert.is_true(n > 500)
  end)
end)
