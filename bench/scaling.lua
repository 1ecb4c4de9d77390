-- bench/scaling.lua - the sweeps of bench/scaling; that file says what is measured and how.

local core = require "grpo.core"
local floor = require "grpo.bench.floor"
local measure = require "grpo.bench.measure"
local statistics = require "grpo.statistics"
local workloads = require "grpo.bench.workloads"

local env = os.getenv
local threads, tolerance = tonumber(env "SCALING_THREADS"), tonumber(env "SCALING_TOLERANCE")
local compute, quick, json = env "SCALING_COMPUTE", env "SCALING_QUICK" == "1",
  env "SCALING_JSON" == "1"
local child = env "SCALING_CHILD" -- the sweep over threads starts one process each
local only = {}
for word in env("SCALING_ONLY"):gmatch("[^,]+") do only[word] = true end

core.set_threads(threads)
local rates = floor.rates(measure.rates(quick and 256 or 1024, 0.1), compute, compute)

local function out(format, ...)
  if not json then core.out(format:format(...) .. "\n") end
end

-- ---- a step, timed ------------------------------------------------------------------------------

local function config_of(c)
  return { model_type = "llama", vocab_size = c.vocab or 256, hidden_size = c.hidden or 256,
    intermediate_size = 2 * (c.hidden or 256), num_hidden_layers = c.layers or 2,
    num_attention_heads = 4,
    num_key_value_heads = 2, max_position_embeddings = 16384, tie_word_embeddings = true }
end

local function prompts_of(c)
  local list = {}
  for p = 1, c.prompts do
    local ids = {}
    for i = 1, c.prompt do ids[i] = (p * 31 + i * 37) % 61 end
    list[p] = ids
  end
  return list
end

-- Processor seconds and seconds of fn, the least of `runs` each.
local function least(runs, fn)
  local cpu, clock = math.huge, math.huge
  for i = 1, runs do
    local t, c = core.clock(), os.clock()
    fn(i)
    cpu, clock = math.min(cpu, os.clock() - c), math.min(clock, core.clock() - t)
  end
  return cpu, clock
end

