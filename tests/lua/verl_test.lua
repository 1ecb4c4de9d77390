-- Every text of tests/cases/verl/scores.jsonl, which tests/oracles/verl_scores.py wrote, against
-- the scorers here: the value and what was extracted are verl's.

local grpo = require "grpo"
local verl = require "grpo.verl"

-- Returns what verl extracts, or nil; verl's DAPO scorer has a word where there is no answer.
local function extracted_of(case, null)
  local extracted = case[5]
  if extracted == null or case[1] == "dapo" and extracted == "[INVALID]" then return nil end
  return extracted
end

describe("verl's scorers", function()
  local by_method = {}
  for line in io.lines("tests/cases/verl/scores.jsonl") do
    local case = grpo.json.decode(line)
    by_method[case[1]] = by_method[case[1]] or {}
    table.insert(by_method[case[1]], case)
  end
  for _, method in ipairs { "math", "dapo", "strict", "flexible" } do
    it(("%s: %d texts as verl scores them"):format(method, #by_method[method]), function()
      for _, case in ipairs(by_method[method]) do
        local _, text, gold, score = table.unpack(case)
        local got, extracted = verl[method](text, gold)
        local where = ("%q against %q"):format(text, gold)
        assert.equal(score, got, where)
        assert.equal(extracted_of(case, grpo.json.null), extracted, where)
      end
    end)
  end
end)
