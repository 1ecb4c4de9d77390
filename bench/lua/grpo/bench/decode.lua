-- Decoding alone: tokens a second by the form of the weights and the number of sequences, and the
-- products of its matrices against OpenBLAS's.

local core = require "grpo.core"
local floor = require "grpo.bench.floor"
local measure = require "grpo.bench.measure"
local rate_of = require "grpo.bench.rates"
local statistics = require "grpo.statistics"
local workloads = require "grpo.bench.workloads"

local decode = {}

decode.weights = { "f32", "bf16", "int8", "nf4" }

-- Returns the seconds of a step of n sequences: those of all runs, sorted, and the least by core
-- time.  A step is what a long rollout takes beyond one of a single token, by further token.
local function step_seconds(w, engine, ids, n, runs)
  local function seconds(new)
    local started, cores = core.clock(), os.clock()
    engine:rollout { prompts = { ids }, n = n, seed = 1, sampling = { max_new_tokens = new } }
    return core.clock() - started, (os.clock() - cores) / rate_of.busy_cores()
  end
  local times, least = {}, math.huge
  seconds(2)
  for i = 1, runs do
    local all, all_cores = seconds(w.new)
    local one, one_cores = seconds(1)
    times[i], least = (all - one) / (w.new - 1),
      math.min(least, (all_cores - one_cores) / (w.new - 1))
  end
  table.sort(times)
  return times, least
end

-- Returns the figures of a step's times, or an empty table if the differences drown in noise.
local function speeds(times, cores, n, limit)
  local t = statistics.median(times)
  if times[1] <= 0 or cores <= 0 then return {} end
  return { tokens_per_second = n / t, milliseconds_per_token = 1e3 * t,
    best_milliseconds = 1e3 * times[1],
    worst_milliseconds = 1e3 * times[#times], core_milliseconds = 1e3 * cores, ratio = t / limit,
    core_ratio = cores / limit }
end

-- Returns the rows for one storage of the weights.
local function rows_of(w, config, probe, how, runs)
  local model = measure.model(config, how)
  local sizes, rows = workloads.sizes(config), {}
  local limits = floor.rates(probe(), how.compute, how.weights)
  measure.forget_peak()
  local engine <close> = core.engine { model = model, prompts_per_step = 1,
    group_size = w.sequences[#w.sequences], max_prompt_tokens = w.prompt, max_new_tokens = w.new }
  local ids = {}
  for i = 1, w.prompt do ids[i] = i % config.vocab_size end
  for _, n in ipairs(w.sequences) do
    local others = measure.watch_others()
    local times, cores = step_seconds(w, engine, ids, n, runs)
    local limit = floor.decode(sizes, limits, n, w.prompt + w.new / 2)
    local row = speeds(times, cores, n, limit)
    row.compute, row.weights, row.sequences, row.others = how.compute, how.weights, n, others()
    row.floor_milliseconds = 1e3 * limit
    rows[#rows + 1] = row
  end
  for _, row in ipairs(rows) do row.peak_bytes = core.mem().peak_rss end
  return rows
end

-- Weights in f32 are only measured with products in f32: bf16 would round them to bf16 weights.
local function sensible(compute, weights)
  return not (compute == "bf16" and weights == "f32")
end

-- o: { runs =, compute = list, weights = list }
function decode.measure(w, probe, o)
  local config, rows = workloads.config(w), {}
  for _, compute in ipairs(o.compute) do
    for _, weights in ipairs(o.weights) do
      if sensible(compute, weights) then
        local how = { compute = compute, weights = weights }
        table.move(rows_of(w, config, probe, how, o.runs), 1, #w.sequences, #rows + 1, rows)
      end
    end
  end
  local sizes = workloads.sizes(config)
  return { name = w.name, title = w.title, runs = o.runs, weights = sizes.body + sizes.head,
    rows = rows }
end

local forms = { "f32", "bf16", "int8", "nf4", "bf16_bf16" }

-- Multiplies the matrices of a decoding step by 1, 8, ... rows.  Returns our GF/s for each storage
-- of the weights, OpenBLAS's (the better of its own threads and of one thread on each share of the
-- outputs), and the ratios of the two.
function decode.products(w, seconds)
  local shapes, rows = workloads.matrices(workloads.config(w)), {}
  for i, m in ipairs(w.sequences) do rows[i] = { rows = m, blas = 0.0 } end
  for _, how in ipairs { "blas", "blas_cut" } do
    for i, rate in ipairs((rate_of.weights(how, w.sequences, shapes, seconds))) do
      rows[i].blas = math.max(rows[i].blas, rate / 1e9)
    end
  end
  for _, form in ipairs(forms) do
    for i, rate in ipairs((rate_of.weights(form, w.sequences, shapes, seconds))) do
      rows[i][form], rows[i][form .. "_ratio"] = rate / 1e9, rate / 1e9 / rows[i].blas
    end
  end
  return rows
end

decode.forms = forms

return decode
