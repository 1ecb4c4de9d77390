local core = require "grpo.core"
local display = require "grpo.base.display"
local flags = require "grpo.commands.flags"
local session = require "grpo.commands.repl.session"

local command = {
  name = "repl",
  summary = "open a Lua prompt with everything loaded",
  arguments = {
    { name = "SCRIPT|MODEL|RUN", type = { "script", "model", "run" }, optional = true },
    flags.override,
  },
  flags = { flags.arg, flags.compute, flags.memory, flags.threads },
  about = {
    "Opens a Lua prompt with grpo loaded. What it holds depends on the argument:",
    {
      { "SCRIPT", "`exp` is the experiment and `tr` its trainer; tr:step() makes one step" },
      { "RUN", "the directory of a run, a checkpoint in it, or a name in runs/. `tr` continues "
        .. "from the newest checkpoint with the saved script. Nothing is written to the run. A "
        .. "finished run can be continued beyond its end" },
      { "MODEL", "a model directory, an adapter or a .gguf file" },
    },
    "`m` is the model and `tok` its tokenizer. Options and flags:",
  },
  notes = {
    "The prompt understands:",
    session.rows,
    "The history is kept in ~/.grpo_history, or in the file that GRPO_HISTORY names. NO_COLOR and "
      .. "TERM=dumb switch colours off. Without a terminal nothing is coloured, and the text of "
      .. "standard input is run as a script.",
  },
}

-- print() on a terminal, which must not obey control characters in the text of a model.
local function clean_print(...)
  local parts = table.pack(...)
  for i = 1, parts.n do parts[i] = display.clean(tostring(parts[i])) end
  core.out(table.concat(parts, "\t", 1, parts.n) .. "\n")
end

-- run: the directory of the run that was opened, or nil
local function interactive(env, about, run)
  core.err(("grpo %s; ?NAME explains, .help lists the rest, Ctrl-D leaves\n%s"):format(
    core.version().version, about and about .. "\n" or ""))
  local edit, pending = core.edit, nil
  env.print = clean_print
  local prompt = session.new { env = env, call = edit.call, run = run,
    out = function(text) return core.draw(1, text) end,
    err = function(text) return core.draw(2, text) end }
  local at = session.completer()
  edit.open(at and function(line)
    local before = pending and pending .. "\n" or ""
    local first, list = at(before .. line, env)
    return first - #before, list
  end)
  while not prompt.done do
    local line = edit.read(pending and ">> " or "> ")
    if line == nil then break end
    if line == false then -- Ctrl-C
      pending = nil
    elseif pending or line:match("%S") then
      edit.remember(line)
      local text = pending and pending .. "\n" .. line or line
      pending = prompt:run(text) and text or nil
    end
  end
  edit.close()
end

function command.run(o)
  local env = { grpo = require "grpo", schedule = require "grpo.schedule" }
  setmetatable(env, { __index = _G })
  local about, run
  if o.words[1] then about, run = require("grpo.commands.repl.open").open(env, o) end
  if core.isatty(0) then
    interactive(env, about, run)
    return 0
  end
  session.new { env = env, out = core.out, err = core.err, run = run } -- its functions
  if not rawget(env, "print") then -- Lua's own says nothing of a disk that is full
    function env.print(...)
      local parts = table.pack(...)
      for i = 1, parts.n do parts[i] = tostring(parts[i]) end
      core.out(table.concat(parts, "\t", 1, parts.n) .. "\n")
    end
  end
  local text = io.read("a")
  local chunk, message = load(text, "=stdin", "t", env)
  if not chunk then
    message = require("grpo.base.other_programs").explained(message, text)
    error(core.error("EARG", message), 0)
  end
  local ok, err = core.protected(chunk)
  if not ok then error(err, 0) end
  local written, problem = io.stdout:flush()
  if not written then
    error(core.error("EIO", "cannot write to standard output: " .. problem), 0)
  end
  return 0
end

return command
