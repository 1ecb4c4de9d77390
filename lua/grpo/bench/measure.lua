-- Times the workloads: an engine, a warm-up, some steps, the median of each phase.

local core = require "grpo.core"
local floor = require "grpo.bench.floor"
local statistics = require "grpo.statistics"
local workloads = require "grpo.bench.workloads"

local measure = {}

measure.phases = { "generate", "reference", "reward", "forward", "backward", "optimizer" }

-- ---- the machine ---------------------------------------------------------------------------------

local function by_cores(_, rate) return rate end

-- { product, own, blas = FLOPs a second of f32 at size^3; product: the better; read = bytes a second }: the best so
-- far, by core time, so that neighbours do not lower the floor.
function measure.rates(size, seconds, rates)
  rates = rates or { own = 0.0, blas = 0.0, read = 0.0 }
  rates.own = math.max(rates.own, by_cores(core.rate_product("forward", size, size, size, seconds)))
  rates.blas = math.max(rates.blas, by_cores(core.rate_product("blas_forward", size, size, size, seconds)))
  rates.read = math.max(rates.read, by_cores(core.rate_read(seconds)))
  rates.product = math.max(rates.own, rates.blas)
  return rates
end

-- Seconds that all cores together were busy; nil where the system does not say.
local function busy_seconds()
  local file = io.open("/proc/stat")
  local line = file and file:read("l")
  if file then file:close() end
  local user, nice, system, irq, soft, steal = (line or ""):match(
    "^cpu +(%d+) (%d+) (%d+) %d+ %d+ (%d+) (%d+) (%d+)")
  return user and (user + nice + system + irq + soft + steal) / 100
end

-- A function that says how many cores other processes have used on average since now; nil: unknown.
local function watch_others()
  local busy, own, started = busy_seconds(), os.clock(), core.clock()
  return function()
    local now = busy_seconds()
    if not now or not busy then return nil end
    return math.max(0.0, (now - busy - (os.clock() - own)) / (core.clock() - started))
  end
end

-- Peak memory counts from here on, where the system allows it.
local function forget_peak()
  collectgarbage()
  collectgarbage()
  local file = io.open("/proc/self/clear_refs", "w")
  if file then
    file:write("5")
    file:close()
  end
end

-- ---- a step -----------------------------------------------------------------------------------------

local function make_model(w)
  local model = core.model_new(workloads.config(w), { seed = 1 })
  if not w.lora then return model, core.model_clone(model) end
  model:add_lora { rank = w.lora.rank, alpha = w.lora.alpha, seed = 1 }
  return model, core.model_base(model)
end

-- sharing: a prompt once a group; without it each completion is a group of its own behind its own copy.
local function make_engine(w, model, reference, sharing)
  local sequences = w.prompts * w.group
  local engine = core.engine { model = model, reference = reference,
    prompts_per_step = sharing and w.prompts or sequences, group_size = sharing and w.group or 1,
    max_prompt_tokens = w.prompt, max_new_tokens = w.new, optimizer = {} }
  return engine
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

-- One limited call a completion; advantages within groups.
local function score(w, batch, step)
  local rewards, limits = {}, { instructions = 5e7, memory = 64 << 20, seconds = 5 }
  for i = 1, #batch do
    local c = { ids = batch:ids(i), logprobs = batch:logprobs(i), length = batch:length(i), index = i, step = step }
    local _, value = core.limited(limits, "reward", reward, "", {}, c)
    rewards[i] = value
  end
  return core.advantages(rewards, { group = w.group })
end

local function step(w, engine, prompts, n, sharing)
  local t, seconds = core.clock(), {}
  local function lap(name)
    local now = core.clock()
    seconds[name], t = now - t, now
  end
  local started, cores = t, os.clock()
  local batch = engine:rollout { prompts = prompts, n = sharing and w.group or 1, seed = 1, step = n }
  lap "generate"
  engine:reference(batch)
  lap "reference"
  local advantages = score(w, batch, n)
  lap "reward"
  local m = engine:update(batch, { advantages = advantages, kl = 0.02, lr = 1e-6, step = n })
  seconds.forward, seconds.backward = m["time/forward"], m["time/backward"]
  seconds.optimizer, seconds.step = m["time/optimizer"], core.clock() - started
  seconds.cores = (os.clock() - cores) / core.threads()
  return seconds
end

local function medians(list)
  local result = {}
  for name in pairs(list[1]) do
    local column = {}
    for i, one in ipairs(list) do column[i] = one[name] end
    result[name] = statistics.median(column)
  end
  return result
end

local function least(list, name)
  local best = math.huge
  for _, one in ipairs(list) do best = math.min(best, one[name]) end
  return best
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

