-- The program: finds the command, turns errors into one line and an exit status.
--
-- A command is a module grpo.commands.NAME that returns what it declares (flags.lua, usage.lua) and
-- run(o, cli): o is what parse.lua returns, the result is an exit status (nil: 0).

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local extensions = require "grpo.base.extensions"
local options = require "grpo.options"
local parse = require "grpo.commands.parse"
local ranks = require "grpo.base.ranks"
local usage = require "grpo.commands.usage"

local cli = {}

-- In the order of `grpo help`.
cli.commands = { "run", "check", "test", "repl", "attach", "eval", "generate",
  "chat", "export", "runs", "logs", "stop", "replay", "diff", "init", "bench",
  "doctor", "help" }

local module_of = { init = "grpo.commands.init_project" }

function cli.command(name)
  for _, known in ipairs(cli.commands) do
    if known == name then return require(module_of[name] or "grpo.commands." .. name) end
  end
end

-- Words that other programs have for a command, or that say what it does.
local resume, follow = "run --resume=RUN", "logs -f RUN"
local also = { train = "run", fit = "run", start = "run", sft = "run", ppo = "run", grpo = "run",
  finetune = "run", resume = resume, continue = resume,
  evaluate = "eval", validate = "eval", sample = "generate", complete = "generate",
  infer = "generate", inference = "generate", predict = "generate", talk = "chat",
  list = "runs",
  ls = "runs", status = "runs", log = "logs", tail = follow, watch = follow, follow = follow,
  kill = "stop", convert = "export", merge = "export", gguf = "export",
  new = "init", create = "init",
  compare = "diff", env = "doctor", info = "doctor", benchmark = "bench",
  shell = "repl", lint = "check", dryrun = "check" }

for _, row in ipairs(extensions.rows("commands")) do
  local at = #cli.commands + 1
  for i, name in ipairs(cli.commands) do
    if name == row.before then at = i end
  end
  table.insert(cli.commands, at, row.name)
  for word, words in pairs(row.also or {}) do
    if math.type(word) then word, words = words, row.name end
    also[word] = words
  end
end

-- The command that a word may mean, and whether by another word for it; nil if none is near.
local function command_meant(word)
  local near = options.nearest(word, cli.commands)
  if near then return near end
  local words = {}
  for other, name in require("grpo.base.sorted")(also) do
    if options.among(name:match "^%S+", cli.commands) then words[#words + 1] = other end
  end
  local other = options.nearest(word, words)
  return also[other], other
end

-- Raises an error; `what` is the beginning of its sentence.
function cli.unknown(what, name)
  local near = command_meant(name)
  errors.raise_plain("EARG", "%s '%s'%s; see 'grpo help'", what, name,
    near and (", did you mean '%s'?"):format(near) or "")
end

local function check_library()
  local library = os.getenv("GRPO_LUA")
  if library and library ~= "" and not core.fs.isdir(library) then
    errors.raise_plain("ENOENT", "GRPO_LUA=%s: no such directory; name one with lua/grpo/ or "
      .. "rewards/, or unset GRPO_LUA", library)
  end
end

local function run_command(name, words)
  local command = cli.command(name) or cli.unknown("unknown command", name)
  local o = parse(command, words)
  cli.trace = o.flags.trace
  if o.flags.help then
    core.out(usage.help(command))
    return 0
  end
  check_library()
  if o.flags.memory then core.set_memory(o.flags.memory) end
  if o.flags.threads then core.set_threads(o.flags.threads) end
  if o.words[1] and usage.takes(command, "script") then -- it may have come with grpo
    o.words[1] = require("grpo.base.install_dir").find(o.words[1])
  end
  return command.run(o, cli)
end

-- MiB that a run needs beside what was counted: Lua's own data grow while it trains.
local SPARE = 2

-- Text about --memory for an error of missing memory; "" for others.
local function about_memory(err)
  local mem = type(err) == "table" and err.code == "ENOMEM" and core.mem()
  if not mem or mem.limit == 0 then return "" end
  local function mib(bytes) return math.ceil(bytes / 2^20) end
  local enough = ""
  if err.enough then
    enough = (": raise it to at least %dM"):format(mib(err.enough) + SPARE)
  elseif mem.refused > 0 then
    enough = (", and %d MiB in use and %d more do not fit: raise it to at least %dM"):format(
      mib(mem.refused_at), mib(mem.refused), math.max(mem.least_mib,
      mib(mem.refused_at + mem.refused)))
  end
  return ("; --memory is %.6g MiB%s, or need less"):format(mem.limit / 2^20,
    enough ~= "" and enough or ": raise it")
end

-- Does this process report an error?  One that all ranks have is reported by the first.
local function speaks(err)
  return ranks.first() or not ranks.agreed(err)
end

-- "rank 2: " of an error that this process alone has.
local function rank_name()
  local rank, size = ranks.rank(), ranks.size()
  return size > 1 and rank > 0 and ("rank %d of %d: "):format(rank, size) or ""
end

-- Seconds: an error that all ranks meet before they communicate, such as a mistake in the script,
-- is reported by the first rank within this time; it then ends the others.
local FIRST_RANK_REPORTS_WITHIN = 1.0
-- Seconds: MPICH's launcher drops what it has not read when a rank aborts, so the rank waits.
local LAUNCHER_FLUSH_TIME = 0.2

-- The line of an error, with what a name of Python or a misspelt method leads to.  If that fails,
-- the line stays as it is.
local function explained(err)
  local line = errors.line(err)
  local ok, more = pcall(function() return require("grpo.options.scripts.advice").on(line) end)
  return ok and more or line
end

-- One line for an error; with --trace the Lua traceback too.  Returns the exit status.
function cli.report(err)
  local status = core.status_exit(err) -- first, so that nothing fails after the line
  if not speaks(err) then return status end
  if not ranks.first() then
    core.process.sleep(FIRST_RANK_REPORTS_WITHIN) -- or until the first rank ends this one
    if core.signal_count() > 0 then return status end
  end
  core.err("grpo: " .. rank_name() .. explained(err) .. about_memory(err) .. "\n")
  if type(err) == "table" and err.block then core.err(err.block .. "\n") end
  if cli.trace and type(err) == "table" and err.traceback then core.err(err.traceback .. "\n") end
  if ranks.size() > 1 and not ranks.agreed(err) then
    core.process.sleep(LAUNCHER_FLUSH_TIME)
    ranks.abort(status)
  end
  return status
end

function cli.main(words)
  if words[1] == "--trace" then words = { words[2], "--trace", table.unpack(words, 3) } end
  local name = words[1]
  if not name or name == "--help" or name == "-h" then
    core.out(require("grpo.commands.help").overview(cli))
    return name and 0 or 2
  end
  if name == "--version" or name == "version" then
    core.out(require("grpo.commands.doctor").version_text())
    return 0
  end
  local ok, status = core.protected(run_command, name, table.move(words, 2, #words, 1, {}))
  if ok then return status or 0 end
  return cli.report(status)
end

return cli
