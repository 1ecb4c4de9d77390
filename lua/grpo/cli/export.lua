local core = require "grpo.core"
local flags = require "grpo.cli.flags"

local command = {
  usage = "export RUN|MODEL OUT [--format hf|adapter|gguf] [--merge] [--quantize nf4|q8_0|q4_0] [--dtype f32|bf16|f16] "
    .. "[--base DIR] [--force] [--threads N]",
  words = 2,
  summary = "write a model for transformers, PEFT or llama.cpp",
  flags = { format = "value", merge = "flag", quantize = "value", dtype = "value", base = "value", force = "flag",
    threads = "value" },
  help = [[
Writes the model of a RUN (its newest checkpoint), a checkpoint, an adapter or any MODEL to OUT, complete or not at all.

  --format hf         a directory that transformers loads as it is: weights, configuration, tokenizer, chat template,
                      model card (the default)
  --format adapter    the adapter alone, as PEFT has it
  --format gguf       one file for llama.cpp (the default when OUT ends in .gguf)
  --merge             an adapter merged into its base model
  --dtype D           f32, bf16 or f16 (default: what the base model has)
  --quantize Q        hf: nf4, the 4-bit layout of bitsandbytes; gguf: q8_0 or q4_0
  --base DIR          the model that an adapter belongs to, in place of the one it names
  --force             replace OUT, a file or a directory with a model and nothing else in it

Prints OUT.]],
}

local function choice(o, name, list, default)
  local value = o.flags[name] or default
  if value == nil then return nil end
  for _, one in ipairs(list) do
    if value == one then return value end
  end
  error(core.error("EARG", ("--%s: got '%s', want one of %s"):format(name, value, table.concat(list, ", "))), 0)
end

function command.run(o)
  local path, target = o.words[1], o.words[2]
  if not target then
    error(core.error("EARG", "export: want a model and where to write it; usage: grpo " .. command.usage), 0)
  end
  local format = choice(o, "format", { "hf", "adapter", "gguf" }, target:find("%.gguf$") and "gguf" or "hf")
  local quantize = choice(o, "quantize", { "nf4", "int8", "q8_0", "q4_0" })
  local dtype = choice(o, "dtype", { "f32", "bf16", "f16" })
  flags.threads(o)
  if core.isatty(2) then core.err(("exporting %s ...\n"):format(path)) end
  require("grpo.models.export").write { path = path, target = target, format = format, merge = o.flags.merge,
    quantize = quantize, dtype = dtype, force = o.flags.force, base = o.flags.base }
  core.out(target .. "\n")
end

return command
