-- Hot reload: the script of a run, or a module of it, changes on disk while the run trains.
--
-- Between two steps the files are looked at.  If one has changed, everything must compile, the
-- tests beside changed files must pass, the script must run and its rewards must be able to score
-- the completions of the last step.  Then this stage and the later ones take rewards, schedules,
-- hooks and changed live options from the new script; otherwise they keep the old ones and the
-- reason is shown.  The loaded files are saved in source/reload-NNN of the run, and an event
-- (events.lua) makes a resume load them again at the same step.  tr.state and tr.kept survive;
-- upvalues of the old functions do not.

local changed_files = require "grpo.options.scripts.changed_files"
local context_fit = require "grpo.loop.context_fit"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local events = require "grpo.loop.events"
local inspect = require "grpo.loop.inspect"
local live_options = require "grpo.options.live_options"
local loaded_sources = require "grpo.options.scripts.loaded_sources"
local modules = require "grpo.options.scripts.modules"
local option_rows = require "grpo.options.option_rows"
local option_tree = require "grpo.options.option_tree"
local schedule_check = require "grpo.loop.schedule_check"
local script = require "grpo.loop.script"
local settings = require "grpo.options.settings"
local sorted_pairs = require "grpo.base.sorted"
local test_runner = require "grpo.test"

local fs, get = core.fs, option_tree.get
local reload = {}

local Watch = {}
Watch.__index = Watch

-- tr is about to start or to resume.  Its script is `path` on disk, which may be gone by now.
-- run: that of `again`, { dir =, info = }; nil: tr.directory.
function reload.watch(tr, path, run)
  local watch = setmetatable({ tr = tr, path = fs.exists(path) and path, looked = core.clock(),
    values = {}, fixed = {}, source = "source", run = run or tr.directory }, Watch)
  watch.files = changed_files.new(watch.path)
  for i, stage in ipairs(tr.experiment.stages) do
    watch.values[i], watch.fixed[i] = reload.live_values(stage.config), reload.fixed_values(stage)
  end
  return watch
end

-- Modules that a function has required since: watched like those that the script loaded, and kept
-- with them, where tr has a directory.
function Watch:meet()
  for name, path in sorted_pairs(modules.loaded(self.files.known)) do
    self.files:add(name, path)
    local directory = self.tr.directory
    if directory and modules.is_saved(name) then
      directory:sum_module(self.source, name)
    elseif directory then
      directory:save_module(self.source, name, path)
    end
  end
end

-- The sources that run now are saved in `source` of the run.
function Watch:came_from(source)
  self.source, self.files.known = source, modules.loaded()
end

-- ---- loading ------------------------------------------------------------------------------

local function compiles(paths)
  for _, path in ipairs(paths) do
    local chunk, problem = true, nil
    if not settings.kind(path) then chunk, problem = load(fs.read(path) or "", "@" .. path, "t") end
    if not chunk then errors.raise_plain("EARG", "%s", problem) end
  end
end

-- A file may read much data while it is loaded, so that only time is limited: what loops would stop
-- the run.  A signal does not wait for it.
local function patience(tr)
  return { seconds = tr.settings.limits.hook.seconds, signals = true }
end

