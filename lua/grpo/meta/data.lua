---@meta grpo.data
-- grpo.data and the datasets that it makes.

---@class grpo.data
local data = {}

---JSON lines: one object a line.  Blank lines are skipped; a bad line is an error that names its
---number.  path: a file, a pattern (data/*.jsonl) or a list of these; files may be compressed by
---gzip or zstd.  columns: the columns to keep, and further names for some, { "question", answer =
---"solution" }; if it has further names only, all columns are kept.  take: the most rows.
---@param path string|string[]
---@param opts? { columns?: table, take?: integer }
---@return grpo.Dataset
function data.jsonl(path, opts) end

---One JSON array of objects, or an object that has it in the field `field`; a file of JSON lines
---too.  Otherwise as grpo.data.jsonl.
---@param path string|string[]
---@param opts? { columns?: table, take?: integer, field?: string }
---@return grpo.Dataset
function data.json(path, opts) end

---CSV (RFC 4180): the first record names the columns; values are strings.  Otherwise as
---grpo.data.jsonl.
---@param path string|string[]
---@param opts? { columns?: table, take?: integer }
---@return grpo.Dataset
function data.csv(path, opts) end

---Tabs separate the fields; otherwise as grpo.data.csv.
---@param path string|string[]
---@param opts? { columns?: table, take?: integer }
---@return grpo.Dataset
function data.tsv(path, opts) end

---A split of a dataset: of the Hub, as it lies in the cache (`grpo pull --dataset NAME`), or of a
---directory, whose files are found as the datasets library finds them; or a file of any format but
---text.  split: "train", or rows by number, "train[100:200]".  Otherwise as grpo.data.jsonl.
---@param name string|string[] "openai/gsm8k", a directory, a file, a pattern, a list of files
---@param opts? { config?: string, split?: string, revision?: string, columns?: table, take?: integer, field?: string }
---@return grpo.Dataset
function data.load(name, opts) end

---Windows of a text file: row.prompt is the first `prompt` characters of a window, row.target the
---rest, row.text all of it.  With a tokenizer windows consist of tokens, and row.prompt and
---row.target are lists of ids.  from, to: the fractions of the text's characters between which
---windows are taken, so that one part trains and another is held out.
---@param path string
---@param opts? { window?: integer, prompt?: integer, stride?: integer, tokenizer?: grpo.Tokenizer, from?: number, to?: number } default 256, 1, window, none, 0, 1
---@return grpo.Dataset
function data.text(path, opts) end

---Windows of a string.
---@param text string
---@param opts? { window?: integer, prompt?: integer, stride?: integer, tokenizer?: grpo.Tokenizer, from?: number, to?: number }
---@return grpo.Dataset
function data.windows(text, opts) end

---@param rows table[]
---@return grpo.Dataset
function data.list(rows) end

---Row i is f(rng, i): rng() gives numbers in [0, 1) that depend on the seed and i only.
---@param f fun(rng: (fun(): number), i: integer): table
---@param opts? { seed?: integer, n?: integer } default 0, 1000000
---@return grpo.Dataset
function data.generate(f, opts) end

---@param v any
---@return boolean
function data.is_dataset(v) end

---Rows by number.  Never stores an order or a copy: shuffling is computed, map runs when a row is
---read.
---@class grpo.Dataset
---@field [integer] table
---@operator len: integer
local Dataset = {}

---@param f fun(row: table): any called each time a row is read
---@return grpo.Dataset
function Dataset:map(f) end

---@param f fun(row: table): boolean called once for every row, now
---@return grpo.Dataset
function Dataset:filter(f) end

---@param seed? integer default 0
---@return grpo.Dataset
function Dataset:shuffle(seed) end

---The first n rows.
---@param n integer
---@return grpo.Dataset
function Dataset:take(n) end

---All but the first n rows.
---@param n integer
---@return grpo.Dataset
function Dataset:skip(n) end

---The names of the columns.
---@return string[]
function Dataset:columns() end

---A random `fraction` of the rows, and the rest.
---@param fraction number 0 to 1
---@param seed? integer default 0
---@return grpo.Dataset first
---@return grpo.Dataset rest
function Dataset:split(fraction, seed) end

---for row in ds:rows() do ... end
---@return fun(): table|nil
function Dataset:rows() end

return data
