-- Two runs are said to be equal only where they are: each option of each stage, each argument,
-- input, metric and completion is changed alone, and the difference must be named.

local core = require "grpo.core"
local grpo = require "grpo"
local history = require "grpo.runs.history"
local run_diff = require "grpo.runs.diff"
local start = require "grpo.runs.start"
local tiny = require "tests.lua.tiny"

local fs = core.fs

-- The options of two stages as a run writes them down.
local function described()
  return start.described(grpo.experiment {
    model = { config = tiny.llama(), tokenizer = grpo.tokenizer.chars("ab") },
    data = { train = grpo.data.list { { prompt = "a" } }, max_prompt_tokens = 4, shuffle = false,
      target = function() return "b" end },
    sampling = { max_new_tokens = 4 }, rewards = { as = tiny.count_a },
    stages = { { kind = "sft", train = { steps = 1, lr = 1e-3 } },
      { kind = "grpo", train = { steps = 2, lr = 1e-4 } } },
  })
end

local function write(dir, name, value)
  assert(fs.write(("%s/%s"):format(dir, name), core.json_encode(value) .. "\n"))
end

local function write_rows(dir, name, rows)
  local lines = {}
  for i, row in ipairs(rows) do lines[i] = core.json_encode(row) .. "\n" end
  assert(fs.write(("%s/%s.jsonl"):format(dir, name), table.concat(lines)))
end

local function metrics()
  local rows = {}
  for step = 1, 3 do
    rows[step] = { step = step, stage = 1, stage_step = step, reward = 0.5, loss = -0.25,
      grad_norm = 0.0, step_time = 0.1 * step, kind = "grpo" }
  end
  return rows
end

local function completions()
  local rows = {}
  for i = 1, 12 do
    rows[i] = { step = (i - 1) // 4 + 1, prompt_index = (i - 1) % 4 // 2 + 1,
      index = (i - 1) % 2 + 1, prompt = "a", text = "text " .. i, finish = "eos", length = 2 }
  end
  return rows
end

-- Calls f(a, b) with the directories of two equal runs.
local function with_two(f)
  tiny.temporary(function(root)
    local dirs, config = { root .. "/a-001", root .. "/b-001" }, described()
    for _, dir in ipairs(dirs) do
      assert(fs.mkdirs(dir))
      write(dir, "run.json", { format = 1, state = "finished", script = "a.lua",
        args = core.json_object {} })
      write(dir, "config.json", config)
      write(dir, "env.json", { seed = 1, kernels = "avx2" })
      write(dir, "inputs.json", { { path = "rows.jsonl", size = 10, crc32c = 5 } })
      write_rows(dir, "metrics", metrics())
      write_rows(dir, "completions", completions())
    end
    f(dirs[1], dirs[2])
  end)
end

local function settings(a, b)
  return run_diff.settings(history.open(a), history.open(b))
end

-- A value that is not v.
local function other(v)
  if type(v) == "boolean" then return not v end
  if type(v) == "number" then return v + 1 end
  return "something else"
end

