-- The run's side of `grpo attach`. Between two steps, on the trainer's own thread, it runs the
-- lines that came over the run's socket in a session that sees the trainer.
--
-- A message is one line with a JSON object:
--   the client sends   { id =, text =, look = { width =, colour =, utf8 = } }
--   the run answers    { id =, out =, err =, failed = true if the text failed,
--                        more = true if the text is incomplete }
--   the run greets     { hello = "sums-001", step =, steps =, state = "running" | "paused" }

local completions = require "grpo.commands.repl.pretty.completions"
local core = require "grpo.core"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local events = require "grpo.loop.events"
local output = require "grpo.commands.repl.output"
local paint = require "grpo.commands.repl.pretty.paint"
local pretty = require "grpo.commands.repl.pretty"
local session = require "grpo.commands.repl.session"
local unchanged = require "grpo.loop.unchanged"

local MOST_OUTPUT = 1 << 20 -- bytes of an answer; its line in JSON may be six times as long

-- Events that are served between two steps.  A session sends one line and waits for the answer, so
-- only a flood is put off; what it sent is served between the next steps.
local MOST_EVENTS, MOST_SECONDS = 16, 0.1

local Control = {}
Control.__index = Control

local attach_server = {}

-- The rows of .help in an attached session.
attach_server.rows = session.with_extensions {
  { "EXPR", "prints the value" },
  { "tr, m, tok, exp", "the trainer, its model, tokenizer and experiment" },
  { "tr.metrics",
    "the metrics of the last step; tr.batch.completions has its completions, tr.state "
    .. "what the script keeps" },
  { "worst(n), best(n)", "shows the n completions of the last step with the lowest or highest "
    .. "reward" },
  { "tr.config.train.lr = x", "changes a live option (docs/options.md)" },
  { "weight(\"name\", x)", "changes the weight of a reward" },
  { "pause(), resume()", "makes the run wait between two steps, and continue" },
  { "evaluate()", "evaluates on the held-out rows" },
  { "save()", "writes a checkpoint" },
  { "stop()", "stops the run after a checkpoint" },
  { "?NAME", "explains NAME" .. (session.completer() and "; TAB completes a name" or "") },
  { ".time EXPR", "shows how long EXPR takes" },
  { "Ctrl-D or .quit", "leaves; the run continues. tr:inspect and tr:rescore need a prompt of "
    .. "their own: grpo repl RUN" },
}

-- Listens for sessions. Returns nil when that is not possible; training does not depend on it.
function attach_server.open(tr)
  local server, message = core.channel.listen(tr.directory.dir .. "/control.sock")
  if not server then
    tr.directory:note(("no sessions can be attached: %s"):format(message))
    return nil
  end
  return setmetatable({ tr = tr, server = server, sessions = {} }, Control)
end

function Control:close()
  self.server:close()
end

-- ---- the functions of an attached session -------------------------------------------------

-- A list of completions, which is shown one below the other.
local Extremes = { __name = "grpo.Extremes" }

pretty.register("grpo.Extremes", function(list, look)
  local texts = {}
  for i, c in ipairs(list) do
    local head = ("[%s | total %s | %s, %d tokens]"):format(display.reward_text(list.tr, c),
      c.reward and ("%.4g"):format(c.reward) or "-", c.finish, c.length)
    texts[i] = ("%s prompt: %s\n%s"):format(paint.colour(look, "cyan", display.clean(head)),
      paint.one_line(c.prompt), completions.text(c, look))
  end
  return table.concat(texts, "\n\n")
end)

-- Returns the n completions of the last step with the lowest (sign 1) or highest (-1) reward.
local function extreme(tr, name, n, sign)
  if n ~= nil and (math.type(n) ~= "integer" or n < 1) then
    errors.raise("EARG", "%s: got %s, want how many completions: a whole number from 1", name,
      type(n) == "string" and ("'%s'"):format(n) or tostring(n))
  end
  if not tr.batch then
    errors.raise("EARG", "no step of this session's run has been sampled yet")
  end
  local list = {}
  for i, c in ipairs(tr.batch.completions) do list[i] = c end
  table.sort(list, function(a, b)
    local ra, rb = a.reward or -math.huge, b.reward or -math.huge
    if ra ~= rb then return sign * ra < sign * rb end
    if a.prompt ~= b.prompt then return a.prompt < b.prompt end
    return a.index < b.index
  end)
  for i = #list, (n or 1) + 1, -1 do list[i] = nil end
  list.tr = tr
  return setmetatable(list, Extremes)
end

