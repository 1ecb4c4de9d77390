-- Mistakes of scripts that were taken without a word: each has one line that names it.

local core = require "grpo.core"
local grpo = require "grpo"
local rundir = require "grpo.runs.directory"
local schema = require "grpo.loop.schema"
local script_logs = require "grpo.loop.script_logs"
local sums = require "grpo.loop.sums"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local experiment = tiny.experiments(function()
  return {
    name = "tiny", seed = 3,
    model = { config = tiny.llama { max_position_embeddings = 48 },
      tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = { train = grpo.data.list { { prompt = "ab" } }, max_prompt_tokens = 8 },
    sampling = { group_size = 4, max_new_tokens = 4 },
    rewards = { { name = "as", fn = tiny.count_a } },
    train = { steps = 3, prompts_per_step = 1, lr = 1e-3 },
  }
end)

local function with_hook(name, hook)
  return trainer.new(experiment(function(t) t.hooks = { [name] = hook } end))
end

describe("data.prompt and data.target", function()
  local function first_of(name, value)
    local t = trainer.new(experiment(function(e)
      e.data[name] = function() return value end
    end))
    local stage = t:current_stage()
    return stage.source:next()
  end

  it("names a value that is neither text nor ids nor messages", function()
    for _, case in ipairs {
      { {}, "an empty list" }, { { role = "user" }, "a table without a first item" },
      { { true }, "a list whose first item is a boolean" },
      { { "ab" }, "a list whose first item is a string" }, { true, "a boolean" },
    } do
      tiny.refused("data.prompt: returned " .. case[2] .. " for a row %(it has prompt%), want a s",
        function() first_of("prompt", case[1]) end)
    end
    for _, case in ipairs {
      { { 1.5 }, 1, "1.5" }, { { 2 ^ 40 }, 1, "1099511627776" }, { { 1, -1 }, 2, "-1" },
      { { 1, "x" }, 2, "a string" }, { { 0 / 0 }, 1, "" }, { { 1 / 0 }, 1, "inf" },
      { { 1, {} }, 2, "a table" },
    } do
      for _, name in ipairs { "prompt", "target" } do
        local want = ("data.%s: item %d of the list for a row is %s"):format(name, case[2], case[3])
        tiny.refused(want:gsub("%-", "%%-"), function() first_of(name, case[1]) end)
      end
    end
  end)

  it("takes whole numbers as ids", function()
    local prompt = first_of("prompt", { 1.0, 2 })
    assert.same({ 1, 2 }, prompt.ids)
    assert.equal("integer", math.type(prompt.ids[1]))
  end)
end)

-- Makes the directory of a new run in `root`.
local function directory(root)
  return rundir.create(root, { name = "tiny", script = "none", args = {}, overrides = {},
    config = {}, env = {}, inputs = {} })
end

-- Calls f(root) with a directory for runs.
local function in_root(f)
  local root = tiny.path()
  assert(core.fs.mkdirs(root))
  local ok, err = pcall(f, root)
  core.fs.remove_tree(root)
  if not ok then error(err, 0) end
end

describe("a field of the trainer that is not the script's", function()
  it("cannot be assigned", function()
    local tr = trainer.new(experiment(function() end))
    local kept = tr.kept
    for _, name in ipairs { "kept", "config", "engine", "experiment", "model", "tokenizer",
      "step_count", "tokens_seen", "resumed", "batch", "metrics", "log", "stop" } do
      local before = tr[name]
      tiny.refused("mistakes_test%.lua:%d+: tr%." .. name .. ": cannot be assigned",
        function() tr[name] = 3 end)
      if name ~= "config" then assert.equal(before, tr[name]) end
    end
    tiny.refused("tr%.kept: cannot be assigned; assign its fields, as in tr%.kept%.file = ",
      function() tr.kept = {} end)
    tr.kept.file, tr.state, tr.paused = 3, { seen = 1 }, true
    assert.equal(kept, tr.kept)
    assert.equal(3, tr.kept.file)
  end)

  it("is named with the hook", function()
    local tr = with_hook("on_step", function(_, t) t.step_count = 0 end)
    tiny.refused("hooks%.on_step: .*mistakes_test%.lua:%d+: tr%.step_count: cannot be assigned",
      function() tr:step() end)
  end)
end)

describe("tr:log", function()
  it("says once of a name that its value is not finite", function()
    local lines = {}
    local tr = with_hook("on_step", function(m, t)
      t:log("ratio", m.step > 1 and 0 / 0 or 1)
      t:log("bound", 1 / 0)
    end)
    tr.recorder.advise = function(_, list) table.move(list, 1, #list, #lines + 1, lines) end
    tiny.steps(tr)
    table.sort(lines)
    assert.same({
      "tr:log: bound is inf at step 1; the logs have null for it, and say no more of this name",
      "tr:log: ratio is nan at step 2; the logs have null for it, and say no more of this name",
    }, lines)
  end)

  it("refuses names with control characters", function()
    for _, name in ipairs { "a\nb", "\27[31m", "a\0", "a\u{85}" } do
      local tr = with_hook("on_step", function(_, t) t:log(name, 1) end)
      tiny.refused("tr:log: the name .* has a control character", function() tr:step() end)
    end
  end)
end)

describe("the name of a reward", function()
  it("has no control characters", function()
    for _, name in ipairs { "a\nb", "\27[31m", "a\127", "a\u{9b}" } do
      tiny.refused("rewards: the name of entry 1, .*, has a control character", experiment,
        function(t) t.rewards = { { name = name, fn = tiny.count_a } } end)
      tiny.refused("has a control character", experiment,
        function(t) t.rewards = { [name] = tiny.count_a } end)
    end
    experiment(function(t) t.rewards = { ["größe in %"] = tiny.count_a } end)
  end)
end)

describe("a reward that hooks.on_rollout sets", function()
  it("is named with the hook if it is not a number, or too large", function()
    for value, text in pairs { x = "a string", [true] = "a boolean", [{}] = "a table",
      [1e31] = "1e%+31", [-1e300] = "%-1e%+300" } do
      local tr = with_hook("on_rollout", function(batch) batch.completions[2].reward = value end)
      tiny.refused("hooks%.on_rollout: the reward of prompt 1, completion 2 is " .. text
        .. ", want a number up to 1e%+30 in size, or nil", function() tr:step() end)
    end
  end)
end)

describe("a batch that hooks.on_rollout changes", function()
  it("is an error that names the field, except for c.reward and fields of other names", function()
    for changed, change in pairs {
      ["c.text of batch.completions[2]"] = function(b) b.completions[2].text = nil end,
      ["c.ids of batch.completions[1]"] = function(b) b.completions[1].ids[1] = 3 end,
      ["c.rewards of batch.completions[4]"] = function(b) b.completions[4].rewards = nil end,
      ["c.group of batch.completions[1]"] = function(b) table.remove(b.completions[3].group) end,
      ["c.extra of batch.completions[3]"] = function(b) b.completions[3].extra = 4 end,
      ["c.errors of batch.completions[3]"] = function(b) b.completions[3].errors = "no" end,
      ["c.token_rewards of batch.completions[3]"] = function(b)
        b.completions[3].token_rewards = 7
      end,
      ["the metatable of c of batch.completions[1]"] = function(b)
        setmetatable(b.completions[1], { __index = error, __newindex = error })
      end,
      ["batch.completions[4]; to leave a completion out"] = function(b) b.completions[4] = nil end,
      ["batch.completions[5]"] = function(b) b.completions[5] = {} end,
      ["batch.completions, which"] = function(b) b.completions = nil end,
      ["batch.prompts, which"] = function(b) b.prompts = {} end,
      ["batch.record, which"] = function(b) b.record = nil end,
      ["batch: rewards is new, and nobody reads it"] = function(b) b.rewards = { 1, 2 } end,
      ["batch: reward is new"] = function(b) b.reward = 0 / 0 end,
      ["batch: 1 is new"] = function(b) b[1] = "x" end,
      ["batch: a key that is a table is new"] = function(b) b[tiny.endless()] = 5 end,
      ["the metatable of batch"] = function(b)
        b.record = nil
        tiny.endless(b)
      end,
      ["the metatable of batch.completions"] = function(b) tiny.endless(b.completions) end,
      ["c.ids of batch.completions[3]"] = function(b) tiny.endless(b.completions[3].ids) end,
      ["c.extra of batch.completions[4]"] = function(b) b.completions[4].extra = tiny.endless() end,
    } do
      local tr = with_hook("on_rollout", change)
      tiny.refused("hooks%.on_rollout: it changed " .. changed:gsub("%p", "%%%0"),
        function() tr:step() end)
    end
    local tr = with_hook("on_rollout", function(batch)
      for i, c in ipairs(batch.completions) do c.reward, c.mine = i % 2, i end
      batch.completions[4].reward = nil
    end)
    assert.equal(2 / 3, tr:step().reward)
    assert.equal(3, tr.batch.completions[3].mine)
  end)
end)

describe("a prompt that is null in a file", function()
  it("is called null", function()
    tiny.refused("row%.prompt is null for a row %(it has prompt%), want a string", function()
      trainer.new(experiment(function(t)
        t.data.train = grpo.data.list { core.json_decode '{"prompt": null}' }
      end)):step()
    end)
  end)
end)

describe("what hooks.on_step and on_eval see", function()
  it("may get numbers, and nothing else may change", function()
    for changed, change in pairs {
      ["the metric reward; numbers of your own go to tr:log"] = function(m) m.reward = 5 end,
      ["the metric step_time;"] = function(m) m.step_time = nil end,
      ["the metric: text is new and no number with a name"] = function(m) m.text = "x" end,
      ["the metric: 1 is new"] = function(m) m[1] = 2 end,
      ["the metric: a key that is a table is new"] = function(m) m[tiny.endless()] = 2 end,
      ["the metatable of the metric table"] = function(m) tiny.endless(m) end,
      ["batch.completions, which"] = function(_, tr) tr.batch.completions = nil end,
      ["c.text of batch.completions[2]; it may add"] = function(_, tr)
        tr.batch.completions[2].text = "b"
      end,
      ["c.reward of batch.completions[1]"] = function(_, tr)
        tr.batch.completions[1].reward = 9
      end,
      ["c.advantage of batch.completions[1]"] = function(_, tr)
        tr.batch.completions[1].advantage = 9
      end,
    } do
      local tr = with_hook("on_step", change)
      tiny.refused("hooks%.on_step: it changed " .. changed:gsub("%p", "%%%0"),
        function() tr:step() end)
    end
    local tr = with_hook("on_rollout", function(b)
      b.completions[1].reward = tiny.endless()
    end)
    tiny.refused("the reward of prompt 1, completion 1 is a table", function() tr:step() end)
    tr = with_hook("on_step", function(m, t) m.mine, t.batch.completions[1].own = 7, 8 end)
    assert.equal(7, tr:step().mine)
    tr = trainer.new(experiment(function(t)
      t.data.eval = t.data.train
      t.hooks = { on_eval = function(report) report["eval/accuracy"] = 1.5 end }
    end))
    tiny.refused("hooks%.on_eval: it changed the report's eval/accuracy", function() tr:run() end)
  end)
end)

describe("a hook that takes fields of the trainer away", function()
  it("is named with the field, and the trainer is as before", function()
    for field, hook in pairs {
      ["tr.noted"] = function(_, tr) for k in pairs(tr) do tr[k] = nil end end,
      ["tr.settings"] = function(_, tr) tr.settings = {} end,
      ["tr.stage_index"] = function(_, tr) tr.stage_index = "x" end,
      ["tr.stage"] = function(_, tr) tr.stage = nil end,
      ["tr.state"] = function(_, tr) tr.state = nil end,
      ["tr.recorder"] = function(_, tr) tr.recorder = {} end,
      ["the metatable of tr"] = function(_, tr) tiny.endless(tr) end,
    } do
      local tr = with_hook("on_step", hook)
      tiny.refused("hooks%.on_step: it changed " .. field:gsub("%.", "%%.") .. ", which the run "
        .. "needs; tr%.state is a table for values of your own$", function() tr:run() end)
      assert.equal(1, tr.stage_index)
      assert.is_true(rawequal(tr.settings, tr.experiment.stages[1].config))
    end
    with_hook("on_start", function(tr) tr.state = { 5 } end):run()
  end)
end)

describe("the number of a dataset's rows", function()
  it("is checked where it is given", function()
    for _, n in ipairs { 1e15, 2 ^ 32, -1 } do
      tiny.refused("mistakes_test.lua:%d+: grpo.data.generate.n: must be at ", function()
        grpo.data.generate(function() return { prompt = "a" } end, { n = n })
      end)
    end
    for _, n in ipairs { -5, -0.5 } do
      tiny.refused("mistakes_test.lua:%d+: grpo.data.list: the length of the list is %" .. n,
        function() grpo.data.list(setmetatable({}, { __len = function() return n end })) end)
    end
  end)
end)

describe("a schedule that returns a table", function()
  it("is told so, without its metamethods", function()
    tiny.refused("the schedule returned a table for p.step = 0", function()
      trainer.new(experiment(function(t)
        t.train.lr = function() return tiny.endless() end
      end)):step()
    end)
  end)
end)

describe("a reason to stop", function()
  it("is a text, which the limits of the hook make", function()
    local tr = with_hook("on_step", function(_, tr) tr:stop(tiny.endless()) end)
    tr.settings.limits.hook.instructions = 1e6
    tiny.refused("hooks.on_step: .*used up its 1000000 instructions", function() tr:step() end)
  end)
end)

describe("a number that is not one", function()
  it("is shown without a sign, which depends on the machine", function()
    for _, nan in ipairs { 0 / 0, -(0 / 0) } do
      local tr = trainer.new(experiment(function(t)
        t.rewards[1].fn = function() return nan end
      end))
      tiny.refused("returned nan; a reward must be finite", function() tr:step() end)
      tiny.refused("returned nan for p.step = 0", function()
        trainer.new(experiment(function(t) t.train.lr = function() return nan end end)):step()
      end)
      tiny.refused("got nan", experiment, function(t) t.train.clip = nan end)
      assert.equal("nan", require("grpo.commands.repl.pretty.paint").number(nan))
      assert.matches("min nan mean nan max nan", tostring(grpo.tensor { nan }))
    end
  end)
end)

describe("a run that was killed", function()
  it("has the step of its last whole line of metrics", function()
    in_root(function(root)
      local run = directory(root)
      run:set_state("running", { step = 3, steps = 99 })
      run:append("metrics", { step = 41, stage = 1 })
      run:append("metrics", { step = 42, stage = 1, more = ("x"):rep(100000) })
      run:close()
      assert.equal("crashed", rundir.describe(run.dir).state)
      assert.equal(42, rundir.describe(run.dir).step)
      local f <close> = assert(io.open(run.dir .. "/metrics.jsonl", "a"))
      f:write('{"step": 43, "stage"')
      f:flush()
      assert.equal(42, rundir.describe(run.dir).step)
      f:write("\nnonsense\n")
      f:flush()
      assert.equal(42, rundir.describe(run.dir).step)
    end)
  end)
end)

describe("files of tr:append", function()
  local function begun(root)
    local run = directory(root)
    script_logs.append(run, "a.txt", "one\n")
    run.script_logs["a.txt"]:close()
    run.script_logs = {}
    script_logs.keep_sizes(run.dir, 0)
    return run
  end

  it("whose sizes are missing are noted", function()
    in_root(function(root)
      local run = begun(root)
      assert.same({}, script_logs.cut(run.dir, 0))
      assert(os.remove(run.dir .. "/log_sizes.json"))
      local notes = script_logs.cut(run.dir, 0)
      assert.equal(1, #notes)
      assert.matches("log_sizes%.json is missing, so .*/logs that tr:append wrote are not cut",
        notes[1])
      run:close()
    end)
  end)

  it("that have a checksum but no size are in a damaged log_sizes.json", function()
    in_root(function(root)
      local run = begun(root)
      local path = run.dir .. "/log_sizes.json"
      local sizes = schema.read(path, schema.shapes.log_sizes)
      for _, of_step in ipairs { {}, false } do
        sizes.checkpoints["0"] = of_step or nil
        assert(core.fs.write(path, sums.pages(sizes)))
        local ok, e = pcall(script_logs.cut, run.dir, 0)
        assert.is_false(ok)
        assert.matches("log_sizes%.json: it has a checksum of a%.txt at step 0, but no size; "
          .. "the file is damaged", tostring(e))
      end
      run:close()
    end)
  end)

  it("that are shorter than at the checkpoint are noted", function()
    in_root(function(root)
      local run = begun(root)
      assert(core.fs.truncate(run.dir .. "/logs/a.txt", 1))
      local notes = script_logs.cut(run.dir, 0)
      assert.equal(1, #notes)
      assert.matches("logs/a%.txt has 1 byte.*, but had 4 .*, so that text of it is missing",
        notes[1])
      run:close()
    end)
  end)
end)
