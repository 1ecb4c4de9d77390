-- Rows from files in the formats that are read.  A reader of a format is a table:
--   name                              for messages: "JSON lines"
--   read(rows, path, most, opts)      appends rows until there are `most`; or
--   open(path, opts)                  returns { n, get(i), columns }, rows that are read when asked

local contents = require "grpo.data.data_files.contents"
local core = require "grpo.core"
local delimited = require "grpo.data.data_files.delimited"
local errors = require "grpo.base.errors"
local columns = require "grpo.data.data_files.columns"
local extensions = require "grpo.base.extensions"
local load = require "grpo.data.data_files.load"
local options = require "grpo.options"

local data_files = {}

local readers = {
  jsonl = require "grpo.data.data_files.json_lines",
  json = require "grpo.data.data_files.json_array",
  csv = delimited.reader("CSV", ","),
  tsv = delimited.reader("TSV", "\t"),
}

local endings = { jsonl = "jsonl", ndjson = "jsonl", json = "json", csv = "csv", tsv = "tsv",
  tab = "tsv", txt = "text", text = "text" }

-- The names of all formats, in the order in which messages name them.
data_files.formats = { "jsonl", "json", "csv", "tsv" }

for _, row in ipairs(extensions.rows "data_formats") do
  readers[row.name] = row.reader()
  for _, ending in ipairs(row.endings) do endings[ending] = row.name end
  table.insert(data_files.formats, row.name)
end

-- Endings of compressed files.  Those that are not read are named when the file is.
local compressed = { gz = true, zst = true, lz4 = true, bz2 = true, xz = true }

-- The format that a file's name says, or nil; name.csv.gz is CSV.
function data_files.format_of(path)
  local name = path:lower()
  while compressed[name:match("%.(%w+)$")] do name = name:gsub("%.%w+$", "") end
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

-- The rows from + 1 to `to` of a source.
local function sliced(source, from, to)
  local get, n = source.get, source.n
  source.n = math.max(0, math.min(to or n, n) - from)
  if from > 0 then source.get = function(i) return get(i + from) end end
end

local function open(where, format, names, opts, from, to)
  local files = contents.files(names, where)
  if opts.field and format ~= "json" then
    errors.raise("EARG", "%s: field belongs to grpo.data.json", where)
  end
  local reader = readers[format]
  local take = opts.take
  if from then opts.take = nil end
  local source = (reader.open and of_parts or of_rows)(reader, files, opts)
  if from then
    sliced(source, from, to)
    source.n, opts.take = math.min(source.n, take or source.n), take
  end
  source.name = #files == 1 and files[1] or ("%s and %d more"):format(files[1], #files - 1)
  data_files.note_take(source.name, take, source.n)
  if opts.columns then
    with_columns(source, opts.columns, source.name, function(format_, ...)
      errors.raise("EARG", "%s: columns: %s", where, format_:format(...))
    end)
  end
  return source
end

-- Opens files.  format: a key of `readers`; names: a path, a pattern, or a list of these.
-- Returns { name, n, get, columns }.
function data_files.open(format, names, opts)
  local where = "grpo.data." .. format
  return open(where, format, names, options.check(opts, spec, where, 4))
end

local load_spec = { config = { type = "string" }, split = { type = "string" },
  revision = { type = "string" } }
for name, row in next, spec do load_spec[name] = row end

-- A dataset of the Hub, a directory of data files, or files.  Returns the same.
function data_files.load(name, opts)
  opts = options.check(opts, load_spec, "grpo.data.load", 4)
  if type(name) ~= "string" and type(name) ~= "table" then
    errors.raise("EARG", "grpo.data.load: got %s, want the name of a dataset or a file", type(name))
  end
  local format, files, shown, from, to = load.resolve(name, opts, data_files.format_of)
  if format == "text" then
    errors.raise("EARG", "grpo.data.load: %s is a text; read it with grpo.data.text",
      tostring(name))
  end
  local source = open("grpo.data.load", format, files, opts,
    (from > 0 or to) and from or nil, to)
  source.name = shown or source.name
  return source
end

return data_files