local function environment(self, print_to)
  local tr = self.tr
  local env = { tr = tr, m = tr.model, tok = tr.tokenizer, exp = tr.experiment,
    grpo = require "grpo", schedule = require "grpo.schedule" }
  function env.print(...)
    local parts = table.pack(...)
    for i = 1, parts.n do parts[i] = tostring(parts[i]) end
    print_to(display.clean(table.concat(parts, "\t", 1, parts.n)) .. "\n")
  end
  function env.pause() tr.paused = true end
  function env.resume() tr.paused = nil end
  function env.stop(reason)
    tr:stop(reason or "attached session")
    tr.paused = nil
  end
  function env.save() return tr:save() end
  function env.evaluate() return events.evaluate(tr) end
  function env.weight(name, value) return events.weight(tr, name, value) end
  function env.worst(n) return extreme(tr, "worst", n, 1) end
  function env.best(n) return extreme(tr, "best", n, -1) end
  return setmetatable(env, { __index = _G })
end

-- ---- sessions -------------------------------------------------------------------------------

function Control:send(client, message)
  self.server:send(client, core.json_encode(message))
end

local function opened(self, client)
  local tr = self.tr
  local one = { look = {}, output = output.new(0) } -- output: of the current request
  local function put(kind)
    return function(text) one.output:put(kind, text) end
  end
  local function call(chunk)
    return events.recording(tr, function(...)
      local restored = unchanged.trainer(tr)
      local results = table.pack(core.limited(...))
      local changed = restored()
      if not changed then return table.unpack(results, 1, results.n) end
      return false, changed .. ", which the run needs, is again as it was before this line"
    end, tr.settings.limits.hook, "the attached session", chunk)
  end
  local function view(...)
    return core.limited(tr.settings.limits.hook, "the attached session", ...)
  end
  one.session = session.new { env = environment(self, put "out"), out = put "out", err = put "err",
    call = call, view = view,
    look = function()
      return { width = one.look.width, colour = one.look.colour, utf8 = one.look.utf8 }
    end,
    rows = attach_server.rows, run = tr.directory.dir }
  self.sessions[client] = one
  tr.directory:note(("a session was attached at step %d"):format(tr.step_count))
  self:send(client, { hello = tr.directory.info.name, dir = tr.directory.dir, step = tr.step_count,
    steps = tr:total_steps(), state = tr.paused and "paused" or "running" })
end

local function requested(self, client, line)
  local tr, one = self.tr, self.sessions[client]
  local ok, request = pcall(core.json_decode, line)
  if not ok or type(request) ~= "table" or type(request.text) ~= "string" then
    return self:send(client, { err = "not a request\n" })
  end
  one.output = output.new(MOST_OUTPUT)
  local look = type(request.look) == "table" and request.look or {}
  one.look = { width = math.type(look.width) == "integer"
    and math.max(20, math.min(look.width, 1000)) or 80, colour = look.colour == true,
    utf8 = look.utf8 == true }
  local outer = tr.in_hook
  tr.in_hook = "an attached session"
  local fine, more = pcall(one.session.run, one.session, request.text)
  tr.in_hook = outer
  local out, err = one.output:text("out"), one.output:text("err")
  if not fine then err = display.clean(tostring(more)) .. "\n" end
  if one.output.cut then
    out = out and out:gsub("[^\n]$", "%0\n")
    err = (err or "") .. "(more than a MiB of output; the rest is left out)\n"
  end
  self:send(client, { id = request.id, out = out, err = err, more = fine and more or nil,
    failed = (not fine or one.session.failed) or nil, step = tr.step_count, paused = tr.paused })
end

local function gone(self, client)
  self.sessions[client] = nil
  self.tr.directory:note(("a session was detached at step %d"):format(self.tr.step_count))
end

-- Serves the events that have arrived, up to a limit; returns whether there were no more.
function Control:serve_some()
  local began = core.clock()
  for _ = 1, MOST_EVENTS do
    local kind, client, line = self.server:next()
    if kind == "opened" then
      opened(self, client)
    elseif kind == "text" then
      requested(self, client, line)
    elseif kind == "gone" then
      gone(self, client)
    else
      return true
    end
    if core.clock() - began > MOST_SECONDS then return false end
  end
  return false
end

-- Serves requests that have arrived and, while the run is paused, those that arrive meanwhile.
function Control:serve()
  local tr, was_paused = self.tr, false
  local all_served = self:serve_some()
  while tr.paused and not tr.stop_reason do
    if not was_paused then
      was_paused = true
      tr.directory:note(("paused at step %d"):format(tr.step_count))
      tr.view:line(("paused at step %d by an attached session"):format(tr.step_count))
    end
    if all_served then self.server:wait(0.2) end
    tr:check_interrupt()
    tr.directory:heartbeat(tr.step_count, tr:total_steps())
    all_served = self:serve_some()
  end
  if was_paused then tr.directory:note(("continued at step %d"):format(tr.step_count)) end
end

return attach_server
