-- Services of a run with a directory between two steps of training: changes that were recorded
-- are made again, files that have changed are reloaded, attached sessions are served.

local attach_server = require "grpo.repl.attach_server"
local events = require "grpo.runs.events"
local reload = require "grpo.scripts.reload"

local services = {}

local Services = {}
Services.__index = Services

function services.new(tr)
  return setmetatable({ tr = tr }, Services)
end

function Services:open()
  local tr = self.tr
  events.load(tr)
  tr.watch = reload.watch(tr, tr.directory.info.script)
  self.server = attach_server.open(tr)
end

function Services:between_steps()
  events.catch_up(self.tr)
  self.tr.watch:poll()
  if self.server then self.server:serve() end
end

-- Before an evaluation at the beginning, which may be one that a killed run had missed.
function Services:before_evaluation()
  events.catch_up(self.tr, true)
end

-- The last step is done: modules that were loaded late are kept too.
function Services:end_of_steps()
  if self.tr.watch then self.tr.watch:meet() end
end

function Services:close()
  if self.server then self.server:close() end
end

-- Reads what was changed in a run that only this process looks at, for events.catch_up: nothing is
-- written, also not by hooks, and no evaluation is repeated.
function services.follow(tr, dir, info)
  local function ignore() end
  tr.directory, tr.only_follows = { dir = dir, info = info, note = ignore, event_text = ignore },
    true
  events.load(tr)
  tr.watch = reload.watch(tr, "")
  for i = #tr.events, 1, -1 do
    if tr.events[i].kind == "evaluate" then table.remove(tr.events, i) end
  end
end

return services
