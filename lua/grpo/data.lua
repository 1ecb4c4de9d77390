-- Datasets: objects with a length and numbered rows.
--
-- A dataset never stores an order: shuffling is a seeded permutation computed
-- on the fly, map is applied when a row is read, filter keeps row numbers.

local columns = require "grpo.data.data_files.columns"
local contents = require "grpo.data.data_files.contents"
local counted = require "grpo.base.counted"
local core = require "grpo.core"
local data_files = require "grpo.data.data_files"
local errors = require "grpo.base.errors"
local options = require "grpo.options"
local other_programs = require "grpo.base.other_programs"

local Dataset = { __name = "grpo.Dataset" }
local methods = {}

Dataset.__len = function(ds) return ds.n end
Dataset.__tostring = function(ds)
  return ("dataset of %s (%s)"):format(counted(ds.n, "row"), ds.name)
end

function Dataset.__index(ds, key)
  if math.type(key) ~= "integer" then
    local ours = not methods[key] and other_programs.ask("method_of_datasets", key)
    if ours then errors.raise("EARG", "a dataset has %s in place of %s", ours, key) end
    return methods[key]
  end
  if key < 1 or key > ds.n then return nil end
  return ds.get(key)
end

Dataset.__newindex = function() errors.raise("EARG", "a dataset cannot be changed; use :map") end

-- stretch: the text, or the list of its tokens, from which the rows are windows; names: a function
-- that returns the names of the columns.  Either may be nil.
local function new(name, n, get, stretch, names)
  return setmetatable({ name = name, n = n, get = get, stretch = stretch, names = names },
    Dataset)
end

local function check_function(f, where)
  if type(f) ~= "function" then
    errors.raise("EARG", "%s: got %s, want a function", where, type(f))
  end
end

local function check_count(n, where)
  if math.type(n) ~= "integer" or n < 0 then
    errors.raise("EARG", "%s: got %s, want a whole number of rows, 0 or more", where, tostring(n))
  end
end

-- f(row) is called each time a row is read.
function methods:map(f)
  check_function(f, "dataset:map")
  return new(self.name, self.n, function(i) return f(self.get(i)) end)
end

