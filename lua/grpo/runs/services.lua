-- Services of a run with a directory between two steps of training: changes that were recorded
-- are made again, files that have changed are reloaded, attached sessions are served.

local core = require "grpo.core"
local events = require "grpo.loop.events"
local extensions = require "grpo.base.extensions"
local ranks = require "grpo.base.ranks"
local reload = require "grpo.runs.reload"

local services = {}

local Services = {}
Services.__index = Services

-- attach(tr) opens the server of attached sessions (commands/repl/attach_server.lua); nil: none can
-- be attached.
function services.new(tr, attach)
  return setmetatable({ tr = tr, attach = attach }, Services)
end

-- The services where several ranks train.  If they resume a run, all ranks repeat the changes that
-- were recorded in it.  They reload nothing and take no sessions.  The first one keeps the modules
-- that are loaded late.
local Ranks = {}
Ranks.__index = Ranks

-- resumed: the run that tr continues, { dir =, info = }; nil: it begins one.
function services.of_ranks(tr, resumed)
  return setmetatable({ tr = tr, resumed = resumed }, Ranks)
end

function Ranks:open()
  local tr, run = self.tr, self.resumed
  if run then
    events.load(tr, run.dir, ranks.of_first(function() return events.text(run.dir) end))
  end
  local dir = ranks.of_first(function() return tr.directory and tr.directory.dir or "" end)
  if dir ~= "" and not ranks.first() then extensions.run_opened(dir, true) end
  tr.watch = reload.watch(tr, tr.directory and tr.directory.info.script or "", run)
  tr.watch.several = true
  if tr.directory then
    tr.directory:note("no sessions can be attached and no file is reloaded: several ranks train")
  end
end

function Ranks:between_steps()
  events.catch_up(self.tr)
  self.tr.watch:poll()
end

function Ranks:before_evaluation()
  events.catch_up(self.tr, true)
end

function Ranks:end_of_steps()
  if self.tr.watch then self.tr.watch:meet() end
end

function Ranks.close() end

function Services:open()
  local tr = self.tr
  events.load(tr, tr.directory.dir)
  tr.watch = reload.watch(tr, tr.directory.info.script)
  self.server = self.attach and self.attach(tr)
end

function Services:between_steps()
  events.catch_up(self.tr)
  self.tr.watch:poll()
  if self.server then self.server:serve() end
end

-- Called before an evaluation at the beginning, which may be one that a killed run had missed.
function Services:before_evaluation()
  events.catch_up(self.tr, true)
end

-- Called after the last step; it keeps the modules that were loaded late.
function Services:end_of_steps()
  if self.tr.watch then self.tr.watch:meet() end
end

function Services:close()
  if self.server then self.server:close() end
end

-- Reads the changes that were recorded in a run, for events.catch_up, in a process that only looks
-- at the run: nothing is written, also not by hooks, and no evaluation is repeated.  overrides: the
-- options of the command line, or nil.
function services.follow(tr, dir, info, overrides)
  local function ignore() end
  overrides = overrides or {}
  tr.directory = { dir = dir, info = info, note = ignore, event_text = ignore }
  tr.only_follows = true
  events.load(tr, dir)
  tr.watch = reload.watch(tr, "")
  for i = #tr.events, 1, -1 do
    local e = tr.events[i]
    if e.kind == "evaluate" or events.is_overridden(e, overrides) then
      table.remove(tr.events, i)
    end
  end
end

-- Repeats the changes of a run up to the step of tr, a trainer at one of the run's checkpoints,
-- which gets no directory.  before_evaluation: up to the moment when the run evaluated it.
function services.changes_until(tr, dir, info, overrides, before_evaluation)
  if not core.fs.exists(dir .. "/events.jsonl") then return end
  local ok, err = pcall(function()
    services.follow(tr, dir, info, overrides)
    events.catch_up(tr, before_evaluation)
  end)
  tr.directory, tr.watch = nil, nil
  if not ok then error(err, 0) end
end

return services
