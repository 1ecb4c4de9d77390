-- Any file as a dataset: refused with one line that names file and line, or rows that can be
-- written and read again.
local core = require "grpo.core"
local data = require "grpo.data"
local expect = require "expect"

local path = expect.directory() .. "/rows"

local function quoted(names, row)
  local fields = {}
  for i, name in ipairs(names) do fields[i] = '"' .. row[name]:gsub('"', '""') .. '"' end
  return table.concat(fields, ",") .. "\r\n"
end

-- A decompression bomb is refused with a code of its own.
local function refused(err)
  expect.refused(err, path .. ":", err.code == "ELIMIT" and "ELIMIT" or "EFORMAT")
end

local function check_csv()
  local ok, rows = pcall(data.csv, path)
  if not ok then return refused(rows) end
  if #rows == 0 then return end
  local names, texts, before = {}, {}, {}
  for name in pairs(rows[1]) do names[#names + 1] = name end
  for i = 1, #rows do before[i], texts[i] = rows[i], quoted(names, rows[i]) end
  local header = {}
  for _, name in ipairs(names) do header[name] = name end
  expect.put(path, quoted(names, header) .. table.concat(texts))
  rows = data.csv(path)
  expect.equal(#rows, #before, "rows")
  for i = 1, #rows do
    for _, name in ipairs(names) do expect.equal(rows[i][name], before[i][name], "a field") end
  end
end

-- format: "jsonl" or "json"
local function check_json(format)
  local ok, rows = pcall(data[format], path)
  if not ok then return refused(rows) end
  local texts = {}
  for i = 1, #rows do texts[i] = core.json_encode(rows[i]) end
  expect.put(path, table.concat(texts, "\n"))
  local again = data.jsonl(path)
  expect.equal(#again, #rows, "rows")
  for i = 1, #rows do expect.equal(core.json_encode(again[i]), texts[i], "a row") end
end

local function check_text(input)
  local window = 2 + #input % 7
  local ok, rows = pcall(data.text, path, { window = window, prompt = 1 })
  if not ok then return refused(rows) end
  for i = 1, #rows do
    local row = rows[i]
    expect.equal(row.text, row.prompt .. row.target, "a window")
    expect.truth(row.prompt ~= "" and row.target ~= "", "an empty part of a window")
  end
  data.text(path, { window = window, from = 0.25, to = 0.75 })
end

return function(input)
  expect.put(path, input)
  check_text(input)
  check_csv()
  expect.put(path, input)
  pcall(data.tsv, path)
  check_json "jsonl"
  expect.put(path, input)
  check_json "json"
end
