-- tools/check-neon.lua - metrics of two runs side by side, for tools/check-neon-program: what
-- differs beyond rounding.
--
--   A=metrics.jsonl B=metrics.jsonl ./grpo repl < tools/check-neon.lua

local data = require "grpo.data"

local function timed(name)
  return name:find "time" or name:find "per_second" or name:find "memory"
    or name == "crc32c" -- of the line
end

local function close(x, y)
  if type(x) ~= "number" then return true end
  return type(y) == "number" and math.abs(x - y) <= 1e-5 + 1e-4 * math.abs(x)
end

local a, b = data.jsonl(os.getenv "A"), data.jsonl(os.getenv "B")
if #a ~= #b then print(("%d steps, %d steps"):format(#a, #b)) end
for i = 1, math.min(#a, #b) do
  for name, x in pairs(a[i]) do
    if not timed(name) and not close(x, b[i][name]) then
      print(("step %d, %s: %s, %s"):format(i, name, x, tostring(b[i][name])))
    end
  end
end
