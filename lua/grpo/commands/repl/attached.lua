-- A session inside a run: between two steps, on the trainer's own thread, it runs texts that see
-- the trainer.  `grpo attach` has one for each of its clients.

local completions = require "grpo.commands.repl.pretty.completions"
local display = require "grpo.base.display"
local core = require "grpo.core"
local errors = require "grpo.base.errors"
local events = require "grpo.loop.events"
local output = require "grpo.commands.repl.output"
local paint = require "grpo.commands.repl.pretty.paint"
local pretty = require "grpo.commands.repl.pretty"
local session = require "grpo.commands.repl.session"
local unchanged = require "grpo.loop.unchanged"

local MOST_OUTPUT = 1 << 20 -- bytes of an answer; its line in JSON may be six times as long

local Attached = {}
Attached.__index = Attached

local attached = {}

-- The rows of .help in a session inside a run.
attached.rows = session.with_extensions {
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

-- ---- the functions of a session ------------------------------------------------------------

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

local function environment(tr, print_to)
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

-- ---- texts and answers ---------------------------------------------------------------------

-- A session in the run of tr.  rows: of .help.
function attached.new(tr, rows)
  local self = setmetatable({ tr = tr, look = {}, output = output.new(0) }, Attached)
  local function put(kind)
    return function(text) self.output:put(kind, text) end
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
  self.session = session.new { env = environment(tr, put "out"), out = put "out", err = put "err",
    call = call, view = view,
    look = function()
      return { width = self.look.width, colour = self.look.colour, utf8 = self.look.utf8 }
    end,
    rows = rows or attached.rows, run = tr.directory.dir }
  return self
end

-- Runs a text.  look: { width =, colour =, utf8 = }.  Returns { out =, err =, more = true if the
-- text is incomplete, failed = true if it failed }.
function Attached:answer(text, look)
  local tr = self.tr
  self.output, self.look = output.new(MOST_OUTPUT), look
  local outer = tr.in_hook
  tr.in_hook = "an attached session"
  local fine, more = pcall(self.session.run, self.session, text)
  tr.in_hook = outer
  local out, err = self.output:text("out"), self.output:text("err")
  if not fine then err = display.clean(tostring(more)) .. "\n" end
  if self.output.cut then
    out = out and out:gsub("[^\n]$", "%0\n")
    err = (err or "") .. "(more than a MiB of output; the rest is left out)\n"
  end
  return { out = out, err = err, more = fine and more or nil,
    failed = (not fine or self.session.failed) or nil }
end

return attached
