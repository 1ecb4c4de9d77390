-- Rows of files that gzip and zstd compressed.  tests/oracles/text_data.py wrote compressed/.

local core = require "grpo.core"
local data = require "grpo.data"
local tiny = require "tests.lua.tiny"

local cases = "ext/parquet/tests/compressed"
local refused, rows_of = tiny.fails, tiny.rows_of
local dir

local function put(name, text) return tiny.put(dir, name, text) end

local function has(codec) return core.codec_library(codec) ~= "none" end

local function skip(path)
  return path:find("%.gz$") and not has "gzip" or path:find("%.zst$") and not has "zstd"
end

describe("a compressed file of rows", function()
  before_each(function()
    dir = tiny.path()
    assert(core.fs.mkdirs(dir))
  end)
  after_each(function() core.fs.remove_tree(dir) end)

  for line in io.lines(cases .. "/cases.jsonl") do
    local case = core.json_decode(line)
    it(case.file .. " is read as Python reads it", function()
      if skip(case.file) then return end
      local ds = data[case.format](cases .. "/" .. case.file)
      assert.equal(core.json_encode(case.rows), core.json_encode(rows_of(ds)))
    end)
  end

  it("is refused when its compression is damaged, cut short or a bomb", function()
    if not has "gzip" or not has "zstd" then return end
    for _, ending in ipairs { "gz", "zst" } do
      local whole = assert(core.fs.read(cases .. "/rows.jsonl." .. ending))
      local format = ending == "gz" and "gzip" or "zstd"
      for n = 4, #whole - 1 do
        refused("EFORMAT", format .. " data is cut short", data.jsonl,
          put("cut.jsonl", whole:sub(1, n)))
      end
      refused("EFORMAT", format .. " data is damaged", data.jsonl, put("bad.jsonl",
        whole .. "neither"))
      refused("EFORMAT", format .. " data is damaged", data.jsonl, put("bad.jsonl",
        whole:sub(1, 30) .. (whole:sub(31, 40):gsub(".", "\xAA")) .. whole:sub(41)))
    end
    -- 16 KB to a megabyte each: a frame whose only block repeats one byte
    local frame = "\x28\xB5\x2F\xFD\x00\x58" .. ("\x02\x00\x10\x20"):rep(800) .. "\x03\x00\x10\x20"
    refused("ELIMIT", "if they are not a decompression bomb", data.jsonl, put("bomb", frame))
  end)

  it("compressed by zstd may have skippable frames and large windows", function()
    if not has "zstd" then return end
    local whole = assert(core.fs.read(cases .. "/rows.jsonl.zst"))
    local ignored, want = "\x5A*M\x18\4\0\0\0abcd", core.json_encode(rows_of(
      data.jsonl "tests/cases/text_data/rows.jsonl"))
    local function rows(text) return core.json_encode(rows_of(data.jsonl(put("x", text)))) end
    assert.equal(want, rows(ignored .. whole))
    assert.equal(want, rows("\x50*M\x18\0\0\0\0" .. ignored .. whole .. ignored))
    refused("EFORMAT", "zstd data is cut short", data.jsonl, put("x", ignored .. whole:sub(1, -2)))
    refused("EFORMAT", "zstd data is cut short", data.jsonl, put("x", ignored:sub(1, -2)))
    refused("EFORMAT", "compressed by lz4", data.jsonl, put("x", ignored .. "\4\"M\24"))
    -- a header with a window of 2^log bytes, and one raw block
    local function frame(log)
      local block, size = '{"a": 1}\n', #'{"a": 1}\n'
      return "\x28\xB5\x2F\xFD\0" .. string.char((log - 10) << 3, size << 3 | 1, 0, 0) .. block
    end
    for _, log in ipairs { 20, 27, 28, 30, 31 } do assert.equal('[{"a": 1}]', rows(frame(log))) end
    refused("ELIMIT", "its zstd window is larger than 2 GB", data.jsonl, put("x", frame(32)))
    refused("EFORMAT", "need a dictionary", data.jsonl,
      put("x", "\x28\xB5\x2F\xFD\1\x50\7\1\0\0"))
  end)

  it("that holds an archive is named, with the way out", function()
    if not has "gzip" then return end
    local tar = assert(core.fs.read(cases .. "/tar.gz"))
    refused("EFORMAT", "a tar archive", data.csv, put("x.gz", tar))
  end)
end)
