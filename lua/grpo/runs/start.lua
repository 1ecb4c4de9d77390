-- Starting a run, or resuming one: from what was asked for to a trainer with its directory.
--
-- Modules that the script does not need are required inside functions, so that its first line need
-- not wait for them.

local among = require "grpo.options".among
local checkpoint = require "grpo.loop.checkpoint"
local core = require "grpo.core"
local display = require "grpo.base.display"
local events = require "grpo.loop.events"
local extensions = require "grpo.base.extensions"
local files_read = require "grpo.base.files_read"
local places = require "grpo.data.places"
local inputs = require "grpo.runs.inputs"
local model_paths = require "grpo.models.paths"
local preflight = require "grpo.loop.preflight"
local ranks = require "grpo.base.ranks"
local reference_names = require "grpo.options.reference_names"
local row_check = require "grpo.loop.row_check"
local rundir = require "grpo.runs.directory"
local schedule = require "grpo.schedule"
local script = require "grpo.loop.script"
local script_files = require "grpo.options.scripts.script_files"
local script_logs = require "grpo.loop.script_logs"
local script_modules = require "grpo.options.scripts.modules"
local services = require "grpo.runs.services"
local sorted_pairs = require "grpo.base.sorted"
local trainer = require "grpo.loop.trainer"

local start = {}

-- ---- what a new run writes down ------------------------------------------------------------

local function plain(v)
  if type(v) == "function" then
    local text = schedule.text(v)
    if text then return text end
    local info = debug.getinfo(v, "S")
    return ("function (%s:%d)"):format(info.short_src, info.linedefined)
  end
  if type(v) ~= "table" then return type(v) == "userdata" and tostring(v) or v end
  local meta = getmetatable(v)
  local is_object = meta and meta.__name == "grpo.JsonObject" -- an option of the command line
  if meta and meta.__name and not is_object then return tostring(v) end
  local copy = is_object and setmetatable({}, meta) or {}
  for k, x in pairs(v) do copy[type(k) == "number" and k or tostring(k)] = plain(x) end
  return copy
end

local function value_at(config, path)
  local v = config
  for part in path:gmatch("[^.]+") do
    if type(v) ~= "table" then return nil end
    v = v[part]
  end
  return v
end

-- Every resolved option with where its value came from, as config.json has it.
function start.described(e)
  local function one(config, origins)
    local list = {}
    for path, origin in pairs(origins) do
      local value = value_at(config, path)
      if path == "data.sampler" and type(value) == "table" then -- it may hold the whole data
        value = { sample = value.sample, observe = value.observe }
      end
      list[path] = { value = plain(value), origin = origin }
    end
    return list
  end
  local stages = {}
  for i, stage in ipairs(e.stages) do
    stages[i] = { kind = stage.kind, options = one(stage.config, stage.origins) }
  end
  local lora = e.config.model.lora
  local notes = lora and lora.dropout > 0
    and { "the check that the ratio is 1 at the first update is off: with "
    .. "model.lora.dropout the training forward is not the sampling one" } or nil
  return { options = one(e.config, e.origins), stages = stages, notes = notes }
end

