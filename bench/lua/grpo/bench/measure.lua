-- Times the workloads: an engine, a warm-up, some steps, the median of each phase.

local core = require "grpo.core"
local floor = require "grpo.bench.floor"
local rate_of = require "grpo.bench.rates"
local statistics = require "grpo.statistics"
local workloads = require "grpo.bench.workloads"

local measure = {}

measure.phases = { "generate", "reference", "reward", "forward", "backward", "optimizer" }

-- ---- the machine --------------------------------------------------------------------------------

-- Returns { own, blas = FLOPs per second of f32 at size^3; f32: the better; bf16: ours; read =
-- bytes per second } by core time, so that neighbours do not lower the floor.  Each is the best of
-- the repetitions in `seconds`.  f32_median, bf16_median, read_median: by the clock, the median
-- one.
function measure.rates(size, seconds)
  local rates = {}
  local function keep(name, _, best, median)
    rates[name], rates[name .. "_median"] = best, median
  end
  for _, what in ipairs { { "own", "forward" }, { "blas", "blas_forward" },
    { "bf16", "bf16_forward" } } do
    keep(what[1], rate_of.product(what[2], size, size, size, seconds))
  end
  keep("read", rate_of.read(seconds))
  rates.f32 = math.max(rates.own, rates.blas)
  rates.f32_median = math.max(rates.own_median, rates.blas_median)
  return rates
end

local SAME = 0.25 -- seconds that rates hold

local function better(a, b)
  local rates = {}
  for name, rate in pairs(a) do rates[name] = math.max(rate, b[name]) end
  return rates
end

local function between(a, b)
  local rates = {}
  for _, name in ipairs { "f32", "bf16", "read" } do
    rates[name] = (a[name .. "_median"] + b[name .. "_median"]) / 2
  end
  return rates
end

-- Returns the seconds that all cores together were busy; nil where the system does not say.
local function busy_seconds()
  local file = io.open("/proc/stat")
  local line = file and file:read("l")
  if file then file:close() end
  local user, nice, system, irq, soft, steal = (line or ""):match(
    "^cpu +(%d+) (%d+) (%d+) %d+ %d+ (%d+) (%d+) (%d+)")
  return user and (user + nice + system + irq + soft + steal) / 100
end

-- Returns a function that returns how many cores other processes have used on average since now;
-- nil where it is unknown or the time is less than a tenth of a second, too short for the system's
-- ticks.
function measure.watch_others()
  local busy, own, started = busy_seconds(), os.clock(), core.clock()
  return function()
    local now = busy_seconds()
    if not now or not busy or core.clock() - started < 0.1 then return nil end
    return math.max(0.0, (now - busy - (os.clock() - own)) / (core.clock() - started))
  end
end

-- Resets the peak memory, where the system allows it.
function measure.forget_peak()
  collectgarbage()
  collectgarbage()
  local file = io.open("/proc/self/clear_refs", "w")
  if file then
    file:write("5")
    file:close()
  end
end

-- ---- a step -------------------------------------------------------------------------------------

-- Makes a model with random weights stored as how.weights: "f32", "bf16", "int8" or "nf4"; all but
-- the first pass through a checkpoint in bf16.
function measure.model(config, how)
  local weights, compute = how.weights, how.compute
  local model = core.model_new(config, { seed = 1, compute = compute })
  if weights == "f32" then return model end
  local name = os.tmpname()
  local dir = name .. ".model"
  local function leave(...)
    os.remove(name)
    if core.fs.exists(dir) then core.fs.remove_tree(dir) end
    return ...
  end
  local function load()
    model:save(dir, { dtype = "bf16" })
    model = nil
    collectgarbage()
    collectgarbage()
    local options = weights == "bf16" and { dtype = "bf16" } or { quantize = weights }
    options.compute = compute
    return core.model_load(dir, options)
  end
  local ok, result = pcall(load)
  leave()
  if not ok then error(result, 0) end
  return result
end

-- The policy and its reference: with an adapter the base alone, else a frozen copy.
local function make_models(w, how)
  local model = measure.model(workloads.config(w), how)
  if not w.lora then return model, core.model_clone(model) end
  model:add_lora { rank = w.lora.rank, alpha = w.lora.alpha, seed = 1 }
  return model, core.model_base(model)
end

