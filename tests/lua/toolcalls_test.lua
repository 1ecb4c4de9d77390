local toolcalls = require "experiments.tasks.toolcalls"

-- A generator of numbers in [0, 1) that needs no engine.
local function stream(seed)
  local state = seed * 7919 + 1
  return function()
    state = (state * 48271 + 11) % 2147483647
    return state / 2147483647
  end
end

local function requests(split, n)
  local rng, rows = stream(3), {}
  for i = 1, n do rows[i] = toolcalls.request(rng, split) end
  return rows
end

local row = { call = { tool = "timer", minutes = 5, label = "tea" } }

describe("requests for tool calls", function()
  it("have every argument of the call in their words", function()
    for _, split in ipairs { "train", "eval" } do
      for _, r in ipairs(requests(split, 300)) do
        assert.is_nil(r.request:find("[{}]"))
        for name, value in pairs(r.call) do
          if name ~= "tool" then assert.is_not_nil(r.request:find(tostring(value), 1, true)) end
        end
      end
    end
  end)

  it("share no value but units and minutes between training and held-out rows", function()
    local seen = {}
    for _, r in ipairs(requests("train", 1000)) do
      for _, name in ipairs { "city", "label", "to", "text" } do
        if r.call[name] then seen[r.call[name]] = true end
      end
    end
    for _, r in ipairs(requests("eval", 1000)) do
      for _, name in ipairs { "city", "label", "to", "text" } do
        assert.is_nil(seen[r.call[name] or ""])
      end
    end
  end)

  it("do not occur in the examples of the prompt", function()
    local messages = toolcalls.messages { request = "?" }
    assert.equal("?", messages[#messages].content)
    for _, r in ipairs(requests("eval", 300)) do
      for i = 1, #messages - 1 do
        for _, name in ipairs { "city", "label", "to", "text" } do
          if r.call[name] then
            assert.is_nil(messages[i].content:find(r.call[name], 1, true))
          end
        end
      end
    end
  end)
end)

describe("rewards of tool calls", function()
  -- completion, json, tool, fields
  local cases = {
    { '{"tool": "timer", "minutes": 5, "label": "tea"}', 1, 1, 1 },
    { ' {"label":"tea","minutes":5,"tool":"timer"}\n', 1, 1, 1 },
    { '{"tool": "timer", "minutes": 6, "label": "tea"}', 1, 1, 2 / 3 },
    { '{"tool": "timer", "minutes": "5", "label": "tea"}', 1, 1, 2 / 3 },
    { '{"tool": "timer", "minutes": 5, "label": "tea", "unit": "s"}', 1, 1, 3 / 4 },
    { '{"tool": "alarm", "minutes": 5, "label": "tea"}', 1, 0, 2 / 3 },
    { '{"tool": "timer"}', 1, 1, 1 / 3 },
    { "[]", 1, 0, 0 },
    { "5", 0, 0, 0 },
    { 'Sure: {"tool": "timer", "minutes": 5, "label": "tea"}', 0, 0, 0 },
    { '{"tool": "timer", "minutes": 5, "label": "tea"', 0, 0, 0 },
    { "", 0, 0, 0 },
  }
  it("count the JSON, the tool and the share of right fields", function()
    for _, c in ipairs(cases) do
      assert.equal(c[2], toolcalls.json(c[1]))
      assert.equal(c[3], toolcalls.tool(c[1], row))
      assert.is_true(math.abs(c[4] - toolcalls.fields(c[1], row)) < 1e-12)
      assert.equal(c[4] == 1, toolcalls.exact(c[1], row))
    end
  end)
end)
