local core = require "grpo.core"
local flags = require "grpo.cli.flags"

local command = {
  name = "worker",
  summary = "sample completions for a trainer on another machine",
  arguments = {},
  flags = {
    { name = "connect", type = "word", value = "HOST:PORT",
      doc = "join the trainer that listens there, as its workers.listen says" },
    { name = "token-file", type = "file",
      doc = "read the secret that the trainer shares from FILE, instead of GRPO_WORKER_TOKEN" },
    { name = "model", type = "model",
      doc = "use the base of MODEL, which must be the trainer's, instead of having it sent; for "
        .. "runs that train an adapter" },
    { name = "wait", type = "number", value = "SECONDS", min = 0, default = 0,
      doc = "try for SECONDS to reach the trainer, at first and whenever it has gone, or "
        .. "has dropped this worker for its silence" },
    flags.memory, flags.threads,
    { name = "quiet", doc = "show only errors" },
  },
  about = {
    "Samples completions for the run that listens at HOST:PORT, until it is over. The trainer "
      .. "sends the model, and the weights as they change; the bits of the run are those of a run "
      .. "without workers.",
  },
  notes = {
    "The trainer must be of the same version and source, with the same kernels (grpo doctor) and C "
      .. "library, and share the token: 16 bytes or more in GRPO_WORKER_TOKEN or in a file.",
    "Exit status: 0 the run is over, 1 the trainer has dropped this worker, 2 it refuses it, 5 the "
      .. "trainer cannot be reached, or has gone, 130 or 143 stopped by a signal.",
    "Examples:",
    { { "grpo run my.lua workers.listen=0.0.0.0:7000" },
      { "grpo worker --connect trainer:7000 --wait 600" } },
  },
}

local signal_status = { HUP = 129, INT = 130, TERM = 143 }

function command.run(o)
  local f = o.flags
  if not f.connect then
    error(core.error("EARG", "worker: --connect HOST:PORT is missing; the trainer shows it when it "
      .. "begins"), 0)
  end
  core.signals_install()
  local status = require("grpo.workers.client").run { connect = f.connect, model = f.model,
    token_file = f["token-file"], wait = f.wait, quiet = f.quiet }
  return status or signal_status[core.signal_take()] or 130
end

return command
