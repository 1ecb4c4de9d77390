-- The cost of a step on n ranks: `grpo bench --ranks`.  It measures only the rates of this machine.
-- The seconds of arithmetic are the floor at these rates, and the rest is a formula that an
-- extension has (the kind `rank_costs`).

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"
local floor = require "grpo.bench.floor"
local workloads = require "grpo.bench.workloads"

local ranks = {}

local lora = { rank = 8, alpha = 16 }
local links = { 1, 10, 100 } -- Gbit/s
-- The step of every model: 1,024 prompts of 256 tokens, 8 completions of 256 tokens for each.
local step = { prompts = 1024, group = 8, prompt = 256, new = 256 }
local list = {
  { title = "0.5B, LoRA of rank 8", config = "configs/models/qwen2.5-0.5b.json", lora = lora,
    weights = "bf16" },
  { title = "8B, LoRA of rank 8", config = "configs/models/llama-3.1-8b.json", lora = lora,
    weights = "bf16", blocks = 1024 },
  { title = "0.5B, all weights", config = "configs/models/qwen2.5-0.5b.json", weights = "f32",
    blocks = 1024 },
}

-- Returns the sums of model w at the rates of this machine, as the extension's formula takes them.
local function sums_of(w, rates)
  local s = workloads.sizes(workloads.config(w), w.lora and w.lora.rank)
  local bytes = floor.bytes[w.weights]
  local at = floor.rates(rates, "bf16", w.weights)
  local numbers = s.trained
  local waiting = core.gradient_sums(numbers, step.prompts, step.prompts, w.blocks or 0, 1)
  local function of(groups)
    return floor.of({ prompts = groups, group = step.group, prompt = step.prompt, new = step.new,
      lora = w.lora }, s, at, true)
  end
  local stored = s.body * bytes[1] + s.head * bytes[2] + (w.lora and numbers * 4 or 0)
  return { groups = step.prompts, blocks = w.blocks or 0, numbers = numbers,
    seconds_of = function(groups)
      local f = of(groups)
      return f.step - f.optimizer
    end,
    optimizer = of(1).optimizer, tokens = step.prompts * step.group * step.new,
    memory = stored + numbers * 12 + waiting * numbers * 4, moments = numbers * 8 }
end

local function out(format, ...) core.out(format:format(...) .. "\n") end

-- Prints tables for 1, 2, 4 ... n ranks.
function ranks.show(n, rates)
  local row = extensions.rows("rank_costs")[1] or errors.raise_plain("EARG", "bench: --ranks: this "
    .. "grpo was built without the extension that estimates what ranks cost; build with all "
    .. "extensions")
  local rank_cost = row.load()
  out("arithmetic at %.0f GFLOP/s in bf16 and %.1f GB/s of memory for each rank; a step of %d "
    .. "prompts of %d tokens, %d completions of %d each", rates.bf16 / 1e9, rates.read / 1e9,
    step.prompts, step.prompt, step.group, step.new)
  for _, w in ipairs(list) do
    local s = sums_of(w, rates)
    out("\n%s: %.1f million trained", w.title, s.numbers / 1e6)
    out("%6s %12s %12s %10s | %9s %5s | %9s %5s | %9s %5s", "ranks", "computing, s", "a rank sends",
      "GB a rank", "1 Gbit/s", "eff.", "10 Gbit/s", "eff.", "100", "eff.")
    local k, alone = 1, nil
    while k <= n do
      local words, cost = {}, nil
      for i, link in ipairs(links) do
        s.link = link
        cost = rank_cost.of(s, k)
        alone = alone or cost.seconds
        words[i] = ("%9.1f %4.0f%%"):format(cost.seconds, 100 * alone / k / cost.seconds)
      end
      out("%6d %12.1f %12s %10.2f | %s", k, cost.compute,
        rank_cost.size_text(math.max(cost.sent, cost.received)), cost.memory / 1e9,
        table.concat(words, " | "))
      k = 2 * k
    end
  end
end

return ranks
