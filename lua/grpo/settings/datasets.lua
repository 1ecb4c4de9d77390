-- Datasets that a settings file describes: "train.jsonl", a list of rows, or
--   { path=, format= "jsonl" | "csv" | "text", columns= { new name = column },
--     shuffle= seed, skip=, take=, and of a text window=, prompt=, stride=, from=, to= }

local data = require "grpo.data"
local options = require "grpo.options"

local datasets = {}

local formats = { jsonl = "jsonl", csv = "csv", txt = "text" }
local of_text = { "window", "prompt", "stride", "from", "to" }
local known = { "path", "format", "columns", "shuffle", "skip", "take", table.unpack(of_text) }

-- The rows with further names for some columns.
local function renamed(dataset, columns, path, complain)
  for new, old in pairs(columns) do
    if type(new) ~= "string" or type(old) ~= "string" then
      complain(path .. ".columns", "want names: { new = \"column\" }")
    end
  end
  return dataset:map(function(row)
    local copy = {}
    for name, value in pairs(row) do copy[name] = value end
    for new, old in pairs(columns) do copy[new] = row[old] end
    return copy
  end)
end

local function whole(spec, name, path, complain)
  local n = spec[name]
  if n == nil then return nil end
  if math.type(n) ~= "integer" or n < 0 then
    complain(path .. "." .. name, "want a whole number, 0 or more")
  end
  return n
end

local function open(spec, path, complain)
  if type(spec.path) ~= "string" then complain(path .. ".path", "want the name of a file") end
  local format = spec.format or formats[spec.path:match("%.(%w+)$") or ""]
  if not options.among(format, { "jsonl", "csv", "text" }) then
    complain(path .. ".format", "want jsonl, csv or text%s", format and (", got '%s'")
      :format(tostring(format)) or (", because the name of %s does not say it"):format(spec.path))
  end
  local opts = {}
  for _, name in ipairs(of_text) do
    opts[name] = spec[name]
    if spec[name] ~= nil and format ~= "text" then
      complain(path .. "." .. name, "belongs to the format text")
    end
  end
  return data[format](spec.path, format == "text" and opts or nil)
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
  if spec.columns ~= nil and type(spec.columns) ~= "table" then
    complain(path .. ".columns", "want names: { new = \"column\" }")
  end
  if spec.columns then dataset = renamed(dataset, spec.columns, path, complain) end
  local seed = whole(spec, "shuffle", path, complain)
  if seed then dataset = dataset:shuffle(seed) end
  local skip, take = whole(spec, "skip", path, complain), whole(spec, "take", path, complain)
  if skip then dataset = dataset:skip(skip) end
  if take then dataset = dataset:take(take) end
  return dataset
end

return datasets
