-- The trainer: the state of a run, and what scripts may call.  `grpo.trainer(experiment)` gives one
-- without a directory, for steps by hand; tr:run() is the loop in loop/loop.lua.

local checkpoint = require "grpo.loop.checkpoint"
local context_fit = require "grpo.loop.context_fit"
local core = require "grpo.core"
local csv_log = require "grpo.loop.csv_log"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local evaluate = require "grpo.loop.evaluate"
local experiment = require "grpo.options.experiment"
local inspect = require "grpo.loop.inspect"
local interrupt = require "grpo.base.interrupt"
local live_options = require "grpo.options.live_options"
local loading = require "grpo.models.loading"
local loop = require "grpo.loop.loop"
local name_problem = require "grpo.base.name_problem"
local number_text = require "grpo.base.number_text"
local planned_steps = require "grpo.loop.planned_steps"
local ranks = require "grpo.base.ranks"
local recorder = require "grpo.loop.recorder"
local run = require "grpo.loop.run"
local script_logs = require "grpo.loop.script_logs"
local Stage = require "grpo.loop.stage"
local steps = require "grpo.options.stage_kinds"
local unchanged = require "grpo.loop.unchanged"

local Trainer = { __name = "grpo.Trainer" }
local methods = {}

-- Fields that scripts only read: [trainer] = { [name] = value }.
local own = setmetatable({}, { __mode = "k" })

function Trainer.__index(tr, key)
  local value = own[tr][key]
  if value ~= nil then return value end
  if key == "engine" then return tr.stage and tr.stage.engine end
  if key == "dir" then return tr.directory and not tr.only_follows and tr.directory.dir or nil end
  if key == "config" then return live_options.view(tr.settings, tr) end
  return methods[key]
end

local advice = {
  kept = "assign its fields, as in tr.kept.file = ...",
  config = "assign a live option, as in tr.config.train.lr = 1e-5",
}

local function set_of(words)
  local set = {}
  for word in words:gmatch("%S+") do set[word] = true end
  return set
end

local read_only = set_of [[ kept config engine experiment model tokenizer step_count tokens_seen
  resumed batch metrics dir ]]

-- The fields that the program itself sets; of these, scripts may set `paused` and `state`.
local fields = set_of [[ about best best_step beyond busy counters directory eval_weights evaluated
  evaluations events events_held extra in_hook interrupted last_report noted on_option only_follows
  paused recorder restored_from save_now saved_step services settings stage stage_index
  state state_recorded step_limit step_seconds stop_reason tables update_count update_tokens
  update_tokens_before updates_before view watch ]]

function Trainer.__newindex(tr, key, value)
  if read_only[key] or methods[key] then
    errors.raise("EARG", "tr.%s: cannot be assigned; %s", key,
      advice[key] or "take a field of tr.state or tr.kept")
  end
  if not fields[key] then
    errors.raise("EARG", "tr.%s: a trainer has no such field; keep a value in tr.state, which "
      .. "every checkpoint holds, or in tr.kept, which a reload keeps", tostring(key))
  end
  rawset(tr, key, value)
end

Trainer.__tostring = function(tr)
  return ("trainer of %s at step %d"):format(tr.experiment.config.name, tr.step_count)
end

local trainer = {}

-- Sets a field that scripts only read.
function trainer.set(tr, name, value)
  own[tr][name] = value
end

-- options: { directory = run directory object, view = where lines are shown, from = a checkpoint to
-- continue from, weights = a checkpoint to measure }, all optional.
function trainer.new(e, options)
  options = options or {}
  if not experiment.is(e) then
    errors.raise("EARG", "grpo.trainer: got %s, want what grpo.experiment returned", type(e))
  end
  local tr = setmetatable({
    directory = options.directory, view = options.view or display.silent(), stage_index = 0,
    update_count = 0, update_tokens = 0, state = {}, settings = e.stages[1].config, extra = {},
    evaluations = 0, noted = {}, tables = {},
  }, Trainer)
  own[tr] = { experiment = e, step_count = 0, tokens_seen = 0, kept = {}, metrics = {},
    resumed = false }
  tr.recorder = recorder.new(tr)
  local at = options.from or options.weights
  if at then tr.counters = checkpoint.read(at) end
  own[tr].model, own[tr].tokenizer, tr.about = ranks.load(
    loading.is_adapted(e.config.model, at),
    function() return loading.model(e.config.model, e.config, at, steps.model_needs(e)) end)
  tr.about.lengths = context_fit.apply(e, tr.model)
  if options.from then tr:restore(options.from) end
  if options.weights then tr:measure_at(options.weights) end
  return tr
end

