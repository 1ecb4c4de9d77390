-- Changes that were made from outside while a run trained, or when it was resumed: recorded in
-- events.jsonl before they take effect, applied again by a resume at the same step.
--
-- An event: { step = steps done by then, stage =, kind =, ... }
--   set       path, value      a live option
--   weight    name, value      of a reward entry
--   state     data             tr.state as a whole, encoded
--   evaluate                   an evaluation
--   reload    source, files    the script and its modules, kept in the run's `source` (reload.lua);
--             forced           by `grpo run --resume --force`, before anything else of that step
--   options   words            option=value on the command line of a resume: they are laid over the
--                              script when it is loaded (events.words), so here only over sessions
--   inputs    changed          what `grpo run --resume --force` took although it had changed
--   environment  changed, facts  a resume by another build, or with other kernels or libraries: the
--                              facts as env.json names them

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local layers = require "grpo.options.layers"
local live_options = require "grpo.options.live_options"
local schema = require "grpo.loop.schema"
local sums = require "grpo.loop.sums"

local fs = core.fs
local events = {}

local function path_in(dir)
  return dir .. "/events.jsonl"
end

local function hex(s)
  return (s:gsub(".", function(c) return ("%02x"):format(c:byte()) end))
end

local function unhex(s)
  return (s:gsub("%x%x", function(x) return string.char(tonumber(x, 16)) end))
end

-- ---- applying ---------------------------------------------------------------------------

local apply = {}

function apply.set(tr, e)
  live_options.set(tr.settings, e.path, e.value)
end

-- Returns the reward of that name; raises if there is none.
local function entry_of(tr, name)
  local names = {}
  for i, entry in ipairs(tr.settings.reward_entries) do
    if entry.name == name then return entry end
    names[i] = entry.name
  end
  return errors.raise("EARG", "there is no reward '%s'; there are: %s", tostring(name),
    table.concat(names, ", "))
end

-- The path of the option in a word of the command line, as it is within a stage; nil: the word
-- belongs to another stage.
local function path_of(word, stage)
  local path = word:match("^(.-)=")
  local index, rest = path:match("^stages%.(%d+)%.(.*)$")
  if not index then return path end
  return tonumber(index) == stage and rest or nil
end

-- Sets again what a session had set to another value before.
function apply.options(tr, e)
  for _, word in ipairs(e.words) do
    local path, value = path_of(word, tr.stage_index), layers.parse_override(word).value
    if path and live_options.is_live(path) then
      if value == core.json_null then value = nil end
      live_options.set(tr.settings, path, value)
    end
  end
end

function apply.weight(tr, e)
  entry_of(tr, e.name).weight = e.value
end

function apply.state(tr, e)
  tr.state = core.state_decode(unhex(e.data))
end

-- The files are read when the script is loaded.
function apply.inputs() end

function apply.environment() end

function apply.evaluate(tr)
  tr:run_evaluation("attached")
end

function apply.reload(tr, e, late)
  tr.watch:again(e, late)
end

-- Kinds of events that happen once: a checkpoint that was written afterwards holds what they did.
local once = { state = true, evaluate = true }

local function now_held(tr, e)
  e.applied = true
  if once[e.kind] then tr.events_held = (tr.events_held or 0) + 1 end
end

-- ---- the file ---------------------------------------------------------------------------

local function contents(path)
  local text, message, code = fs.read(path)
  if not text and fs.exists(path) then errors.raise_plain(code, "%s", message) end
  return text or ""
end

-- The object in a line; nil and what to say if it is damaged.
local function decoded(path, number, line)
  local place = ("%s:%d"):format(path, number)
  if sums.state(line) == "damaged" then
    return nil, place .. ": it is damaged, because its bytes are not those of its checksum; "
      .. "restore it from a copy"
  end
  local ok, e = errors.try(core.json_decode, line, place)
  if ok then return e end
  return nil, ("%s; the line is damaged: restore it from a copy"):format(tostring(e))
end

