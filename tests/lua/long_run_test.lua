-- The commands that read a run hold no more of it at once because it is long: each gets as much
-- memory as a short run needs, and must come to its end.

local columns = require "grpo.base.curves.columns"
local core = require "grpo.core"
local history = require "grpo.runs.history"
local logs = require "grpo.commands.logs"
local long_runs = require "tests.lua.long_runs"
local row_checksum = require "grpo.options.row_checksum"
local run_diff = require "grpo.runs.diff"

local fs = core.fs
local STEPS, MOST, write = long_runs.STEPS, long_runs.MOST, long_runs.write
local with_run, bounded = long_runs.with_run, long_runs.bounded

describe("a long run", function()
  it("is more than its readers may hold", function()
    with_run(function(dir)
      for _, name in ipairs { "metrics", "completions" } do
        assert.is_false((core.limited({ memory = MOST }, "the list", history.list, dir, name)))
      end
    end)
  end)

  it("is compared step by step", function()
    with_run(function(dir)
      bounded(function()
        local a, b = history.open(dir), history.open(dir)
        local first, common = run_diff.metrics(a, b)
        assert.is_nil(first)
        assert.equal(STEPS, common)
        first, common = run_diff.completions(a, b)
        assert.is_nil(first)
        assert.equal(STEPS, common)
        for _, row in ipairs(run_diff.ends(a, b)) do
          if row.name == "kl" then assert.near(1e-3 * (STEPS - 4.5), row.a, 1e-9) end
          if row.name == "eval/accuracy" then assert.equal(0.5, row.b) end
        end
      end)
    end)
  end)

  it("has its output shown block by block, or read from the end", function()
    with_run(function(dir)
      local bytes, last, out = 0, nil, core.out
      core.out = function(text)
        bytes, last = bytes + #text, text
        collectgarbage() -- file:read raises where garbage fills the bound, and collects nothing
      end
      local ok, err = pcall(bounded, logs.run, { words = { dir }, flags = {} })
      local all = bytes
      bytes = 0
      local ok_tail, err_tail = pcall(bounded, logs.run, { words = { dir }, flags = { lines = 2 } })
      core.out = out
      if not (ok and ok_tail) then error(ok and err_tail or err, 0) end
      assert.equal(fs.size(dir .. "/output.log"), all)
      assert.matches(("^step %d %%.+\nstep %d %%.+\n$"):format(STEPS - 1, STEPS), last)
      assert.equal(#last, bytes)
    end)
  end)
end)

-- The script of a run whose rows are 0, 1, 2 ...
local SCRIPT = [[
local grpo = require "grpo"
return grpo.experiment {
  model = { config = { model_type = "llama", hidden_size = 8, intermediate_size = 8,
    num_hidden_layers = 1, num_attention_heads = 1, max_position_embeddings = 8 },
    tokenizer = grpo.tokenizer.chars "01=" },
  data = { train = grpo.data.generate(function() return { prompt = "1=" } end, { n = 8 }),
    max_prompt_tokens = 4 },
  sampling = { group_size = 2, max_new_tokens = 1 }, train = { steps = 9, prompts_per_step = 1 },
  rewards = { right = function(text) return #text end },
}
]]

describe("a long run of a script", function()
  local cli = require "grpo.commands"
  -- A script that is run makes globals strict, which is not to reach other tests.
  local globals = package.loaded._G
  local of_globals = getmetatable(globals)
  after_each(function() setmetatable(globals, of_globals) end)

  -- Calls f(dir, path of a script) with a run that is so long only by its logs.
  local function with_script(f)
    with_run(function(dir)
      local script = dir .. "/source/main.lua"
      assert(fs.mkdirs(dir .. "/source/modules"))
      assert(fs.write(script, SCRIPT))
      write(dir .. "/completions.jsonl", function(step)
        local row = { step = step, prompt_index = 1, index = 1, prompt = "1=", row = 0,
          row_crc32c = row_checksum.of { prompt = "1=" }, text = tostring(step), reward = step,
          rewards = { right = step }, advantage = 0.5, finish = "eos", length = 1 }
        local first = core.json_encode(row)
        row.index = 2
        return first .. "\n" .. core.json_encode(row)
      end)
      f(dir, script)
    end)
  end

  -- Returns what a command prints, which must need less than MOST bytes at once.
  local function printed(words)
    local parts, out, err = {}, core.out, core.err
    core.out = function(text) parts[#parts + 1] = text end
    core.err = core.out
    local ok, status = pcall(bounded, cli.main, words)
    core.out, core.err = out, err
    if not ok or status ~= 0 then error(tostring(status) .. table.concat(parts), 0) end
    return table.concat(parts)
  end

  it("is scored again step by step", function()
    with_script(function(dir, script)
      -- the reward is the number of digits of the step: another one for all steps but the first
      assert.matches(("%d completions scored again with .*: %d have another reward"):format(
        2 * STEPS, 2 * STEPS - 2), printed { "replay", dir, "--reward", script, "--count", "1" })
    end)
  end)

  it("gives tests without being kept", function()
    with_script(function(dir)
      local text = printed { "test", "--record", dir, "--count", "3", "-" }
      assert.matches("^[^\n]*3 completions of long%-001", text)
    end)
  end)
end)

describe("a column of metrics", function()
  local function column_of(values, more)
    local step, rows = 0, {}
    for i, v in ipairs(values) do
      rows[i] = { step = i, stage = 1, x = v }
      for name, value in pairs(more or {}) do rows[i][name] = value end
    end
    return columns.read(function()
      step = step + 1
      if rows[step] then return step, rows[step] end
    end).columns.x
  end

  it("has each value of a short run", function()
    local values = {}
    for i = 1, 400 do values[i] = i * i end
    local points = column_of(values):points()
    for i, p in ipairs(points) do
      assert.same({ i, i * i, least = i * i, most = i * i }, p)
    end
    assert.equal(400, #points)
  end)

  it("has mean, least and greatest of neighbours in a long one", function()
    for _, count in ipairs { 401, 800, 801, 5000, 12345 } do
      local values, sum = {}, 0
      for i = 1, count do
        values[i] = (i * 7919) % 1000 - 500
        sum = sum + values[i]
      end
      values[count // 3], values[count - 1] = values[count // 3] + 1e6, values[count - 1] - 1e6
      local points, step, least, most = column_of(values):points(), 0, 0, 0
      assert.is_true(#points >= 200 and #points <= 400, #points .. " points")
      for _, p in ipairs(points) do
        assert.is_true(p[1] > step and p.least <= p[2] and p[2] <= p.most)
        step, least, most = p[1], math.min(least, p.least), math.max(most, p.most)
      end
      assert.equal(values[count - 1], least)
      assert.equal(values[count // 3], most)
    end
  end)

  it("has intervals where a point is a single value", function()
    local more = { ["x/low"] = -1, ["x/high"] = 2 }
    local p = column_of({ 0, 1 }, more):points()[2]
    assert.equal(-1, p.low)
    assert.equal(2, p.high)
    local values = {}
    for i = 1, 500 do values[i] = 1 end
    assert.is_nil(column_of(values, more):points()[1].low)
  end)

  it("leaves out what is not finite, and keeps sums that are too large for a number", function()
    local values = { 0 / 0, 1 / 0, 1 }
    assert.equal(1, #column_of(values):points())
    for i = 1, 401 do values[i] = 1e308 end
    for _, p in ipairs(column_of(values):points()) do assert.is_true(p[2] - p[2] == 0) end
  end)
end)
