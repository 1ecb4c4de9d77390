-- Checkpoints: everything that a run needs to resume as if it had never stopped, and nothing else,
-- no time, host or path.
--
-- A checkpoint directory is a model directory too (Hugging Face layout).  Beside the model it has:
--   optimizer.safetensors   the optimizer's state
--   trainer.json            counters
--   state.bin               tr.state
--   sampler.bin             the sampler's state, with data.sampler
--   reference/              the reference, when a KL is measured; not one that is the base, the
--                           policy, or a model at a path that does not move
-- With an adapter the model is the adapter alone, in PEFT's layout, which names the base.  All is
-- written under a temporary name, synced with a manifest, and renamed.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local ranks = require "grpo.base.ranks"
local reference_names = require "grpo.options.reference_names"
local schema = require "grpo.loop.schema"
local script_logs = require "grpo.loop.script_logs"

local fs = core.fs
local checkpoint = {}

local function save_model(tr, model, dir)
  if tr.about.adapter then
    model:save(dir, { format = "adapter", base_name = tr.about.base })
  else
    model:save(dir, { dtype = "f32" })
  end
end

local function fill(tr, temporary, state)
  save_model(tr, tr.model, temporary)
  if tr.about.adapter and tr.tokenizer then tr.tokenizer:save(temporary) end
  local stage = tr.stage
  local goes_on = tr.engine and stage and not stage.done
  if goes_on then
    ranks.gather_state()
    tr.engine:save(temporary)
  end
  -- a stage that is done is still measured
  if stage and stage.reference and stage.keeps_reference and (goes_on or stage.measures_kl) then
    save_model(tr, stage.reference, temporary .. "/reference")
  end
  local cut = stage and stage.source.targets_truncated or 0
  local counters = {
    format = 1, step = tr.step_count, tokens_seen = tr.tokens_seen, stage = tr.stage_index,
    stage_step = stage and stage.step or 0, cursor = stage and stage.source.cursor or 0,
    stage_tokens = stage and stage.tokens or 0, stage_done = stage and stage.done or false,
    dropped = stage and stage.source.dropped or 0,
    truncated = stage and stage.source.truncated or 0,
    targets_truncated = cut > 0 and cut or nil,
    update = tr.update_count, update_tokens = tr.update_tokens,
    stage_update = stage and stage.update or 0,
    stage_update_tokens = stage and stage.update_tokens or 0,
    evaluated = tr.evaluated, evaluations = tr.evaluations > 1 and tr.evaluations or nil,
    events = tr.events_held, best = tr.best, best_step = tr.best_step,
    last_metrics = tr:repeatable_metrics(),
  }
  errors.must(fs.write(temporary .. "/trainer.json",
    core.json_encode(counters, { indent = 2 }) .. "\n"))
  errors.must(fs.write(temporary .. "/state.bin", state))
  local sampler = stage and stage.source.sampler
  if sampler and sampler:is_used() then
    errors.must(fs.write(temporary .. "/sampler.bin", sampler.saved))
  end
end

-- Writes tr into the directory `dir`, complete or not at all.  run: the run that owns the
-- checkpoint, or nil.
function checkpoint.write(tr, dir, run)
  local state = core.state_encode(tr.state)
  local temporary = core.checkpoint_begin(dir)
  local ok, err = pcall(fill, tr, temporary, state)
  if ok then ok, err = pcall(core.checkpoint_commit, temporary, dir) end
  if ok then return end
  if not run or run:is_in_place() then fs.remove_tree(temporary) end
  error(err, 0)
end

-- run: gets a note, once, if the file system has no symbolic links; nil: there is no note
local function link(run_dir, name, target, run)
  local path = run_dir .. "/" .. name
  local ok, message, code = fs.link(target, path)
  if code == "EARG" then
    if run and not run.has_no_links then
      run.has_no_links = true
      run:note("note: the file system has no symbolic links, so there is no 'latest' and 'best'; "
        .. "every command finds the newest checkpoint, and others by their directories")
    end
    return
  end
  if not ok and fs.list(path) and not fs.readlink(path) then
    errors.raise_plain("EFORMAT", "%s: it is a directory, but the run's link to a checkpoint "
      .. "belongs there; move it away or remove it", path)
  end
  if not ok then errors.raise_plain("EIO", "%s", message) end
end

-- Removes all checkpoints of a run but the newest and the best.
function checkpoint.prune(tr)
  local directory, keep = tr.directory, tr.settings.checkpoint.keep
  local run_dir = directory.dir
  directory:check_place()
  local best = fs.readlink(run_dir .. "/best")
    or tr.best_step and core.checkpoint_name(tr.best_step)
  local steps = core.checkpoint_steps(run_dir)
  for i = 1, #steps - math.max(1, keep) do
    local name = core.checkpoint_name(steps[i])
    local ok, err = true, nil
    -- A directory without a manifest is not the program's, whatever it is called.
    local own = fs.exists(run_dir .. "/" .. name .. "/manifest.json")
    if own and best ~= name then ok, err = pcall(core.checkpoint_remove, run_dir .. "/" .. name) end
    if not ok then directory:note(("%s stays: %s"):format(name, tostring(err))) end
  end