-- { { event, its line }, ... } of a text that the file at `path` holds.  leave_out(line, message),
-- optional, is called for damaged lines, which are errors without it.
local function parse(text, path, leave_out)
  local list, number = {}, 0
  leave_out = leave_out or function(_, message) errors.raise_plain("EFORMAT", "%s", message) end
  for line in text:gmatch("([^\n]*)\n?") do
    number = number + 1
    local e, damage
    if line ~= "" then e, damage = decoded(path, number, line) end
    if damage then leave_out(line, damage) end
    if e then
      schema.check(schema.shapes.events, e, path, number)
      if not apply[e.kind] then
        errors.raise_plain("EFORMAT",
          "%s:%d: an event of kind '%s', which this version does not know", path, number, e.kind)
      end
      list[#list + 1] = { schema.check(schema.events[e.kind], e, path, number), line }
    end
  end
  return list
end

-- parse() of the file at `path`, which need not be there.
local function read(path, leave_out)
  return parse(contents(path), path, leave_out)
end

-- The text of what was recorded in the run at `dir`.
function events.text(dir)
  return contents(path_in(dir))
end

-- tr takes the events of the run at `dir`, from the beginning or at a checkpoint, which holds some
-- of them.  text: as another process has read it, nil: it is read here.
function events.load(tr, dir, text)
  tr.events, tr.events_held = {}, nil
  local held = tr.counters and tr.counters.events or 0
  for i, one in ipairs(parse(text or events.text(dir), path_in(dir))) do
    local e = one[1]
    tr.events[i] = e
    if once[e.kind] and (tr.events_held or 0) < held then now_held(tr, e) end
  end
end

-- A run is about to be resumed.  With force damaged lines are moved to another file.
function events.check(directory, force)
  local path, damaged, kept = path_in(directory.dir), {}, {}
  local aside = path .. ".damaged"
  local list = read(path, function(line, message)
    directory:damaged(force, message, ("moves it to %s and leaves it out"):format(aside))
    damaged[#damaged + 1] = line .. "\n"
  end)
  if #damaged == 0 then return end
  for i, one in ipairs(list) do kept[i] = one[2] .. "\n" end
  errors.must(fs.write(aside, contents(aside) .. table.concat(damaged)))
  errors.must(fs.write(path, table.concat(kept)))
end

-- The place within the run of the sources that were loaded last.
function events.last_source(directory)
  local source = "source"
  for _, one in ipairs(read(path_in(directory.dir))) do
    source = one[1].kind == "reload" and one[1].source or source
  end
  return source
end

-- Removes sources that were saved for a reload, but the process died before it was recorded.
function events.remove_unrecorded(directory)
  local source, recorded = directory.dir .. "/source", {}
  for _, one in ipairs(read(path_in(directory.dir))) do
    if one[1].source then recorded[one[1].source] = true end
  end
  for _, name in ipairs(fs.list(source) or {}) do
    if name:find("^reload%-%d+$") and not recorded["source/" .. name] then
      directory:remove_sources("source/" .. name)
    end
  end
end

-- A run is resumed at `step` of `stage` with the script at `path` and its modules as they are now;
-- changed: those that were edited.  That counts as a reload, and reloads that were recorded for
-- later steps are left out.
function events.take_files(directory, step, stage, path, changed)
  local file, kept = path_in(directory.dir), {}
  for _, one in ipairs(read(file)) do
    local e, line = one[1], one[2]
    if e.kind ~= "reload" or e.step < step then kept[#kept + 1] = line .. "\n" end
  end
  local source = directory:save_reload(path)
  kept[#kept + 1] = sums.line { kind = "reload", source = source,
    files = changed[1] and changed or { path }, step = step, stage = stage, forced = true }
  local ok, message = fs.write(file, table.concat(kept))
  if not ok then errors.raise_plain("EIO", "%s", tostring(message)) end
  directory:note(("changed at step %d: reload %s (--force)"):format(step, source))
end

-- Is it a session's change of an option that these words of a command line give?
function events.is_overridden(e, words)
  for _, word in ipairs(e.kind == "set" and words or {}) do
    if path_of(word, e.stage) == e.path then return true end
  end
  return false
end

-- The options that resumes of the run at `dir` have given, in their order, as words.  at: of
-- resumes at or before this step, nil: of all.
function events.words(dir, at)
  local words = {}
  for _, one in ipairs(read(path_in(dir))) do
    local e = one[1]
    if e.kind == "options" and (not at or e.step <= at) then
      table.move(e.words, 1, #e.words, #words + 1, words)
    end
  end
  return words
end

-- A run is resumed at `step` of `stage` with options, which are recorded unless they are in force
-- already, as where a job gives them at each resume.  Changes of the same options by sessions that
-- were recorded for later steps are left out.
function events.take_options(directory, step, stage, words)
  local file, kept, last = path_in(directory.dir), {}, directory.info.overrides or {}
  local text = table.concat(words, " ")
  for _, one in ipairs(read(file)) do
    local e, line = one[1], one[2]
    local later = e.step > step and events.is_overridden(e, words)
    if not later then kept[#kept + 1] = line .. "\n" end
    if e.kind == "options" then last = e.words end
    if e.kind == "set" and not later then last = {} end
  end
  if table.concat(last, " ") == text then return end
  kept[#kept + 1] = sums.line { kind = "options", words = words, step = step, stage = stage }
  local ok, message = fs.write(file, table.concat(kept))
  if not ok then errors.raise_plain("EIO", "%s", tostring(message)) end
  directory:note(("changed at step %d: options %s"):format(step, text))
end

-- Records that a run is resumed at `step` of `stage` although files that it reads have changed
-- since it began, unless the last such event says the same.  changed: sentences.
function events.take_inputs(directory, step, stage, changed)
  local file, last = path_in(directory.dir), ""
  for _, one in ipairs(read(file)) do
    if one[1].kind == "inputs" then last = events.about(one[1]) end
  end
  local e = { kind = "inputs", changed = changed, step = step, stage = stage }
  if last == events.about(e) then return end
  local ok, message = fs.write(file, contents(file) .. sums.line(e))
  if not ok then errors.raise_plain("EIO", "%s", tostring(message)) end
  directory:note(("changed at step %d: inputs %s (--force)"):format(step, events.about(e)))
end

-- The facts of core.version that decide about the bits of a run.
local facts = { "version", "commit", "kernels", "blas", "libc", "lua", "pcre2" }
local native_only = { blas = true, libc = true } -- portable kernels use neither

-- Returns the facts that are others now than in `before`, and sentences about them.
local function other_facts(before)
  local now, changed, list = core.version(), {}, {}
  for _, name in ipairs(facts) do
    local decides = now.kernels ~= "portable" or not native_only[name]
    if decides and before[name] and now[name] ~= before[name] then
      changed[name] = now[name]
      list[#list + 1] = ("%s %s (before: %s)"):format(name, now[name], before[name])
    end
  end
  return changed, list
end

-- Records that a run is resumed at `step` of `stage` in another environment than that in which it
-- has trained until there.
function events.take_environment(directory, step, stage)
  local file, kept = path_in(directory.dir), {}
  local before = schema.read(directory.dir .. "/env.json", schema.shapes.env) or {}
  local all = read(file)
  for _, one in ipairs(all) do
    local e, line = one[1], one[2]
    local is_environment = e.kind == "environment"
    if not is_environment or e.step < step then kept[#kept + 1] = line .. "\n" end
    for name, value in pairs(is_environment and e.step < step and e.facts or {}) do
      before[name] = value
    end
  end
  local now, changed = other_facts(before)
  if #changed == 0 and #kept == #all then return end
  local e = { kind = "environment", changed = changed, facts = now, step = step, stage = stage }
  if #changed > 0 then kept[#kept + 1] = sums.line(e) end
  local ok, message = fs.write(file, table.concat(kept))
  if not ok then errors.raise_plain("EIO", "%s", tostring(message)) end
  if #changed == 0 then return end
  directory:remark(("changed at step %d: environment %s; values stay close, but bits may differ")
    :format(step, events.about(e)))
end

-- Before a step: what was recorded at this point, or before it in this stage, and has not been
-- applied yet.
-- before_evaluation: before the evaluation that was due after the last step, and so before most of
-- what was recorded at this point.
function events.catch_up(tr, before_evaluation)
  for _, e in ipairs(tr.events or {}) do
    local of_this = e.stage == tr.stage_index or e.kind == "reload" and e.stage < tr.stage_index
    local late = e.step < tr.step_count
    local reached = late or e.step == tr.step_count and (not before_evaluation or e.forced)
    if not e.applied and of_this and reached then
      now_held(tr, e)
      if not (late and once[e.kind]) then apply[e.kind](tr, e, late) end
    end
  end
end

-- Returns what an event changes, as text; "" where its kind says that.
function events.about(e)
  return e.path or e.name or e.source or e.words and table.concat(e.words, " ")
    or e.changed and table.concat(e.changed, ", ") or ""
end

-- Text of the changes at tr's step that count only from the next one: "weight right, reload
-- source/reload-001"; nil if nothing was.
function events.still_to_come(tr)
  local list = {}
  for _, e in ipairs(tr.events or {}) do
    if not e.applied and e.step == tr.step_count and e.stage == tr.stage_index then
      local text = ("%s %s"):format(e.kind, events.about(e))
      list[#list + 1] = text:match("^(.-) ?$")
    end
  end
  return list[1] and table.concat(list, ", ")
end

-- Records an event that happens now; raises if that is not possible.  It takes effect after this
-- call, so that nothing is in effect that a resume would not know of.
function events.add(tr, e)
  e.step, e.stage = tr.step_count, tr.stage_index
  local path = path_in(tr.directory.dir)
  tr.directory:check_place()
  local text = contents(path) .. sums.line(e)
  local ok, message = fs.write(path, text) -- synced
  -- syncing the directory, which comes last, may fail when the file is there
  if not ok and fs.read(path) ~= text then errors.raise_plain("EIO", "%s", tostring(message)) end
  now_held(tr, e)
  tr.events = tr.events or {}
  tr.events[#tr.events + 1] = e
  local value = e.value ~= nil and " = " .. core.json_encode(e.value) or ""
  tr.directory:note(("changed at step %d: %s %s%s"):format(e.step, e.kind, events.about(e), value))
end

-- Records tr.state if it has changed since the last time; returns false and a message if that is
-- not possible or no checkpoint could hold it: then it is as it was.
local function record_state(tr)
  local ok, problem = pcall(function()
    local now = core.state_encode(tr.state)
    if now ~= tr.state_recorded then events.add(tr, { kind = "state", data = hex(now) }) end
    tr.state_recorded = now
  end)
  if ok then return true end
  tr.state = core.state_decode(tr.state_recorded)
  return false, ("%s; tr.state is again as it was before this line"):format(tostring(problem))
end

-- Calls fn with changes of live options and of tr.state recorded.
function events.recording(tr, fn, ...)
  tr.state_recorded = core.state_encode(tr.state)
  tr.on_option = function(path, value)
    local ok = pcall(core.json_encode, value)
    if not ok or type(value) == "function" then
      errors.raise("EARG", "tr.config.%s: only what JSON can hold can be set while the run goes "
        .. "on, so that a resume sets it again; a schedule belongs into the script", path)
    end
    events.add(tr, { kind = "set", path = path, value = value })
  end
  local results = table.pack(fn(...))
  tr.on_option = nil
  local ok, message = record_state(tr)
  tr.state_recorded = nil
  if not ok then return false, message end
  return table.unpack(results, 1, results.n)
end

function events.weight(tr, name, value)
  if type(name) ~= "string" then
    errors.raise("EARG", "weight: got %s for the reward's name; weight(\"%s\", 0.5), for instance",
      type(name), tr.settings.reward_entries[1] and tr.settings.reward_entries[1].name or "name")
  end
  if type(value) ~= "number" or value - value ~= 0 then
    errors.raise("EARG", "weight: got %s as the weight of '%s', want a finite number",
      tostring(value), name)
  end
  entry_of(tr, name)
  events.add(tr, { kind = "weight", name = name, value = value })
  apply.weight(tr, { name = name, value = value })
end

function events.evaluate(tr)
  if not tr.settings.data.eval then
    errors.raise("EARG", "evaluate: the experiment has no data.eval")
  end
  local ok, message = record_state(tr)
  if not ok then errors.raise("EARG", "evaluate: %s", message) end
  events.add(tr, { kind = "evaluate" })
  tr:run_evaluation("attached")
  tr.state_recorded = core.state_encode(tr.state) -- a resume calls hooks.on_eval too
  return tr.last_report
end

return events
