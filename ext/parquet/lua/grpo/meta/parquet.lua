---@meta grpo.data

local data = {}

---Parquet, as pyarrow and datasets write it: columns of any type, lists and structs in each other;
---rows are read when they are asked for.  Dates, times and decimals are texts, as Python prints
---them.  With columns to keep, the others are never read.  Otherwise as grpo.data.jsonl.
---@param path string|string[]
---@param opts? { columns?: table, take?: integer }
---@return grpo.Dataset
function data.parquet(path, opts) end
