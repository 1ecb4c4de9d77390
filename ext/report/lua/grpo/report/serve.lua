-- grpo report --serve: a page that follows a run, for browsers on this machine.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local html = require "grpo.report.html"
local live_source = require "grpo.report.live_source"
local page = require "grpo.report.page"

local serve = {}

local LEAST_SECONDS = 1 -- between two looks at the run, however often it is asked for

local Server = {}
Server.__index = Server

-- Looks at the run again if the last look is old enough.  A file that cannot be read leaves what is
-- known, and the page says so.
local function look(self)
  local now = core.clock()
  if now < self.next_look then return end
  self.next_look = now + LEAST_SECONDS
  local ok, problem = pcall(function()
    while self.source:look() do end -- no more follows
  end)
  local message = not ok and errors.line(problem) or nil
  if message ~= self.problem then
    self.problem, self.source.version = message, self.source.version + 1
  end
  if message then self.source.run.state = "cannot be read: " .. message end
end

-- The answer to a path: status, type, body.
local answers = {
  ["/"] = function(self)
    look(self)
    return 200, "text/html",
      html.live_page(self.source, self.source.rows, self.source.version, self.look)
  end,
  ["/style.css"] = function() return 200, "text/css", page.style end,
  ["/script.js"] = function() return 200, "text/javascript", page.script end,
  ["/data"] = function(self, query)
    look(self)
    local source = self.source
    if query == "since=" .. source.version then
      return 200, "application/json", ('{"version":%d}'):format(source.version)
    end
    if self.made ~= source.version then
      self.data, self.made = html.live_data(source, source.rows, source.version), source.version
    end
    return 200, "application/json", self.data
  end,
}

local function answer(self, path, query)
  local known = answers[path]
  if not known then return 404, "text/plain", "there is no such page" end
  local ok, status, type_of, body = pcall(known, self, query)
  if ok then return status, type_of, body end
  return 500, "text/plain", errors.line(status)
end

-- Answers the requests that have come.
local function answer_all(self)
  while true do
    local request, _, path, query = self.server:next()
    if not request then return end
    self.server:send(request, answer(self, path, query))
  end
end

local signal_status = { HUP = 129, INT = 130, TERM = 143 }

-- run: from history.open.  Serves until a signal; returns the exit status.
function serve.run(run, port, shown)
  local server <close>, message, code = core.http_listen { port = port,
    purpose = "no page is served" }
  if not server then
    if code ~= "EIO" then errors.raise_plain(code, "%s", message) end
    errors.raise_plain("EIO", "%s; --port N takes another one, --port 0 one that is free", message)
  end
  core.signals_install()
  local self = setmetatable({ server = server, source = live_source.new(run), look = shown,
    next_look = 0 }, Server)
  look(self)
  core.out(("http://127.0.0.1:%d/\n"):format(server:port()))
  if core.isatty(2) then core.err("Ctrl-C ends it; the run is not touched\n") end
  while true do
    answer_all(self)
    server:wait(5)
    local signal = core.signal_take()
    if signal and signal ~= "USR1" then return signal_status[signal] end
  end
end

return serve
