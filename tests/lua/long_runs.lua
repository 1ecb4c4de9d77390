-- A run of many steps, made of its files alone, and a bound on the memory of what reads it.

local core = require "grpo.core"
local tiny = require "tests.lua.tiny"

local fs = core.fs

local long_runs = {}

long_runs.STEPS = 12000
long_runs.MOST = 6 << 20 -- bytes; the rows of either log take more than 10 MiB as tables

-- Writes a file with the line each(step) for each step.
function long_runs.write(path, each)
  local file <close> = assert(io.open(path, "wb"))
  for step = 1, long_runs.STEPS do file:write(each(step), "\n") end
end

local function metrics(step, spike)
  local row = { step = step, stage = 1, stage_step = step, kind = "grpo", num_tokens = 10 * step,
    reward = step == spike and 50 or step % 7 / 7, kl = 1e-3 * step }
  for i = 1, 10 do row["own" .. i] = i + step % 3 end
  return core.json_encode(row)
end

-- Calls f with the directory of a long run.
function long_runs.with_run(f)
  tiny.temporary(function(root)
    local dir = root .. "/long-001"
    assert(fs.mkdirs(dir))
    assert(fs.write(dir .. "/run.json", '{"format": 1, "state": "finished", "script": "long.lua"}'))
    assert(fs.write(dir .. "/config.json", '{"stages": []}'))
    long_runs.write(dir .. "/metrics.jsonl", function(step) return metrics(step, 1234) end)
    long_runs.write(dir .. "/eval.jsonl", function(step)
      return core.json_encode { step = step, n = 4, label = "step", ["eval/accuracy"] = 0.5,
        ["eval/accuracy/low"] = 0.25, ["eval/accuracy/high"] = 0.75 }
    end)
    long_runs.write(dir .. "/completions.jsonl", function(step)
      return core.json_encode { step = step, prompt_index = 1, index = 1, prompt = "1=", text = "1",
        rewards = { right = 1 }, reward = 1, advantage = 0.5, finish = "eos", length = 1 }
    end)
    long_runs.write(dir .. "/output.log", function(step)
      return ("step %d %s"):format(step, ("."):rep(900))
    end)
    f(dir)
  end)
end

-- Returns what f(...) returns, which must need less than long_runs.MOST bytes at once.
function long_runs.bounded(f, ...)
  local results = table.pack(core.limited({ memory = long_runs.MOST }, "the reader", f, ...))
  if not results[1] then error(tostring(results[2]), 0) end
  return table.unpack(results, 2, results.n)
end

return long_runs
