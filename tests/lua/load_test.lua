-- grpo.data.load: which files of a directory belong to a split, against the datasets library
-- (tests/oracles/dataset_splits.py), and the errors of what is not there.

local core = require "grpo.core"
local data = require "grpo.data"
local tiny = require "tests.lua.tiny"

local dir

local function put(name, text) return tiny.put(dir, name, text) end
local function refused(code, words, ...) tiny.fails(code, words, data.load, ...) end

local function build(case)
  for _, path in ipairs(case.files) do put(path, ('{"file": "%s"}\n'):format(path)) end
  if case.readme ~= "" then put("README.md", case.readme) end
end

-- README.md of a dataset is YAML, which an extension reads.
local has_yaml = core.yaml_library and core.yaml_library() ~= "none"

describe("grpo.data.load", function()
  before_each(function()
    dir = tiny.path()
    assert(core.fs.mkdirs(dir))
  end)
  after_each(function() core.fs.remove_tree(dir) end)

  local number = 0
  for line in io.lines "tests/cases/dataset_splits.jsonl" do
    local case = core.json_decode(line)
    number = number + 1
    it(("takes the files of tree %d as the datasets library does"):format(number), function()
      if case.readme ~= "" and not has_yaml then return end
      build(case)
      for config, by_split in pairs(case.taken) do
        for split, files in pairs(by_split) do
          local taken = {}
          for row in data.load(dir, { config = config, split = split }):rows() do
            taken[#taken + 1] = row.file
          end
          table.sort(files)
          table.sort(taken)
          assert.equal(table.concat(files, " "), table.concat(taken, " "), config .. " " .. split)
        end
      end
    end)
  end

  it("names the configurations and splits that are there", function()
    if not has_yaml then return end
    build { files = { "main/train-1.jsonl", "main/test-1.jsonl", "socratic/train-1.jsonl" },
      readme = "---\nconfigs:\n- config_name: main\n  data_files:\n"
        .. "  - {split: train, path: main/train-*}\n  - {split: test, path: main/test-*}\n"
        .. "- config_name: socratic\n  data_files: socratic/*\n---\n" }
    refused("EARG", dir .. " has several configurations; choose one by config = \"...\": main, "
      .. "socratic", dir)
    refused("EARG", dir .. " has no configuration 'mian', did you mean 'main'? it has: main, "
      .. "socratic", dir, { config = "mian" })
    refused("EARG", " (main) has no split 'validation'; it has: train, test", dir,
      { config = "main", split = "validation" })
    assert.equal(1, #data.load(dir, { config = "main" })) -- train
    assert.equal("main/test-1.jsonl", data.load(dir, { config = "main", split = "test" })[1].file)
    assert(core.fs.remove_tree(dir .. "/main"))
    refused("ENOENT", "no file matches 'main/train-*'", dir, { config = "main" })
  end)

  it("takes rows of a split by number, columns and a number of rows", function()
    put("test.jsonl", '{"n": 0}\n{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    put("dev.jsonl", '{"n": 9}\n')
    local function numbers(opts)
      local list = {}
      for row in data.load(dir, opts):rows() do list[#list + 1] = row.n or row.m end
      return list
    end
    assert.same({ 1, 2 }, numbers { split = "test[1:3]" })
    assert.same({ 0, 1 }, numbers { split = "test[:2]" })
    assert.same({ 3 }, numbers { split = "test[3:]" })
    assert.same({}, numbers { split = "test[7:]" })
    assert.same({ 1, 2 }, numbers { split = "test[1:]", take = 2 })
    assert.same({ 9 }, numbers { split = "validation", columns = { m = "n" } })
    refused("EARG", "want a name, or rows by number", dir, { split = "test[:10%]" })
    refused("EARG", "has several splits; choose one by split = \"...\": validation, test", dir)
  end)

  it("reads single files too, by their names or their first bytes", function()
    put("rows.csv", "a\n1\n")
    put("rows", '{"n": 1}\n{"n": 2}\n')
    put("array", '[{"n": 1}]')
    assert.equal("1", data.load(dir .. "/rows.csv")[1].a)
    assert.equal(2, #data.load(dir .. "/rows"))
    assert.equal(1, #data.load(dir .. "/array"))
    refused("EARG", "the name of " .. put("x", "hello") .. " does not say its format", dir .. "/x")
    refused("EFORMAT", "it is compressed by bzip2", put("y", "BZh91AY"))
    refused("EARG", "config belongs to a directory or a name of the Hub", dir .. "/rows.csv",
      { config = "main" })
  end)

  it("says why a directory has no data", function()
    put("notes.md", "x")
    refused("ENOENT", dir .. " has no Parquet, JSON, CSV or TSV file", dir)
    put("saved/state.json", "{}")
    refused("EFORMAT", "was written by save_to_disk as Arrow streams, which are not read; convert "
      .. "it: python3 -c 'from datasets import load_from_disk; load_from_disk(\"", dir .. "/saved")
    put("set.xlsx", "PK\3\4......xl/")
    refused("EFORMAT", "holds set.xlsx, which is an Excel file (xlsx); save it as CSV", dir)
    assert(core.fs.remove_tree(dir .. "/set.xlsx"))
    put(dir:match("[^/]+$") .. ".py", "x")
    refused("ENOENT", "is made by a Python script, which is not run", dir)
  end)
end)

describe("a dataset as save_to_disk writes it", function()
  local saved = "tests/cases/saved" -- of tests/oracles/saved_datasets.py, which runs the commands

  local function advised(name, opts)
    local ok, err = pcall(data.load, name, opts)
    assert.is_false(ok)
    return tostring(err):match("convert it: (.*)$")
  end
  local function command(name, into)
    return ("python3 -c 'from datasets import load_from_disk; load_from_disk(\"%s/%s\")"
      .. ".to_parquet(\"%s.parquet\")'"):format(saved, name, into)
  end

  it("is refused with the command that converts it", function()
    assert.equal(command("one", "rows"), advised(saved .. "/one"))
    assert.equal(command("dict/train", "rows"), advised(saved .. "/dict/train"))
  end)
  it("of several splits: that of the one asked for, of train, or of the first", function()
    assert.equal(command("dict/test", "test"), advised(saved .. "/dict", { split = "test" }))
    assert.equal(command("dict/test", "test"), advised(saved .. "/dict", { split = "test[:2]" }))
    assert.equal(command("dict/train", "train"), advised(saved .. "/dict"))
    assert.equal(command("other/alpha", "alpha"), advised(saved .. "/other"))
    assert.equal(command("dict/train", "train"), advised(saved .. "/dict", { split = "none" }))
  end)
  it("by the name of its file, too", function()
    local file = saved .. "/one/data-00000-of-00001.arrow"
    local want = ("python3 -c 'from datasets import Dataset; Dataset.from_file(\"%s\").to_parquet("
      .. "\"rows.parquet\")'"):format(file)
    for _, load in ipairs { data.load, data.jsonl, rawget(data, "parquet") } do
      local _, err = pcall(load, file)
      assert.equal(want, tostring(err):match("convert it: (.*)$"))
      assert.matches("it is an Arrow stream, as save_to_disk writes it", tostring(err))
    end
  end)
  it("is quoted for the shell and for Python", function()
    local odd = require("tests.lua.tiny").path() .. "it's \"odd\""
    assert(core.fs.mkdirs(odd))
    assert(core.fs.write(odd .. "/state.json", "{}"))
    local line = advised(odd)
    core.fs.remove_tree(odd)
    assert.is_true(line:find([[it'\''s \"odd\"")]], 1, true) ~= nil)
  end)
  it("trusts no name in its list of splits", function()
    local set = require("tests.lua.tiny").path()
    assert(core.fs.mkdirs(set))
    local lists = { "{", "[1]", [[{"splits": 3}]], [[{"splits": [{}, 1, "a\u001b[2J", "../x"]}]] }
    for _, text in ipairs(lists) do
      assert(core.fs.write(set .. "/dataset_dict.json", text))
      assert.matches('/train"%)', advised(set))
    end
    core.fs.remove_tree(set)
  end)
end)
