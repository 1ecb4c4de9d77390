-- Tables that a run's script writes (tr:csv): logs/NAME.csv, quoted as RFC 4180 says, with a header
-- that stays.  A resume cuts them like the files of tr:append (script_logs.lua).

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local options = require "grpo.options"
local script_logs = require "grpo.loop.script_logs"

local Csv = { __name = "grpo.Csv" }
Csv.__index = Csv
Csv.__tostring = function(csv)
  return ("table logs/%s (%s)"):format(csv.file, csv.header:sub(1, -2))
end

local csv_log = {}

local function field(v, column)
  local kind = type(v)
  if v == nil then return "" end
  if kind == "boolean" or math.type(v) == "integer" then return tostring(v) end
  if kind == "number" then
    if v ~= v then return "nan" end
    if v - v ~= 0 then return v > 0 and "inf" or "-inf" end
    return core.json_encode(v) -- reads back as the same number
  end
  if kind ~= "string" then
    errors.raise("EARG", "csv:row: %s is a %s, want a string, a number, a boolean or nil", column,
      kind)
  end
  if v ~= "" and not v:find('[",\r\n]') then return v end
  return '"' .. v:gsub('"', '""') .. '"'
end

local function line(values, columns)
  local fields = {}
  for i, column in ipairs(columns) do fields[i] = field(values[i], column) end
  return table.concat(fields, ",") .. "\n"
end

local function check_columns(columns)
  if type(columns) ~= "table" or #columns == 0 then
    errors.raise("EARG", "tr:csv: got %s for the columns, want a list of names",
      type(columns) == "table" and "an empty list" or type(columns))
  end
  local seen = {}
  for i, name in ipairs(columns) do
    if type(name) ~= "string" or name == "" or name:find("[\r\n]") then
      errors.raise("EARG", "tr:csv: column %d is %s, want a name on one line", i,
        type(name) == "string" and ("%q"):format(name) or "a " .. type(name))
    end
    if seen[name] then errors.raise("EARG", "tr:csv: two columns are named '%s'", name) end
    seen[name] = true
  end
end

-- A resume calls hooks.on_reload again, so that a text would be in the file twice.
function csv_log.refuse_in_reload(tr, call)
  if tr.in_hook ~= "hooks.on_reload" then return end
  errors.raise("EARG", "%s: nothing can be added to a file in hooks.on_reload, because a resume "
    .. "calls it again; add it in on_step", call)
end

-- Refuses columns that are not those of the table's header.
local function check_header(file, header, columns)
  check_columns(columns)
  local asked = line(columns, columns)
  if header and header ~= asked then
    errors.raise("EARG", "tr:csv: logs/%s has the columns %s, but the script says %s; a file keeps "
      .. "its columns, so give the new ones another name", file, (header:gsub("%s+$", "")),
      (asked:gsub("%s+$", "")))
  end
  return asked
end

-- Opens the table `name` of a trainer, or finds it again.
function csv_log.open(tr, name, columns)
  local known = tr.tables[name]
  if known then
    check_header(known.file, known.header, columns)
    return known
  end
  local run, file = tr.directory, name .. ".csv"
  if not (run and run.script_logs) then run = nil end
  local found = run and script_logs.first_line(run, file)
  local header = check_header(file, found, columns)
  if run and not found then script_logs.append(run, file, header) end
  local csv = setmetatable({ tr = tr, run = run, file = file, header = header,
    columns = table.move(columns, 1, #columns, 1, {}) }, Csv)
  tr.tables[name] = csv
  return csv
end

-- { column = value, ... } as a list in the order of the columns.
local function by_name(csv, row)
  local values, known = {}, {}
  for i, column in ipairs(csv.columns) do values[i], known[column] = row[column], true end
  for key in pairs(row) do
    if not known[key] then
      errors.raise("EARG", "csv:row: logs/%s has no column '%s'%s", csv.file, tostring(key),
        options.hint(key, csv.columns))
    end
  end
  return values
end

-- Adds a row: values by column, where one that is missing is empty, or a list of all of them.
function Csv:row(row)
  if type(row) ~= "table" then
    errors.raise("EARG", "csv:row: got a %s, want a table of values by column", type(row))
  end
  if row[1] == nil then
    row = by_name(self, row)
  elseif #row ~= #self.columns then
    errors.raise("EARG", "csv:row: %d values, but logs/%s has %d columns (%s)", #row, self.file,
      #self.columns, (self.header:gsub("%s+$", "")))
  end
  local text = line(row, self.columns)
  csv_log.refuse_in_reload(self.tr, "csv:row")
  if self.run then script_logs.append(self.run, self.file, text) end
  return self
end

return csv_log
