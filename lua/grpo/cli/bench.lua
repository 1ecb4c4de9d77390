local core = require "grpo.core"
local errors = require "grpo.base.errors"
local decode = require "grpo.bench.decode"
local expected = require "grpo.bench.expected"
local flags = require "grpo.cli.flags"
local measure = require "grpo.bench.measure"
local show = require "grpo.bench.show"
local workloads = require "grpo.bench.workloads"

local everything = { "W1", "W2", "W3", "W4", "decode", "matrices", "kernels" }
local words = table.move(everything, 1, #everything, 1, {})
words[#words + 1] = "smoke"
local switch = { on = true, off = false, both = "both" }
local computes = { f32 = { "f32" }, bf16 = { "bf16" }, both = { "f32", "bf16" } }

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
    { name = "base", type = "choice", choices = { "f32", "bf16" },
      doc = "store the frozen weights of W3 and W4 in this type (default: as --compute)" },
    { name = "weights", type = "list", choices = decode.weights, default = decode.weights,
      doc = "choose the types of weights that decode and matrices measure" },
    { name = "runs", type = "integer", min = 1, default = 3,
      doc = "time N repetitions after one that warms up" },
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

local function options(o)
  return { runs = o.flags.runs, compute = computes[o.flags.compute], base = o.flags.base,
    sharing = switch[o.flags.sharing], reuse = switch[o.flags.reuse], weights = o.flags.weights }
end

local function machine(size)
  local version = core.version()
  local m = { kernels = version.kernels, commit = version.commit, size = size,
    threads = core.threads(), pinned = os.getenv("OPENBLAS_CORETYPE") }
  for _, row in ipairs(core.doctor()) do
    if row[1] == "cpu" then m.cpu = row[2] end
    if row[1] == "OpenBLAS kernels" then m.blas = row[2] end
  end
  return m
end

-- Measures one word of --workload; "smoke" is a little of everything.
local function measure_one(name, report, probe, how, display)
  local w, smoke = workloads.find(name), name == "smoke"
  local decoded = smoke and workloads.decode_smoke or workloads.decode
  if w then
    report.workloads[#report.workloads + 1] = measure.workload(w, probe, how)
    display("workload", report.workloads[#report.workloads])
  end
  if smoke or name == "decode" then
    report.decode = decode.measure(decoded, probe, how)
    display("decode", report.decode)
  end
  if smoke or name == "matrices" then
    report.matrices = decode.products(decoded, smoke and 0.001 or 0.3)
    display("matrices", report.matrices)
  end
  if smoke or name == "kernels" then
    report.kernels = measure.kernels(smoke and 0.001 or 0.05, smoke)
    display("kernels", report.kernels)
  end
end

function command.run(o)
  local names, how = o.flags.workload, options(o)
  if #names > 1 and table.concat(names, " "):find("smoke", 1, true) then
    errors.raise_plain("EARG", "bench: --workload smoke cannot be combined with other workloads")
  end
  local known = o.flags.check and expected.read(o.flags.check)
  if o.flags["write-expected"] then expected.check_place(o.flags["write-expected"]) end
  local function display(table_of, what)
    if not o.flags.json then show[table_of](what) end
  end
  local smoke = names[1] == "smoke"
  local m = machine(smoke and 64 or 2048)
  local function probe() return measure.rates(m.size, smoke and 0.01 or 0.2) end
  m.rates = measure.rates(m.size, smoke and 0.01 or 0.5)
  display("machine", m)
  local report = { machine = m, workloads = {} }
  for _, name in ipairs(names) do measure_one(name, report, probe, how, display) end
  if o.flags.json then core.out(core.json_encode(report) .. "\n") end
  if o.flags["write-expected"] then expected.write(o.flags["write-expected"], report) end
  return known and expected.compare(report, known) > 0 and 1 or 0
end

return command
