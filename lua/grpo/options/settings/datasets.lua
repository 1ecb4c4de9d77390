-- Datasets that a settings file describes: "train.jsonl", a list of rows, or
--   { path=, format= a name of `formats`, columns= { "column", new = "column" }, field=,
--     config=, split=, revision= of a dataset of the Hub or a directory,
--     shuffle= seed, skip=, take=, and of a text window=, prompt=, stride=, from=, to= }

local columns = require "grpo.data.data_files.columns"
local core = require "grpo.core"
local data = require "grpo.data"
local data_files = require "grpo.data.data_files"
local options = require "grpo.options"

local datasets = {}

local formats = table.move(data_files.formats, 1, #data_files.formats, 1, {})
formats[#formats + 1] = "text"

local of_text = { "window", "prompt", "stride", "from", "to" }
local of_dataset = { "config", "split", "revision" }
local known = { "path", "format", "columns", "field", "shuffle", "skip", "take", "config", "split",
  "revision", table.unpack(of_text) }

-- The rows with the columns that are asked for, perhaps under further names.
local function with_columns(dataset, asked, path, complain)
  local where = path .. ".columns"
  local function refuse(format, ...) complain(where, format, ...) end
  if type(asked) ~= "table" then refuse("want names: { \"column\", new = \"column\" }") end
  local kept, renamed = columns.parse(asked, refuse)
  if #dataset > 0 then
    columns.check(kept, renamed, dataset:columns(), dataset.name, refuse)
  end
  return dataset:map(columns.mapping(kept, renamed))
end

local function whole(spec, name, path, complain)
  local n = spec[name]
  if n == nil then return nil end
  local number = type(n) == "number" and math.tointeger(n)
  if not number or number < 0 then
    complain(path .. "." .. name, "want a whole number, 0 or more")
  end
  return number
end

-- Is `path` the name of a file, or a list of such names?
local function check_path(value, path, complain)
  local list = type(value) == "table" and #value > 0 and value or { value }
  for _, name in ipairs(list) do
    if type(name) ~= "string" then complain(path, "want the name of a file, or a list of names") end
  end
  if #list == 0 then complain(path, "want the name of a file, or a list of names") end
  return list[1]
end

-- Does the description name a directory, or a dataset of the Hub: "openai/gsm8k"?
local function is_dataset(spec, first)
  if type(spec.path) ~= "string" or spec.format then return false end
  if core.fs.exists(first) then return core.fs.isdir(first) end
  return not data_files.format_of(first) and first:find("^[%w][%w._-]*/[%w._@-]+$") ~= nil
end

local function format_of(spec, path, complain)
  local first = check_path(spec.path, path .. ".path", complain)
  if is_dataset(spec, first) then return "load" end
  local format = spec.format or data_files.format_of(first)
  if not options.among(format, formats) then
    complain(path .. ".format", "want %s or %s%s", table.concat(formats, ", ", 1, #formats - 1),
      formats[#formats], format and (", got '%s'"):format(tostring(format))
      or (", because the name of %s does not say it"):format(first))
  end
  return format
end

-- Complains of an option that another format has.
local function check_owner(spec, names, format, owner, path, complain)
  for _, name in ipairs(names) do
    if spec[name] ~= nil and format ~= owner then
      complain(path .. "." .. name, "belongs to the format %s", owner)
    end
  end
end

local function open(spec, path, complain)
  local format = format_of(spec, path, complain)
  check_owner(spec, of_text, format, "text", path, complain)
  check_owner(spec, { "field" }, format, "json", path, complain)
  for _, name in ipairs(of_dataset) do
    if spec[name] ~= nil and (format ~= "load" or type(spec[name]) ~= "string") then
      complain(path .. "." .. name, format == "load" and "want a text"
        or "belongs to a directory or a dataset of the Hub")
    end
  end
  if format == "load" then
    return data.load(spec.path, { config = spec.config, split = spec.split,
      revision = spec.revision })
  end
  if format ~= "text" then return data[format](spec.path, { field = spec.field }) end
  local opts = {}
  for _, name in ipairs(of_text) do opts[name] = spec[name] end
  return data.text(spec.path, opts)
end

-- spec: as above; path: "data.train", for messages; complain(path, format, ...) raises.
function datasets.of(spec, path, complain)
  if type(spec) == "string" then spec = { path = spec } end
  if type(spec) ~= "table" then complain(path, "want a file, its description or a list of rows") end
  if #spec > 0 then
    for i, row in ipairs(spec) do
      if type(row) ~= "table" then
        complain(path, "row %d is a %s, want an object", i, type(row))
      end
    end
    return data.list(spec)
  end
  options.check_names(spec, known, path, complain)
  local dataset = open(spec, path, complain)
  if spec.columns ~= nil then
    dataset = with_columns(dataset, spec.columns, path, complain)
  end
  local seed = whole(spec, "shuffle", path, complain)
  if seed then dataset = dataset:shuffle(seed) end
  local skip, take = whole(spec, "skip", path, complain), whole(spec, "take", path, complain)
  if skip then dataset = dataset:skip(skip) end
  if take then
    data_files.note_take(path, take, #dataset)
    dataset = dataset:take(take)
  end
  return dataset
end

return datasets
