-- The list of what has happened in a run since the host asked last: plain tables for JSON, which
-- ext/web/README.md describes, and the view of the run that fills it.

local core = require "grpo.core"
local display = require "grpo.base.display"
local recorder = require "grpo.loop.recorder"

local MOST_ANSWERS = 8 -- held-out rows that are shown

local Events = {}
Events.__index = Events

local events = {}

function events.new()
  return setmetatable({ list = {} }, Events)
end

-- Adds an event; kind: its field `type`.
function Events:add(kind, event)
  event.type = kind
  self.list[#self.list + 1] = event
end

-- The first place in a text that names a line of a Lua file: the file and the number.
local function place_in(text)
  local file, line = text:match("([^%s:\"']+%.lua):(%d+)")
  return file, math.tointeger(tonumber(line))
end

-- A text that the screen of the program would show.
function Events:line(kind, text)
  text = tostring(text)
  local file, line = place_in(text)
  self:add(kind, { text = display.clean(text), file = file, line = line })
end

-- An error, as it was raised.
function Events:raised(err)
  self:line("error", err)
  self.list[#self.list].code = type(err) == "table" and err.code or nil
end

-- Takes the events as the text of a list in JSON.
function Events:take()
  local list = self.list
  self.list = {}
  return core.json_encode(list)
end

-- ---- numbers and texts of a run ------------------------------------------------------------

-- The numbers of a table that JSON can hold.
local function numbers(t)
  local list = {}
  for name, v in pairs(t) do
    if type(v) == "number" and v - v == 0 then list[name] = v end
  end
  return list
end

-- A step, or a row of metrics.jsonl.
function Events:step(metrics)
  self:add("step", { step = metrics.step, stage = metrics.stage, kind = metrics.kind,
    metrics = numbers(metrics) })
end

-- The greedy answers to some held-out rows.
local function answers(report)
  local list = {}
  for i = 1, math.min(MOST_ANSWERS, #(report.samples or {})) do
    local c = report.samples[i]
    list[i] = { prompt = display.clean(c.prompt), text = display.turns_text(c), passed = c.passed }
  end
  return list
end

-- An evaluation, or a row of eval.jsonl.
function Events:evaluation(report)
  self:add("evaluation", { step = report.step, label = report.label, rows = report.n,
    metrics = numbers(report), answers = answers(report) })
end

-- The completions of one prompt of the last step, the best one first.
local function group_of(tr)
  local batch, list, places = tr.batch, {}, {}
  for i, c in ipairs(batch.completions) do places[c] = i end
  local group = display.telling_group(batch.completions)
  for i, c in ipairs(group) do
    local row = recorder.completion_row(tr.step_count, batch, places[c], c)
    list[i] = { text = display.turns_text(row), rewards = numbers(row.rewards),
      reward = row.reward, advantage = row.advantage, finish = row.finish }
  end
  return { step = tr.step_count, prompt = display.clean(group[1].prompt), list = list }
end

function Events:texts(tr)
  local stage = tr.stage
  if stage.method.samples then
    if tr.batch then self:add("completions", group_of(tr)) end
  elseif stage.method.sample and display.shows_sample(stage.step, stage.steps) then
    local list = {}
    for i, made in ipairs(stage.method.sample(tr, 3)) do
      list[i] = { text = display.clean(made.text) }
    end
    self:add("samples", { step = tr.step_count, list = list })
  end
end

-- ---- the view ------------------------------------------------------------------------------

-- The view of a run, in the place of lines on a terminal.
function events.view(list)
  local view = display.silent()
  function view.line(_, text) list:line("line", text) end
  function view.info(_, text) list:line("line", text) end
  function view.note(_, text) list:line("note", text) end
  function view.status(_, text) list:line("status", text) end
  function view.stage(_, tr, stage)
    list:add("stage", { stage = stage.index, stages = #tr.experiment.stages, kind = stage.kind,
      about = stage.method.about, step = tr.step_count, steps = stage.steps,
      total = tr:total_steps(), samples = stage.method.samples and true or false })
  end
  function view.step(_, tr, metrics)
    list:step(metrics)
    list:texts(tr)
  end
  function view.evaluation(_, _, report) list:evaluation(report) end
  return view
end

return events
