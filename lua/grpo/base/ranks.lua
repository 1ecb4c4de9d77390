-- The ranks of a run: the processes that a launcher such as mpirun has started, of one program.
--
-- Here one process is the run, rank 0 of 1.  An extension that connects several processes (kind
-- "ranks" of base/extensions.lua) puts functions of its own in the place of these.

local core = require "grpo.core"
local extensions = require "grpo.base.extensions"

local ranks = {}

-- Variables in which launchers say how many processes they have started.
local SIZES = { "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS" }

local function is_set(name)
  return (os.getenv(name) or "") ~= ""
end

-- The kind of MPI whose launcher has started this process beside others: "openmpi", "mpich"; nil:
-- none has.  A shell that srun has started is a step of one task, with the variables of a launcher.
local function launcher()
  if is_set("GRPO_MPI") then return os.getenv("GRPO_MPI") end
  for _, name in ipairs(SIZES) do
    if os.getenv(name) == "1" then return nil end
  end
  if is_set("OMPI_COMM_WORLD_SIZE") or is_set("PMIX_RANK") then return "openmpi" end -- srun: PMIx
  if is_set("PMI_RANK") or is_set("PMI_FD") then return "mpich" end
end

local SAID = 1.0 -- seconds in which the first process says what all of them would say

-- No extension connects the processes: the first one says so, and the others end after it.
local function refuse()
  local number = os.getenv("OMPI_COMM_WORLD_RANK") or os.getenv("PMI_RANK")
    or os.getenv("PMIX_RANK") or "0"
  local err = core.error("EARG", "a launcher has started several processes, but this program was "
    .. "built without the extension that connects them; start one, or build with all extensions")
  if number ~= "0" then
    core.process.sleep(SAID)
    function ranks.first() return false end
    function ranks.agreed() return true end
  end
  error(err, 0)
end

-- Meets the ranks that a launcher has started; returns whether there are several.
function ranks.start()
  local kind = launcher()
  if not kind then return false end
  local row = extensions.rows("ranks")[1]
  if not row then refuse() end
  for name, f in pairs(row.functions()) do ranks[name] = f end
  row.start(kind)
  return ranks.size() > 1
end

-- ---- one process ---------------------------------------------------------------------------

function ranks.rank() return 0 end
function ranks.size() return 1 end

-- Does this process write, and speak to the user?
function ranks.first() return true end

-- Is the value true on at least one rank?
function ranks.any(flag) return flag end

-- Notes how ranks are bound to cores.
function ranks.note_binding() end

-- All ranks must train the same run: called when they meet, and with what they have loaded.
function ranks.met() end
function ranks.loaded() end

-- Returns what load() returns, a model first, which may be `adapted`.
function ranks.load(_, load) return load() end

-- Runs f on rank 0, which may write checkpoints; the others wait for its end and call part() each
-- time that it calls ranks.gather_state.
function ranks.lead(f) return f() end
function ranks.gather_state() end

-- This rank has failed, and the others do not know.
function ranks.fail_alone() end

-- Is an error that of all ranks, which rank 0 reports, or of this one alone?
function ranks.agreed() return false end

-- All learn what happened in the episodes of the prompts.
function ranks.share_episodes() end

-- Scores every completion on one rank: score(completions) sets its results and returns the number
-- of errors and the seconds by entry.
function ranks.score(_, completions, score) return score(completions) end

return ranks