-- { seconds = by phase (medians), core_seconds = least step by core time, best = least step, sft =, peak_bytes =,
-- others = cores }
local function run(w, runs, sharing)
  forget_peak()
  local model, reference = make_model(w)
  local engine <close> = make_engine(w, model, reference, sharing)
  local prompts, times = prompts_of(w, sharing), {}
  step(w, engine, prompts, 0, sharing)
  local others = watch_others()
  for i = 1, runs do times[i] = step(w, engine, prompts, i, sharing) end
  return { seconds = medians(times), best = least(times, "step"), core_seconds = least(times, "cores"),
    others = others(),
    sft = w.sft and sharing and sft_seconds(w, engine, runs) or nil, peak_bytes = core.mem().peak_rss }
end

-- probe(): the rates; options: { runs=, sharing=true|false|"both" }.  One table, as --json prints it.
function measure.workload(w, probe, options)
  local config = workloads.config(w)
  w.tokens = config.vocab_size
  local sizes = workloads.sizes(config, w.lora and w.lora.rank)
  local result, rates = { name = w.name, title = w.title, runs = options.runs, rows = {},
    shape = { prompts = w.prompts, group = w.group, prompt = w.prompt, new = w.new } }, nil
  for _, sharing in ipairs { true, false } do
    if options.sharing == "both" or options.sharing == sharing then
      rates = probe()
      local row = run(w, options.runs, sharing)
      row.shared_prompt = sharing
      result.rows[#result.rows + 1] = row
    end
  end
  local tokens = w.prompts * w.group * w.new
  result.floor = floor.of(w, sizes, rates, true)
  for _, row in ipairs(result.rows) do
    row.ratio, row.best_ratio = row.seconds.step / result.floor.step, row.best / result.floor.step
    row.core_ratio = row.core_seconds / result.floor.step
    row.tokens_per_second = { generate = tokens / row.seconds.generate, step = tokens / row.seconds.step }
    if not row.shared_prompt then row.own_floor = floor.of(w, sizes, rates, false) end
    if row.sft then
      row.sft = { seconds = row.sft, floor = floor.sft(w, sizes, rates),
        tokens_per_second = w.sft.rows * w.sft.tokens / row.sft }
    end
  end
  return result
end

-- ---- decoding and kernels --------------------------------------------------------------------------------

function measure.decode(w, probe, runs)
  local rates = probe()
  forget_peak()
  local config = workloads.config(w)
  local sizes, rows = workloads.sizes(config), {}
  local most = w.sequences[#w.sequences]
  local model = core.model_new(config, { seed = 1 })
  local engine <close> = core.engine { model = model, prompts_per_step = 1, group_size = most,
    max_prompt_tokens = w.prompt, max_new_tokens = w.new }
  local ids = {}
  for i = 1, w.prompt do ids[i] = i % config.vocab_size end
  local function seconds(n, new)
    local started = core.clock()
    engine:rollout { prompts = { ids }, n = n, seed = 1, sampling = { max_new_tokens = new } }
    return core.clock() - started
  end
  for _, n in ipairs(w.sequences) do
    local times = {}
    seconds(n, 2)
    local others = watch_others()
    -- the steps alone: without what a completion of one token takes
    for i = 1, runs do times[i] = (seconds(n, w.new) - seconds(n, 1)) / (w.new - 1) end
    local t = statistics.median(times)
    local limit = floor.decode(sizes, rates, n, w.prompt + w.new / 2)
    rows[#rows + 1] = { sequences = n, tokens_per_second = n / t, milliseconds_per_token = 1e3 * t,
      floor_milliseconds = 1e3 * limit, ratio = t / limit, others = others() }
  end
  return { name = w.name, title = w.title, weights = model:count(), rows = rows, peak_bytes = core.mem().peak_rss }
end

-- GF/s of our products and of OpenBLAS's on shapes of the workloads.
function measure.kernels(seconds, small)
  local shapes = small and { { 32, 32 } } or { { 688, 256 }, { 1152, 384 }, { 1536, 576 }, { 896, 4864 } }
  local rows = {}
  for _, shape in ipairs(shapes) do
    for _, m in ipairs(small and { 1, 8 } or { 1, 8, 64, 400, 1500 }) do
      local row = { outputs = shape[1], inputs = shape[2], rows = m }
      for _, what in ipairs { "forward", "dx", "dw", "blas_forward", "blas_dx", "blas_dw" } do
        if m >= 64 or what:find("forward") then
          row[what] = (core.rate_product(what, m, shape[1], shape[2], seconds)) / 1e9
        end
      end
      rows[#rows + 1] = row
    end
  end
  return rows
end

return measure
