-- Rows from files in the formats that are read.  A reader of a format is a table:
--   name                              for messages: "JSON lines"
--   read(rows, path, most, opts)      appends rows until there are `most`; or
--   open(path, opts)                  returns { n, get(i), columns }, rows that are read when asked

local contents = require "grpo.data_files.contents"
local core = require "grpo.core"
local delimited = require "grpo.data_files.delimited"
local errors = require "grpo.base.errors"
local columns = require "grpo.data_files.columns"
local options = require "grpo.options"

local data_files = { inputs = contents.read }

local readers = {
  jsonl = require "grpo.data_files.json_lines",
  json = require "grpo.data_files.json_array",
  csv = delimited.reader("CSV", ","),
  tsv = delimited.reader("TSV", "\t"),
  parquet = require "grpo.data_files.parquet",
}

local endings = { jsonl = "jsonl", ndjson = "jsonl", json = "json", csv = "csv", tsv = "tsv",
  tab = "tsv", txt = "text", text = "text", parquet = "parquet", pq = "parquet" }

-- The format that a file's name says, or nil; name.csv.gz is CSV.
function data_files.format_of(path)
  local name = path:lower():gsub("%.gz$", ""):gsub("%.zst$", "")
  return endings[name:match("%.(%w+)$") or ""]
end

local spec = {
  columns = { type = "table" },
  take = { type = "integer", min = 0 },
  field = { type = "string" },
}

-- Says so when there are fewer rows than were asked for.
function data_files.note_take(where, take, n)
  if take and n < take then
    core.notice(("note: %s: take = %d, but there are %d rows only"):format(where, take, n))
  end
end

-- Joins sources, each { n, get, columns }, to one.
local function joined(parts)
  if #parts == 1 then return parts[1] end
  local ends, n = {}, 0
  for i, part in ipairs(parts) do
    n = n + part.n
    ends[i] = n
  end
  return { n = n, columns = parts[1].columns, get = function(i)
    local low, high = 1, #ends
    while low < high do
      local mid = (low + high) // 2
      if i <= ends[mid] then high = mid else low = mid + 1 end
    end
    return parts[low].get(i - (ends[low - 1] or 0))
  end }
end

local function of_rows(reader, files, opts)
  local rows, most = {}, opts.take or math.maxinteger
  for _, path in ipairs(files) do
    if #rows >= most then break end
    reader.read(rows, path, most, opts)
  end
  return { n = #rows, get = function(i) return rows[i] end,
    columns = function() return columns.of_rows(rows) end }
end

local function of_parts(reader, files, opts)
  local parts = {}
  for i, path in ipairs(files) do parts[i] = reader.open(path, opts) end
  local source = joined(parts)
  if opts.take then source.n = math.min(source.n, opts.take) end
  return source
end

-- The rows with the columns that were asked for.
local function with_columns(source, asked, name, complain)
  local kept, renamed = columns.parse(asked, complain)
  if source.n > 0 then columns.check(kept, renamed, source.columns(), name, complain) end
  local map, get = columns.mapping(kept, renamed), source.get
  source.get = function(i) return map(get(i)) end
  source.columns = nil
end

-- Opens files.  format: a key of `readers`; names: a path, a pattern, or a list of these.
-- Returns { name, n, get, columns }.
function data_files.open(format, names, opts)
  local where = "grpo.data." .. format
  local files = contents.files(names, where)
  opts = options.check(opts, spec, where, 4)
  if opts.field and format ~= "json" then
    errors.raise("EARG", "%s: field belongs to grpo.data.json", where)
  end
  local reader = readers[format]
  local source = (reader.open and of_parts or of_rows)(reader, files, opts)
  source.name = #files == 1 and files[1] or ("%s and %d more"):format(files[1], #files - 1)
  data_files.note_take(source.name, opts.take, source.n)
  if opts.columns then
    with_columns(source, opts.columns, source.name, function(format_, ...)
      errors.raise("EARG", "%s: columns: %s", where, format_:format(...))
    end)
  end
  return source
end

return data_files
