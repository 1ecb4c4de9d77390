-- Every text of tests/cases/rewards/published.jsonl against the rewards here of those names.
-- tests/oracles/published_rewards.py wrote it.

local format = require "rewards.format"
local grpo = require "grpo"
local gsm8k = require "rewards.gsm8k"

local lines = {}
for line in io.lines("tests/cases/rewards/published.jsonl") do
  local name, text, value, gold = table.unpack(grpo.json.decode(line))
  lines[name] = lines[name] or {}
  table.insert(lines[name], { text = text, value = value, row = { answer = gold } })
end

-- Compares one reward with its lines.  others: texts for which it gives another value, on purpose.
local function compare(name, reward, others)
  local different = 0
  for _, line in ipairs(lines[name]) do
    local got, other = reward(line.text, line.row), others and others[line.text]
    if other then different = different + 1 end
    assert.equal(other or line.value, got, ("%s of %q"):format(name, line.text))
    assert.is_true(other ~= line.value, name .. " no longer differs: " .. line.text)
  end
  return different
end

local function layout(thinking, answer)
  return ("<thinking>\n%s\n</thinking>\n<answer>\n%s\n</answer>"):format(thinking, answer)
end

describe("format rewards that are published", function()
  local tags = { "reasoning", "answer" }

  it(("xml_count gives %d texts the published value"):format(#lines.xml_count), function()
    compare("xml_count", format.xml_count())
    compare("xml_count", format.xml_count { tags = tags, extra_cost = 0.001 })
  end)

  it(("incremental gives %d texts the published value"):format(#lines.incremental), function()
    compare("incremental", format.incremental { tags = tags })
    compare("incremental_eighths",
      format.incremental { tags = tags, share = 0.125, repeated = true })
  end)
end)

describe("gsm8k's rewards give the notebook's value", function()
  it("to correct, which compares numbers and not spellings and takes the first complete tag",
    function()
      assert.equal(2, compare("correct", gsm8k.correct, {
        [layout("6 * 7", "1,234")] = 1, ["<answer>x</answer><answer>42</answer>"] = 0,
      }))
    end)

  it("to integer, which takes the innermost of nested tags", function()
    assert.equal(1, compare("integer", gsm8k.integer, {
      [layout("6 * 7", "<answer>\n42\n</answer>")] = 1,
    }))
  end)

  it("to layout, which wants every tag once", function()
    assert.equal(2, compare("layout", gsm8k.layout, {
      [layout("6 * 7", "<answer>\n42\n</answer>")] = -1,
      [layout(layout("6 * 7", "42"), "42")] = -1,
    }))
  end)

  it("to nothing_after", function() compare("nothing_after", gsm8k.nothing_after) end)
end)
