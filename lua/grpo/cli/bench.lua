local core = require "grpo.core"
local decode = require "grpo.bench.decode"
local expected = require "grpo.bench.expected"
local flags = require "grpo.cli.flags"
local measure = require "grpo.bench.measure"
local show = require "grpo.bench.show"
local workloads = require "grpo.bench.workloads"

local command = {
  usage = "bench [--workload W1,W2,W3,W4,decode,matrices,kernels|smoke] [--compute f32|bf16|both] "
    .. "[--sharing on|off|both] [--reuse on|off|both] [--base f32|bf16] [--weights f32,bf16,int8,nf4] [--runs N] "
    .. "[--threads N] [--check FILE] [--write-expected FILE] [--json]",
  words = 0,
  summary = "this machine's speed on fixed workloads, as a table",
  flags = { workload = "value", compute = "value", sharing = "value", reuse = "value", base = "value",
    weights = "value", runs = "value", threads = "value", check = "value", ["write-expected"] = "value",
    json = "flag" },
  help = [[
First the rates of this machine: the product of 2048^3 in f32 (the better of our kernel and OpenBLAS) and in
bf16, and reading memory.  Then GRPO steps of models with random weights, by phase, medians of N runs (3) after
one to warm up, beside the floor: the same arithmetic, with the prompt computed once a group, at the better of the
rates that are measured again before and after each step, each the best of some repetitions.  Where neighbours take
turns at the cores no program keeps that up: "at the median rates" is of the median repetitions.

  W1  GPT-2 of 6 layers of 384, 65 characters: 32 prompts of 1 x 4 completions of 70; full training
  W2  Llama of 4 layers of 256, 256 bytes: 8 prompts of 96 x 8 completions of 96; full training
  W3  SmolLM2-135M's shape: 2 prompts of 128 x 8 completions of 64; LoRA of rank 8
  W4  Qwen2.5-0.5B's shape: 1 prompt of 160 x 8 completions of 32; LoRA of rank 8
  decode    tokens a second of 1, 8, 16 and 32 sequences, 123 million weights, kept as each of --weights
  matrices  the products of its matrices by as many rows, against OpenBLAS
  kernels   products of W1 to W4 against OpenBLAS
  smoke     a little of everything on next to nothing, for tests; no speed can be read from it

--compute: how products are computed.  --sharing off computes the prompt for each completion again, as other
trainers do: what is lost is the algorithm's part, the rest the engine's.  --reuse on keeps the activations of
generation as the policy's forward.  --base: how W3 and W4 keep their frozen weights; as --compute if not given.
--check FILE compares the ratio of the best run to the floor with the one in FILE and exits with 1 where it is
worse than FILE's tolerance; where other processes took more than 0.1 core, the ratio by core time (what our
threads used, over their number).  --write-expected FILE writes such a file.  Nothing else should be running.]],
}

local everything = { "W1", "W2", "W3", "W4", "decode", "matrices", "kernels" }

local function misuse(format, ...)
  error(core.error("EARG", format:format(...)), 0)
end

-- The words of --NAME between commas, each one of `known`; also: what else may be said alone.
local function list_of(o, name, known, default, also)
  local list = {}
  for word in (o.flags[name] or default):gmatch("[^,]*") do
    local found = false
    for _, k in ipairs(known) do found = found or k == word end
    if not found then
      misuse("--%s: got '%s', want some of %s%s", name, word, table.concat(known, ", "), also or "")
    end
    list[#list + 1] = word
  end
  return list
end

local function chosen(o)
  if o.flags.workload == "smoke" then return { "smoke" } end
  return list_of(o, "workload", everything, table.concat(everything, ","), "; or smoke")
end

-- The value that --NAME's word stands for.
local function word_of(o, name, values, order, default)
  local word = o.flags[name] or default
  if word ~= nil and values[word] == nil then misuse("--%s: got '%s', want %s", name, word, order) end
  return word and values[word]
end

local switch = { on = true, off = false, both = "both" }
local computes = { f32 = { "f32" }, bf16 = { "bf16" }, both = { "f32", "bf16" } }

local function options(o)
  return { runs = flags.integer(o, "runs", 1, 3),
    compute = word_of(o, "compute", computes, "f32, bf16 or both", "both"),
    sharing = word_of(o, "sharing", switch, "on, off or both", "both"),
    reuse = word_of(o, "reuse", switch, "on, off or both", "both"),
    base = word_of(o, "base", { f32 = "f32", bf16 = "bf16" }, "f32 or bf16"),
    weights = list_of(o, "weights", decode.weights, table.concat(decode.weights, ",")) }
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

-- One word of --workload; "smoke" is a little of everything.
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
  local names, how = chosen(o), options(o)
  local known = o.flags.check and expected.read(o.flags.check)
  if o.flags["write-expected"] then expected.check_place(o.flags["write-expected"]) end
  local function display(table_of, what)
    if not o.flags.json then show[table_of](what) end
  end
  flags.threads(o)
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
