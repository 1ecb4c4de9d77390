local core = require "grpo.core"
local flags = require "grpo.cli.flags"
local session = require "grpo.session"

local command = {
  usage = "repl [SCRIPT|MODEL|RUN] [--arg k=v] [key=value ...] [--compute f32|bf16] [--threads N]",
  words = 1,
  summary = "interactive Lua with everything loaded",
  overrides = true,
  flags = { threads = "value", compute = "value" },
  help = [[
An interactive Lua prompt with grpo loaded.  With SCRIPT, `exp` is the experiment and `tr` its
trainer (tr:step() advances it); with a MODEL or RUN directory, `m` is the model, `tok` its tokenizer.

  EXPR            prints the value          LINE;    runs without printing
  _               the last value            ?NAME    what is known of NAME
  local x = ...   survives the line         Ctrl-C   back to the prompt; Ctrl-D leaves

Without a terminal it reads a script from standard input.]],
}

local function load_target(env, o)
  local what = o.words[1]
  if not what then return end
  if core.fs.isdir(what) or what:find("%.gguf$") then
    env.m = require("grpo.loading").open(what, { compute = o.flags.compute })
    env.tok = env.m.tokenizer
  else
    if o.flags.compute then o.overrides[#o.overrides + 1] = "compute=" .. o.flags.compute end
    env.exp = require("grpo.cli.script").load(what, o)
    env.tr = require("grpo.train").new(env.exp, {})
    env.m, env.tok = env.tr.model, env.tr.tokenizer
  end
end

local function interactive(env)
  core.err(("grpo %s; ?NAME explains, Ctrl-D leaves\n"):format(core.version().version))
  local edit, prompt = core.edit, session.new(env, core.out, core.err)
  edit.open(env)
  local pending
  while true do
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
  local env = setmetatable({ grpo = require "grpo", schedule = require "grpo.schedule" }, { __index = _G })
  flags.threads(o)
  load_target(env, o)
  if core.isatty(0) then
    interactive(env)
    return 0
  end
  local chunk, message = load(io.read("a"), "=stdin", "t", env)
  if not chunk then error(core.error("EARG", message), 0) end
  local ok, err = core.protected(chunk)
  if not ok then error(err, 0) end
  return 0
end

return command
