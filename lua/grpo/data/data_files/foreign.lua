-- Files that hold rows in a format that is not read: recognised by their content, and named with
-- the way out.

local extensions = require "grpo.base.extensions"

local foreign = {}

local function pandas(reader)
  return ("convert it with pandas: %s(...).to_parquet(\"rows.parquet\")"):format(reader)
end

-- The command that converts what an expression of Python opens, with %s for the path, to Parquet.
function foreign.by_datasets(name, expression, path, into)
  local text = '"' .. path:gsub('[\\"]', "\\%0") .. '"'
  local program = ("from datasets import %s; %s.to_parquet(\"%s\")"):format(name,
    expression:format(text), into)
  return "convert it: python3 -c '" .. program:gsub("'", "'\\''") .. "'"
end

local kinds = {
  { "^PAR1", "a Parquet file", "convert it to JSON lines", "parquet" },
  { "^PARE", "an encrypted Parquet file", "write it again without encryption" },
  { "^ARROW1", "an Arrow file (Feather)", pandas("pandas.read_feather") },
  { "^\xFF\xFF\xFF\xFF", "an Arrow stream, as save_to_disk writes it", function(path)
    return foreign.by_datasets("Dataset", "Dataset.from_file(%s)", path, "rows.parquet")
  end },
  { "^FEA1", "a Feather file of version 1", pandas("pandas.read_feather") },
  { "^PK[\3\5][\4\6].*xl/", "an Excel file (xlsx)", "save it as CSV" },
  { "^PK[\3\5][\4\6]", "a zip archive", "unpack it with unzip, and name the file in it" },
  { "^\xD0\xCF\x11\xE0", "an Office file (xls)", "save it as CSV" },
  { "^\x1F\x8B", "compressed by gzip", "decompress it with gunzip" },
  { "^\x28\xB5\x2F\xFD", "compressed by zstd", "decompress it with unzstd" },
  { "^BZh[1-9]", "compressed by bzip2", "decompress it with bunzip2, or compress it with gzip" },
  { "^\xFD7zXZ%z", "compressed by xz", "decompress it with unxz, or compress it with gzip" },
  { "^\4\"M\24", "compressed by lz4", "decompress it with unlz4, or compress it with gzip" },
  { "^\2!L\24", "compressed by lz4", "decompress it with unlz4, or compress it with gzip" },
  { "^[P-_]%*M\24", "compressed by lz4", "decompress it with unlz4, or compress it with gzip" },
  { "^\xFF\6%z%zsNaPpY", "compressed by snappy", "decompress it, or compress it with gzip" },
  { "^7z\xBC\xAF", "a 7z archive", "unpack it with 7z x, and name the file in it" },
  { "^Rar!", "a rar archive", "unpack it, and name the file in it" },
  { "^SQLite format 3%z", "an SQLite database",
    "export a table: sqlite3 FILE -json 'select * from TABLE' > rows.json" },
  { "^\x89HDF", "an HDF5 file", pandas("pandas.read_hdf") },
  { "^Obj\1", "an Avro file", "convert it with pandas or fastavro to JSON lines" },
  { "^ORC", "an ORC file", pandas("pandas.read_orc") },
  { "^\x93NUMPY", "a NumPy array", "write its rows as JSON lines" },
  { "^\x80[\2-\5]", "a Python pickle, which is a program and not data",
    pandas("pandas.read_pickle") },
  { "^%%PDF", "a PDF", "extract its text first" },
  { "^\xFF\xFE", "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > rows" },
  { "^\xFE\xFF", "text in UTF-16", "convert it: iconv -f UTF-16 -t UTF-8 FILE > rows" },
  { "^version https://git%-lfs", "a pointer of Git LFS, not the file itself",
    "fetch the file with git lfs pull" },
  { "^%s*<!DOCTYPE", "a web page", "download the file itself, not the page about it" },
  { "^%s*<[hH][tT][mM][lL]", "a web page", "download the file itself, not the page about it" },
}

-- Does an extension read this format?
local function is_read(format)
  for _, row in ipairs(extensions.rows "data_formats") do
    if row.name == format then return true end
  end
  return false
end

-- Returns what data are, the way out, and the format that reads them, if one does; or nil.
-- path: of the file that holds them.
function foreign.of(text, path)
  local head = text:sub(1, 2048)
  for _, kind in ipairs(kinds) do
    if head:find(kind[1]) then
      if kind[4] and is_read(kind[4]) then
        return kind[2], "read it with grpo.data." .. kind[4], kind[4]
      end
      local way_out = kind[3]
      return kind[2], type(way_out) == "string" and way_out or way_out(path)
    end
  end
  if head:sub(258, 262) == "ustar" then
    return "a tar archive", "unpack it with tar xf, and name the files in it"
  end
end

return foreign
