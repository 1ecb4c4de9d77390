-- Regressions: the ratio of a step to its floor, compared with the ratio in a file.
--
--   { "tolerance": 0.25, "KERNELS": { "COMPUTE": { "W1": ratio, ... } } }
--
-- The ratio is that of the best run, or by core time where others used the machine.

local core = require "grpo.core"
local show = require "grpo.bench.show"

local expected = {}

local function text_of(path)
  local text, message, code = core.fs.read(path)
  if not text then
    error(core.error(code or "ENOENT", ("--check: %s: %s"):format(path, message)), 0)
  end
  return text
end

function expected.read(path)
  local known = core.json_decode(text_of(path), path)
  if type(known) ~= "table" or type(known.tolerance) ~= "number" then
    error(core.error("EARG", ("--check: %s: want an object with a number 'tolerance'")
      :format(path)), 0)
  end
  return known
end

local function ratio_of(row)
  if (row.others or 1) <= show.quiet then return row.best_ratio, "" end
  return row.core_ratio, " by core time"
end

-- Calls fn(name, row) for each step with a shared prompt and a forward pass of its own.
local function each(report, fn)
  for _, r in ipairs(report.workloads) do
    for _, row in ipairs(r.rows) do
      if row.shared_prompt and not row.reuse_rollout then fn(r.name, row) end
    end
  end
end

-- Returns the number of rows that are worse than expected.
function expected.compare(report, known)
  local kernels, worse = known[report.machine.kernels], 0
  if not kernels then
    core.err(("grpo: bench: no ratios for %s kernels, nothing to compare with\n")
      :format(report.machine.kernels))
    return 0
  end
  each(report, function(name, row)
    local want = type(kernels[row.compute]) == "table" and kernels[row.compute][name]
    if type(want) ~= "number" then
      core.err(("%s %s: no ratio to compare with\n"):format(name, row.compute))
      return
    end
    local ratio, how = ratio_of(row)
    local limit = want * (1 + known.tolerance)
    worse = worse + (ratio > limit and 1 or 0)
    core.err(("%s %s: %.2f x the floor%s, expected %.2f, at most %.2f: %s\n")
      :format(name, row.compute, ratio, how, want, limit, ratio > limit and "WORSE" or "fine"))
  end)
  return worse
end

-- Writes the measured ratios into the file; the rest of it stays.
-- Raises errors at once that would otherwise appear after minutes of measuring.
function expected.check_place(path)
  local folder = path:match("^(.*)/[^/]*$")
  if folder and folder ~= "" and not core.fs.isdir(folder) then
    error(core.error("ENOENT", ("--write-expected: %s: there is no directory %s")
      :format(path, folder)), 0)
  end
  if core.fs.exists(path) then expected.read(path) end
end

function expected.write(path, report)
  local known = core.fs.exists(path) and expected.read(path) or { tolerance = 0.25 }
  local kernels = known[report.machine.kernels] or {}
  known[report.machine.kernels] = kernels
  each(report, function(name, row)
    kernels[row.compute] = kernels[row.compute] or {}
    kernels[row.compute][name] = tonumber(("%.2f"):format((ratio_of(row))))
  end)
  local ok, message, code = core.fs.write(path, core.json_encode(known, { indent = 2 }) .. "\n")
  if not ok then error(core.error(code, "--write-expected: " .. message), 0) end
end

return expected
