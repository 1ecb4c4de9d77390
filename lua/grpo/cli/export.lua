local core = require "grpo.core"
local flags = require "grpo.cli.flags"

local command = {
  name = "export",
  summary = "write a model for transformers, PEFT or llama.cpp",
  arguments = {
    { name = "RUN|MODEL", type = { "run", "model" },
      doc = "a run (its newest checkpoint), a checkpoint, an adapter or any model" },
    { name = "OUT", type = "file", doc = "the directory or file to write" },
  },
  flags = {
    { name = "format", type = "choice", choices = { "hf", "adapter", "gguf" },
      doc = "choose what to write: hf is a directory for transformers with weights, configuration, "
        .. "tokenizer, chat template and model card; adapter is the adapter alone, as a directory "
        .. "for PEFT or, if OUT ends in .gguf, as a file for llama.cpp beside its base; gguf is "
        .. "one file for llama.cpp. The default is gguf if OUT ends in .gguf, else hf" },
    { name = "merge", doc = "merge an adapter into its base model" },
    { name = "quantize", type = "choice", choices = { "nf4", "q8_0", "q4_0" },
      doc = "quantise the weights: with --format hf as nf4, the 4-bit layout of bitsandbytes; with "
        .. "--format gguf as q8_0 or q4_0" },
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
  local format = o.flags.format or target:find("%.gguf$") and "gguf" or "hf"
  if core.isatty(2) then core.err(("exporting %s ...\n"):format(path)) end
  require("grpo.models.export").write { path = path, target = target, format = format,
    merge = o.flags.merge, quantize = o.flags.quantize, dtype = o.flags.dtype,
    force = o.flags.force, base = o.flags.base }
  core.out(target .. "\n")
end

return command
