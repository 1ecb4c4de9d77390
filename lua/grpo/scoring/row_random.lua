-- math.random in a script's own functions of a row: the same numbers for the same row, in every run
-- and after a resume.

local core = require "grpo.core"

local row_random = {}

local streams = { row = 0, prompt = 1, target = 2, pair = 3 }

-- f(...) while math.random draws from a stream of its own.  what: a key of `streams`;
-- number: of the row.
function row_random.during(config, what, number, held_out, f, ...)
  core.reseed_math(core.rng(config.seed, "user", held_out and 1 or 0, number, streams[what]))
  local results = table.pack(core.protected(f, ...))
  core.reseed_math(nil)
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

return row_random
