-- Changes that were made from outside while a run trained: recorded in events.jsonl before they
-- take effect, applied again by a resume at the same step.
--
-- An event: { step = steps done by then, stage =, kind =, ... }
--   set       path, value      a live option
--   weight    name, value      of a reward entry
--   state     data             tr.state as a whole, encoded
--   evaluate                   an evaluation
--   reload    source, files    the script and its modules, kept in the run's `source` (reload.lua);
--             forced           by `grpo run --resume --force`, before anything else of that step

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local history = require "grpo.runs.history"
local live_options = require "grpo.experiment.live_options"
local schema = require "grpo.runs.schema"

local fs = core.fs
local events = {}

local function path_of(tr)
  return tr.directory.dir .. "/events.jsonl"
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

function apply.weight(tr, e)
  for _, entry in ipairs(tr.settings.reward_entries) do
    if entry.name == e.name then
      entry.weight = e.value
      return
    end
  end
  local names = {}
  for i, entry in ipairs(tr.settings.reward_entries) do names[i] = entry.name end
  errors.raise("EARG", "there is no reward '%s'; there are: %s", tostring(e.name),
    table.concat(names, ", "))
end

function apply.state(tr, e)
  tr.state = core.state_decode(unhex(e.data))
end

function apply.evaluate(tr)
  tr:run_evaluation("attached")
end

function apply.reload(tr, e)
  tr.watch:again(e)
end

-- Evaluations that eval.jsonl has already.
local function has_evaluation(tr, step)
  for _, row in history.rows(tr.directory.dir, "eval") do
    if row.step == step and row.label == "attached" then return true end
  end
end

-- ---- the file ---------------------------------------------------------------------------

-- { { event, its line }, ... } of the file, which need not be there.
local function read(path)
  local list, number = {}, 0
  local text, message, code = fs.read(path)
  if not text and fs.exists(path) then errors.raise_plain(code, "%s", message) end
  for line in (text or ""):gmatch("([^\n]*)\n?") do
    number = number + 1
    if line ~= "" then
      local e = schema.check(schema.shapes.events,
        core.json_decode(line, ("%s:%d"):format(path, number)), path, number)
      if not apply[e.kind] then
        errors.raise_plain("EFORMAT",
          "%s:%d: an event of kind '%s', which this version does not know", path, number, e.kind)
      end
      list[#list + 1] = { schema.check(schema.events[e.kind], e, path, number), line }
    end
  end
  return list
end

-- Reads the events of a run that is resumed.
function events.load(tr)
  tr.events = {}
  for i, one in ipairs(read(path_of(tr))) do tr.events[i] = one[1] end
end

-- A run is resumed at `step` of `stage` with the script at `path` and its modules as they are now.
-- That counts as a reload, and reloads that were recorded for later steps are left out.
function events.take_files(directory, step, stage, path)
  local file, kept = directory.dir .. "/events.jsonl", {}
  for _, one in ipairs(read(file)) do
    local e, line = one[1], one[2]
    if e.kind ~= "reload" or e.step < step then kept[#kept + 1] = line .. "\n" end
  end
  local source = directory:save_reload(path)
  kept[#kept + 1] = core.json_encode { kind = "reload", source = source, files = { path },
    step = step, stage = stage, forced = true }
  local ok, message = fs.write(file, table.concat(kept) .. "\n")
  if not ok then errors.raise_plain("EIO", "%s", tostring(message)) end
  directory:note(("changed at step %d: reload %s (--force)"):format(step, source))
end

-- Before a step: what was recorded at this point, or before it in this stage, and has not been
-- applied yet.  What a checkpoint holds (tr.state) is not applied twice.
-- before_evaluation: before the evaluation that was due after the last step, and so before most of
-- what was recorded at this point.
function events.catch_up(tr, before_evaluation)
  for _, e in ipairs(tr.events or {}) do
    local of_this = e.stage == tr.stage_index or e.kind == "reload" and e.stage < tr.stage_index
    local late = e.step < tr.step_count
    local reached = late or e.step == tr.step_count and (not before_evaluation or e.forced)
    if not e.applied and of_this and reached then
      e.applied = true
      local skip = (e.kind == "state" and late)
        or (e.kind == "evaluate" and (late or has_evaluation(tr, e.step)))
      if not skip then apply[e.kind](tr, e) end
    end
  end
end

-- Records an event of now.  What it says must be in effect already or take effect after this call.
function events.add(tr, e)
  e.step, e.stage = tr.step_count, tr.stage_index
  local text = (fs.read(path_of(tr)) or "") .. core.json_encode(e) .. "\n"
  local ok, message = fs.write(path_of(tr), text) -- synced
  if not ok then errors.raise_plain("EIO", "%s", tostring(message)) end
  e.applied = true
  tr.events = tr.events or {}
  tr.events[#tr.events + 1] = e
  local about = e.path or e.name or e.source or ""
  tr.directory:note(("changed at step %d: %s %s%s"):format(e.step, e.kind, about, e.value ~= nil
    and " = " .. core.json_encode(e.value) or ""))
end

-- Calls fn with changes of live options and of tr.state recorded.
function events.recording(tr, fn, ...)
  local before = core.state_encode(tr.state)
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
  local ok, after = pcall(core.state_encode, tr.state)
  if not ok then
    tr.state = core.state_decode(before) -- no checkpoint could hold it
    return false, ("%s; tr.state is again as it was before this line"):format(tostring(after))
  end
  if after ~= before then events.add(tr, { kind = "state", data = hex(after) }) end
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
  apply.weight(tr, { name = name, value = value })
  events.add(tr, { kind = "weight", name = name, value = value })
end

function events.evaluate(tr)
  if not tr.settings.data.eval then
    errors.raise("EARG", "evaluate: the experiment has no data.eval")
  end
  events.add(tr, { kind = "evaluate" })
  tr:run_evaluation("attached")
  return tr.last_report
end

return events
