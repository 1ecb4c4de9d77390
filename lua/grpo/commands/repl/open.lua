-- Opens what `grpo repl` was given: a script, a run or one of its checkpoints, or a model.

local checkpoint = require "grpo.loop.checkpoint"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local history = require "grpo.runs.history"
local loading = require "grpo.models.loading"
local places = require "grpo.data.places"
local rundir = require "grpo.runs.directory"
local script = require "grpo.loop.script"
local services = require "grpo.runs.services"
local trainer = require "grpo.loop.trainer"

local fs = core.fs
local repl_open = {}

-- Returns the run directory that a word names, and the checkpoint if it names one; nil if neither.
local function run_of(word)
  if fs.exists(word .. "/trainer.json") and fs.exists(word .. "/../../run.json") then
    return word .. "/../..", word
  end
  if fs.exists(word .. "/run.json") then return (word:gsub("(.)/+$", "%1")) end
  if not word:find("/", 1, true) and not fs.exists(word)
      and fs.exists("runs/" .. word .. "/run.json") then
    return "runs/" .. word
  end
end

-- Returns a trainer at a checkpoint of a run. It has no directory, so it writes nothing there.
local function trainer_at(dir, from, o)
  local info = rundir.read(dir, "run")
  if not info then errors.raise_plain("EFORMAT", "%s/run.json: is gone", dir) end
  local at = from and checkpoint.step(from) or nil
  local e = script.of_run(dir, info, { overrides = o.overrides, at = at })
  e.config.name = info.name or e.config.name -- the saved script is called main.lua
  if not from then
    return trainer.new(e, {}), e,
      ("%s at its beginning: no checkpoint yet"):format(dir)
  end
  local tr = trainer.new(e, { from = from })
  services.changes_until(tr, dir, info, o.overrides)
  local about = ("%s at step %d (%s)"):format(dir, tr.step_count, from:match("[^/]+$"))
  if tr.counters.stage_done and tr.stage_index >= #e.stages then
    tr.beyond = true
    about = about .. "; it is finished: tr:step() continues past its end, with a fresh optimizer"
  end
  return tr, e, about
end

local function open_run(env, dir, from, o)
  from = from or core.checkpoint_newest(dir)
  local ok, tr, e, about = core.protected(trainer_at, dir, from, o)
  if not ok then
    if not from then error(tr, 0) end
    env.m = loading.open(from, { compute = o.flags.compute })
    core.err(("grpo: %s\n"):format(errors.line(tr)))
    env.tok = env.m.tokenizer
    return ("%s: only its model could be opened: m and tok"):format(dir)
  end
  env.tr, env.exp = tr, e
  env.m, env.tok = tr.model, tr.tokenizer
  return about .. "; nothing is written there"
end

-- Sets exp, tr, m and tok in env, as far as the first word has them; returns a line about it, and
-- the directory of the run if it is one.
function repl_open.open(env, o)
  local what = o.words[1]
  if core.isatty(2) then core.err(("loading %s ...\n"):format(what)) end
  if o.flags.compute then o.overrides[#o.overrides + 1] = "compute=" .. o.flags.compute end
  local dir, from = run_of(what)
  if dir then return open_run(env, dir, from, o), dir end
  if fs.isdir(what) or what:find("%.gguf$") or places.is_name(what) and not fs.exists(what)
      and what:find("/", 1, true) then
    env.m = loading.open(what, { compute = o.flags.compute })
    env.tok = env.m.tokenizer
    return "m and tok: the model and its tokenizer"
  end
  if not fs.exists(what) and not what:find("[/.]") then history.find(what) end -- this raises
  env.exp = script.load(what, o)
  env.tr = trainer.new(env.exp, {})
  env.m, env.tok = env.tr.model, env.tr.tokenizer
  return "exp, tr, m, tok: the experiment, its trainer, model and tokenizer"
end

return repl_open
