local core = require "grpo.core"
local flags = require "grpo.cli.flags"
local measure = require "grpo.bench.measure"
local workloads = require "grpo.bench.workloads"

local command = {
  usage = "bench [--workload W1,W2,...|decode|kernels] [--runs N] [--sharing on|off|both] [--threads N] [--check FILE] "
    .. "[--json]",
  words = 0,
  summary = "this machine's speed on fixed workloads, as a table",
  flags = { workload = "value", runs = "value", sharing = "value", threads = "value", check = "value", json = "flag" },
  help = [[
First the rates of this machine: the f32 product of 2048^3 (the better of our kernel and OpenBLAS) and
reading memory.  Then GRPO steps of models with random weights, by phase, medians of N runs (3) after one to
warm up, beside the floor: the same arithmetic at those rates, with the prompt computed once a group.

  W1  GPT-2 of 6 layers of 384, 65 characters: 32 prompts of 1 x 4 completions of 70; full training
  W2  Llama of 4 layers of 256, 256 bytes: 8 prompts of 96 x 8 completions of 96; full training
  W3  SmolLM2-135M's shape: 2 prompts of 128 x 8 completions of 64; LoRA of rank 8
  W4  Qwen2.5-0.5B's shape: 1 prompt of 160 x 8 completions of 32; LoRA of rank 8
  decode   tokens a second of 1, 8, 16 and 32 sequences, 123 million weights
  kernels  products against OpenBLAS

--sharing off computes the prompt for each completion again, as other trainers do: what is lost is the
algorithm's part, the rest the engine's.  --check FILE compares the ratio of the best run to the floor with the
one in FILE and exits with 1 where it is worse than FILE's tolerance; where other processes took more than 0.1
core, the ratio by core time (what our threads used, over their number).  Nothing else should be running.]],
}

local QUIET = 0.1 -- cores that others may use before a row is no evidence

local everything = { "W1", "W2", "W3", "W4", "decode", "kernels" }

local function misuse(format, ...)
  error(core.error("EARG", format:format(...)), 0)
end

local function out(format, ...)
  core.out(format:format(...) .. "\n")
end

