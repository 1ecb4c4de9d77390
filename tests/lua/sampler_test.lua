-- data.sampler: when it is asked, what it sees, what is refused, and that a run which resumes takes
-- the same rows and ends with the same weights.

local core = require "grpo.core"
local grpo = require "grpo"
local prompts = require "grpo.scoring.prompts"
local row_sampler = require "grpo.options.row_sampler"
local samplers = require "grpo.samplers"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local shape = tiny.llama { hidden_size = 16, intermediate_size = 32, initializer_range = 0.3,
  eos_token_id = 8 }
local texts = { "a", "b", "c", "d", "e", "f", "ab", "cd" }

local function rows()
  local list = {}
  for i, text in ipairs(texts) do list[i] = { prompt = text, number = i } end
  return grpo.data.list(list)
end

local experiment, run = tiny.experiments(function()
  return {
    name = "tiny", seed = 3,
    model = { config = shape, tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = { train = rows(), max_prompt_tokens = 4 },
    sampling = { group_size = 2, max_new_tokens = 4 },
    rewards = { { name = "as", fn = tiny.count_a },
      { name = "one", fn = function() return 1 end } },
    train = { steps = 3, prompts_per_step = 2, lr = 1e-2 },
  }
end)

local function with(sampler, change)
  return function(t)
    t.data.sampler = sampler
    if change then change(t) end
  end
end

-- Rows from the first to the last, and again.
local function walk(p)
  local list = {}
  for i = 1, p.n do list[i] = (p.taken + i - 1) % p.size + 1 end
  return list
end

-- Rows of the batches of a run, by number, as text.
local function rows_of_run(change)
  local list = {}
  local tr = run(function(t)
    change(t)
    t.hooks = { on_rollout = function(batch)
      for _, prompt in ipairs(batch.prompts) do list[#list + 1] = prompt.row.number or "own" end
    end }
  end)
  return table.concat(list, " "), tr
end

local function refused(pattern, sampler, change)
  tiny.refused(pattern, function() run(with(sampler, change)) end)
end

describe("a sampler", function()
  it("chooses the rows of each step", function()
    assert.equal("1 2 3 4 5 6", (rows_of_run(with(walk))))
    assert.equal("8 8 8 8 8 8", (rows_of_run(with(function() return { 8, 8 } end))))
  end)

  it("may give rows of its own", function()
    assert.equal("own 2 own 2 own 2", (rows_of_run(with(function()
      return { { prompt = "h" }, 2 }
    end))))
  end)

  it("sees the argument of schedules, the size of the data and the metrics of the step before",
    function()
    local seen = {}
    run(with(function(p)
      seen[#seen + 1] = { p.step, p.steps, p.n, p.round, p.taken, p.size, p.metrics.step or 0,
        #p.dataset, p.fraction < 1 }
      return walk(p)
    end))
    assert.same({ { 0, 3, 2, 1, 0, 8, 0, 8, true }, { 1, 3, 2, 1, 2, 8, 1, 8, true },
      { 2, 3, 2, 1, 4, 8, 2, 8, true } }, seen)
  end)

  it("has random numbers of its own, the same in each run", function()
    local function random(p) return { math.floor(p.rng() * 8) + 1, math.random(8) } end
    local first = rows_of_run(with(random))
    assert.equal(first, (rows_of_run(with(random))))
    assert.is_true(#first == 11 and not first:find("^(%d) %1 %1 %1"))
    assert.is_true(first ~= (rows_of_run(with(random, function(t) t.seed = 4 end))))
  end)

  it("is not there by default: the order of data.shuffle stays", function()
    local function change(t) t.train.steps = 4 end
    local list = {}
    for word in rows_of_run(change):gmatch("%d+") do list[#list + 1] = tonumber(word) end
    table.sort(list)
    assert.same({ 1, 2, 3, 4, 5, 6, 7, 8 }, list)
  end)

  it("is told of each group: row, rewards, mean, spread, and whether it teaches", function()
    local groups, of_step
    run(with({ sample = function(_, p) return walk(p) end,
      observe = function(_, p, list) groups, of_step = list, p.metrics.reward end }))
    assert.equal(2, #groups)
    for i, g in ipairs(groups) do
      assert.equal(4 + i, g.index)
      assert.equal(texts[4 + i], g.row.prompt)
      assert.equal(2, #g.rewards)
      assert.equal((g.rewards[1] + g.rewards[2]) / 2, g.mean)
      assert.near(math.abs(g.rewards[1] - g.rewards[2]) / math.sqrt(2), g.std, 1e-12)
      assert.near(g.means.as + g.means.one, g.mean, 1e-12)
      assert.equal(g.std == 0, g.zero_advantage)
      assert.is_false(g.replaced)
    end
    assert.near((groups[1].mean + groups[2].mean) / 2, of_step, 1e-12)
  end)

  it("gives numbers that become metrics", function()
    local _, list = run(with({ sample = function(_, p) return walk(p) end,
      observe = function(_, p) return { level = p.step } end }))
    assert.equal(2, list[3]["sampler/level"])
  end)

  it("keeps its methods' fields: an object with a metatable is called as one", function()
    local Class = {}
    Class.__index = Class
    function Class:sample(p) return { self.first, self.first + p.n - 1 } end
    assert.equal("3 4 3 4 3 4", (rows_of_run(with(setmetatable({ first = 3 }, Class)))))
  end)

  it("is asked again for tied groups, and told of both", function()
    local rounds, told = {}, nil
    run(with({ sample = function(_, p)
      rounds[#rounds + 1] = p.round .. ":" .. p.n
      return walk(p)
    end, observe = function(_, _, list) told = list end }, function(t)
      t.train.steps, t.train.skip_zero_std_groups = 1, true
      t.rewards = { as = function() return 1 end }
    end))
    assert.equal("1:2 2:2 3:2 4:2", table.concat(rounds, " "))
    assert.equal(8, #told)
    assert.same({ 7, 8, 1, 2 }, { told[1].index, told[2].index, told[3].index, told[4].index })
    assert.is_true(told[3].replaced and told[3].zero_advantage and not told[1].replaced)
  end)

  it("is asked again for prompts that are too long", function()
    local list = rows_of_run(with(walk, function(t)
      t.data.prompt = function(row) return row.number % 3 == 0 and "abcdef" or row.prompt end
    end))
    assert.equal("1 2 4 5 7 8", list)
  end)

  it("serves supervised stages and stages of its own each", function()
    local told, states = {}, {}
    local list, tr = rows_of_run(with({ sample = function(_, p)
      states[#states + 1] = p.state.calls or 0
      p.state.calls = (p.state.calls or 0) + 1
      return walk(p)
    end, observe = function(_, _, groups) told[#told + 1] = groups[1].index end }, function(t)
      t.data.target = function() return "a" end
      t.stages = { { kind = "sft", train = { steps = 2 } }, { kind = "grpo" } }
    end))
    assert.equal("1 2 3 4 5 6", list) -- of the second stage
    assert.same({ 1, 3, 1, 3, 5 }, told)
    assert.same({ 0, 1, 0, 1, 2 }, states)
    assert.equal(5, tr.step_count)
  end)

  it("serves PPO, where a critic says what teaches", function()
    local told
    run(with({ sample = function(_, p) return walk(p) end,
      observe = function(_, _, groups) told = groups[1] end },
      function(t) t.stages = { { kind = "ppo" } } end))
    assert.is_nil(told.zero_advantage)
    assert.equal(5, told.index)
  end)

  it("leaves the held-out rows alone", function()
    local function change(sampler)
      return function(t)
        t.data.sampler, t.train.lr = sampler, 0
        t.data.eval = grpo.data.list { { prompt = "ab" }, { prompt = "h" } }
      end
    end
    local a, b = run(change(walk)), run(change(nil))
    local ra, rb = a:evaluate(), b:evaluate()
    assert.equal(rb["eval/reward"], ra["eval/reward"])
    assert.equal(2, ra.n)
  end)
end)

describe("a sampler is refused", function()
  it("that is neither a function nor has one", function()
    refused("data%.sampler%.sample: got nil, want function", {})
    refused("data%.sampler%.smaple: unknown option, did you mean 'sample'", { smaple = walk })
    refused("data%.sampler%.observe: got number", { sample = walk, observe = 1 })
    refused("data%.sampler: got 3, want a function or a table", 3)
  end)

  it("whose list is not one of p.n rows", function()
    refused("data%.sampler: returned nothing, want a list of 2 rows", function() end)
    refused("data%.sampler: returned 1 rows, want p%.n = 2", function() return { 1 } end)
    refused("returned 3 rows, want p%.n = 2", function() return { 1, 2, 3 } end)
    refused("item 2 of its list is 9, want the number of a row of data.train, 1 to 8",
      function() return { 1, 9 } end)
    refused("item 1 of its list is 0,", function() return { 0, 1 } end)
    refused("item 1 of its list is 1%.5,", function() return { 1.5, 1 } end)
    refused("item 1 of its list is a string,", function() return { "1", 1 } end)
    refused("returned 1 rows, want p%.n = 2", function() return tiny.endless { 1 } end)
  end)

  it("whose state is not plain data", function()
    refused("data%.sampler: p%.state%.f is a function", function(p)
      p.state.f = print
      return walk(p)
    end)
    refused("p%.state is a string, want a table", function(p)
      p.state = "x"
      return walk(p)
    end)
    refused("p%.state is a nil, want a table", function(p)
      local list = walk(p)
      p.state = nil
      tiny.endless(p)
      return list
    end)
    refused("data%.sampler: p%.state%.f is a function",
      { sample = function(_, p) return walk(p) end,
      observe = function(_, p) p.state.f = print end })
  end)

  it("that fails, at its line, or whose budget is spent", function()
    refused("sampler_test.lua:%d+: boom", function() error("boom") end)
    refused("data%.sampler", function() while true do end end)
    refused("data%.sampler%.observe.*sampler_test.lua:%d+: bang",
      { sample = function(_, p) return walk(p) end, observe = function() error("bang") end })
  end)

  it("whose metrics are not numbers by name", function()
    local function observing(result)
      return { sample = function(_, p) return walk(p) end, observe = function() return result end }
    end
    refused("observe returned a string as level, want a number", observing { level = "x" })
    refused("observe returned a number whose name is a number", observing { 1 })
    refused("observe returned a number, want nothing", observing(1))
    refused("observe returned a string as level", observing(tiny.endless { level = "x" }))
  end)

  it("that gives no usable row", function()
    refused("no usable row, all 8 prompts are longer", walk, function(t)
      t.data.prompt = function() return "abcdef" end
    end)
  end)

  it("that answers differently when it is asked again", function()
    local calls = 0
    local config = experiment(with(function(p)
      calls = calls + 1
      return { calls, p.n }
    end)).stages[1].config
    local source = prompts.source(config, nil, 3)
    local _, problem = source.sampler:rehearse(2, 0)
    assert.matches("item 1 of its list was row 1 and then row 2 for the same p", problem)
    assert.matches("keep what it remembers in p.state", problem)
    tiny.refused("item 1 of its list was row", function()
      local tr = trainer.new(experiment(with(function()
        calls = calls + 1
        return { calls % 8 + 1, 1 }
      end)))
      require("grpo.loop.preflight").run(tr)
    end)
  end)
end)

describe("a run with a sampler", function()
  local curriculum = { sample = function(_, p)
    local list, best = {}, p.state.best or {}
    for i = 1, p.n do list[i] = best[i] or math.floor(p.rng() * p.size) + 1 end
    return list
  end, observe = function(_, p, groups)
    p.state.best = {}
    for _, g in ipairs(groups) do
      if not g.zero_advantage then table.insert(p.state.best, g.index % p.size + 1) end
    end
    p.state.mean = (p.state.mean or 0) * 0.9 + groups[1].mean / 3
  end }

  it("continues from a checkpoint with the same rows and weights", function()
    tiny.temporary(function(dir)
      local e = experiment(with(curriculum, function(t) t.train.steps = 6 end))
      local whole, list = tiny.steps(trainer.new(e))
      local cut = trainer.new(e)
      for _ = 1, 3 do cut:step() end
      cut:save(dir)
      assert.is_true(core.fs.exists(dir .. "/sampler.bin"))
      local resumed, rest = tiny.steps(trainer.new(e, { from = dir }))
      assert.equal(tiny.weights(whole), tiny.weights(resumed))
      for i, m in ipairs(rest) do assert.equal(list[i + 3].reward, m.reward) end
      assert.equal(whole.stage.source.sampler.saved, resumed.stage.source.sampler.saved)
    end)
  end)

  it("writes no sampler.bin where there is none", function()
    tiny.temporary(function(dir)
      local tr = trainer.new(experiment())
      tr:step()
      tr:save(dir)
      assert.is_false(core.fs.exists(dir .. "/sampler.bin"))
    end)
  end)

  it("forgets what an abandoned step has chosen", function()
    local fail = true
    local tr = trainer.new(experiment(with(curriculum, function(t)
      t.rewards = { as = function(text)
        if fail then error("not now") end
        return tiny.count_a(text)
      end }
    end)))
    local source
    tiny.refused("not now", function() tr:step() end)
    source = tr.stage.source
    assert.equal(0, source.cursor)
    assert.equal(core.state_encode({}), source.sampler.saved)
    fail = false
    tr:step()
    local other = trainer.new(experiment(with(curriculum, function(t)
      t.rewards = { as = tiny.count_a }
    end)))
    other:step()
    assert.equal(tiny.weights(other), tiny.weights(tr))
  end)

  it("has rows of its own only while it trains: they cannot be made again to be scored", function()
    local saved_row = require "grpo.runs.saved_row"
    local row_checksum = require "grpo.options.row_checksum"
    local config = experiment(with(walk)).stages[1].config
    local saved = { row = 5, row_index = 3, step = 1, prompt_index = 1,
      row_crc32c = row_checksum.of(prompts.row(config, 5, 3)) }
    assert.equal(3, saved_row.of(config, saved, "run").number)
    tiny.refused("run: the row of step 1, prompt 2 was made by data.sampler, and a run", function()
      saved_row.of(config, { row = 5, row_index = 0, step = 1, prompt_index = 2 }, "run")
    end)
  end)

  it("keeps its memory: a state of one size stays of one size", function()
    local tr = trainer.new(experiment(with(curriculum, function(t) t.train.steps = 60 end)))
    local sizes = {}
    while tr:step() do sizes[#sizes + 1] = #tr.stage.source.sampler.saved end
    assert.is_true(sizes[60] <= sizes[10] + 32)
    assert.equal(0, #tr.stage.source.picks)
    assert.is_true(#tr.stage.source.chosen <= 2)
  end)
end)

-- A sampler called by hand: one step, observed with these pass rates by row.
local function visits(sampler, state, steps, size, rate)
  local counts, numbers = {}, nil
  for step = 0, steps - 1 do
    local p = { n = 1, size = size, taken = step, state = state, fraction = step / steps,
      rng = core.rng(1, "user", 0, step, 3), dataset = rows() }
    local list, groups = sampler:sample(p), {}
    for i, row in ipairs(list) do
      counts[row] = (counts[row] or 0) + 1
      groups[i] = { index = row, mean = rate(row), means = { right = rate(row) } }
    end
    numbers = sampler:observe(p, groups)
  end
  return counts, numbers
end

describe("samplers.by_pass_rate", function()
  -- row 1 is always solved, row 2 never, row 3 half of the time, the others nearly always
  local rates = { 1, 0, 0.5 }
  local function rate(row) return rates[row] or 0.95 end

  it("takes a row as often as 1 - rate, or rate (1 - rate), says", function()
    local counts, numbers = visits(samplers.by_pass_rate { prefer = "failure" }, {}, 4000, 8, rate)
    assert.near(2, counts[2] / counts[3], 0.2)
    assert.is_true(counts[1] < 0.15 * counts[2])
    assert.equal(1, numbers.seen)
    assert.near((1 + 0 + 0.5 + 5 * 0.95) / 8, numbers.pass_rate, 1e-9)
    counts = visits(samplers.by_pass_rate { reward = "right" }, {}, 4000, 8, rate)
    for row = 1, 8 do
      if row ~= 3 then assert.is_true(counts[row] < 0.4 * counts[3]) end
    end
    assert.is_true(counts[1] > 0) -- floor
  end)

  it("names a reward that is not there", function()
    tiny.refused("no reward 'rigth' applies, did you mean 'right'", function()
      visits(samplers.by_pass_rate { reward = "rigth" }, {}, 1, 8, rate)
    end)
    tiny.refused("samplers.by_pass_rate.prefer: must be one of failure, learnability", function()
      samplers.by_pass_rate { prefer = "easy" }
    end)
  end)

  it("trains", function()
    local _, list = run(with(samplers.by_pass_rate { reward = "one" }))
    assert.equal(1, list[3]["sampler/pass_rate"])
  end)
end)

describe("samplers.easy_to_hard", function()
  local function hardness(row) return -row.number end -- row 8 is the easiest

  it("begins with the easiest rows and ends with all", function()
    local sampler = samplers.easy_to_hard { difficulty = hardness, from = 0.25 }
    local p = { n = 2, size = 8, fraction = 0, rng = core.rng(1, "user", 0, 0, 3),
      dataset = rows() }
    local list = sampler:sample(p)
    table.sort(list)
    assert.same({ 7, 8 }, list) -- a step has no row twice
    assert.equal(0.25, sampler:observe(p).share)
    p.fraction = 0.4 -- half of the way: sqrt(0.5 * (1 - 1/16) + 1/16)
    assert.near(math.sqrt(0.53125), sampler:observe(p).share, 1e-12)
    local counts = visits(sampler, {}, 400, 8, function() return 0 end)
    assert.is_true(counts[8] > counts[1] and counts[1] > 0)
    p.fraction = 1
    assert.equal(1, sampler:observe(p).share)
  end)

  it("asks for the difficulty once, and leaves the random numbers where they were", function()
    local calls = 0
    local sampler = samplers.easy_to_hard { difficulty = function(row)
      calls = calls + 1
      return row.number + math.random()
    end }
    local config = experiment(with(sampler)).stages[1].config
    local picks, problem = row_sampler.new(config, 3):rehearse(2, 0)
    assert.is_nil(problem)
    assert.equal(2, #picks)
    assert.equal(8, calls)
  end)

  it("refuses a difficulty that is not a number", function()
    refused("difficulty returned nil for row 1, want a number",
      samplers.easy_to_hard { difficulty = function() end })
  end)
end)
