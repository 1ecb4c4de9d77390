-- The keys of a row's objects come to a chat template in the order of the file.  The script
-- tests/oracles/tool_templates.py wrote tests/cases/tools, with what transformers makes of them.

local grpo = require "grpo"
local core = require "grpo.core"
local row_checksum = require "grpo.options.row_checksum"

local dir = "tests/cases/tools"
local readers = {
  ["rows.jsonl"] = function(path) return grpo.data.jsonl(path) end,
  ["rows.json"] = function(path) return grpo.data.json(path, { field = "rows" }) end,
  ["rows.parquet"] = function(path) return grpo.data.parquet(path) end,
}

-- An extension reads Parquet.
local has_parquet = rawget(grpo.data, "parquet")

local function render(source, vars) return (grpo.template(source):render(vars)) end

describe("a row with tools", function()
  local n = 0
  for line in io.lines(dir .. "/cases.jsonl") do
    local case = grpo.json.decode(line)
    n = n + 1
    it(("%s %d, template %s: the text of transformers"):format(case.file, case.row, case.name),
      function()
        if case.file == "rows.parquet" and not has_parquet then return end
        local rows = readers[case.file](dir .. "/" .. case.file)
        local row, tok = rows[case.row], grpo.tokenizer.bytes()
        tok.chat_template = case.template
        assert.equal(case.rendered,
          tok:chat(row.messages, { tools = row.tools, generation_prompt = true }))
      end)
  end
  it("all cases", function() assert.is_true(n >= 24) end)
end)

describe("the order of keys", function()
  local text = '{"z": 1, "a": {"q": [{"y": 1, "b": {}}], "c": 2}, "role": 3}'
  local function printed(v) return render("{{ v | tojson }}", { v = v }) end

  it("is that of the text, also under names and pieces of it", function()
    local v = grpo.json.decode(text)
    assert.equal(text, printed(v))
    assert.equal('{"q": [{"y": 1, "b": {}}], "c": 2}', printed(v.a))
    local ds = grpo.data.list { v }:map(function(row) return { inner = row.a } end)
    assert.equal('{"inner": {"q": [{"y": 1, "b": {}}], "c": 2}}', printed(ds[1]))
  end)
  it("holds for what is left, and new keys come behind", function()
    local v = grpo.json.decode(text)
    v.role, v.a.q, v.new, v.content = nil, nil, 5, 6
    assert.equal('{"z": 1, "a": {"c": 2}, "content": 6, "new": 5}', printed(v))
  end)
  it("does not matter to json.encode, to pairs and to checksums", function()
    local a, b = grpo.json.decode '{"x": 1, "b": 2}', grpo.json.decode '{"b": 2, "x": 1}'
    assert.equal(grpo.json.encode(a), grpo.json.encode(b))
    assert.same(a, b)
    assert.equal(nil, getmetatable(a))
    assert.equal(row_checksum.of(a), row_checksum.of(b))
  end)
  it("goes with numbers as they are written", function()
    local numbers = '{"z": 1.0, "b": 1, "a": -0.0, "e": 9007199254740993, "c": 1000.0}'
    assert.equal(numbers, printed(grpo.json.decode(numbers)))
    assert.equal("1.0 1", render("{{ v.z }} {{ v.b }}", { v = grpo.json.decode(numbers) }))
  end)
  it("is kept by tr.state and by the state of a sampler", function()
    local v = grpo.json.decode(text)
    local function again(x) return core.state_decode(core.state_encode(x)) end
    assert.equal(text, printed(again(v)))
    v.role, v.new = nil, 5
    local w = again { kept = { v, v.a } }.kept
    assert.equal('{"z": 1, "a": {"q": [{"y": 1, "b": {}}], "c": 2}, "new": 5}', printed(w[1]))
    assert.equal(w[2], w[1].a) -- shared as before
    v.beta, v.role, w[1].beta, w[1].role = 1, 2, 1, 2
    assert.equal(printed(v), printed(w[1]))
    assert.equal(core.state_encode(v), core.state_encode(w[1]))
  end)
  it("of a repeated key is that of its first place, with the last value", function()
    assert.equal('{"b": 3, "a": 2}', printed(grpo.json.decode '{"b": 1, "a": 2, "b": 3}'))
  end)
  it("is known however many orders there are", function()
    for i = 1, 6000 do
      local wide = ('{"z%d": 1, "a%d": 2, "m": 3}'):format(i, i)
      assert.equal(wide, printed(grpo.json.decode(wide)))
    end
    assert.equal(text, printed(grpo.json.decode(text)))
  end)
  it("is that of a settings file for the rows in it", function()
    local settings = require "grpo.options.settings"
    local fields = settings.fields('{"data": {"train": [' .. text .. "]}}", "s.json", "json")
    assert.equal(text, printed(fields.data.train[1]))
  end)
  it("takes memory of limited code for its own objects alone, and not for those read before",
    function()
    local limits, kept = core.limits { memory = 1 << 20 }, {}
    for _ = 1, 60 do -- somewhere in between the table of all orders must grow
      for _ = 1, 2000 do kept[#kept + 1] = core.json_decode('{"q": 1, "p": 2}') end
      local ok, err = core.limited(limits, "test", function()
        local list = {}
        for i = 1, 1500 do list[i] = grpo.json.decode('{"q": 1, "p": 2}') end
        return list
      end)
      assert.is_true(ok, tostring(err))
    end
    assert.equal(120000, #kept)
  end)
  it("is known to limited code too", function()
    local ok, out = core.limited(core.limits { instructions = 1000000 }, "test", function()
      return printed(grpo.json.decode(text))
    end)
    assert.is_true(ok)
    assert.equal(text, out)
  end)
  it("goes with its object", function()
    collectgarbage()
    local before = collectgarbage "count"
    for _ = 1, 100000 do core.json_decode('{"q": 1, "p": 2}') end
    collectgarbage()
    -- objects that stayed would be some 20 MiB; what is left is the table of all orders
    assert.is_true(collectgarbage "count" < before + 4096)
  end)
end)