-- Without sharing each completion is a group of its own behind its own copy of the prompt.
local function make_engine(w, model, reference, how)
  local sequences = w.prompts * w.group
  return core.engine { model = model, reference = reference, reuse_rollout = how.reuse_rollout,
    prompts_per_step = how.sharing and w.prompts or sequences,
    group_size = how.sharing and w.group or 1, max_prompt_tokens = w.prompt, max_new_tokens = w.new,
    optimizer = {} }
end

local function prompts_of(w, sharing)
  local list = {}
  for p = 1, w.prompts do
    local ids = {}
    for i = 1, w.prompt do ids[i] = (p * 31 + i * 37) % 64 % w.tokens end
    for _ = 1, sharing and 1 or w.group do list[#list + 1] = ids end
  end
  return list
end

local function reward(_, _, c)
  local odd = 0
  for _, id in ipairs(c.ids) do odd = odd + id % 2 end
  return odd / c.length
end

-- Makes one limited call per completion; returns completions with advantages within groups.
local function score(w, batch, step)
  local cs, limits = {}, { instructions = 5e7, memory = 64 << 20, seconds = 5 }
  for i = 1, #batch do
    local c = { ids = batch:ids(i), logprobs = batch:logprobs(i), length = batch:length(i),
      index = i, step = step }
    local _, value = core.limited(limits, "reward", reward, "", {}, c)
    c.reward, cs[i] = value, c
  end
  core.set_advantages(cs, { group = w.group })
  return cs
end

local function step(w, engine, prompts, n, how)
  local t, seconds = core.clock(), {}
  local function lap(name)
    local now = core.clock()
    seconds[name], t = now - t, now
  end
  local started, cores = t, os.clock()
  local batch = engine:rollout { prompts = prompts, n = how.sharing and w.group or 1, seed = 1,
    step = n }
  lap "generate"
  engine:reference(batch)
  lap "reference"
  local cs = score(w, batch, n)
  lap "reward"
  local m = engine:update(batch, cs, { kl = 0.02, lr = 1e-6, step = n })
  seconds.forward, seconds.backward = m["time/forward"], m["time/backward"]
  seconds.optimizer, seconds.step = m["time/optimizer"], core.clock() - started
  seconds.cores = (os.clock() - cores) / rate_of.busy_cores()
  return seconds
end

local function column(list, name)
  local values = {}
  for i, one in ipairs(list) do values[i] = one[name] end
  return values
end

local function medians(list)
  local result = {}
  for name in pairs(list[1]) do result[name] = statistics.median(column(list, name)) end
  return result
end

-- Returns the floor of step i at `join` of the rates before it and after it.  The rates of a
-- machine change by the minute, that of memory by up to a factor of 2 on a virtual one.
local function floors(w, sizes, rates, how, join)
  local list = {}
  for i = 1, #rates - 1 do
    local r = floor.rates(join(rates[i], rates[i + 1]), how.compute, how.weights)
    list[i] = floor.of(w, sizes, r, true)
  end
  return list
end

-- Returns each step's ratio to its own floor; name: "step" by the clock, "cores" by core time.
local function ratios(times, limits, name)
  local list = {}
  for i, t in ipairs(times) do list[i] = t[name] / limits[i].step end
  table.sort(list)
  return list
end

local function sft_seconds(w, engine, runs)
  local rows, times = {}, {}
  for r = 1, w.sft.rows do
    local target = {}
    for i = 1, w.sft.tokens do target[i] = (r * 7 + i * 37) % 64 % w.tokens end
    rows[r] = { prompt = { 0 }, target = target }
  end
  for i = 0, runs do
    local started = core.clock()
    engine:sft(rows, { lr = 1e-6 })
    if i > 0 then times[i] = core.clock() - started end
  end
  return statistics.median(times)
end

-- how: { compute =, weights =, sharing =, reuse_rollout = }; probe() returns the rates.  It is
-- called before each step and after the last, except where the rates are younger than SAME.
-- Returns { seconds = by phase (medians), best, worst = shortest and longest step, core_seconds =
-- shortest step by core time, rates, floor (medians), ratio (median), best_ratio, core_ratio
-- (least), all to the floor at the best rates, median_ratio (median, to that at the median rates),
-- sft =, peak_bytes =, others = cores }.
function measure.steps(w, sizes, probe, runs, how)
  local model, reference = make_models(w, how)
  w.tokens = model.config.vocab_size
  local peak = 0
  local function watched(fn, ...) -- probes take memory too
    measure.forget_peak()
    local result = fn(...)
    peak = math.max(peak, core.mem().peak_rss)
    return result
  end
  local engine <close> = watched(make_engine, w, model, reference, how)
  local prompts, times, rates = prompts_of(w, how.sharing), {}, {}
  watched(step, w, engine, prompts, 0, how)
  local others = measure.watch_others()
  local last
  for i = 1, runs + 1 do
    local fresh = last and core.clock() - last < SAME -- short steps share probes
    rates[i] = fresh and rates[i - 1] or probe()
    last = fresh and last or core.clock()
    if i <= runs then times[i] = watched(step, w, engine, prompts, i, how) end
  end
  local steps, limits = column(times, "step"), floors(w, sizes, rates, how, better)
  local by_clock = ratios(times, limits, "step")
  local by_medians = ratios(times, floors(w, sizes, rates, how, between), "step")
  local row = { seconds = medians(times), best = math.min(table.unpack(steps)),
    worst = math.max(table.unpack(steps)),
    core_seconds = math.min(table.unpack(column(times, "cores"))), others = others(),
    rates = medians(rates),
    floor = medians(limits), ratio = statistics.median(by_clock), best_ratio = by_clock[1],
    core_ratio = ratios(times, limits, "cores")[1], median_ratio = statistics.median(by_medians),
    peak_bytes = peak }
  if w.sft and how.sharing and not how.reuse_rollout then row.sft = sft_seconds(w, engine, runs) end
  return row
end

-- ---- a workload ---------------------------------------------------------------------------------

-- Returns the rows that the options ask for, in order.
local function variants(w, o)
  local list = {}
  for _, compute in ipairs(o.compute) do
    local weights = w.lora and (o.base or compute) or "f32"
    local function add(sharing, reuse)
      list[#list + 1] = { compute = compute, weights = weights, sharing = sharing,
        reuse_rollout = reuse }
    end
    if o.sharing ~= false and o.reuse ~= true then add(true, false) end
    if o.sharing ~= false and o.reuse ~= false then add(true, true) end
    if o.sharing ~= true then add(false, false) end
  end
  return list
end

-- probe() returns the rates; o: { runs =, compute = { "f32", "bf16" }, base = "f32"|"bf16"|nil,
-- sharing =, reuse = true|false|"both" }.  Returns one table, which --json prints.
function measure.workload(w, probe, o)
  local config = workloads.config(w)
  local sizes = workloads.sizes(config, w.lora and w.lora.rank)
  local tokens = w.prompts * w.group * w.new
  local result = { name = w.name, title = w.title, runs = o.runs, rows = {},
    shape = { prompts = w.prompts, group = w.group, prompt = w.prompt, new = w.new } }
  for _, how in ipairs(variants(w, o)) do
    local row = measure.steps(w, sizes, probe, o.runs, how)
    local r = floor.rates(row.rates, how.compute, how.weights)
    row.compute, row.weights = how.compute, how.weights
    row.shared_prompt, row.reuse_rollout = how.sharing, how.reuse_rollout
    row.tokens_per_second = { generate = tokens / row.seconds.generate,
      step = tokens / row.seconds.step }
    if not row.shared_prompt then row.own_floor = floor.of(w, sizes, r, false) end
    if row.sft then
      row.sft = { seconds = row.sft, floor = floor.sft(w, sizes, r),
        tokens_per_second = w.sft.rows * w.sft.tokens / row.sft }
    end
    result.rows[#result.rows + 1] = row
  end
  return result
end

-- ---- kernels ------------------------------------------------------------------------------------

local products = { "forward", "blas_forward", "bf16_forward", "dx", "blas_dx", "bf16_dx", "dw",
  "blas_dw", "bf16_dw" }

-- GF/s of our products, in f32 and in bf16, and of OpenBLAS's on shapes of the workloads.
function measure.kernels(seconds, small)
  local shapes = small and { { 32, 32 } }
    or { { 688, 256 }, { 1152, 384 }, { 1536, 576 }, { 896, 4864 } }
  local rows = {}
  for _, shape in ipairs(shapes) do
    for _, m in ipairs(small and { 1, 8 } or { 1, 8, 64, 400, 1500 }) do
      local row = { outputs = shape[1], inputs = shape[2], rows = m }
      for _, what in ipairs(products) do
        if m >= 64 or what:find("forward") then
          row[what] = (rate_of.product(what, m, shape[1], shape[2], seconds)) / 1e9
        end
      end
      rows[#rows + 1] = row
    end
  end
  return rows
end

measure.products = products

return measure
