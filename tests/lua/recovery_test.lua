-- A resume after a kill: logs that are too long, checkpoints with seven digits.

local core = require "grpo.core"
local grpo = require "grpo"

local follow = require "grpo.runs.follow"
local history = require "grpo.runs.history"
local sums = require "grpo.loop.sums"
local test = require "grpo.test"
local tiny = require "tests.lua.tiny"

local fs = core.fs

local function temporary(f)
  local dir = os.tmpname()
  os.remove(dir)
  assert(fs.mkdirs(dir))
  local ok, err = pcall(f, dir)
  fs.remove_tree(dir)
  if not ok then error(err, 0) end
end

describe("a log that is cut back", function()
  local cut_log = require "grpo.runs.cut_log"

  local function row(step, more)
    return ('{"step": %d, "text": "%s"}\n'):format(step, more or "")
  end

  -- Returns the text as it is after the cut, what cut_log says, and what it has moved.
  local function cut(text, last, rows)
    local left, said, moved
    temporary(function(dir)
      assert(fs.write(dir .. "/log", text))
      said = table.concat(cut_log(dir .. "/log", last, rows), "; ")
      left, moved = fs.read(dir .. "/log"), fs.read(dir .. "/log.damaged")
    end)
    return left, said, moved
  end

  it("loses the rows of later steps and an incomplete last line", function()
    local rows = { row(1), row(1), row(2), row(3, ("x"):rep(200000)), row(3), row(4) }
    for last, count in pairs { [0] = 0, [1] = 2, [2] = 3, [3] = 5, [4] = 6 } do
      local want = table.concat(rows, "", 1, count)
      assert.equal(want, (cut(table.concat(rows), last)))
      assert.equal(want, (cut(table.concat(rows) .. row(5):sub(1, -2), last)))
    end
    assert.equal("", select(2, cut(row(1) .. row(2), 1)))
    assert.equal("log: the last line is incomplete and was cut", select(2, cut(row(1) .. "{", 1)))
    assert.equal("", (cut("", 3)))
    assert.equal("", (cut("half", 3)))
    assert.equal("", (cut(("half"):rep(100000), 3)))
  end)

  it("keeps as many rows of the last step as are asked for", function()
    local rows = { row(1), row(2), row(2, "a"), row(2, "b"), row(3) }
    for count = 0, 4 do
      assert.equal(table.concat(rows, "", 1, math.min(1 + count, 4)),
        (cut(table.concat(rows), 2, count)))
    end
    assert.equal(row(1), (cut(row(1) .. row(3), 2, 1)))
    assert.equal(row(1), (cut(row(1), 2, 1)))
  end)

  it("moves lines that cannot be read to another file, and says where they were", function()
    local left, said, moved = cut(row(1) .. "{\n" .. row(2) .. "[\n\0\n", 2)
    assert.equal(row(1) .. "{\n" .. row(2), left)
    assert.equal("log: 2 lines cannot be read, the first is line 4; all were moved to log.damaged",
      said)
    assert.equal("[\n\0\n", moved)
    left, said, moved = cut(row(1) .. "{\n" .. row(2) .. "[\n" .. row(3), 1)
    assert.equal(row(1), left)
    assert.equal("log: 2 lines cannot be read, the first is line 2; all were moved to log.damaged",
      said)
    assert.equal("{\n[\n", moved)
    left, said, moved = cut("{\n[]", 1)
    assert.equal("", left)
    assert.equal("log: 1 line cannot be read, the first is line 1; all were moved to log.damaged; "
      .. "log: the last line is incomplete and was cut", said)
    assert.equal("{\n", moved)
  end)

  it("leaves them where they are before a row that stays", function()
    local text = row(1) .. row(2) .. "{\n" .. row(2)
    local left, said, moved = cut(text .. row(3), 2, 2)
    assert.equal(text, left)
    assert.equal("log: 1 line cannot be read, the first is line 3; nothing of it was changed", said)
    assert.equal("", moved)
  end)

  it("loses no row of which a byte has changed", function()
    local rows = {}
    for step = 1, 3 do rows[step] = sums.line { step = step, text = "abc" } end
    local text, starts = table.concat(rows), #rows[1]
    for at = starts + 1, #text do
      local flipped = text:sub(1, at - 1) .. string.char(text:byte(at) ~ 4) .. text:sub(at + 1)
      local left, said, moved = cut(flipped, 2)
      if said == "" then -- in the name of the sum, or in its white space
        assert.equal(flipped:sub(1, #rows[1] + #rows[2]), left)
      else
        assert.equal(left, text:sub(1, #left))
        assert.equal((flipped .. "\n"):sub(#left + 1, #left + #moved), moved)
        assert.is_true(#left < at and at <= #left + #moved)
      end
    end
  end)

  -- Calls f; returns how many bytes were read meanwhile from files that io.open has opened, how
  -- many at once, and as pcall.
  local function counted(f)
    local library = tiny.library().io
    local open, bytes, most = library.open, 0, 0
    library.open = function(...)
      local real = open(...)
      local counting = { setvbuf = function(_, ...) return real:setvbuf(...) end,
        seek = function(_, ...) return real:seek(...) end,
        close = function() return real:close() end,
        read = function(_, n)
          local text = real:read(n)
          bytes, most = bytes + #(text or ""), math.max(most, n)
          return text
        end }
      return setmetatable(counting, { __close = function() real:close() end })
    end
    local ok, err = pcall(f)
    library.open = open
    return bytes, most, ok, err
  end

  it("is read from its end, as far as it is cut", function()
    temporary(function(dir)
      local file <close> = assert(io.open(dir .. "/log", "wb"))
      for step = 1, 20000 do file:write(row(step, ("x"):rep(100))) end
      file:close()
      local bytes, most, ok, err = counted(function() return cut_log(dir .. "/log", 19000) end)
      assert.is_true(ok, tostring(err))
      local cut_bytes = 20000 * #row(19000, ("x"):rep(100)) - fs.size(dir .. "/log")
      assert.is_true(fs.size(dir .. "/log") > 19000 * 110)
      assert.is_true(bytes > 0 and bytes < 2 * cut_bytes + (1 << 17),
        ("%d bytes were read to cut %d"):format(bytes, cut_bytes))
      assert.is_true(most <= 1 << 16, ("%d bytes were read at once"):format(most))
    end)
  end)

  it("has its last lines found in time proportional to what is looked at", function()
    local lines = require "grpo.runs.lines"
    assert.same({ "a", "", "b" }, lines.whole("a\n\nb\nc"))
    assert.same({}, lines.whole(""))
    local ok, list = core.limited({ instructions = 100000 }, "lines", lines.whole,
      "a\n" .. ("\0"):rep(1 << 18))
    assert.is_true(ok, tostring(list))
    assert.same({ "a" }, list)
  end)

  -- Calls f(dir) with a log of three rows and a hole of a TiB behind them; returns as counted.
  local function with_hole(f)
    local results
    temporary(function(dir)
      local file <close> = assert(io.open(dir .. "/metrics.jsonl", "wb"))
      for step = 1, 3 do file:write(sums.line { step = step, stage = 1, stage_step = step }) end
      file:close()
      if not fs.truncate(dir .. "/metrics.jsonl", 1 << 40) then
        test.skip("the file system has no files of a TiB")
      end
      results = table.pack(counted(function() return f(dir) end))
    end)
    return table.unpack(results, 1, 4)
  end

  for name, f in pairs {
    ["is cut"] = function(dir) cut_log(dir .. "/metrics.jsonl", 2) end,
    ["is read"] = function(dir) for _ in history.rows(dir, "metrics") do end end,
    ["is followed"] = function(dir) follow.new(dir, "metrics"):read(function() end, error) end,
  } do
    it("and a hole of a TiB is not read when it " .. name, function()
      local bytes, most, ok, err = with_hole(f)
      assert.is_false(ok)
      assert.equal("EFORMAT", err.code)
      assert.matches("metrics%.jsonl.*: a line has more than 64 MiB, and no row has; the file is "
        .. "damaged", tostring(err))
      assert.is_true(bytes < 1 << 27, bytes .. " bytes were read")
      assert.is_true(most <= 1 << 16)
    end)
  end
end)

describe("checkpoints", function()
  -- A trainer with a run directory, as if it had done `step` steps.
  local rows = grpo.data.generate(function() return { prompt = "ab" } end, { n = 4 })
  local function with_trainer(step, change, f)
    temporary(function(root)
      local e = { name = "tiny", seed = 3,
        model = { config = { model_type = "llama", hidden_size = 8, intermediate_size = 8,
          num_hidden_layers = 1, num_attention_heads = 1, max_position_embeddings = 16 },
          tokenizer = grpo.tokenizer.chars("ab") },
        data = { train = rows, eval = rows,
          max_prompt_tokens = 4, target = function() return "a" end },
        sampling = { max_new_tokens = 4 }, stages = { { kind = "sft" } },
        train = { steps = 9, prompts_per_step = 1 } }
      if change then change(e) end
      local directory = require("grpo.runs.directory").create(root, { name = "tiny",
        script = "none", args = {}, overrides = {}, config = {}, env = {}, inputs = {} })
      local tr = require("grpo.loop.trainer").new(grpo.experiment(e), { directory = directory })
      tr:current_stage()
      require("grpo.loop.trainer").set(tr, "step_count", step)
      f(tr, directory.dir)
      directory:close()
    end)
  end

  it("the newest ones are kept beyond a million steps", function()
    with_trainer(999998, function(e) e.checkpoint = { keep = 2 } end, function(tr, dir)
      for _ = 1, 4 do
        tr:save()
        assert.equal(core.checkpoint_name(tr.step_count), fs.readlink(dir .. "/latest"))
        assert.is_true(fs.exists(dir .. "/latest/trainer.json"))
        tr:step()
      end
      assert.same({ 1000000, 1000001 }, core.checkpoint_steps(dir))
    end)
  end)

  it("the best one until now is not kept beside the best", function()
    local values = { 1, 5, 9 }
    with_trainer(0, function(e)
      e.train.steps = 2
      e.eval = { every = 1, metric = function() return values[1] end }
      e.hooks = { on_eval = function() table.remove(values, 1) end }
      e.data.eval = grpo.data.list { { prompt = "ab" } }
      e.checkpoint = { keep = 1, best = "eval/metric" }
    end, function(tr, dir)
      tr:run()
      assert.equal("checkpoints/step-000002", fs.readlink(dir .. "/best"))
      assert.same({ 2 }, core.checkpoint_steps(dir))
    end)
  end)

  it("a change that cannot be recorded is not made", function()
    local events = require "grpo.loop.events"
    with_trainer(0, function(e)
      e.rewards = { { name = "one", fn = function() return 1 end, weight = 2 } }
      e.stages = nil
    end, function(tr, dir)
      assert(fs.mkdirs(dir .. "/events.jsonl")) -- a directory cannot be written to
      assert.is_false((pcall(events.weight, tr, "one", 3)))
      assert.equal(2, tr.settings.reward_entries[1].weight)
      local ok, message = events.recording(tr, function() tr.state.mark = true end)
      assert.is_false(ok)
      assert.matches("as it was before", message)
      assert.is_nil(tr.state.mark)
      assert.is_false((pcall(events.recording, tr, function() tr.config.train.lr = 1 end)))
      assert.not_equal(1, tr.settings.train.lr)
    end)
  end)
end)

describe("a resume without memory for a file of the run", function()
  local rundir = require "grpo.runs.directory"

  -- Opens a run while fs[name] has no memory; returns the error.
  local function opened_without_memory(name)
    local err
    temporary(function(dir)
      assert(fs.write(dir .. "/config.json", "{}\n"))
      local info = { format = 1, state = "running", script = "a.lua", started = 1, sums = {} }
      sums.add(info.sums, dir, "config.json")
      assert(fs.write(dir .. "/run.json", sums.pages(info)))
      local real = fs[name]
      fs[name] = function(path) return nil, path .. ": no memory", "ENOMEM" end
      local _
      _, err = pcall(rundir.open, dir, false)
      fs[name] = real
    end)
    return err
  end

  it("does not take it for damaged", function()
    for _, name in ipairs { "read", "checksum" } do
      local err = opened_without_memory(name)
      assert.matches("no memory", tostring(err))
      assert.equal("ENOMEM", type(err) == "table" and err.code or tostring(err), name)
      assert.is_nil(tostring(err):find("--force", 1, true))
    end
  end)
end)