-- f(row) is called once for every row, now.
function methods:filter(f)
  check_function(f, "dataset:filter")
  local kept = {}
  for i = 1, self.n do
    if f(self.get(i)) then kept[#kept + 1] = i end
  end
  return new(self.name, #kept, function(i) return self.get(kept[i]) end, nil, self.names)
end

function methods:shuffle(seed)
  seed = seed or 0
  return new(self.name, self.n,
    function(i) return self.get(core.permute(seed, self.n, i - 1) + 1) end, nil, self.names)
end

function methods:take(n)
  check_count(n, "dataset:take")
  return new(self.name, math.min(n, self.n), self.get, nil, self.names)
end

function methods:skip(n)
  check_count(n, "dataset:skip")
  n = math.min(n, self.n)
  return new(self.name, self.n - n, function(i) return self.get(i + n) end, nil, self.names)
end

-- Returns the names of the columns, sorted where the file has no order.  If a function makes the
-- rows, the names are taken from the first row.
function methods:columns()
  if self.names then return self.names() end
  return columns.of_rows { self.n > 0 and self.get(1) or nil }
end

-- Returns two datasets: a random `fraction` of the rows, and the rest.
function methods:split(fraction, seed)
  if type(fraction) ~= "number" or fraction < 0 or fraction > 1 then
    errors.raise("EARG", "dataset:split: fraction is %s, want a number from 0 to 1",
      tostring(fraction))
  end
  local shuffled = self:shuffle(seed or 0)
  local first = math.floor(fraction * self.n + 0.5)
  return shuffled:take(first), shuffled:skip(first)
end

function methods:rows()
  local i = 0
  return function()
    i = i + 1
    if i <= self.n then return self.get(i) end
  end
end

local data = {}

-- Files of rows.  path: a name, a pattern or a list of them, each perhaps compressed by gzip or
-- zstd; opts: { columns, take }, and for JSON `field`.
for _, format in ipairs(data_files.formats) do
  data[format] = function(path, opts)
    local source = data_files.open(format, path, opts)
    return new(source.name, source.n, source.get, nil, source.columns)
  end
end

-- grpo.data.load("openai/gsm8k", { config = "main", split = "train", revision = ... }): a dataset
-- of the Hub as it lies in the cache, a directory of data files, or a file of any format.
function data.load(name, opts)
  local source = data_files.load(name, opts)
  return new(source.name, source.n, source.get, nil, source.columns)
end

local MARK_EVERY = 64 -- characters between stored positions; a text may be large

-- Returns the number n of a text's characters, and a function that returns where character i begins
-- (i = n + 1: one past the end), so that no window cuts a character.  A text that is not UTF-8 is
-- counted in bytes.
local function characters(text)
  local n = utf8.len(text)
  if not n or n == #text then return #text, function(i) return i end end
  local marks, at = { 1 }, 1
  for _ = 1, n // MARK_EVERY do
    at = utf8.offset(text, MARK_EVERY + 1, at)
    marks[#marks + 1] = at
  end
  return n, function(i)
    return utf8.offset(text, (i - 1) % MARK_EVERY + 1, marks[(i - 1) // MARK_EVERY + 1])
  end
end

-- Returns the part of a text between two fractions of its characters.
local function part_of(text, from, to)
  if from == 0 and to == 1 then return text end
  local n, start = characters(text)
  return text:sub(start(math.floor(from * n) + 1), start(math.floor(to * n) + 1) - 1)
end

-- Makes the dataset of windows; window i has the items from (i - 1) * stride + 1 on.
local function windows(path, n, opts, row, stretch)
  local stride = math.tointeger(opts.stride or opts.window)
  return new(path, math.max(0, (n - opts.window) // stride + 1), function(i)
    local first = (i - 1) * stride + 1
    return row(first, first + opts.prompt, first + opts.window)
  end, stretch)
end

-- call: the function's name, for messages; text: nil to read it from the file `name`.
local function text_windows(call, name, text, opts)
  local fraction = { type = "number", min = 0, max = 1 }
  opts = options.check(opts, {
    window = { type = "integer", default = 256, min = 2 },
    prompt = { type = "integer", default = 1, min = 1 },
    stride = { type = "integer", min = 1 },
    tokenizer = { type = "any" }, from = fraction, to = fraction,
  }, "grpo." .. call, 4)
  local from, to = opts.from or 0, opts.to or 1
  if opts.prompt >= opts.window then
    errors.raise("EARG", "grpo.%s: prompt = %d leaves nothing of window = %d", call, opts.prompt,
      opts.window)
  end
  if from >= to then
    errors.raise("EARG", "grpo.%s: from = %s and to = %s leave nothing of the text", call, from, to)
  end
  text = part_of(text or contents.text(contents.files(name, "grpo.data.text")[1]), from, to)
  local tokenizer = opts.tokenizer
  if not tokenizer then
    local n, start = characters(text)
    return windows(name, n, opts, function(first, mid, last)
      local a, b, c = start(first), start(mid), start(last)
      return { prompt = text:sub(a, b - 1), target = text:sub(b, c - 1), text = text:sub(a, c - 1) }
    end, text)
  end
  local ids = tokenizer:encode(text)
  return windows(name, #ids, opts, function(first, mid, last)
    local all = table.move(ids, first, last - 1, 1, {})
    return { prompt = table.move(ids, first, mid - 1, 1, {}),
      target = table.move(ids, mid, last - 1, 1, {}), text = tokenizer:decode(all) }
  end, ids)
end

-- Returns windows of a text file: row.prompt is the first `prompt` characters of a window,
-- row.target the rest.  With a tokenizer windows consist of tokens, and prompt and target are lists
-- of ids.  from, to: fractions of the text to use, so that one part trains and another is held out.
function data.text(path, opts)
  return text_windows("data.text", path, nil, opts)
end

-- Returns windows of a string.
function data.windows(text, opts)
  if type(text) ~= "string" then
    errors.raise("EARG", "grpo.data.windows: text is %s, want a string", type(text))
  end
  return text_windows("data.windows", "text", text, opts)
end

function data.list(rows)
  if type(rows) ~= "table" then
    errors.raise("EARG", "grpo.data.list: got %s, want a list of rows", type(rows))
  end
  local n = #rows
  if math.type(n) ~= "integer" or n < 0 then -- of its __len
    errors.raise("EARG", "grpo.data.list: the length of the list is %s, want a whole number from "
      .. "0", tostring(n))
  end
  return new("list", n, function(i) return rows[i] end)
end

-- Makes row i as f(rng, i); rng() gives numbers in [0, 1) that depend on the seed and i only.
function data.generate(f, opts)
  check_function(f, "grpo.data.generate")
  opts = options.check(opts, {
    seed = { type = "integer", default = 0 },
    n = { type = "integer", default = 1000000, min = 0, max = 4294967295 }, -- as core.rng
  }, "grpo.data.generate")
  return new("generated", opts.n, function(i)
    return f(core.rng(opts.seed, "task", 0, i, 0), i)
  end)
end

function data.is_dataset(v)
  return getmetatable(v) == Dataset
end

local readers = {}
for name in pairs(data) do
  if name ~= "inputs" and name ~= "is_dataset" then readers[#readers + 1] = name end
end
table.sort(readers)

return setmetatable(data, { __index = function(_, name)
  return other_programs.refuse("grpo.data", name, readers)
end })