-- ---- stages ------------------------------------------------------------------------

function methods:begin_stage(index)
  self.stage_index = index
  local spec = self.experiment.stages[index]
  self.settings = spec.config
  -- its optimizer and arenas are freed before the next stage takes its own
  if self.stage then self.stage:close() end
  self.stage = nil
  self.stage = Stage.new(self, spec, index)
  self.updates_before, self.update_tokens_before = self.update_count, self.update_tokens
end

-- Brings the stage, which has just begun, to the place that a checkpoint's counters say.
local function take_place(self, counters)
  local stage = self.stage
  stage:take_place(counters)
  self.updates_before = self.update_count - stage.update
  self.update_tokens_before = self.update_tokens - stage.update_tokens
end

-- Takes what the run had counted when the checkpoint in `dir` was written.
local function take_counters(self, dir)
  local counters, mine = self.counters, own[self]
  mine.step_count, mine.tokens_seen = counters.step, counters.tokens_seen
  self.state = counters.state
  self.update_count, self.update_tokens = counters.update, counters.update_tokens
  self.best, self.best_step = counters.best, counters.best_step
  self.evaluated = counters.evaluated
  self.evaluations = counters.evaluations or counters.evaluated and 1 or 0
  mine.metrics, mine.resumed = counters.last_metrics or {}, true
  self.saved_step = counters.step
  if counters.stage >= 1 and not self.experiment.stages[counters.stage] then
    errors.raise_plain("EARG", "%s: is of stage %d, the script has %d", dir, counters.stage,
      #self.experiment.stages)
  end
end

-- Was the stage's reference the base alone?  It is, if the stage began with an adapter that no step
-- had touched; a checkpoint does not keep it then.
local function was_base(self)
  local config, counters = self.stage.config, self.counters
  return self.about.adapter and config.model.lora and config.reference == "initial"
    and not config.train.sync_reference and counters.step == counters.stage_step
end

-- Gives the stage the reference that it had at the checkpoint in `dir`.
local function take_reference(self, dir)
  local stage = self.stage
  if not stage.reference then return end
  if self.counters.stage_done and stage.keeps_reference and not was_base(self)
    and not core.fs.isdir(dir .. "/reference")
  then
    stage.measures_kl = false -- the run did not measure it either
    return
  end
  local reference, kept = checkpoint.reference(self, dir)
  stage:close()
  stage.reference, stage.keeps_reference = reference, kept
  stage:build_engine()
end

-- Brings the trainer to where the run was when it wrote the checkpoint in `dir`.
function methods:restore(dir)
  local counters = self.counters
  take_counters(self, dir)
  self.restored_from = dir
  if counters.stage < 1 then return end
  self.stage_index, self.settings = counters.stage, self.experiment.stages[counters.stage].config
  if counters.stage_done then return end
  self:begin_stage(counters.stage)
  local stage = self.stage
  stage.source.dropped, stage.source.truncated = counters.dropped, counters.truncated
  stage.source.targets_truncated = counters.targets_truncated or 0
  take_reference(self, dir)
  stage.engine:load(dir)
  take_place(self, counters)
  if stage.step >= stage.steps then
    errors.raise_plain("EARG", "train.steps: the stage has made %d steps, so it cannot end after "
      .. "%d; want more than it has made", stage.step, stage.steps)
  end
end

-- Brings the trainer to the checkpoint in `dir`, to measure its weights.  The optimizer's state is
-- not read, because no step follows.
function methods:measure_at(dir)
  take_counters(self, dir)
  self:begin_stage(math.max(1, self.counters.stage))
  if self.counters.stage >= 1 then take_reference(self, dir) end
  take_place(self, self.counters)
end

-- Opens the stage that is done once more, as the checkpoint left it.
function methods:reopen_stage()
  self:begin_stage(self.stage_index)
  if self.restored_from then take_reference(self, self.restored_from) end
  take_place(self, self.counters)
  self.stage.done = true
end

-- Returns the last stage of a finished run, for further steps in memory; its schedules are at their
-- end.
local function go_beyond(tr)
  if not tr.stage then tr:reopen_stage() end
  tr.stage.done = false
  return tr.stage
end

-- Returns the stage that the next step belongs to, and begins it if need be; nil after the last
-- one.  With tr.beyond the last stage continues.
function methods:current_stage()
  while not self.stage or self.stage.done do
    if self.stage_index >= #self.experiment.stages then
      return self.beyond and go_beyond(self) or nil
    end
    self:begin_stage(self.stage_index + 1)
    if self.stage.steps == 0 then self.stage.done = true end
  end
  return self.stage
end

-- ---- one step ------------------------------------------------------------------------

-- Rewards, schedules, losses and hooks may not call what would run them again, without an end.
function methods:refuse_inside(call, hooks_too)
  local inside = self.busy or (hooks_too and self.in_hook)
  if inside then errors.raise("EARG", "tr:%s: called inside %s; call it outside", call, inside) end
end

-- Numbers that the script has logged become metrics of the step.
local function add_logged(self, metrics)
  for name, v in pairs(self.extra) do metrics[name] = v end
  self.extra = {}
end

-- A whole step, with its counters and hooks.
local function step(self)
  local stage = self:current_stage()
  if not stage then return nil end
  local started = core.clock()
  self.evaluated, self.evaluations = nil, 0
  local metrics, tokens = stage:advance()
  local mine = own[self]
  mine.step_count, mine.tokens_seen = mine.step_count + 1, mine.tokens_seen + tokens
  metrics.step, metrics.stage, metrics.stage_step = self.step_count, stage.index, stage.step
  metrics.kind, metrics.num_tokens = stage.kind, self.tokens_seen
  self.update_count = self.updates_before + stage.update
  self.update_tokens = self.update_tokens_before + stage.update_tokens
  metrics.update, metrics.update_tokens = self.update_count, self.update_tokens
  metrics.step_time = core.clock() - started
  metrics["memory/peak_bytes"] = core.mem().peak_rss
  mine.metrics = metrics
  add_logged(self, metrics)
  self:hook("on_step", metrics)
  add_logged(self, metrics)
  -- with the hook, because the time that is left is estimated from it
  self.step_seconds = core.clock() - started
  return metrics
end

-- One step of the current stage, a rollout with all its updates; nil when all stages are done.
-- Ctrl-C at a prompt leaves no step half done.
function methods:step()
  self:refuse_inside("step", true)
  return core.edit.holding("the step", step, self)
end

-- Metrics without times and memory: what two runs of the same experiment share.
function methods:repeatable_metrics()
  local kept = {}
  for name, v in pairs(self.metrics) do
    local timed = name:find("^time/") or name:find("^tokens_per_second/") or name == "step_time"
      or name == "memory/peak_bytes"
    if not timed and type(v) ~= "table" then kept[name] = v end
  end
  return kept
end

-- Calls the function f of hooks.NAME protected and limited; its "stop" ends the run; an error in it
-- stops the run.
function methods:call_hook(name, f, ...)
  local outer, restored = self.in_hook, unchanged.trainer(self)
  self.in_hook = "hooks." .. name
  local ok, result
  if name == "on_end" then
    ok, result = core.limited(self.settings.limits.hook, "hooks." .. name, f, self, (...))
  else
    local args = table.pack(...)
    args[args.n + 1] = self
    ok, result = core.limited(self.settings.limits.hook, "hooks." .. name, f,
      table.unpack(args, 1, args.n + 1))
  end
  local changed = restored()
  self.in_hook = outer
  if ok and changed then
    errors.raise_plain("ESCRIPT", "hooks.%s: it changed %s, which the run needs; tr.state is a "
      .. "table for values of your own", name, changed)
  end
  if not ok then
    if type(result) == "table" and result.fatal then error(result, 0) end
    local outside = result.code == "ENOMEM" or result.code == "EIO" -- not the hook's mistake
    local code = outside and result.code or "ESCRIPT"
    error(core.error(code, ("hooks.%s: %s"):format(name, tostring(result))), 0)
  end
  if result == "stop" then self:stop("hooks." .. name) end
end

-- For hooks whose arguments are read after them: functions that raise if these have changed.
local checks_after = {
  on_rollout = function(_, batch) return { unchanged.batch("on_rollout", batch) } end,
  on_step = function(self, metrics)
    local batch = self.batch
    return { unchanged.numbers("on_step", "the metric", metrics),
      batch and batch.completions and unchanged.batch("on_step", batch) or nil }
  end,
  on_eval = function(_, report)
    return { unchanged.numbers("on_eval", "the report's", report) }
  end,
}

-- Calls a hook of the stage, if it is there.
function methods:hook(name, ...)
  local f = self.settings.hooks and self.settings.hooks[name]
  if not f then return end
  local checks = checks_after[name] and checks_after[name](self, ...) or {}
  self:call_hook(name, f, ...)
  for _, check in ipairs(checks) do check() end
end

-- ---- what scripts and hooks call --------------------------------------------------------

-- The tokens of the last step, or of its completion i, with all their numbers.
function methods:inspect(i)
  self:refuse_inside("inspect", true)
  return inspect.step(self, i)
end

-- The last step's completions under other rewards: see inspect.lua.
function methods:rescore(rewards)
  self:refuse_inside("rescore", true)
  return inspect.rescore(self, rewards)
end

function methods:stop(reason)
  self.stop_reason = tostring(reason or "stopped") -- here, where limits apply to it
end

function methods:evaluate(n)
  self:refuse_inside("evaluate")
  if not self.stage then self:current_stage() end
  return core.edit.holding("the evaluation", function()
    self.busy = "an evaluation"
    local ok, report = xpcall(evaluate.run, interrupt.traced, self, n)
    self.busy = nil
    if not ok then error(report, 0) end
    return report
  end)
end

-- Runs f on the first rank, which may write checkpoints there; the others give it their parts.
function methods:on_first_rank(f)
  return ranks.lead(f, function() self.engine:save() end)
end

local function save(self, dir)
  if dir then
    checkpoint.write(self, dir)
    return dir
  end
  if not self.directory then
    errors.raise("EARG", "tr:save: this trainer has no run directory; give one: tr:save(\"DIR\")")
  end
  if self.only_follows then -- the run itself has written it
    return ("%s/%s"):format(self.directory.dir, core.checkpoint_name(self.step_count))
  end
  local path = checkpoint.save(self)
  self:hook("on_checkpoint", path)
  return path
end

function methods:save(dir)
  self:refuse_inside("save")
  return self:on_first_rank(function() return save(self, dir) end)
    or dir or core.checkpoint_name(self.step_count)
end

function methods:log(name, value)
  if type(name) ~= "string" or type(value) ~= "number" then
    errors.raise("EARG", "tr:log: want a name and a number, got %s and %s", type(name), type(value))
  end
  local problem = name_problem(name)
  if problem then errors.raise("EARG", "tr:log: the name %s", problem) end
  self.extra[name] = value
  if value - value == 0 or self.noted[name] then return end
  self.noted[name] = true
  self.recorder:advise { ("tr:log: %s is %s at step %d; the logs have null for it, and say no more "
    .. "of this name"):format(name, number_text(value), self.step_count) }
end

function methods:log_text(name, s)
  if self.directory then
    self.directory:event_text(self.step_count, name, tostring(s))
    self.directory:note(("%s: %s"):format(name, s))
  end
end

-- Adds text to the run's file logs/NAME, which a resume cuts to its step.
function methods:append(name, text)
  if type(name) ~= "string" or not name:find("^[%w_-][%w._-]*$") then
    errors.raise("EARG", "tr:append: got %s for the name of a file, want letters, digits, '.', '_' "
      .. "and '-', as in \"lengths.csv\"", type(name) == "string" and ("%q"):format(name)
      or type(name))
  end
  if type(text) ~= "string" then
    errors.raise("EARG", "tr:append: got %s for the text of %s, want a string", type(text), name)
  end
  if name:find("%.csv$") and self.tables[name:sub(1, -5)] then
    errors.raise("EARG", "tr:append: %s is a table of tr:csv; add to it with its method row", name)
  end
  local directory = self.directory
  csv_log.refuse_in_reload(self, "tr:append")
  if directory and directory.script_logs then script_logs.append(directory, name, text) end
end

-- The table logs/NAME.csv of the run, whose method row{...} adds a row; a resume cuts it to its
-- checkpoint.
function methods:csv(name, columns)
  local base = type(name) == "string" and name:gsub("%.csv$", "")
  if not base or not base:find("^[%w_-][%w._-]*$") then
    errors.raise("EARG", "tr:csv: got %s for the name of a table, want letters, digits, '.', '_' "
      .. "and '-', as in \"lengths\"", type(name) == "string" and ("%q"):format(name) or type(name))
  end
  return csv_log.open(self, base, columns)
end

function methods:print(...)
  local parts = table.pack(...)
  for i = 1, parts.n do parts[i] = tostring(parts[i]) end
  self.view:line(display.clean(table.concat(parts, "\t", 1, parts.n))) -- it may be a model's text
end

-- Trains to the end.  Returns why it ended, "finished", "stopped" or "interrupted", or raises.
function methods:run()
  self:refuse_inside("run", true)
  return run(self)
end

-- ---- what the loop and its parts call ----------------------------------------------------

-- Shows scripts the batch of this step.
function methods:take_batch(batch)
  own[self].batch = batch
end

methods.check_interrupt = interrupt.check
methods.run_evaluation = loop.evaluate

function methods:total_steps()
  local total = 0
  for i, spec in ipairs(self.experiment.stages) do
    local begun = i == self.stage_index and self.stage
    total = total + (begun and begun.steps or planned_steps(spec.config))
  end
  return total
end

return trainer