-- Returns processor and clock time of one decoding step, the median over steps.  A step is measured
-- from one token of the first completion to the next.  (With a long prompt the difference of two
-- rollouts would be the difference of two large numbers.)  Up to 64 sequences are decoded together.
local function decoding_step(model, c, prompts, runs)
  local cpu, clock = {}, {}
  for run = 1, runs do
    local c0, t0
    model:generate(prompts,
      { n = c.group, seed = run, max_new_tokens = c.new, on_token = function(_, index)
      if index > 1 then return end
      local c1, t1 = os.clock(), core.clock()
      if c0 then cpu[#cpu + 1], clock[#clock + 1] = c1 - c0, t1 - t0 end
      c0, t0 = c1, t1
    end })
  end
  return statistics.median(cpu), statistics.median(clock)
end

-- c: { prompts =, group =, prompt =, new = }, and what config_of reads.  Returns seconds, {
-- update =, step = of decoding, update_clock =, step_clock = }, and the seconds that the arithmetic
-- of an update and of a step takes.  Decoding is not charged for reading the weights, which are
-- small enough for a cache.
local function run(c, runs)
  local config = config_of(c)
  local model = measure.model(config, { compute = compute, weights = "f32" })
  local engine <close> = core.engine { model = model, prompts_per_step = c.prompts,
    group_size = c.group,
    max_prompt_tokens = c.prompt, max_new_tokens = c.new, optimizer = {}, reuse_rollout = false }
  local prompts, n = prompts_of(c), c.prompts * c.group
  local batch = engine:rollout { prompts = prompts, n = c.group, seed = 1 }
  local cs = {}
  for i = 1, n do cs[i] = { advantage = i % 2 == 0 and 1.0 or -1.0 } end
  local function update(i) engine:update(batch, cs, { lr = 0.0, step = i }) end
  update(0)
  local t = {}
  t.update, t.update_clock = least(runs, update)
  if c.decode then t.step, t.step_clock = decoding_step(model, c, prompts, runs) end
  local sizes = workloads.sizes(config)
  local f = floor.of(c, sizes, rates, true)
  local free = { product = rates.product, read = math.huge, body_bytes = 0, head_bytes = 0,
    kv_bytes = 0 }
  collectgarbage()
  return t, { update = f.forward + f.backward + f.optimizer,
    step = floor.decode(sizes, free, c.prompts * c.group, c.prompt + c.new / 2) }
end

-- ---- exponents ----------------------------------------------------------------------------------

-- Least squares of log y over log x, upper half of the points.
local function exponent(xs, ys)
  local n, sx, sy, sxx, sxy = 0, 0.0, 0.0, 0.0, 0.0
  for i = #xs // 2 + 1 - (#xs < 4 and 1 or 0), #xs do
    local x, y = math.log(xs[i]), math.log(math.max(ys[i], 1e-9))
    n, sx, sy, sxx, sxy = n + 1, sx + x, sy + y, sxx + x * x, sxy + x * y
  end
  return (n * sxy - sx * sy) / (n * sxx - sx * sx)
end

local report, faster = {}, 0

-- judged(got, want): does it grow too fast?
local function judge(name, what, xs, got, want, judged)
  local e = { sweep = name, what = what, values = xs, seconds = got, floor = want,
    exponent = exponent(xs, got), floor_exponent = exponent(xs, want) }
  e.too_fast = judged ~= false and not quick and e.exponent > e.floor_exponent + tolerance
  faster = faster + (e.too_fast and 1 or 0)
  report[#report + 1] = e
  out("%s, %s", name, what)
  local cells = { "", "", "" }
  for i, x in ipairs(xs) do
    cells[1] = cells[1] .. ("%10d"):format(x)
    cells[2] = cells[2] .. ("%10.2f"):format(1e3 * got[i])
    cells[3] = cells[3] .. ("%10.2f"):format(1e3 * want[i])
  end
  out("  %-8s%s   exponent", "", cells[1])
  out("  %-8s%s %10.2f%s", "ms", cells[2], e.exponent, e.too_fast and "  GROWS TOO FAST" or "")
  out("  %-8s%s %10.2f\n", "floor", cells[3], e.floor_exponent)
end

-- case(x): a table for run; parts: { { "update" or "step", title }, ... }
local function sweep(name, xs, case, parts)
  local got, want = {}, {}
  for _, part in ipairs(parts) do got[part[1]], want[part[1]] = {}, {} end
  for i, x in ipairs(xs) do
    local t, f = run(case(x), quick and 1 or 3)
    for _, part in ipairs(parts) do got[part[1]][i], want[part[1]][i] = t[part[1]], f[part[1]] end
  end
  for _, part in ipairs(parts) do judge(name, part[2], xs, got[part[1]], want[part[1]]) end
end

local function some(small, large) return quick and small or large end

local training, decoding = "forward, backward and AdamW", "a step of decoding"
local sweeps = {}

function sweeps.rows()
  sweep("prompts a step (groups of 4 x 32 behind 64 tokens)",
    some({ 1, 2, 4 }, { 1, 2, 4, 8, 16, 32 }), function(x)
    return { prompts = x, group = 4, prompt = 64, new = 32 }
  end, { { "update", training } })
end

function sweeps.context()
  sweep("tokens of one sequence", some({ 64, 128, 256 }, { 512, 1024, 2048, 4096, 8192 }),
    function(x)
    return { prompts = 1, group = 1, prompt = x - 32, new = 32, hidden = 128, decode = true }
  end, { { "update", training }, { "step", decoding } })
end

function sweeps.vocabulary()
  sweep("vocabulary", some({ 256, 512, 1024 }, { 2048, 8192, 32768, 65536, 131072 }), function(x)
    return { prompts = 2, group = 4, prompt = 8, new = 32, vocab = x, hidden = 128, layers = 1,
      decode = true }
  end, { { "update", training .. ", most of it the head" }, { "step", decoding } })
end

function sweeps.group()
  sweep("completions behind one prompt of 128", some({ 2, 4, 8 }, { 2, 4, 8, 16, 32, 64 }),
    function(x)
    return { prompts = 1, group = x, prompt = 128, new = 32 }
  end, { { "update", training } })
end

function sweeps.decode()
  sweep("sequences", some({ 1, 2, 4 }, { 1, 2, 4, 8, 16, 32, 64 }), function(x)
    return { prompts = 1, group = x, prompt = 32, new = 32, hidden = 512, layers = 4,
      decode = true }
  end, { { "step", decoding } })
end

local function with_threads(n)
  local command = ("SCALING_CHILD=1 SCALING_THREADS=%d SCALING_ONLY=threads %s repl "
    .. "< bench/scaling.lua"):format(n, env "GRPO")
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return core.json_decode(text, command)
end

function sweeps.threads()
  local c = { prompts = some(1, 4), group = 8, prompt = 64, new = 32, hidden = some(64, 512),
    layers = 4, decode = true }
  if child then
    local others = measure.watch_others()
    local t = run(c, 5)
    t.others = others() or 0.0
    core.out(core.json_encode(t) .. "\n")
    return
  end
  local xs, update, step, others, n = {}, {}, {}, 0.0, 1
  local cores = 1
  for _, row in ipairs(core.doctor()) do
    if row[1] == "cores" then cores = tonumber(row[2]) end
  end
  while n <= cores do
    local t = with_threads(n)
    xs[#xs + 1], update[#update + 1], step[#step + 1] = n, t.update_clock, t.step_clock
    others, n = math.max(others, t.others), 2 * n
  end
  if #xs < 2 then return end
  local function ideal(list)
    local result = {}
    for i, x in ipairs(xs) do result[i] = list[1] / x end
    return result
  end
  local quiet = others <= 0.1
  if not quiet then out("others used %.1f cores: what follows is no evidence", others) end
  -- more threads must not be slower; the bound is half the time with twice as many
  local was = tolerance
  tolerance = 1.0
  local name = "threads, by the clock (floor: one thread's time over their number)"
  judge(name, training, xs, update, ideal(update), quiet)
  judge(name, decoding, xs, step, ideal(step), quiet)
  tolerance = was
end

for _, name in ipairs { "rows", "context", "vocabulary", "group", "decode", "threads" } do
  if not next(only) or only[name] then sweeps[name]() end
end
if json and not child then
  core.out(core.json_encode { sweeps = report, tolerance = tolerance } .. "\n")
end
os.exit(faster > 0 and 1 or 0)