describe("diff", function()
  it("says that equal runs are equal", function()
    with_two(function(a, b)
      assert.same({}, settings(a, b))
      local x, y = history.open(a), history.open(b)
      assert.is_nil(run_diff.metrics(x, y))
      local text, common = run_diff.completions(x, y)
      assert.is_nil(text)
      assert.equal(3, common)
    end)
  end)

  it("names each option of each stage that differs, and no other", function()
    with_two(function(a, b)
      local trials, config = 0, described()
      for index, stage in ipairs(config.stages) do
        for name, option in pairs(stage.options) do
          local kept = option.value
          option.value = other(kept)
          write(b, "config.json", config)
          option.value = kept
          local rows, named = settings(a, b), false
          for _, row in ipairs(rows) do
            assert.matches(name:gsub("%p", "%%%0") .. "$", row.name)
            named = named or row.name == ("stages.%d.%s"):format(index, name)
          end
          assert.is_true(named, name)
          trials = trials + 1
        end
      end
      assert.is_true(trials > 150, trials .. " options")
    end)
  end)

  it("compares the numbers that runs used, by the option or by GRPO_CPU", function()
    with_two(function(a, b)
      local config, info = described(), { format = 1, state = "finished", script = "a.lua" }
      info.args, info.numbers = core.json_object {}, "portable"
      write(a, "run.json", info)
      local rows = settings(a, b)
      assert.same({ { name = "numbers", a = "portable", b = "native" } }, rows)
      for _, stage in ipairs(config.stages) do stage.options.numbers.value = "portable" end
      write(b, "config.json", config)
      write(b, "run.json", info)
      assert.same({}, settings(a, b))
    end)
  end)

  it("does not look at what stands above the stages", function()
    with_two(function(a, b)
      local config = described()
      for _, option in pairs(config.options) do option.value = other(option.value) end
      write(b, "config.json", config)
      assert.same({}, settings(a, b))
    end)
  end)

  it("names a stage more", function()
    with_two(function(a, b)
      local config = described()
      config.stages[3] = config.stages[2]
      write(b, "config.json", config)
      assert.equal("stages", settings(a, b)[1].name)
    end)
  end)

  it("finds each metric that differs, but times", function()
    with_two(function(a, b)
      for step = 1, 3 do
        for name, v in pairs(metrics()[step]) do
          local rows = metrics()
          rows[step][name] = other(v)
          if name ~= "step" and name ~= "stage" and name ~= "kind" then
            write_rows(b, "metrics", rows)
            local found = run_diff.metrics(history.open(a), history.open(b))
            if name == "step_time" then
              assert.is_nil(found)
            else
              assert.equal(step, found.step)
              assert.equal(name, found.names[1].name)
            end
          end
        end
      end
    end)
  end)

  it("finds each completion that differs, is missing or is one more", function()
    with_two(function(a, b)
      local function found(rows)
        write_rows(b, "completions", rows)
        return run_diff.completions(history.open(a), history.open(b))
      end
      for i, c in ipairs(completions()) do
        for _, field in ipairs { "text", "prompt" } do
          local rows = completions()
          rows[i][field] = "else"
          local text = found(rows)
          assert.equal(c.step, text.step)
          assert.equal(c.index, text.index)
        end
        local rows = completions()
        table.remove(rows, i)
        assert.equal(c.step, found(rows).step)
        rows = completions()
        table.insert(rows, i, rows[i])
        assert.equal(c.step, found(rows).step)
      end
    end)
  end)

  it("names the first completion of the same text that is judged in another way", function()
    with_two(function(a, b)
      local function judged()
        local rows = completions()
        for i, c in ipairs(rows) do
          c.rewards, c.reward, c.advantage = { right = i % 2, late = core.json_null }, i % 2, 0.5
        end
        return rows
      end
      local function found(rows)
        write_rows(b, "completions", rows)
        return run_diff.completions(history.open(a), history.open(b))
      end
      write_rows(a, "completions", judged())
      local text, common, first = found(judged())
      assert.same({ nil, 3, nil }, { text, common, first })
      for i, c in ipairs(judged()) do
        for name, change in pairs {
          reward = function(row) row.reward = 7 end,
          advantage = function(row) row.advantage = core.json_null end,
          finish = function(row) row.finish = "length" end,
          ["rewards.right"] = function(row) row.rewards.right = nil end,
          ["rewards.late"] = function(row) row.rewards.late = 0 end,
          ["rewards.new"] = function(row) row.rewards.new = 1 end,
        } do
          local rows = judged()
          change(rows[i])
          if i < 12 then rows[12].reward = 8 end -- not the first
          text, common, first = found(rows)
          assert.same({ nil, 3 }, { text, common })
          assert.same({ c.step, c.prompt_index, c.index, name },
            { first.step, first.prompt_index, first.index, first.names[1].name })
        end
      end
      local rows = judged()
      rows[3].reward, rows[6].text, rows[9].reward = 7, "else", 7
      text, common, first = found(rows)
      assert.same({ 2, 2, 1, 3 }, { text.step, common, first.step, 3 })
      rows[3].reward = 1
      text, common, first = found(rows)
      assert.same({ 2, 2 }, { text.step, common })
      assert.is_nil(first)
    end)
  end)

  it("gives the step of an evaluation that is not of the last one", function()
    with_two(function(a, b)
      write_rows(a, "eval", { { step = 1, ["eval/accuracy"] = 0.5 } })
      write_rows(b, "eval", { { step = 1, ["eval/accuracy"] = 0.5 },
        { step = 3, ["eval/accuracy"] = 0.75 } })
      local last = {}
      for _, row in ipairs(run_diff.ends(history.open(a), history.open(b))) do
        last[row.name] = row
      end
      assert.same({ name = "eval/accuracy", a = 0.5, b = 0.75, a_step = 1 }, last["eval/accuracy"])
      assert.is_nil(last.reward.a_step)
    end)
  end)

  it("leaves out the step that a training run is writing", function()
    with_two(function(a, b)
      local rows = completions()
      rows[#rows] = nil
      write_rows(b, "completions", rows)
      local x, y = history.open(a), history.open(b)
      y.state = "running"
      local text, common = run_diff.completions(x, y)
      assert.is_nil(text)
      assert.equal(2, common)
    end)
  end)

  it("says how many steps two runs have in common", function()
    with_two(function(a, b)
      for first = 1, 3 do
        local rows = {}
        for _, c in ipairs(completions()) do
          if c.step >= first then rows[#rows + 1] = c end
        end
        write_rows(b, "completions", rows)
        local _, common = run_diff.completions(history.open(a), history.open(b))
        assert.equal(4 - first, common)
      end
      write_rows(b, "completions", {})
      local text, common = run_diff.completions(history.open(a), history.open(b))
      assert.is_nil(text)
      assert.equal(0, common)
    end)
  end)
end)
