local numeric = require "rewards.numeric"
local row_texts = require "grpo.scoring.reward_checks.row_texts"

describe("the texts that check makes of rows", function()
  it("earn numeric.equal where the row holds a number", function()
    for _, number in ipairs { 1 / 3, 1e-05, 1e20, 42 } do
      local texts = row_texts.of { { answer = number } }
      assert.equal(5, #texts)
      for _, made in ipairs(texts) do
        assert.equal(1, numeric.equal(made.text, made.row), made.text)
      end
    end
  end)
end)
