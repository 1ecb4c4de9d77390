-- Rewards may not change a completion, nor return numbers that are too large.
local core = require "grpo.core"
local rollout = require "grpo.scoring.rollout"
local reward_entries = require "grpo.options.reward_entries"
local scoring = require "grpo.scoring.scoring"
local step_log = require "grpo.steps.step_log"
local tiny = require "tests.lua.tiny"

local limits = { instructions = 1e6, memory = 2^24, seconds = 600 }

-- A group of two completions.
local function group()
  local cs = {}
  for i = 1, 2 do
    cs[i] = rollout.made { text = "text " .. i, row = { answer = i }, ids = { 5, 6 + i },
      logprobs = { -1.5, 0 / 0 }, length = 2, index = i, group = cs, prompt = "p",
      messages = { { role = "user" } } }
  end
  return cs
end

local function score(rewards, cs, on_error)
  local entries = reward_entries.list(rewards)
  return scoring.score(entries, cs, limits, on_error or "stop")
end

local changes = {
  { "c.text", function(c) c.text = "x" end }, { "c.text", function(c) c.text = nil end },
  { "c.prompt", function(c) c.prompt = 5 end }, { "c.row", function(c) c.row = {} end },
  { "c.messages", function(c) c.messages = nil end },
  { "c.length", function(c) c.length = "x" end },
  { "c.ids", function(c) c.ids = {} end }, { "c.ids", function(c) c.ids[2] = 9 end },
  { "c.ids", function(c) c.ids[3] = 9 end }, { "c.ids", function(c) c.ids[1] = nil end },
  { "c.ids", function(c) table.sort(c.ids, function(a, b) return a > b end) end },
  { "c.logprobs", function(c) c.logprobs[1] = 0 end },
  { "c.finish", function(c) c.finish = "length" end },
  { "c.truncated", function(c) c.truncated = true end }, { "c.index", function(c) c.index = 7 end },
  { "c.group", function(c) c.group = {} end }, { "c.rng", function(c) c.rng = 5 end },
  { "c.group", function(c) c.group[1] = c.group[2] end },
  { "c.state", function(c) c.state = nil end }, { "c.parts", function(c) c.parts = nil end },
  { "c.rewards", function(c) c.rewards = nil end },
  { "c.rewards", function(c) c.rewards.first = 100 end },
  { "c.rewards", function(c) c.rewards.other = "x" end },
  { "c.environment", function(c) c.environment = 3 end },
  { "c.target_ids", function(c) c.target_ids = { 1 } end },
  { "c.kl_penalty", function(c) c.kl_penalty = "x" end },
  { "c.reward", function(c) c.reward = 5 end },
  { "the metatable of c", function(c) setmetatable(c, { __index = { extra = 5 } }) end },
  { "c.text", function(c) c.group[3 - c.index].text = "x" end } }

describe("what scoring keeps beside the rewards", function()
  it("has the columns of a group, one table for each completion", function()
    local cs = group()
    score({ { name = "g", group_fn = function()
      return { 1, 2 }, { { counts = { runs = 3 } }, { note = "x" } }
    end } }, cs)
    assert.same({ ["g.counts"] = { runs = 3 } }, cs[1].extra)
    assert.same({ ["g.note"] = "x" }, cs[2].extra)
    assert.error_matches(function()
      score({ { name = "g", group_fn = function() return { 1, 2 }, 5 end } }, group())
    end, "the columns %(second result%): got a number, want a list")
    assert.error_matches(function()
      score({ { name = "g", group_fn = function() return { 1, 2 }, { 7 } end } }, group())
    end, "got a number, want a table")
  end)

  it("gives sums of counts to the metrics", function()
    local cs, metrics = group(), {}
    for i, c in ipairs(cs) do
      c.rewards, c.reward = { g = 1.0 }, 1.0
      c.extra = { ["g.counts"] = { runs = 3, passed = i > 1 and i or nil } }
    end
    step_log.add({ reward_entries = { { name = "g" } } }, cs,
      { weights = { 1 }, reward_seconds = {}, reward_errors = 0 }, metrics)
    assert.equal(6, metrics["rewards/g/runs"])
    assert.equal(2, metrics["rewards/g/passed"])
    assert.equal(1.0, metrics["rewards/g/mean"])
  end)

  it("is not a reward's to set", function()
    local cs = group()
    score({ { name = "first", token_fn = function(c) return { c.index, 1 } end },
      { name = "second", fn = function(_, _, c)
        c.errors, c.extra, c.token_rewards = 5, "x", { first = {} }
        return 1, { half = 0.5 }
      end } }, cs)
    assert.is_nil(cs[1].errors)
    assert.same({ ["second.half"] = 0.5 }, cs[1].extra)
    assert.same({ first = { 2, 1 } }, cs[2].token_rewards)
  end)
end)

