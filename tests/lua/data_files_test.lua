-- Rows of files.  tests/oracles/text_data.py wrote tests/cases/text_data, with the rows that
-- Python's own modules read in each file.

local core = require "grpo.core"
local data = require "grpo.data"
local tiny = require "tests.lua.tiny"

local cases = "tests/cases/text_data"
local refused, rows_of = tiny.fails, tiny.rows_of
local dir

local function put(name, text) return tiny.put(dir, name, text) end

-- Returns the notices of f, which are not shown.
local function notices(f)
  local seen, before = {}, core.notice
  core.notice = function(text) seen[#seen + 1] = text end
  local ok, err = pcall(f)
  core.notice = before
  if not ok then error(err, 0) end
  return seen
end

describe("a file of rows", function()
  before_each(function()
    dir = tiny.path()
    assert(core.fs.mkdirs(dir))
  end)
  after_each(function() core.fs.remove_tree(dir) end)

  for line in io.lines(cases .. "/cases.jsonl") do
    local case = core.json_decode(line)
    it(case.file .. " is read as Python reads it", function()
      local ds = data[case.format](cases .. "/" .. case.file)
      assert.equal(core.json_encode(case.rows), core.json_encode(rows_of(ds)))
    end)
  end

  it("may be one of several, by a list or by a pattern", function()
    put("b.jsonl", '{"n": 2}\n{"n": 3}\n')
    put("a.jsonl", '{"n": 1}\n')
    put("c.txt", "x")
    assert(core.fs.mkdirs(dir .. "/deep/er"))
    put("deep/er/d.jsonl", '{"n": 4}')
    local function numbers(names)
      local list = {}
      for row in data.jsonl(names):rows() do list[#list + 1] = row.n end
      return list
    end
    assert.same({ 1, 2, 3 }, numbers(dir .. "/*.jsonl"))
    assert.same({ 2, 3, 1 }, numbers { dir .. "/b.jsonl", dir .. "/a.jsonl" })
    assert.same({ 1, 2, 3, 4 }, numbers(dir .. "/**/*.jsonl"))
    assert.same({ 1 }, numbers(dir .. "/[!b].jsonl"))
    assert.same({ 4 }, numbers(dir .. "/d*/??/d.jsonl"))
    refused("ENOENT", "no file matches '" .. dir .. "/*.none'", data.jsonl, dir .. "/*.none")
    refused("EARG", "the list of files is empty", data.jsonl, {})
    put("[x].jsonl", '{"n": 5}')
    assert.same({ 5 }, numbers(dir .. "/[x].jsonl"))
  end)

  it("gives the columns that are asked for, under other names too", function()
    local path = put("r.csv", "a,b,c\n1,2,3\n")
    assert.same({ a = "1", c = "3" }, data.csv(path, { columns = { "a", "c" } })[1])
    assert.same({ a = "1", b = "2", c = "3", x = "2" },
      data.csv(path, { columns = { x = "b" } })[1])
    assert.same({ a = "1", x = "2" }, data.csv(path, { columns = { "a", x = "b" } })[1])
    assert.same({ "a", "b", "c" }, data.csv(path):columns())
    assert.same({ "a", "x" }, data.csv(path, { columns = { "a", x = "b" } }):columns())
  end)

  it("says which columns there are when a name is misspelt", function()
    local path = put("r.jsonl", '{"question": 1}\n{"question": 1, "solution": 2}\n')
    refused("EARG", path .. " has no column 'solutoin', did you mean 'solution'? its columns are: "
      .. "question, solution", data.jsonl, path, { columns = { answer = "solutoin" } })
    refused("EARG", "has no column 'xyz'; its columns are: question, solution", data.jsonl, path,
      { columns = { "xyz" } })
    refused("EARG", 'columns: want names: { "column", new = "column" }', data.jsonl, path,
      { columns = { 1 } })
  end)

  it("says so when there are fewer rows than `take`", function()
    local path = put("r.jsonl", '{"n": 1}\n{"n": 2}\n')
    assert.same({ ("note: %s: take = 3, but there are 2 rows only"):format(path) },
      notices(function() assert.equal(2, #data.jsonl(path, { take = 3 })) end))
    assert.same({}, notices(function() assert.equal(2, #data.jsonl(path, { take = 2 })) end))
    put("s.jsonl", '{"n": 1}\nnot read')
    assert.equal(1, #data.jsonl(dir .. "/s.jsonl", { take = 1 }))
  end)

  it("says what is wrong with JSON, and where", function()
    refused("EFORMAT", "a.json: want an array of objects, got one object; if a field of it holds "
      .. "the rows, say which: field = \"...\" ('rows')", data.json,
      put("a.json", '{"version": 1,\n "rows": [{"n": 1}]}'))
    assert.same({ n = 1 }, data.json(dir .. "/a.json", { field = "rows" })[1])
    refused("EFORMAT", "field = 'row', but it has no list of that name ('rows')", data.json,
      dir .. "/a.json", { field = "row" })
    refused("EFORMAT", "b.json: entry 2 of the array is a number, want an object", data.json,
      put("b.json", '[{"n": 1}, 2]'))
    refused("EFORMAT", "c.json:2:", data.json, put("c.json", '[{"n": 1},\n {"n": }]'))
    refused("EFORMAT", "d.json: want an array of objects, got a number", data.json,
      put("d.json", "3"))
    refused("EFORMAT", "e.jsonl:1: want a JSON object, got a list; a file that is one JSON array "
      .. "is read by grpo.data.json", data.jsonl, put("e.jsonl", '[{"n": 1}]'))
    refused("EARG", "grpo.data.csv: field belongs to grpo.data.json", data.csv, put("f.csv", "a\n"),
      { field = "x" })
  end)

  it("has lines that end with any of the three ends, in one file too", function()
    local function rows(text) return core.json_encode(rows_of(data.csv(put("x.csv", text)))) end
    local want = '[{"a": "1", "b": "2"}, {"a": "3", "b": "4"}, {"a": "5", "b": "6"}]'
    for _, last in ipairs { "", "\n", "\r", "\r\n" } do
      assert.equal(want, rows("a,b\n1,2\n3,4\n5,6" .. last))
      assert.equal(want, rows("a,b\r1,2\r3,4\r5,6" .. last))
      assert.equal(want, rows("a,b\r\n1,2\n3,4\r5,6" .. last))
      assert.equal(want, rows('\r\r"a","b"\r"1","2"\r\r\n"3","4"\n\r"5","6"' .. last))
    end
    assert.equal('[{"a": "1\\r2\\r\\n"}, {"a": ""}, {"a": " "}]', rows(
      'a\r"1\r2\r\n"\r""\r\r \r'))
    local tsv = data.tsv(put("x.tsv", 'q\ta\r1\t2\r"3"\t4\r'))
    assert.equal('[{"a": "2", "q": "1"}, {"a": "4", "q": "3"}]', core.json_encode(rows_of(tsv)))
    refused("EFORMAT", "x.csv:4: 1 fields, but the header names 2", data.csv,
      put("x.csv", 'a,b\r"1\r\n2",2\r3'))
    refused("EFORMAT", "x.csv:3: text after a closing quote", data.csv, put("x.csv", 'a\r"b\rc"d'))
    refused("EFORMAT", "x.csv:2: 1 fields, but the header names 2", data.csv,
      put("x.csv", 'a,b\n""'))
  end)

  it("that is not UTF-8 is refused, with the line", function()
    refused("EFORMAT", "x.csv:2: not UTF-8; if it is Latin-1, convert the file: iconv", data.csv,
      put("x.csv", "a,b\n1,caf\xE9\n"))
    refused("EFORMAT", "x.csv:4: not UTF-8", data.csv, put("x.csv", 'a,b\r\n1,"\n\n\xE9"'))
    refused("EFORMAT", "x.tsv:1: not UTF-8", data.tsv, put("x.tsv", "\xFCber\tb\n"))
    refused("EFORMAT", "x.jsonl:1: not a JSON object: at column 7: not UTF-8", data.jsonl,
      put("x.jsonl", '{"a":"\xE9"}'))
  end)

  it("as JSON takes what Python's json writes, and integers keep their digits", function()
    local text = '{"cut": "\\ud83d\\n", "low \\udc00": "\\ud83d\\ud83d\\ude00", "n": NaN, '
      .. '"i": [Infinity,-Infinity], "big":[12345678901234567890,-9223372036854775809 ], '
      .. '"last": 9223372036854775807, "real": 123456789012345678901.0}'
    for _, rows in ipairs { data.jsonl(put("x.jsonl", text)), data.json(put("x.json",
      "[" .. text .. "]")) } do
      local row = rows[1]
      assert.equal("\u{FFFD}\n", row.cut)
      assert.equal("\u{FFFD}\u{1F600}", row["low \u{FFFD}"])
      assert.is_true(row.n ~= row.n and row.i[1] == math.huge and row.i[2] == -math.huge)
      assert.equal("12345678901234567890", row.big[1])
      assert.equal("-9223372036854775809", row.big[2])
      assert.equal(math.maxinteger, row.last)
      assert.equal(123456789012345678901.0, row.real)
    end
    refused("EFORMAT", "x.jsonl:2: not a JSON object: at column 7", data.jsonl,
      put("x.jsonl", '{}\n{"a": Nan}'))
    refused("EFORMAT", "x.jsonl:1: want a JSON object, got null", data.jsonl,
      put("x.jsonl", "null\n"))
    refused("EFORMAT", "x.jsonl:1: want a JSON object, got a number", data.jsonl,
      put("x.jsonl", "12345678901234567890\n"))
    refused("EFORMAT", "x.json: want an array of objects, got null", data.json,
      put("x.json", "null"))
  end)

  local heads = {
    ["PAR1...."] = "it is a Parquet file, not CSV; ",
    ["ARROW1\0\0"] = "it is an Arrow file (Feather), not CSV; convert it with pandas",
    ["FEA1...."] = "a Feather file of version 1",
    ["PK\3\4.......xl/workbook.xml"] = "it is an Excel file (xlsx), not CSV; save it as CSV",
    ["PK\3\4.......data.csv"] = "a zip archive",
    ["\xD0\xCF\x11\xE0\xA1"] = "an Office file (xls)",
    ["BZh91AY"] = "compressed by bzip2",
    ["\xFD7zXZ\0\0"] = "compressed by xz",
    ["\4\"M\24..."] = "compressed by lz4",
    ["\2!L\24..."] = "compressed by lz4",
    ["\xFF\6\0\0sNaPpY"] = "compressed by snappy",
    ["7z\xBC\xAF\x27"] = "a 7z archive",
    ["Rar!...."] = "a rar archive",
    ["SQLite format 3\0"] = "an SQLite database",
    ["\x89HDF\r\n"] = "an HDF5 file",
    ["Obj\1...."] = "an Avro file",
    ["ORC....."] = "an ORC file",
    ["\x93NUMPY.."] = "a NumPy array",
    ["\x80\4...."] = "a Python pickle, which is a program and not data",
    ["%PDF-1.7"] = "a PDF",
    ["\xFF\xFE{\0"] = "text in UTF-16",
    ["version https://git-lfs.github.com/spec/v1\noid sha256:x"] = "a pointer of Git LFS",
    ["<!DOCTYPE html>"] = "a web page",
    [("\0"):rep(257) .. "ustar\0"] = "a tar archive",
  }
  it("in a format that is not read is named, with the way out", function()
    local count = 0
    for head, words in pairs(heads) do
      refused("EFORMAT", words, data.csv, put("x", head))
      refused("EFORMAT", words:gsub("not CSV", "not JSON lines"), data.jsonl, put("x", head))
      count = count + 1
    end
    assert.equal(24, count)
  end)
end)

describe("a template of a settings file", function()
  it("writes numbers with all of their digits, as Python does", function()
    local text = require("grpo.options.settings.templates").text
    local row = core.json_decode_row('{"a": 1234567890123.45, "b": {"c": 3.141592653589793}, '
      .. '"d": 123456789012345678901, "e": 1.0, "f": 1e5, "g": 1e-7, "h": -0.0, "i": 42, "j": 0.1, '
      .. '"k": 1e16, "l": true, "m": NaN}')
    assert.equal("1234567890123.45 3.141592653589793 123456789012345678901 1.0 100000.0 1e-07 -0.0 "
      .. "42 0.1 1e+16 true nan {}",
      text("{a} {b.c} {d} {e} {f} {g} {h} {i} {j} {k} {l} {m} {}")(row))
  end)
end)
