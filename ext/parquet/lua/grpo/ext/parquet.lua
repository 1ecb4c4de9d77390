-- The extension parquet: rows in Parquet files, and files that gzip or zstd compressed.

local core = require "grpo.core"

local function library(codec)
  return { key = codec, label = codec, name = function() return core.codec_library(codec) end }
end

return {
  data_formats = { { name = "parquet", endings = { "parquet", "pq" },
    reader = function() return require "grpo.data.data_files.parquet" end } },
  decompressors = { { decompress = core.decompress } },
  libraries = { library "gzip", library "zstd" },
}
