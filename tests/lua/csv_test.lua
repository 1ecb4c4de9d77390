-- tr:csv, tr.dir, and fields of a trainer that there are not.

local core = require "grpo.core"
local grpo = require "grpo"
local rundir = require "grpo.runs.directory"
local script_logs = require "grpo.loop.script_logs"
local tiny = require "tests.lua.tiny"
local trainer = require "grpo.loop.trainer"

local fs = core.fs
local shape = tiny.llama { hidden_size = 16, intermediate_size = 32, eos_token_id = 8 }

local experiment = tiny.experiments(function()
  return {
    name = "tiny",
    model = { config = shape, tokenizer = grpo.tokenizer.chars("abcdefgh ") },
    data = { train = grpo.data.list { { prompt = "a" } }, max_prompt_tokens = 4 },
    sampling = { group_size = 2, max_new_tokens = 2 },
    rewards = { as = tiny.count_a },
    train = { steps = 3, prompts_per_step = 1 },
  }
end)

-- A trainer whose run is in `dir`, without the files that a whole run has.
local function trainer_in(dir)
  assert(fs.mkdirs(dir))
  local tr = trainer.new(experiment())
  tr.directory = { dir = dir, script_logs = {}, check_place = function() end }
  return tr
end

local function closed(tr)
  for _, writer in pairs(tr.directory.script_logs) do writer:close() end
  tr.directory.script_logs = {}
end

describe("tr:csv", function()
  it("writes a header and rows that a reader of RFC 4180 reads back", function()
    tiny.temporary(function(dir)
      local tr = trainer_in(dir)
      local csv = tr:csv("a", { "step", "text", "odd,\"name" })
      csv:row { step = 1, text = "plain" }
      csv:row { step = 2.5, text = 'with "quotes", commas\nand lines\r\n', ["odd,\"name"] = true }
      csv:row { -1e300, "", 0.1 }
      csv:row { step = math.maxinteger, text = " x " }
      closed(tr)
      assert.equal('step,text,"odd,""name"\n1,plain,\n'
        .. '2.5,"with ""quotes"", commas\nand lines\r\n",true\n-1e300,"",0.1\n'
        .. '9223372036854775807, x ,\n', (fs.read(dir .. "/logs/a.csv")))
      local rows = grpo.data.csv(dir .. "/logs/a.csv")
      assert.equal(4, #rows)
      assert.equal('with "quotes", commas\nand lines\r\n', rows[2].text)
      assert.equal("true", rows[2]["odd,\"name"])
      assert.equal(-1e300, tonumber(rows[3].step))
    end)
  end)

  it("says numbers that are not finite", function()
    tiny.temporary(function(dir)
      local tr = trainer_in(dir)
      tr:csv("a", { "x" }):row({ 0 / 0 }):row({ 1 / 0 }):row { -1 / 0 }
      closed(tr)
      assert.equal("x\nnan\ninf\n-inf\n", (fs.read(dir .. "/logs/a.csv")))
    end)
  end)

  it("gives the same table again, and continues that of an earlier process", function()
    tiny.temporary(function(dir)
      local tr = trainer_in(dir)
      assert.equal(tr:csv("a", { "x" }), tr:csv("a.csv", { "x" }))
      tr:csv("a", { "x" }):row { 1 }
      closed(tr)
      local other = trainer_in(dir)
      other:csv("a", { "x" }):row { 2 }
      closed(other)
      assert.equal("x\n1\n2\n", (fs.read(dir .. "/logs/a.csv")))
    end)
  end)

  it("refuses other columns, in the same process and in a later one", function()
    tiny.temporary(function(dir)
      local tr = trainer_in(dir)
      tr:csv("a", { "x", "y" })
      local pattern = "logs/a.csv has the columns x,y, but the script says x,z; a file keeps"
      tiny.refused(pattern, function() tr:csv("a", { "x", "z" }) end)
      closed(tr)
      tiny.refused(pattern, function() trainer_in(dir):csv("a", { "x", "z" }) end)
      tiny.refused("tr:append: a.csv is a table of tr:csv",
        function() tr:append("a.csv", "1\n") end)
    end)
  end)

  it("refuses rows and names that do not fit, also without a directory", function()
    local tr = trainer.new(experiment())
    local csv = tr:csv("a", { "x", "y" })
    csv:row { x = 1 } -- goes nowhere
    tiny.refused("csv:row: logs/a.csv has no column 'z'", function() csv:row { z = 1 } end)
    tiny.refused("csv:row: 1 values, but logs/a.csv has 2 columns %(x,y%)",
      function() csv:row { 1 } end)
    tiny.refused("csv:row: y is a table, want a string, a number", function() csv:row { 1, {} } end)
    tiny.refused("csv:row: got a number, want a table", function() csv:row(3) end)
    tiny.refused("tr:csv: got \"../x\" for the name of a table",
      function() tr:csv("../x", { "x" }) end)
    tiny.refused("tr:csv: got number for the name", function() tr:csv(1, { "x" }) end)
    tiny.refused("tr:csv: got nil for the columns, want a list", function() tr:csv("b") end)
    tiny.refused("tr:csv: got an empty list for the columns", function() tr:csv("b", {}) end)
    tiny.refused("tr:csv: two columns are named 'x'", function() tr:csv("b", { "x", "x" }) end)
    tiny.refused("column 1 is \"a.*b\", want a name on one line",
      function() tr:csv("b", { "a\nb" }) end)
  end)

  it("is summed at each checkpoint, and damage is noticed", function()
    tiny.temporary(function(dir)
      local tr = trainer_in(dir)
      assert(fs.mkdirs(dir .. "/checkpoints/step-000002"))
      local csv = tr:csv("a", { "x" })
      for i = 1, 100 do csv:row { i } end
      script_logs.keep_sizes(dir, 1)
      csv:row { 101 }
      script_logs.keep_sizes(dir, 2)
      csv:row { 102 } -- after it
      closed(tr)
      assert.same({}, script_logs.damage(dir))
      local path = dir .. "/logs/a.csv"
      local text = fs.read(path)
      assert(fs.write(path, (text:gsub("50", "51"))))
      assert.matches("logs/a.csv: it is damaged, because what was written until step 2 has another "
        .. "checksum now; restore it from a copy", script_logs.damage(dir)[1])
      assert(fs.write(path, (text:gsub("102", "103")))) -- a resume cuts it
      assert.same({}, script_logs.damage(dir))
      assert(fs.write(path, text:sub(1, 20)))
      assert.matches("what was written until step 2 is not there any more",
        script_logs.damage(dir)[1])
      assert.is_nil(rundir.read(dir, "run"))
    end)
  end)
end)

describe("a trainer", function()
  it("has the directory of its run", function()
    tiny.temporary(function(dir)
      assert.is_nil(trainer.new(experiment()).dir)
      local tr = trainer_in(dir)
      assert.equal(dir, tr.dir)
      tiny.refused("tr.dir: cannot be assigned", function() tr.dir = "x" end)
      tr.only_follows = true -- as `grpo replay` does: its hooks must not write there
      assert.is_nil(tr.dir)
    end)
  end)

  it("refuses a field that there is not", function()
    local tr = trainer.new(experiment())
    tiny.refused("csv_test.lua:%d+: tr.count: a trainer has no such field; keep a value",
      function() tr.count = 1 end)
    tr.state.count, tr.kept.file, tr.paused = 1, io.stdout, nil
    assert.is_nil(tr.count)
  end)
end)