local function run_tests(tr, path)
  local lines = {}
  local ok, result = core.limited(patience(tr), path, test_runner.run, { path },
    { write = function(s) lines[#lines + 1] = s end })
  if not ok then error(result, 0) end
  if result.failed > 0 then
    errors.raise_plain("EARG", "%s: %d tests fail: %s", path, result.failed,
      (table.concat(lines):match("FAILED ([^\n]*)") or "?"))
  end
end

-- The tests beside files, with modules as they are on disk.
local function tested(tr, known, paths)
  for _, path in ipairs(paths) do
    local beside = path:gsub("%.lua$", "_test.lua")
    if beside ~= path and fs.exists(beside) then
      loaded_sources.take(beside)
      local ok, problem, undo = modules.apart(known, function() run_tests(tr, beside) end)
      undo()
      if not ok then error(problem, 0) end
    end
  end
end

-- A module that was a value and now is what `require` makes of nothing.
local function refuse_empty(old)
  for name, module in sorted_pairs(old) do
    if module ~= true and package.loaded[name] == true then
      errors.raise_plain("EARG", "%s returns nothing any more",
        package.searchpath(name, package.path) or name)
    end
  end
end

-- Runs the script again, with modules and files of its own (from `saved`, if given, and then as
-- long as it takes).  Returns the experiment and a function that brings the old modules back; they
-- are back already when it fails.
local function load_again(watch, path, saved)
  local tr, known, info, words = watch.tr, watch.files.known, watch.run.info, {}
  for i, one in ipairs(tr.experiment.context.overrides) do
    words[i] = ("%s=%s"):format(one.path, one.text)
  end
  local ok, e, undo = modules.apart(known, function(old)
    local loaded = script.load(path,
      { args = info.args, overrides = words, saved = saved, home = info.script,
      limits = not saved and patience(tr) or nil, rewards = tr.experiment.context.rewards })
    context_fit.apply(loaded, tr.model)
    refuse_empty(old)
    return loaded
  end)
  if ok then return e, undo end
  undo()
  error(e, 0)
end

-- ---- what changes ---------------------------------------------------------------------------

-- Values of a stage's live options as its script has them.
function reload.live_values(config)
  local values = {}
  for _, row in ipairs(option_rows.rows) do
    if row.live then values[row.path] = get(config, row.path) end
  end
  return values
end

-- ---- what stays ---------------------------------------------------------------------------

-- Options that a reload changes in its own ways, or that change nothing that is seen.
local taken_over = { rewards = true, stages = true, threads = true, ["eval.metric"] = true }

-- A value as text; a function as its source.  Deeper than options a value may be anything.
local function said(value, depth)
  local meta = getmetatable(value)
  if type(value) == "function" then
    local info, lines, n = debug.getinfo(value, "S"), {}, 0
    for line in ((fs.read(info.source:sub(2)) or "") .. "\n"):gmatch("([^\n]*)\n") do
      n = n + 1
      if n >= info.linedefined and n <= info.lastlinedefined then lines[#lines + 1] = line end
    end
    return table.concat(lines, "\n")
  elseif type(value) == "table" and not meta then
    local fields = {}
    for k, v in pairs(depth < 5 and value or {}) do
      if type(k) ~= "table" then fields[#fields + 1] = tostring(k) .. "=" .. said(v, depth + 1) end
    end
    table.sort(fields)
    return "{" .. table.concat(fields, ",") .. "}"
  elseif type(value) == "table" or type(value) == "userdata" then
    return type(meta) == "table" and meta.__tostring and tostring(value) or "an object"
  end
  return type(value) .. " " .. tostring(value)
end

-- The values that the script gives to options which a run cannot change while it trains:
-- { [path] = text }.
function reload.fixed_values(stage)
  local values, sections = {}, {}
  for _, row in ipairs(option_rows.rows) do sections[row.path:match("^(.*)%.") or ""] = true end
  for _, row in ipairs(option_rows.rows) do
    local fixed = not (row.live or sections[row.path] or taken_over[row.path]
      or row.path:find("^hooks%."))
    local origin = fixed and stage.origins[row.path]
    if origin and origin ~= "command line" then
      values[row.path] = said(get(stage.config, row.path), 0)
    end
  end
  return values
end

-- Options that the new script says otherwise than the one that the run began with.
function Watch:unheard(e)
  local names, stages = {}, self.tr.experiment.stages
  if #stages ~= #e.stages then names.stages = true end
  for i = math.max(1, self.tr.stage_index), math.min(#stages, #e.stages) do
    if stages[i].kind ~= e.stages[i].kind then
      names.stages = true
    else
      local old, new = self.fixed[i], reload.fixed_values(e.stages[i])
      for path in pairs(old) do names[path] = names[path] or old[path] ~= new[path] or nil end
      for path in pairs(new) do names[path] = names[path] or old[path] ~= new[path] or nil end
    end
  end
  local list = {}
  for name in sorted_pairs(names) do list[#list + 1] = name end
  return table.concat(list, ", ")
end

-- ---- taking over --------------------------------------------------------------------------

local function same(a, b)
  if type(a) == "table" and type(b) == "table" then
    -- an object with functions is another one
    local plain, as_text = errors.try(core.json_encode, a)
    return plain and select(2, errors.try(core.json_encode, b)) == as_text
  end
  return a == b and type(a) ~= "function"
end

-- Stage `to` takes over what `from` says otherwise than `before`, the live values of the last
-- script.
local function take_over(to, from, before)
  to.reward_entries, to.rewards = from.reward_entries, from.rewards
  to.hooks = from.hooks
  to.eval.metric = from.eval.metric
  local now = reload.live_values(from)
  for path, value in pairs(now) do
    if not same(value, before[path]) then live_options.set(to, path, value) end
  end
  return now
end

function Watch:apply(e)
  local tr = self.tr
  for i = math.max(1, tr.stage_index), #tr.experiment.stages do
    local stage, new = tr.experiment.stages[i], e.stages[i]
    if new and new.kind == stage.kind then
      self.values[i] = take_over(stage.config, new.config, self.values[i])
    end
  end
end

-- Calls hooks.on_reload of the new script, which can take over or make what its functions need.
-- keeps: its changes of tr.state, its numbers for the log and its wish to stop count.
local function announce(tr, e, files, keeps)
  local stage = e.stages[math.min(math.max(1, tr.stage_index), #e.stages)]
  local hook = stage.config.hooks and stage.config.hooks.on_reload
  if not hook then return end
  local state, stop = core.state_encode(tr.state), tr.stop_reason
  local ok, problem = pcall(tr.call_hook, tr, "on_reload", hook, files)
  if not ok or not keeps then
    tr.state, tr.stop_reason, tr.extra = core.state_decode(state), stop, {}
  end
  if not ok then error(problem, 0) end
end

-- Loads the sources of an event again: a resume.  late: the checkpoint was written after it, and
-- holds what on_reload had changed in tr.state.
function Watch:again(e, late)
  local tr = self.tr
  local dir = self.run.dir .. "/" .. e.source
  local new = load_again(self, dir .. "/main.lua", dir)
  announce(tr, new, e.files or {}, not late)
  self:apply(new)
  self:came_from(e.source)
end

-- ---- the run's side ---------------------------------------------------------------------------

-- Can the rewards of the new script score what was sampled last?  One that cannot would end the
-- run.
local function try_rewards(tr, e)
  local stage, new = tr.stage, e.stages[math.max(1, tr.stage_index)]
  if not (tr.batch and stage and new and new.kind == stage.kind) then return end
  if stage.config.reward.on_error ~= "stop" then return end
  inspect.try(tr, new.config.reward_entries)
end

-- Do the schedules of the new script give values that their options can have?
local function try_schedules(tr, e)
  for i = math.max(1, tr.stage_index), #e.stages do
    local note = schedule_check.stage(e.stages[i])[1]
    if note then tr.recorder:advise { note } end
  end
end

-- stale: files that are other than what runs; changed: files that are other than at the last
-- attempt.  Returns two texts: what took effect, and what cannot take effect in
-- a running run.
local function attempt(self, stale, changed)
  local tr, files = self.tr, self.files
  loaded_sources.forget()
  compiles(changed)
  tested(tr, files.known, changed_files.join(stale, changed))
  local e, undo = load_again(self, self.path)
  local source, news
  local ok, problem = pcall(function()
    try_rewards(tr, e)
    try_schedules(tr, e)
    news = files:news(stale)
    announce(tr, e, news, true)
    source = tr.directory:save_reload(self.path)
    events.add(tr, { kind = "reload", source = source, files = news })
  end)
  if not ok then
    undo()
    error(problem, 0)
  end
  self:apply(e)
  files:remember()
  self:came_from(source)
  local unheard = self:unheard(e)
  return table.concat(news, ", ")
    .. (unheard ~= "" and "; these wait for another run: " .. unheard or "")
end

-- A line about files that have changed.
function Watch:take(changed)
  local files, stale = self.files, self.files:stale()
  if #stale == 0 then
    files:calm()
    return ("as it was, nothing to reload: %s"):format(table.concat(changed, ", "))
  end
  local ok, result = core.protected(attempt, self, stale, changed)
  if ok then return ("reloaded at step %d: %s"):format(self.tr.step_count, result) end
  files:fail()
  return "not reloaded, the old code stays: " .. errors.line(result)
end

local function not_by_several(changed)
  return ("not reloaded, because several ranks train: %s; stop the run and resume it with --force "
    .. "and its script, which takes the files as they are then"):format(table.concat(changed, ", "))
end

-- At most once a second; GRPO_RELOAD_ALWAYS: at every step, for tests.
function Watch:poll()
  if core.clock() - self.looked < 1 and not os.getenv("GRPO_RELOAD_ALWAYS") then return end
  self:look()
end

-- Looks at the files now.
function Watch:look()
  local tr = self.tr
  self.looked = core.clock()
  self:meet()
  if not self.path then return end
  local changed = self.files:changed()
  if #changed == 0 then return end
  local text = self.several and not_by_several(changed) or self:take(changed)
  tr.view:line(text)
  tr.directory:note(text)
end

return reload
