-- The extension mpi: several processes train together.

local function functions()
  local list = require "grpo.loop.several_ranks"
  local same_run = require "grpo.runs.same_run"
  list.met, list.loaded = same_run.met, same_run.loaded
  return list
end

return {
  ranks = { { functions = functions, start = require("grpo.core").ranks_start } },
}
