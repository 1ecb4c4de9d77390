-- Parquet files of cases/ against the rows that pyarrow reads in them.
-- parquet_files.py wrote them; with --sweep it compares thousands.

local core = require "grpo.core"
local data = require "grpo.data"
local tiny = require "tests.lua.tiny"

local cases = "ext/parquet/tests/cases"
local refused = tiny.fails
local dir

local function put(name, text) return tiny.put(dir, name, text) end

-- Numbers are compared as numbers: 1e30 is a float here, and an integer in Python's JSON.
local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  for k, v in pairs(a) do
    if not same(v, b[k]) then return false end
  end
  for k in pairs(b) do
    if a[k] == nil then return false end
  end
  return true
end

local function as_json(row) return core.json_decode(core.json_encode(row)) end

local function has_libraries()
  return core.codec_library "gzip" ~= "none" and core.codec_library "zstd" ~= "none"
end

describe("a Parquet file", function()
  before_each(function()
    dir = tiny.path()
    assert(core.fs.mkdirs(dir))
  end)
  after_each(function() core.fs.remove_tree(dir) end)

  it("is loaded by its name or its first bytes, and other readers name its own", function()
    local text = assert(core.fs.read(cases .. "/int32_plain.parquet"))
    assert.equal(0, data.load(put("rows.parquet", text))[1].i)
    assert.equal(0, data.load(put("bytes", text))[1].i)
    refused("EFORMAT", "it is a Parquet file, not CSV; read it with grpo.data.parquet", data.csv,
      put("x", "PAR1...."))
  end)

  it("is read as pyarrow reads it", function()
    if not has_libraries() then return end
    local count = 0
    for line in io.lines(cases .. "/cases.jsonl") do
      local case = core.json_decode(line)
      local ds = data.parquet(cases .. "/" .. case.file)
      assert.equal(#case.rows, #ds, case.file)
      for i, row in ipairs(case.rows) do
        if not same(row, as_json(ds[i])) then
          error(("%s row %d: %s, want %s"):format(case.file, i, core.json_encode(ds[i]),
            core.json_encode(row)), 0)
        end
      end
      count = count + 1
    end
    assert.equal(140, count)
  end)

  it("has old timestamps (INT96) of the years 1 to 9999", function()
    local shared = require("tests.lua.tiny").shared
    if not shared or not core.fs.exists(shared .. "/cases/files/parquet") then return end
    local function times(name)
      local list, ds = {}, data.parquet(shared .. "/cases/files/parquet/" .. name)
      for i = 1, #ds do list[i] = ds[i].t end
      return table.concat(list, ", ")
    end
    assert.equal("2006-01-02 07:04:05, 9999-12-31 15:59:59.009999", times "int96_9999.parquet")
    assert.equal("2024-01-01 00:00:00, 1500-01-01 00:00:00, 0001-01-01 00:00:00, "
      .. "2262-04-12 00:00:00", times "int96_1500.parquet")
  end)

  it("has rows that are read in any order, from several files", function()
    if not has_libraries() then return end
    local names = { cases .. "/messages_dictionary.parquet", cases .. "/messages_plain.parquet" }
    local both = data.parquet(names)
    local first, second = data.parquet(names[1]), data.parquet(names[2])
    assert.equal(#first + #second, #both)
    for i = #both, 1, -1 do
      local want = i <= #first and first[i] or second[i - #first]
      assert.equal(core.json_encode(want), core.json_encode(both[i]))
    end
    assert.same({ "v", "i" }, both:columns())
    assert.equal(5, #data.parquet(names, { take = 5 }))
    assert.equal(#both, #data.parquet(cases .. "/messages_*.parquet"))
  end)

  it("reads only the columns that are asked for", function()
    local path = cases .. "/int32_plain.parquet"
    assert.same({ i = 0 }, data.parquet(path, { columns = { "i" } })[1])
    assert.same({ n = 0 }, data.parquet(path, { columns = { n = "i" } }):map(function(row)
      return { n = row.n }
    end)[1])
    refused("EARG", path .. " has no column 'vv', did you mean 'v'?",
      data.parquet, path, { columns = { "vv" } })
    -- a column that cannot be read does not matter when it is left out
    local text = assert(core.fs.read(path))
    local broken = put("broken.parquet", "PAR1" .. ("\xFF"):rep(20) .. text:sub(25))
    refused("EFORMAT", broken .. ": column 'v', row group 1, page 1: its header is damaged",
      function() return data.parquet(broken)[1] end)
    assert.same({ i = 0 }, data.parquet(broken, { columns = { "i" } })[1])
  end)

  it("is refused when it is cut short, damaged or another format", function()
    local text = assert(core.fs.read(cases .. "/messages_plain.parquet"))
    for n = 0, #text - 1, 3 do
      refused("EFORMAT", "cut.parquet: ", data.parquet, put("cut.parquet", text:sub(1, n)))
    end
    refused("EFORMAT", "it is a zip archive, not Parquet; unpack it", data.parquet,
      put("a.parquet", "PK\3\4" .. ("x"):rep(30)))
    refused("EFORMAT", "it does not end as a Parquet file does", data.parquet,
      put("b.parquet", ("x"):rep(30)))
    refused("ENOENT", "none.parquet", data.parquet, dir .. "/none.parquet")
    refused("EFORMAT", "the Parquet file is encrypted", data.parquet,
      put("c.parquet", "PAR1" .. ("x"):rep(30) .. "PARE"))
  end)

  it("with changed bytes is read or refused, and names itself", function()
    local seeds = assert(core.fs.list("ext/parquet/tests/fuzz/seeds/parquet"))
    for s, name in ipairs(seeds) do
      local text = assert(core.fs.read("ext/parquet/tests/fuzz/seeds/parquet/" .. name))
      for k = 1, 60 do
        local rng = core.rng(s, "task", k, 0, 0)
        local at = 1 + math.floor(rng() * #text)
        local path = put("x.parquet", text:sub(1, at - 1) .. string.char(math.floor(rng() * 256))
          .. text:sub(at + 1))
        local ok, err = pcall(function()
          local ds = data.parquet(path)
          for i = 1, math.min(#ds, 50) do assert.is_truthy(ds[i]) end
        end)
        if not ok and (type(err) ~= "table" or not tostring(err):find(path, 1, true)) then
          error(tostring(err), 0)
        end
      end
    end
  end)

  it("compressed by a codec that is not read is refused by name", function()
    for _, codec in ipairs { "brotli", "lz4" } do
      refused("EFORMAT", codec == "brotli" and "compressed by Brotli, which is not read; write the "
        .. "file with snappy, zstd or gzip" or "compressed by LZ4_RAW, which is not read",
        function() return data.parquet(("%s/refused/%s.parquet"):format(cases, codec))[1] end)
    end
  end)
end)
