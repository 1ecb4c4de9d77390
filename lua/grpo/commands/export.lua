local core = require "grpo.core"
local extensions = require "grpo.base.extensions"
local flags = require "grpo.commands.flags"

-- ---- what extensions add to the flags ---------------------------------------------------------

local formats = { choices = { "hf", "adapter" }, quantize = { "nf4" },
  adapter_doc = "", doc = "", default_doc = "", quantize_doc = "" }

for _, row in ipairs(extensions.rows "model_formats") do
  table.insert(formats.choices, row.name)
  table.move(row.quantize, 1, #row.quantize, #formats.quantize + 1, formats.quantize)
  formats.adapter_doc = formats.adapter_doc
    .. (" or, if OUT ends in %s, as %s"):format(row.ending, row.adapter)
  formats.doc = formats.doc .. ("; %s is %s"):format(row.name, row.is)
  formats.default_doc = formats.default_doc .. ("%s if OUT ends in %s, else "):format(row.name,
    row.ending)
  formats.quantize_doc = formats.quantize_doc .. ("; with --format %s as %s"):format(row.name,
    table.concat(row.quantize, " or "))
end

local command = {
  name = "export",
  summary = "write a model for transformers, PEFT or llama.cpp",
  arguments = {
    { name = "RUN|MODEL", type = { "run", "model" },
      doc = "a run (its newest checkpoint), a checkpoint, an adapter or any model" },
    { name = "OUT", type = "file", doc = "the directory or file to write" },
  },
  flags = {
    { name = "format", type = "choice", choices = formats.choices,
      doc = "choose what to write: hf is a directory for transformers with weights, configuration, "
        .. "tokenizer, chat template and model card; adapter is the adapter alone, as a directory "
        .. "for PEFT" .. formats.adapter_doc .. formats.doc .. ". The default is "
        .. formats.default_doc .. "hf" },
    { name = "merge", doc = "merge an adapter into its base model" },
    { name = "quantize", type = "choice", choices = formats.quantize,
      doc = "quantise the weights: with --format hf as nf4, the 4-bit layout of bitsandbytes"
        .. formats.quantize_doc },
    { name = "dtype", type = "choice", choices = { "f32", "bf16", "f16" },
      doc = "store the weights in this type (default: the type of the base model)" },
    flags.base,
    { name = "force",
      doc = "replace OUT if it is a file, or a directory with a model and nothing else" },
    flags.memory, flags.threads,
  },
  about = { "Writes a model to OUT, either completely or not at all, and prints OUT." },
}

function command.run(o)
  local path, target = o.words[1], o.words[2]
  if core.isatty(2) then core.err(("exporting %s ...\n"):format(path)) end
  require("grpo.runs.export").write { path = path, target = target, format = o.flags.format,
    merge = o.flags.merge, quantize = o.flags.quantize, dtype = o.flags.dtype,
    force = o.flags.force, base = o.flags.base }
  core.out(target .. "\n")
end

return command
