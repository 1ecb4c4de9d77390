local attach_server = require "grpo.commands.repl.attach_server"
local core = require "grpo.core"
local display = require "grpo.base.display"
local errors = require "grpo.base.errors"
local flags = require "grpo.commands.flags"
local history = require "grpo.runs.history"
local paint = require "grpo.commands.repl.pretty.paint"
local rundir = require "grpo.runs.directory"
local session = require "grpo.commands.repl.session"

local command = {
  name = "attach",
  summary = "open a Lua prompt inside a run that is training",
  arguments = { flags.run },
  flags = {},
  about = {
    "Opens a prompt in the process of a run that is training. Each line is run between two steps, "
      .. "on the trainer's own thread, within limits.hook. The run continues meanwhile, and after "
      .. "you have left.",
  },
  notes = {
    "The prompt understands:",
    attach_server.rows,
    "A change of an option, of a weight or of tr.state is recorded in RUN/events.jsonl, and a "
      .. "resumed run applies it again at the same step. Without a terminal the lines of standard "
      .. "input are run one after the other, and the exit status is 1 when one of them failed.",
  },
}

-- The classes of the prompt's variables, which exist only in the run's process.
local classes = { tr = "grpo.Trainer", m = "grpo.Model", tok = "grpo.Tokenizer",
  exp = "grpo.Experiment" }

local fail = errors.of "attach"

local function connect(run)
  local path = run.dir .. "/control.sock"
  local channel, message, code = core.channel.connect(path)
  if channel then return channel end
  if code == "ENOENT" and run.state == "running" then
    fail("EARG", "%s is running, but takes no sessions, because several ranks train it, or its "
      .. "directory can hold no socket (run.log says which)", run.dir)
  end
  if code == "ENOENT" then fail("EARG", "%s is not running (%s)", run.dir, tostring(run.state)) end
  fail(code, "%s", message)
end

-- The kinds of a message's fields; attach_server.lua says what they are.
local kinds = { hello = "string", state = "string", step = "integer", steps = "integer",
  out = "string", err = "string", more = "boolean", failed = "boolean" }

-- A line of the run as a message.  Whoever may write to the socket may send anything.
local function message_of(line, run)
  local ok, message = pcall(core.json_decode, line)
  ok = ok and type(message) == "table"
  for name, kind in pairs(kinds) do
    local v = ok and message[name]
    ok = ok and (v == nil or kind == (math.type(v) or type(v)))
  end
  if not ok then fail("EFORMAT", "%s: its answer is not a message of this version", run.dir) end
  return message
end

-- The run ends the connection when it ends itself, while all its places are taken, or if this side
-- does not read.
local function fail_gone(run)
  local now = rundir.describe(run.dir)
  if not now or now.state ~= "running" then fail("EIO", "%s has ended", run.dir) end
  fail("EIO", "%s has closed the session but continues: it takes %d at once, and drops one that "
    .. "does not read its answers; try again later", run.dir, core.channel.clients)
end

-- The next message; nil and the signal if one came first.
local function receive(channel, run)
  while true do
    local line = channel:read(0.5)
    if line == nil then fail_gone(run) end
    if line then return message_of(line, run) end
    local signal = core.signal_take()
    if signal then return nil, signal end
  end
end

-- Sends a text and shows the answer.  Returns whether more lines belong to it, a signal that came
-- first or nil, and whether it failed.
local function ask(channel, run, id, text, look)
  local request = { id = id, text = text, look = { width = look.width,
    colour = look.colour, utf8 = look.utf8 } }
  local line = core.json_encode(request)
  if #line >= core.channel.longest then
    fail("EARG", "the text has %d bytes, but a run takes %d at most; let it read a file", #text,
      core.channel.longest)
  end
  if not channel:write(line) then fail_gone(run) end
  while true do
    local answer, signal = receive(channel, run)
    if not answer then
      core.err("(the answer comes after the current step; it will not be shown)\n")
      return false, signal
    end
    if answer.id == id then
      core.draw(1, (look.colour and display.clean_but_colours or display.clean)(answer.out or ""))
      core.err(display.clean(answer.err or ""))
      return answer.more, nil, answer.failed
    end
  end
end

local function interactive(channel, run)
  local edit, env = core.edit, { grpo = require "grpo", schedule = require "grpo.schedule" }
  local pending, id = nil, 0
  local at = session.completer()
  edit.open(at and function(line)
    local before = pending and pending .. "\n" or ""
    local first, list = at(before .. line, env, classes)
    return first - #before, list
  end)
  while true do
    local line = edit.read(pending and ">> " or run.name .. "> ")
    if line == nil then break end
    if line == false then
      pending = nil
    elseif line:match("%S") or pending then
      edit.remember(line)
      local text = pending and pending .. "\n" .. line or line
      id = id + 1
      if text:find("^%s*%.quit%s*$") then break end
      pending = ask(channel, run, id, text, paint.look()) and text or nil
    end
  end
  edit.close()
end

local function piped(channel, run)
  local pending, id, any_failed = nil, 0, false
  for line in io.lines() do
    local text = pending and pending .. "\n" .. line or line
    id = id + 1
    pending = nil
    if text:match("%S") then
      local more, signal, failed = ask(channel, run, id, text, paint.look())
      if signal then return ({ HUP = 129, INT = 130, TERM = 143 })[signal] or 130 end
      any_failed = any_failed or failed
      pending = more and text or nil
    end
  end
  if pending then fail("EARG", "the last lines are incomplete") end
  return any_failed and 1 or 0
end

function command.run(o)
  local run = history.open(o.words[1])
  local channel <close> = connect(run)
  core.signals_install()
  if core.isatty(0) then
    core.err(("%s: waiting for the current step to end ...\n"):format(run.name))
  end
  local hello = receive(channel, run)
  if not hello then return 130 end
  if not (hello.hello and hello.step and hello.steps and hello.state) then
    fail("EFORMAT", "%s: it does not greet; is it of another version?", run.dir)
  end
  if core.isatty(0) then
    core.err(("attached to %s at step %d of %d, %s; ?NAME explains, Ctrl-D leaves, and the run "
      .. "continues\n"):format(run.name, hello.step, hello.steps,
      display.clean(hello.state)))
    interactive(channel, run)
  else
    return piped(channel, run)
  end
end

return command