local function chosen(o)
  local list = {}
  for name in (o.flags.workload or table.concat(everything, ",")):gmatch("[^,]+") do
    if name ~= "decode" and name ~= "kernels" and name ~= "smoke" and not workloads.find(name) then
      misuse("--workload: got '%s', want some of %s", name, table.concat(everything, ", "))
    end
    list[#list + 1] = name
  end
  if #list == 0 then misuse("--workload: got nothing, want some of %s", table.concat(everything, ", ")) end
  return list
end

local function sharing_of(o)
  local word = o.flags.sharing or "both"
  local known = { on = true, off = false, both = "both" }
  if known[word] == nil then misuse("--sharing: got '%s', want on, off or both", word) end
  return known[word]
end

-- ---- tables ------------------------------------------------------------------------------------------

local function print_machine(m)
  local rates = m.rates
  out("%s, %d threads, kernels %s; OpenBLAS %s%s", m.cpu, m.threads, m.kernels, m.blas,
    m.pinned and ", pinned by OPENBLAS_CORETYPE" or "")
  out("f32 product of %d^3: ours %.0f GF/s, OpenBLAS %.0f; reading memory %.1f GB/s\n", m.size, rates.own / 1e9,
    rates.blas / 1e9, rates.read / 1e9)
end

local function print_phases(name, seconds)
  local cells = { ("  %-22s"):format(name) }
  for _, phase in ipairs(measure.phases) do cells[#cells + 1] = ("%10.4f"):format(seconds[phase]) end
  cells[#cells + 1] = ("%10.4f"):format(seconds.step)
  out("%s", table.concat(cells))
end

-- What other processes took of the machine, when it was too much.
local function busy(row)
  local others = row.others
  return others and others > QUIET and ("; others used %.1f cores: no evidence"):format(others) or ""
end

local function print_workload(r)
  out("%s %s (medians of %d)", r.name, r.title, r.runs)
  local head = { ("  %-22s"):format("seconds") }
  for _, phase in ipairs(measure.phases) do head[#head + 1] = ("%10s"):format(phase) end
  out("%s%10s", table.concat(head), "step")
  for _, row in ipairs(r.rows) do
    print_phases(row.shared_prompt and "shared prompt" or "prompt not shared", row.seconds)
  end
  print_phases("floor", r.floor)
  for _, row in ipairs(r.rows) do
    out("  %s: %.2f x the floor (best run %.2f, by core time %.2f); %.0f tokens/s generated, %.0f in a step; "
      .. "peak %d MiB%s", row.shared_prompt and "shared prompt" or "prompt not shared", row.ratio, row.best_ratio,
      row.core_ratio, row.tokens_per_second.generate, row.tokens_per_second.step, row.peak_bytes >> 20, busy(row))
    if row.sft then
      out("  supervised step: %.4f s, %.2f x its floor, %.0f tokens/s", row.sft.seconds,
        row.sft.seconds / row.sft.floor, row.sft.tokens_per_second)
    end
  end
  if #r.rows == 2 then
    local shared, plain = r.rows[1], r.rows[2]
    out("  sharing the prompt: a step is %.2f times as fast (by the floors: %.2f)",
      plain.seconds.step / shared.seconds.step, plain.own_floor.step / r.floor.step)
  end
  out("")
end

local function print_decode(r)
  out("%s", r.title)
  out("  %9s %10s %12s %12s %8s", "sequences", "tokens/s", "ms a step", "floor", "ratio")
  for _, row in ipairs(r.rows) do
    out("  %9d %10.0f %12.2f %12.2f %8.2f%s", row.sequences, row.tokens_per_second, row.milliseconds_per_token,
      row.floor_milliseconds, row.ratio, busy(row))
  end
  out("")
end

local function print_kernels(rows)
  out("products, GF/s (OpenBLAS: a thread of it on each of our threads' rows)")
  out("  %-12s %6s %10s %10s %10s %10s %10s %10s", "out x in", "rows", "forward", "OpenBLAS", "dX", "OpenBLAS", "dW",
    "OpenBLAS")
  for _, row in ipairs(rows) do
    local cells = {}
    for i, what in ipairs { "forward", "blas_forward", "dx", "blas_dx", "dw", "blas_dw" } do
      cells[i] = row[what] and ("%10.0f"):format(row[what]) or (" "):rep(10)
    end
    out("  %5d x %-5d %5d %s", row.outputs, row.inputs, row.rows, table.concat(cells, " "))
  end
  out("")
end

-- ---- regressions -----------------------------------------------------------------------------------------

-- FILE: { "tolerance": 0.2, "KERNELS": { "W1": ratio of the best run to the floor, ... } }
local function read_expected(path)
  if not path then return nil end
  local text, message, code = core.fs.read(path)
  if not text then error(core.error(code or "ENOENT", ("--check: %s: %s"):format(path, message)), 0) end
  local expected = core.json_decode(text, path)
  if type(expected) ~= "table" or type(expected.tolerance) ~= "number" then
    misuse("--check: %s: want an object with a number 'tolerance'", path)
  end
  return expected
end

-- How many workloads are worse than expected.
local function compare(report, expected)
  local known, worse = expected[report.machine.kernels], 0
  if not known then
    core.err(("grpo: bench: no ratios for %s kernels, nothing to compare with\n"):format(report.machine.kernels))
    return 0
  end
  for _, r in ipairs(report.workloads) do
    local row, want = r.rows[1], known[r.name]
    if want and row.shared_prompt then
      local quiet = (row.others or 1) <= QUIET
      local ratio, limit = quiet and row.best_ratio or row.core_ratio, want * (1 + expected.tolerance)
      worse = worse + (ratio > limit and 1 or 0)
      core.err(("%s: %.2f x the floor%s, expected %.2f, at most %.2f: %s\n"):format(r.name, ratio,
        quiet and "" or " by core time", want, limit, ratio > limit and "WORSE" or "fine"))
    end
  end
  return worse
end

-- ---- the command -------------------------------------------------------------------------------------------

local function machine(size)
  local version = core.version()
  local m = { kernels = version.kernels, blas = version.blas, commit = version.commit, size = size,
    threads = core.threads(), pinned = os.getenv("OPENBLAS_CORETYPE") }
  for _, row in ipairs(core.doctor()) do
    if row[1] == "cpu" then m.cpu = row[2] end
  end
  return m
end

-- One word of --workload; "smoke" is a little of everything.
local function measure_one(name, report, probe, o)
  local w, smoke = workloads.find(name), name == "smoke"
  if w then
    report.workloads[#report.workloads + 1] = measure.workload(w, probe, o)
    o.show(print_workload, report.workloads[#report.workloads])
  end
  if smoke or name == "decode" then
    report.decode = measure.decode(smoke and workloads.decode_smoke or workloads.decode, probe, o.runs)
    o.show(print_decode, report.decode)
  end
  if smoke or name == "kernels" then
    report.kernels = measure.kernels(smoke and 0.001 or 0.05, smoke)
    o.show(print_kernels, report.kernels)
  end
end

function command.run(o)
  local names, expected = chosen(o), read_expected(o.flags.check)
  local how = { runs = flags.integer(o, "runs", 1, 3), sharing = sharing_of(o),
    show = o.flags.json and function() end or function(print_it, ...) print_it(...) end }
  flags.threads(o)
  local smoke = names[1] == "smoke"
  local m = machine(smoke and 64 or 2048)
  local function probe()
    m.rates = measure.rates(m.size, smoke and 0.01 or 0.3, m.rates)
    return m.rates
  end
  probe()
  how.show(print_machine, m)
  local report = { machine = m, workloads = {} }
  for _, name in ipairs(names) do measure_one(name, report, probe, how) end
  if o.flags.json then core.out(core.json_encode(report) .. "\n") end
  return expected and compare(report, expected) > 0 and 1 or 0
end

return command