describe("what a reward returns", function()
  it("is read without its metamethods", function()
    local odd = tiny.endless
    local function gives(rewards)
      local cs = group()
      return score(rewards, cs, "zero"), cs
    end
    local failures, cs = gives { r = function() return 1, odd { a = odd { 7 } } end }
    assert.equal(0, failures)
    assert.same({ ["r.a"] = { 7 } }, cs[1].extra)
    assert.is_nil(getmetatable(cs[1].extra["r.a"]))
    assert.equal(0, (gives { r = { group_fn = function()
      return odd { 1, 2 }, odd { odd { b = 1 } }
    end } }))
    assert.equal(0, (gives { r = { token_fn = function() return odd { 1, 2 } end } }))
    for _, returned in ipairs {
      function() return odd() end, function() return 1, odd { [odd()] = 1 } end,
      function() return 1, { odd { [0.5] = odd() } } end } do
      assert.equal(2, (gives { r = returned }))
    end
    assert.equal(2, (gives { r = { group_fn = function() return odd { 1 } end } }))
    assert.equal(2, (gives { r = { group_fn = function() return odd { odd(), odd() } end } }))
    assert.equal(2, (gives { r = { token_fn = function() return odd { odd(), 1 } end } }))
  end)
  it("leaves no metatable on a list that other code reads", function()
    for _, name in ipairs { "ids", "logprobs", "group", "rewards" } do
      local failures = score({ { name = "r", fn = function(_, _, c)
        tiny.endless(c[name])
        return 1
      end } }, group(), "zero")
      assert.is_true(failures > 0, name)
    end
  end)
  it("is written within its limits", function()
    local entries = { { name = "r", fn = function()
      local t = {}
      for _ = 1, 60 do t = { t, t } end
      return 1, { t = t }
    end } }
    local cs = group()
    assert.equal(2, score(entries, cs, "zero"))
    assert.matches("^rewards%.r: .*scoring_test%.lua:%d+: the columns %(second result%): used up "
      .. "its 1000000 instructions: a loop that does not end%?", cs[1].errors.r)
    assert.is_nil(cs[1].errors.r:find("grpo/", 1, true))
  end)
end)

