local core = require "grpo.core"
local attach_server = require "grpo.commands.repl.attach_server"
local background = require "grpo.commands.background"
local flags = require "grpo.commands.flags"
local interrupt = require "grpo.base.interrupt"
local ranks = require "grpo.base.ranks"
local start = require "grpo.runs.start"

local run = {
  name = "run",
  summary = "train a model as an experiment script describes",
  arguments = { flags.with(flags.script, { unless = "resume" }), flags.override },
  flags = {
    { name = "resume", type = "run", optional = true,
      doc = "resume RUN from its own saved sources; without RUN, resume the newest unfinished run "
        .. "of SCRIPT" },
    { name = "force",
      doc = "resume even if the script or its inputs changed, or files of the run are damaged; if "
        .. "SCRIPT is given, use its current version instead of the saved copy" },
    { name = "steps", type = "integer", min = 1,
      doc = "stop after N steps, counted from the beginning of the run" },
    flags.arg, flags.memory, flags.threads, flags.dir,
    { name = "as", type = "word", value = "NAME",
      doc = "use RUNS/NAME as the directory of the new run, instead of its name with a number" },
    { name = "detach",
      doc = "run in the background, also after this terminal is closed: 'grpo logs -f RUN' shows "
        .. "its output, 'grpo attach RUN' opens a prompt in it, 'grpo stop RUN' ends it" },
    { name = "quiet", doc = "show no progress on the screen" },
    flags.json,
  },
  elsewhere = { config = "a file of settings is given in place of SCRIPT" },
  about = { "Runs the experiment that SCRIPT returns, and prints the run directory." },
  notes = {
    "Ctrl-C stops the run after a checkpoint; a second Ctrl-C ends it at once. SIGUSR1 writes a "
      .. "checkpoint.",
    "Options beside --resume hold from the step at which the run is resumed, also in later "
      .. "resumes. They are recorded in RUN/events.jsonl, and 'grpo diff' names them.",
    "Exit status: 0 done, 1 failed after training began, 2 a wrong script, option or flag, 3 a "
      .. "file is missing or corrupt, 4 training diverged, 5 out of memory or disk, 129, "
      .. "130 or 143 stopped by a signal after a checkpoint.",
    "Examples:",
    { { "grpo run my.lua train.lr=1e-5 sampling.group_size=16" },
      { "grpo run --resume=runs/my-001" },
      { "grpo run my.lua --detach" } },
  },
}

local signal_status = { HUP = 129, INT = 130, TERM = 143 }

local MOST_NAME = 200 -- bytes of a run's name; file systems take 255, and some are the program's

-- The request for runs/start.lua.  After --resume=RUN a first word that reads as an option is an
-- option, because a script is not needed.
local function request_of(o, in_background)
  local resume, first = o.flags.resume, o.words[1]
  local is_option = first and first:find("^[%w_.]+=") and not core.fs.exists(first)
  if resume and resume ~= true and is_option then
    table.insert(o.overrides, 1, table.remove(o.words, 1))
  elseif resume == true and not first then
    error(core.error("EARG", "--resume needs a script, or a run as in --resume=RUN"), 0)
  end
  if resume and o.flags.as then
    error(core.error("EARG", "--as names a new run, but --resume continues one; leave one of them "
      .. "out"), 0)
  end
  if o.flags.as and #o.flags.as > MOST_NAME then
    error(core.error("EARG", ("--as: the name has %d bytes, want at most %d"):format(#o.flags.as,
      MOST_NAME)), 0)
  end
  if core.fs.exists(o.flags.dir) and not core.fs.isdir(o.flags.dir) then
    error(core.error("EARG", ("--dir: %s is a file, want a directory"):format(o.flags.dir)), 0)
  end
  return { script = o.words[1], words = true, args = o.args, overrides = o.overrides,
    root = o.flags.dir, as = o.flags.as, resume = resume, force = o.flags.force,
    steps = o.flags.steps, threads = o.flags.threads, attach = attach_server.open,
    view = function()
      local display = require "grpo.base.display"
      return display.new { quiet = o.flags.quiet, background = in_background }
    end }
end

local function result_line(o, directory, fields)
  fields.run = directory.dir
  core.out((o.flags.json and core.json_encode(fields) or directory.dir) .. "\n")
end

-- The options of a run that is at its end change nothing any more.
local function refuse_overrides(overrides, directory)
  local dir = directory.dir
  error(core.error("EARG", ("%s is finished already, so %s can change nothing; train further in a "
    .. "new run: 'grpo run %s model.path=%s %s'"):format(dir, table.concat(overrides, " "),
    directory.info.script, dir, table.concat(overrides, " "))), 0)
end

-- A rank beside the first one trains, and says nothing.
local function follow(tr, cli)
  if not tr then return 0 end
  local ok, why = core.protected(tr.run, tr)
  if not ok then return cli.report(why) end
  return why == "interrupted" and signal_status[tr.interrupted] or 0
end

function run.run(o, cli)
  core.signals_install()
  local ready, status
  if ranks.start() and o.flags.detach then
    error(core.error("EARG", "--detach is for one process; a launcher has started several"), 0)
  end
  if o.flags.detach then
    ready, status = background.begin()
    if not ready then return status end
  end
  local fine, tr, directory = xpcall(start.trainer, interrupt.traced, request_of(o, ready ~= nil))
  if not fine and tr == interrupt.RAISED then return signal_status[core.signal_take()] end
  if not fine then error(tr, 0) end
  if tr then ranks.note_binding() end
  if not ranks.first() then return follow(tr, cli) end
  if not tr then
    if #o.overrides > 0 then refuse_overrides(o.overrides, directory) end
    core.err(("grpo: %s is finished already\n"):format(directory.dir))
    result_line(o, directory, { state = "finished" })
    return 0
  end
  tr.view:keep_in(directory)
  tr.view:share_terminal()
  if ready then background.announce(ready, o, directory) end
  local ok, why = core.protected(tr.run, tr)
  if not ok then
    status = cli.report(why)
    return (status == 2 or status == 3) and 1 or status -- compute had begun
  end
  if not ready then result_line(o, directory, { state = why, step = tr.step_count }) end
  if why == "interrupted" then return signal_status[tr.interrupted] end
  return 0
end

return run