-- The paths of models that the options name.
local function models_of(e)
  local paths = { e.config.model.path }
  for _, spec in ipairs(e.stages) do
    local reference = spec.config.reference
    if type(reference) == "string" and not among(reference, reference_names.list) then
      paths[#paths + 1] = reference
    end
  end
  return paths
end

local function inputs_of(e)
  for _, path in pairs(models_of(e)) do
    local ok, place = pcall(model_paths.find, path)
    if ok then
      files_read.add_place(place)
    elseif path == e.config.model.path then
      error(place, 0)
    end
  end
  if type(e.config.model.tokenizer) == "string" then
    files_read.add_tokenizer((places.place(e.config.model.tokenizer)))
  end
  return files_read.paths
end

local function environment(e)
  local env = { threads = core.threads(), seed = e.config.seed }
  for k, v in pairs(core.version()) do env[k] = v end
  for _, row in ipairs(extensions.rows "libraries") do
    if row.key then env[row.key] = row.name() end
  end
  return env
end

-- ---- a new run -------------------------------------------------------------------------------

-- Returns the names of a host's rewards, or nil if it gave none.
local function names_of(rewards)
  local list = {}
  for i, entry in ipairs(rewards or {}) do list[i] = entry.name end
  return list[1] and list
end

-- Also portable if GRPO_CPU says so, so that a resume without it has the same bits.
local function numbers_of(e)
  return core.version().kernels == "portable" and "portable" or e.config.numbers
end

-- The experiment of a new run, and a function that makes its directory for a trainer.
local function begin(request)
  if request.as then rundir.check_new(request.root, request.as) end
  local e = script.load(request.script, request)
  return e, request.root and function(tr, rows)
    return rundir.create(request.root, { rows = rows,
      name = e.config.name, as = request.as, script = request.script, text = request.text,
      args = request.args, overrides = request.overrides,
      compute = tr.model.compute, numbers = numbers_of(e), steps = tr:total_steps(),
      config = start.described(e), env = environment(e), inputs = inputs_of(e),
      host_rewards = names_of(request.rewards) })
  end
end

-- ---- resuming a run ----------------------------------------------------------------------------

-- The newest run of this script that is not finished.
local function unfinished(root, path)
  for _, one in ipairs(rundir.list(root)) do
    if one.state == "damaged" then
      core.notice(("note: %s is not considered, because its run.json is damaged"):format(one.dir))
    end
    if one.script == path and one.state ~= "finished" and one.state ~= "running" then
      return one.dir
    end
  end
  error(core.error("ENOENT", ("--resume: no unfinished run of %s in %s"):format(path, root)), 0)
end

-- The directory that request.resume names.  It is refused if the script or its inputs have changed
-- since.
local function open_directory(request)
  local dir, root, path = request.resume, request.root, request.script
  if dir == true then
    dir = unfinished(root, path)
  elseif not core.fs.exists(dir .. "/run.json")
    and core.fs.exists(root .. "/" .. dir .. "/run.json") then
    dir = root .. "/" .. dir
  end
  local directory = rundir.open(dir, request.force)
  events.check(directory, request.force)
  places.check(directory.info.hub)
  local files, changed = inputs.changed(dir), {}
  if not request.force then inputs.refuse_elsewhere(dir, directory.info, files, "resume it") end
  directory.forced = {}
  for i, file in ipairs(files) do
    changed[i], directory.forced[i] = inputs.told(file), inputs.told(file, true)
  end
  local saved = ("%s/%s/main.lua"):format(dir, events.last_source(directory))
  if path and core.fs.read(path) ~= core.fs.read(saved) then
    changed[#changed + 1] = ("%s differs from %s, the copy that the run saved"):format(path, saved)
  end
  if #changed > 0 and not request.force then
    error(core.error("EARG",
      ("%s: %s; --force resumes all the same"):format(dir, table.concat(changed, ", "))), 0)
  end
  return directory
end

-- With others it would be another run.
local function keep_arithmetic(e, info, force)
  for name, default in sorted_pairs { compute = "f32", numbers = "native" } do
    local was, now = info[name] or default, e.config[name]
    if now ~= was and not force then
      error(core.error("EARG", ("%s=%s: the run computes with %s=%s; --force resumes all the same")
        :format(name, now, name, was)), 0)
    end
    info[name] = now
  end
end

-- Returns the script, modules and files on disk that are not as the run saved them last, as a list
-- and in words, and the directory of the saved ones.
local function edited(directory, path)
  local source = directory.dir .. "/" .. events.last_source(directory)
  local text = path and core.fs.exists(path) and core.fs.read(path)
  local list = script_modules.changed(source .. "/modules")
  for _, name in ipairs(script_files.changed(source .. "/files")) do list[#list + 1] = name end
  if text and text ~= core.fs.read(source .. "/main.lua") then table.insert(list, 1, path) end
  return list, ("%s %s changed since"):format(table.concat(list, #list == 2 and " and " or ", "),
    #list == 1 and "has" or "have"), source
end

-- Says that files were edited since and that the saved ones are taken, and how to take the others.
local function note_edited(directory)
  local dir, path = directory.dir, directory.info.script
  local list, told, source = edited(directory, path)
  if #list == 0 then return end
  local one = #list == 1
  directory:remark(("%s, but the run continues with the %s that it saved in %s; "
    .. "'grpo run %s --resume=%s --force' continues with the changed %s"):format(
    told, one and "copy" or "copies", source, path, dir, one and "one" or "ones"))
end

-- Takes the script at `path`, and what it loads, as they are on disk, and says which have changed.
local function take_edited(directory, path, at, stage)
  local list, told = edited(directory, path)
  if #list > 0 then
    directory:remark(told .. ", and the run continues with what is on disk, because of --force")
  end
  events.take_files(directory, at, stage, path, list)
end

-- Files that the script has loaded, and of which the run has no copy yet, get one.
local function keep_files(directory)
  for _, name in ipairs(script_files.not_copied()) do
    directory:remark(("%s was not saved with the run, so it is taken, and saved, as it is now")
      :format(name))
  end
  directory:save_files()
end

-- A run has its arguments from its beginning.
local function refuse_args(directory, args)
  for name, value in sorted_pairs(args or {}) do
    local was = (directory.info.args or {})[name]
    if was ~= value then
      error(core.error("EARG", ("--arg %s=%s: %s began with %s, and a resume keeps it; leave --arg "
        .. "out, or begin a new run"):format(name, value, directory.dir,
        was and ("%s=%s"):format(name, was) or "no argument of that name")), 0)
    end
  end
end

-- A resume would train on other rows than the run that began.
local function check_rows(directory, e, force)
  local change = row_check.change(e, directory.info.rows)
  if not change then return end
  if not force then
    error(core.error("EARG", ("%s: %s, or resume with --force"):format(directory.dir, change)), 0)
  end
  directory.remarks[#directory.remarks + 1] = change
  if #directory.forced == 0 then directory.forced[1] = change:match("^(.-), because") or change end
end

-- Without a reward that was the host's, the run would continue with what its script has.
local function check_host_rewards(directory, request)
  local lost = script.lost_rewards(directory.info, request.rewards)
  if not lost then return end
  if not request.force then
    error(core.error("EARG", ("%s: %s; resume it there and give that reward again, or resume with "
      .. "--force, which takes what the script has"):format(directory.dir, lost)), 0)
  end
  directory.remarks[#directory.remarks + 1] = lost .. "; --force takes what the script has"
end

-- The experiment of a run, and a function that continues the logs in its directory: nothing is
-- written before.
local function resume(request, directory)
  local info = directory.info
  refuse_args(directory, request.args)
  check_host_rewards(directory, request)
  local forced = request.force and request.script or nil
  local e = script.of_run(directory.dir, info, { overrides = request.overrides, script = forced,
    rewards = request.rewards, may_lose_rewards = true })
  e.config.name = info.name
  check_rows(directory, e, request.force)
  keep_arithmetic(e, info, request.force)
  return e, function(tr)
    local at, saved = tr.step_count, tr.counters
    directory:set_state("running") -- run.json counts rows no more
    local notes = script_logs.cut(directory.dir, saved and at)
    directory:open_logs()
    for _, line in ipairs(notes) do directory:remark(line) end
    for _, line in ipairs(directory.remarks) do directory:remark(line) end
    directory:cut_logs(saved and at or -1, tr.evaluations)
    directory.resumed_at = at
    directory:note(("resumed at step %d"):format(at))
    events.remove_unrecorded(directory)
    if not forced then
      note_edited(directory)
      keep_files(directory)
    end
    local stage, words = saved and saved.stage or 1, request.overrides or {}
    events.take_environment(directory, at, stage)
    if forced then take_edited(directory, forced, at, stage) end
    if #directory.forced > 0 then events.take_inputs(directory, at, stage, directory.forced) end
    if #words > 0 then events.take_options(directory, at, stage, words) end
    return directory
  end
end

-- ---- both --------------------------------------------------------------------------------------

local function set_threads(e, threads)
  e.config.threads = threads
  for _, stage in ipairs(e.stages) do stage.config.threads = threads end
end

-- Does a resume ask for other options or another script?
local function changes(request)
  return request.force or #(request.overrides or {}) > 0
end

-- A rank beside the first one has a trainer without a directory.  nil: the run is finished.
local function follow(request)
  local options, e, run = { view = display.silent() }
  if request.resume then
    local dir = ranks.of_first()
    if dir == "" then return nil end
    local info = rundir.read(dir, "run")
    e = script.of_run(dir, info, { overrides = request.overrides,
      script = request.force and request.script or nil, rewards = request.rewards })
    e.config.name = info.name
    options.from, run = checkpoint.newest(dir), { dir = dir, info = info }
  else
    e = script.load(request.script, request)
  end
  core.kernels(e.config.numbers)
  ranks.loaded(request, e, start.described, inputs_of, options.from)
  if request.threads then set_threads(e, request.threads) end
  local tr = trainer.new(e, options)
  if not request.resume then
    preflight.run(tr)
  elseif changes(request) then
    preflight.stages(tr)
  end
  tr.step_limit = request.steps
  tr.services = services.of_ranks(tr, run)
  return tr
end

-- Tells the other ranks which directory they resume from; "": nothing is left to do.
local function lead(directory)
  if ranks.size() == 1 then return end
  local continues = directory.info.state ~= "finished"
  ranks.of_first(function() return continues and directory.dir or "" end)
end

-- request: {
--   script = path, or nil for a run's own; text = its text, if it is not a file; words = true:
--   say which args were not asked for; args=, overrides=, rewards= (a host's): see script.load
--   root = directory of runs, nil: nothing is written; as = the new run's directory there
--   resume = true: the newest unfinished run of the script, or a run; force = although something
--   has changed steps = to stop after; threads = to write down; view = function() -> where lines
--   are shown; attach = see services.new
-- }
-- Returns the trainer and its directory; nil and the directory of a run that is finished.
function start.trainer(request)
  ranks.met(request)
  if ranks.size() > 1 and not ranks.first() then return follow(request) end
  local options = {}
  local directory, e, create
  if request.resume then
    directory = open_directory(request)
    checkpoint.recover(directory.dir)
    lead(directory)
    if directory.info.state == "finished" then return nil, directory end
    e, create = resume(request, directory)
    options.from = checkpoint.newest(directory.dir)
  else
    e, create = begin(request)
  end
  options.view = request.view()
  core.kernels(e.config.numbers)
  ranks.loaded(request, e, start.described, inputs_of, options.from)
  if request.threads then set_threads(e, request.threads) end
  local tr = trainer.new(e, options)
  local notes, rows = {}, nil
  if not directory then
    notes, rows = preflight.run(tr)
  elseif changes(request) then
    preflight.stages(tr) -- before the changes are written down
  end
  tr.directory, tr.step_limit = create and create(tr, rows), request.steps
  for _, note in ipairs(notes) do
    core.notice("note: " .. note)
    if tr.directory then tr.directory:note(note) end
  end
  if tr.directory then
    extensions.run_opened(tr.directory.dir, true)
    tr.services = ranks.size() == 1 and services.new(tr, request.attach)
      or services.of_ranks(tr, request.resume and directory)
  end
  return tr, tr.directory
end

return start
