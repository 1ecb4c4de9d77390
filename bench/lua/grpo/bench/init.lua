-- The measurements of `grpo bench`, in the programs of bench/: `make bench` builds one.

local core = require "grpo.core"
local decode = require "grpo.bench.decode"
local errors = require "grpo.base.errors"
local expected = require "grpo.bench.expected"
local measure = require "grpo.bench.measure"
local show = require "grpo.bench.show"
local workloads = require "grpo.bench.workloads"

local bench = {}

local switch = { on = true, off = false, both = "both" }
local computes = { f32 = { "f32" }, bf16 = { "bf16" }, both = { "f32", "bf16" } }

local function options(o)
  return { runs = o.flags.runs, compute = computes[o.flags.compute], base = o.flags.frozen,
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

-- Runs the command with the flags that grpo.commands.bench declares; returns the exit status.
function bench.run(o)
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
  if o.flags.ranks then
    require("grpo.bench.ranks").show(o.flags.ranks, m.rates)
    return 0
  end
  display("machine", m)
  local report = { machine = m, workloads = {} }
  for _, name in ipairs(names) do measure_one(name, report, probe, how, display) end
  if o.flags.json then core.out(core.json_encode(report) .. "\n") end
  if o.flags["write-expected"] then expected.write(o.flags["write-expected"], report) end
  return known and expected.compare(report, known) > 0 and 1 or 0
end

return bench