describe("what prepares a reward", function()
  it("sees all completions before, and its errors count for nothing", function()
    local cs, seen = {}, nil
    for _ = 1, 2 do table.move(group(), 1, 2, #cs + 1, cs) end
    local list = { {
      prepare = function(all)
        seen = #all
        error("nothing")
      end,
      group_fn = function(texts) return { seen, #texts } end,
    } }
    assert.equal(0, (score(list, cs)))
    assert.equal(4, cs[1].rewards.reward1)
    assert.equal(2, cs[4].rewards.reward1)
    tiny.refused("rewards.reward1.prepare: got number, want a function", reward_entries.list,
      { { fn = print, prepare = 3 } })
  end)

  it("may not change a completion", function()
    local cs = group()
    tiny.refused("changed c.text", score, { { fn = function() return 1 end,
      prepare = function(all) all[1].text = "x" end } }, cs)
    assert.equal("text 1", cs[1].text)
  end)
end)

describe("a reward that takes too long", function()
  it("stops the run whatever reward.on_error says, and is told which limit to raise", function()
    local slow = { instructions = 1e12, memory = 2^24, seconds = 0.001 }
    local function endless() while true do end end
    local entries = reward_entries.list { { name = "judge", fn = endless } }
    local ok, err = pcall(scoring.score, entries, group(), slow, "zero")
    assert.is_false(ok)
    assert.matches("wall%-clock time: a loop that does not end%?  "
      .. "If not, raise limits%.reward%.seconds %(completion: ", tostring(err))
  end)
  it("gets no advice to raise a limit where something is not available", function()
    for _, refused in ipairs { function() setmetatable({}, { __gc = print }) end,
      function() os.exit(0) end } do
      local _, err = pcall(score, { refused }, group(), "stop")
      assert.matches("not available in rewards, schedules and hooks %(completion", tostring(err))
    end
  end)
  it("may set reward.on_error if it is out of instructions", function()
    local few = { instructions = 1000, memory = 2^24, seconds = 600 }
    local function endless() while true do end end
    local entries = reward_entries.list { { name = "judge", fn = endless } }
    local _, err = pcall(scoring.score, entries, group(), few, "stop")
    assert.matches("If not, raise limits%.reward, or set reward%.on_error %(", tostring(err))
  end)
end)

describe("a reward that changes its completion", function()
  local function check(kind, make)
    for _, change in ipairs(changes) do
      local cs = group()
      local ok, err = pcall(score, { { name = "first", fn = function() return 1 end },
        { name = "second", [kind] = make(change[2]) } }, cs)
      assert.is_false(ok, kind .. " " .. change[1])
      assert.matches("rewards%.second: .*scoring_test%.lua:%d+: the function changed "
        .. change[1]:gsub("%.", "%%."), tostring(err))
      cs = group()
      local seen = {}
      local failures = score({ { name = "first", fn = function() return 1 end },
        { name = "second", [kind] = make(change[2]) },
        { name = "third", fn = function(text, row, c)
          seen[#seen + 1] = { text, row.answer, c.ids[1], c.ids[2], c.ids[3], c.length,
            c.rewards.first, c.group[c.index] == c, c.finish, c.rng() < 1, c.extra }
          return 2
        end } }, cs, "zero")
      assert.same({ { "text 1", 1, 5, 7, nil, 2, 1, true, "eos", true },
        { "text 2", 2, 5, 8, nil, 2, 1, true, "eos", true } }, seen)
      assert.is_true(failures >= 1 and failures <= 2)
      assert.same({ first = 1, second = 0.0, third = 2 }, cs[1].rewards)
      assert.matches("changed " .. change[1]:gsub("%.", "%%."), cs[1].errors.second)
    end
  end
  it("is refused and undone", function()
    check("fn", function(f) return function(_, _, c) f(c) return 1 end end)
  end)
  it("is refused and undone for a group", function()
    check("group_fn", function(f)
      return function(_, _, cs)
        for _, c in ipairs { table.unpack(cs) } do f(c) end
        return { 1, 1 }
      end
    end)
  end)
  it("is refused and undone for tokens", function()
    check("token_fn", function(f) return function(c) f(c) return { 1, 1 } end end)
  end)
  it("is called for a group of which only one is asked for", function()
    local cs = group()
    score({ { name = "both", group_fn = function() return { 1, 2 } end } }, { cs[1] })
    assert.equal(2, cs[2].rewards.both)
  end)
  it("may keep values in fields of its own", function()
    local cs = group()
    score({ { name = "first", fn = function(_, _, c) c.mine = { 7 } return 1 end },
      { name = "second", fn = function(_, _, c) return c.mine[1] end } }, cs)
    assert.equal(7, cs[2].rewards.second)
    assert.equal(7, cs[1].mine[1])
  end)
end)

describe("a reward", function()
  local function refused(rewards, pattern)
    local ok, err = pcall(score, rewards, group())
    assert.is_false(ok)
    assert.matches(pattern, tostring(err))
    local cs = group()
    assert.equal(2, (score(rewards, cs, "skip")))
    assert.equal(core.none, cs[1].rewards.r)
  end
  it("may not be so large that squares overflow", function()
    refused({ r = function() return 1e308 end },
      "rewards%.r: .*scoring_test%.lua:%d+: the function returned 1e%+308; .* at most 1e%+30")
    refused({ r = function() return -1e31 end }, "returned %-1e%+31")
    refused({ r = { group_fn = function() return { 1e300, 1e300 } end } },
      "item 1 returned 1e%+300")
    refused({ r = { token_fn = function() return { 1e300, 0 } end } }, "token 1 returned 1e%+300")
    refused({ r = { token_fn = function() return { 9e29, 9e29 } end } },
      "token_fn, summed, returned 1%.8e%+30")
    score({ r = function() return 1e30 end }, group())
  end)
  it("may not become so large by its weight", function()
    local config = { reward_entries = reward_entries.list { r = function() return 1e29 end },
      limits = { reward = limits }, reward = { on_error = "stop" } }
    local ok, err = pcall(scoring.reward, config, group(), { 100 })
    assert.is_false(ok)
    assert.matches("rewards: the weighted sum of a completion is 1e%+31", tostring(err))
  end)
  it("ends the run when the machine has no memory, whatever on_error says", function()
    local function out_of_memory()
      error(core.error("ENOMEM", "no memory"), 0)
    end
    local ok, err = pcall(score, { r = out_of_memory }, group(), "zero")
    assert.is_false(ok)
    assert.equal("ENOMEM", err.code)
  end)
end)
