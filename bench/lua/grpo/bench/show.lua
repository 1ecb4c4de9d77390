-- The tables of `grpo bench`.

local core = require "grpo.core"
local decode = require "grpo.bench.decode"
local measure = require "grpo.bench.measure"

local show = {}

show.quiet = 0.1 -- cores that others may use; beyond that a row is marked "no evidence"

local function out(format, ...)
  core.out(format:format(...) .. "\n")
end

function show.machine(m)
  local rates = m.rates
  out("%s, %d threads, kernels %s; OpenBLAS %s%s", m.cpu, m.threads, m.kernels, m.blas,
    m.pinned and ", pinned by OPENBLAS_CORETYPE" or "")
  out("product of %d^3: f32 %.0f GF/s (OpenBLAS %.0f), bf16 %.0f; reading memory %.1f GB/s\n",
    m.size, rates.own / 1e9, rates.blas / 1e9, rates.bf16 / 1e9, rates.read / 1e9)
end

-- "bf16, prompt not shared", "f32 by bf16 weights, rollout reused"
function show.name(row)
  local name = row.compute
  if row.weights ~= "f32" and row.weights ~= row.compute then
    name = name .. ", " .. row.weights .. " base"
  end
  if not row.shared_prompt then name = name .. ", not shared" end
  if row.reuse_rollout then name = name .. ", reused" end
  return name
end

local function phases(name, seconds)
  local cells = { ("  %-22s"):format(name) }
  for _, phase in ipairs(measure.phases) do
    cells[#cells + 1] = ("%10.4f"):format(seconds[phase])
  end
  cells[#cells + 1] = ("%10.4f"):format(seconds.step)
  return table.concat(cells)
end

-- Tells how many cores other processes used, if it was too many.
local function busy(row)
  local others = row.others
  if not others or others <= show.quiet then return "" end
  return ("; others %.1f cores: no evidence"):format(others)
end

local function find(rows, compute, shared)
  for _, row in ipairs(rows) do
    if row.compute == compute and row.shared_prompt == shared and not row.reuse_rollout then
      return row
    end
  end
end

function show.workload(r)
  out("%s %s (medians of %d)", r.name, r.title, r.runs)
  local head = { ("  %-22s"):format("seconds") }
  for _, phase in ipairs(measure.phases) do head[#head + 1] = ("%10s"):format(phase) end
  out("%s%10s%16s%9s", table.concat(head), "step", "spread", "MiB")
  local seen = {}
  for _, row in ipairs(r.rows) do
    local spread = ("%.3f-%.3f"):format(row.best, row.worst)
    out("%s%16s%9d%s", phases(show.name(row), row.seconds), spread, row.peak_bytes >> 20, busy(row))
  end
  for _, row in ipairs(r.rows) do
    if not seen[row.compute] then
      seen[row.compute] = true
      out("%s", phases("floor " .. row.compute, row.floor))
    end
  end
  for _, row in ipairs(r.rows) do
    out("  %s: %.2f x the floor (best run %.2f, by core time %.2f; at the median rates %.2f); "
      .. "%.0f tokens/s generated, %.0f in a step",
      show.name(row), row.ratio, row.best_ratio, row.core_ratio, row.median_ratio,
      row.tokens_per_second.generate, row.tokens_per_second.step)
    if row.sft then
      out("  %s: supervised step %.4f s, %.2f x its floor, %.0f tokens/s", show.name(row),
        row.sft.seconds, row.sft.seconds / row.sft.floor, row.sft.tokens_per_second)
    end
    local plain = row.shared_prompt and not row.reuse_rollout and find(r.rows, row.compute, false)
    if plain then
      out("  %s: sharing the prompt makes a step %.2f times as fast (by the floors: %.2f)",
        show.name(row),
        plain.seconds.step / row.seconds.step, plain.own_floor.step / row.floor.step)
    end
  end
  out("")
end

-- A number in a column; a dash where nothing could be measured.
local function cell(format, x)
  return x and format:format(x) or "-"
end

function show.decode(r)
  out("%s (medians of %d; core: the ratio by core time)", r.title, r.runs)
  out("  %-8s %-8s %9s %10s %10s %16s %8s %8s %8s %7s", "products", "weights", "sequences",
    "tokens/s", "ms a step", "spread", "floor", "ratio", "core", "MiB")
  for _, row in ipairs(r.rows) do
    local spread = "-"
    if row.ratio then
      spread = ("%.2f-%.2f"):format(row.best_milliseconds, row.worst_milliseconds)
    end
    out("  %-8s %-8s %9d %10s %10s %16s %8.2f %8s %8s %7d%s", row.compute, row.weights,
      row.sequences,
      cell("%.0f", row.tokens_per_second), cell("%.2f", row.milliseconds_per_token), spread,
      row.floor_milliseconds,
      cell("%.2f", row.ratio), cell("%.2f", row.core_ratio), row.peak_bytes >> 20, busy(row))
  end
  out("")
end

function show.matrices(rows)
  out("matrices of decode by some rows, GF/s, and times OpenBLAS's f32 "
    .. "(bf16_bf16: both operands; else f32 products)")
  local cells = { ("  %6s %9s"):format("rows", "OpenBLAS") }
  for _, form in ipairs(decode.forms) do cells[#cells + 1] = ("%16s"):format(form) end
  out("%s", table.concat(cells))
  for _, row in ipairs(rows) do
    cells = { ("  %6d %9.0f"):format(row.rows, row.blas) }
    for _, form in ipairs(decode.forms) do
      cells[#cells + 1] = ("%8.0f %6.2fx"):format(row[form], row[form .. "_ratio"])
    end
    out("%s", table.concat(cells))
  end
  out("")
end

function show.kernels(rows)
  out("products, GF/s (OpenBLAS: f32, a thread of it on each of our threads' rows)")
  out("  %-12s %6s %9s %9s %9s  %9s %9s %9s  %9s %9s %9s", "out x in", "rows", "forward",
    "OpenBLAS", "bf16", "dX", "OpenBLAS", "bf16", "dW", "OpenBLAS", "bf16")
  for _, row in ipairs(rows) do
    local cells = {}
    for i, what in ipairs(measure.products) do
      cells[i] = (row[what] and ("%9.0f"):format(row[what]) or (" "):rep(9))
        .. (i % 3 == 0 and " " or "")
    end
    out("  %5d x %-5d %5d %s", row.outputs, row.inputs, row.rows, table.concat(cells, " "))
  end
  out("")
end

return show
