-- `grpo bench`.  What measures is in a program of its own, which `make bench` builds from bench/
-- beside this one.  This program checks the flags and hands them over.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local flags = require "grpo.commands.flags"

local everything = { "W1", "W2", "W3", "W4", "decode", "matrices", "kernels" }
local weights = { "f32", "bf16", "int8", "nf4" }
local words = table.move(everything, 1, #everything, 1, {})
words[#words + 1] = "smoke"

local command = {
  name = "bench",
  summary = "measure the speed of this machine on fixed workloads",
  arguments = {},
  flags = {
    { name = "workload", type = "list", choices = words, default = everything,
      doc = "choose what to measure" },
    { name = "compute", type = "choice", choices = { "f32", "bf16", "both" }, default = "both",
      doc = "choose how products with weights are computed" },
    { name = "sharing", type = "choice", choices = { "on", "off", "both" }, default = "both",
      doc = "choose whether a group computes its prompt once (on), or once for each completion "
        .. "(off), as other trainers do; the difference is what sharing gains" },
    { name = "reuse", type = "choice", choices = { "on", "off", "both" }, default = "both",
      doc = "choose whether the activations of generation are reused by the training forward" },
    { name = "frozen", type = "choice", choices = { "f32", "bf16" },
      instead_of = { "base" },
      doc = "store the frozen weights of W3 and W4 in this type (default: as --compute)" },
    { name = "weights", type = "list", choices = weights, default = weights,
      doc = "choose the types of weights that decode and matrices measure" },
    { name = "runs", type = "integer", min = 1, default = 3,
      doc = "time N repetitions after one that warms up" },
    { name = "ranks", type = "integer", min = 1, max = 4096,
      doc = "measure only the rates of this machine, and show what steps of three models would "
        .. "cost on 1, 2, 4 ... N processes of mpirun or srun, each on a machine like it" },
    flags.threads,
    { name = "check", type = "file",
      doc = "compare the ratio of the best repetition to the floor with the ratio in FILE; exit "
        .. "with 1 if it is worse by more than the tolerance in FILE. If other processes used more "
        .. "than 0.1 core, the core time of our threads is compared" },
    { name = "write-expected", type = "file", doc = "write such a file" },
    flags.json,
  },
  about = {
    "First measures the rates of this machine: a product of 2048^3 in f32 (the faster of our "
      .. "kernel and OpenBLAS) and in bf16, and reading memory. Then times GRPO steps of models "
      .. "with random weights, phase by phase, and shows the medians beside the floor. The floor "
      .. "is the time of the same arithmetic at the best measured rates, which are measured again "
      .. "before and after each step. On a shared machine no program sustains the best rate, so "
      .. "the ratio to the median rate is shown too. Nothing else should run meanwhile.",
    {
      { "W1", "GPT-2 with 6 layers of 384 and 65 characters: 32 prompts of 1 token, 4 completions "
        .. "of 70 each; full training" },
      { "W2", "Llama with 4 layers of 256 and 256 bytes: 8 prompts of 96, 8 completions of 96 "
        .. "each; full training" },
      { "W3", "the shape of SmolLM2-135M: 2 prompts of 128, 8 completions of 64 each; LoRA of "
        .. "rank 8" },
      { "W4", "the shape of Qwen2.5-0.5B: 1 prompt of 160, 8 completions of 32; LoRA of rank 8" },
      { "decode", "tokens per second of 1, 8, 16 and 32 sequences with 123 million weights" },
      { "matrices", "the products of decode's matrices with as many rows, beside OpenBLAS" },
      { "kernels", "the products of W1 to W4, beside OpenBLAS" },
      { "smoke", "a little of everything on tiny models, for tests; it measures no speed" },
    },
  },
}

local function quoted(word)
  return "'" .. word:gsub("'", "'\\''") .. "'"
end

-- The program with the benchmarks: beside the build's own, in bench/.
local function measuring_program()
  local at = core.binary()
  local path = at and at:match "^(.*/)[^/]*$" .. "bench/grpo-bench"
  if path and core.fs.exists(path) then return path end
  errors.raise_plain("EARG",
    "bench is not part of this program; run 'make bench' in the source tree and repeat it there")
end

function command.run(o)
  if package.preload["grpo.bench.rates"] then return require "grpo.bench".run(o) end
  local line = { quoted(measuring_program()) }
  for _, word in ipairs(arg) do line[#line + 1] = quoted(word) end
  local _, how, status = os.execute(table.concat(line, " "))
  return how == "signal" and 128 + status or status
end

return command