end

-- Writes the regular checkpoint of a run at this step; returns its path.
function checkpoint.save(tr)
  local run = tr.directory
  local run_dir = run.dir
  local relative = core.checkpoint_name(tr.step_count)
  local dir = run_dir .. "/" .. relative
  run:check_place()
  if not fs.exists(dir) or tr.saved_step ~= tr.step_count then
    if fs.exists(dir) then core.checkpoint_remove(dir) end
    run:sync_logs()
    script_logs.keep_sizes(run_dir, tr.step_count)
    checkpoint.write(tr, dir, run)
    run:check_place() -- that may have taken long
    tr.saved_step = tr.step_count
  end
  link(run_dir, "latest", relative, run)
  checkpoint.prune(tr)
  return dir
end

function checkpoint.mark_best(tr)
  tr.directory:check_place()
  link(tr.directory.dir, "best", core.checkpoint_name(tr.step_count), tr.directory)
end

-- Returns the directory of a run's newest checkpoint, nil when there is none yet.  Raises when it
-- is corrupt.
function checkpoint.newest(run_dir)
  local steps = core.checkpoint_steps(run_dir)
  if #steps == 0 then return nil end
  local dir = run_dir .. "/" .. core.checkpoint_name(steps[#steps])
  local ok, err = errors.try(core.checkpoint_verify, dir)
  if not ok then
    errors.raise_plain("EFORMAT",
      "%s; restore it from a copy, or remove %s to resume from an older checkpoint", tostring(err),
      dir)
  end
  return dir
end

-- Mends what a killed process left between two of its writes, in a run that nobody trains: removes
-- checkpoints that it had not completed, and links `latest` to the newest one.
function checkpoint.recover(run_dir)
  for _, name in ipairs(fs.list(run_dir .. "/checkpoints") or {}) do
    if name:find("^%.tmp%-step%-%d+$") then
      errors.must(fs.remove_tree(run_dir .. "/checkpoints/" .. name))
    end
  end
  local steps = core.checkpoint_steps(run_dir)
  local newest = #steps > 0 and core.checkpoint_name(steps[#steps])
  if not newest or fs.readlink(run_dir .. "/latest") == newest then return end
  checkpoint.newest(run_dir) -- raises when it is corrupt
  link(run_dir, "latest", newest)
end

-- Returns the reference of the checkpoint's stage, which tr has begun with that checkpoint's model,
-- and whether a checkpoint holds it.
function checkpoint.reference(tr, dir)
  local saved, stage = dir .. "/reference", tr.stage
  local given = stage.config.reference
  if given == "policy" or reference_names.added[given] then return stage.reference, false end
  if not tr.about.adapter then
    local named = given == "initial" or given == "random"
    if not named and not fs.isdir(saved) and not stage.keeps_reference then
      return stage.reference, false -- it was loaded from its path
    end
    if not fs.isdir(saved) then
      errors.raise_plain("EARG", "%s: it has no reference, because the run measured no KL until "
        .. "then, so a resume cannot begin to; leave out what asks for one (train.kl, for "
        .. "instance), or begin a new run from it: model.path=%s", dir, dir)
    end
    return core.model_load(saved, { dtype = "f32", compute = tr.model.compute }), true
  end
  if stage.config.reference ~= "initial" then return stage.reference, false end
  local reference = core.model_base(tr.model)
  if not fs.isdir(saved) then return reference, false end
  core.model_load_adapter(reference, saved)
  return reference, true
end

-- Returns the state and its bytes.
local function read_state(path)
  local text = fs.read(path)
  if not text then return {} end
  local ok, state = pcall(core.state_decode, text)
  if ok then return state, text end
  if state.code ~= "EFORMAT" then error(state, 0) end
  return errors.raise_plain("EFORMAT", "%s: %s", path, tostring(state):match("saved state.*"))
end

local function read_counters(dir)
  local counters, message, code = schema.read(dir .. "/trainer.json", schema.shapes.trainer)
  if not counters then errors.raise_plain(code, "%s: not a checkpoint: %s", dir, message) end
  return counters
end

-- Returns the step at which a checkpoint was written.
function checkpoint.step(dir)
  return read_counters(dir).step
end

-- Returns counters and tr.state of a checkpoint.
function checkpoint.read(dir)
  core.checkpoint_verify(dir)
  local counters = read_counters(dir)
  counters.state = read_state(dir .. "/state.bin")
  local _, bytes = read_state(dir .. "/sampler.bin")
  counters.sampler = bytes
  return counters
end

return checkpoint
