local core = require "grpo.core"
local flags = require "grpo.cli.flags"
local pretty = require "grpo.pretty"

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

-- `local` at the start of a line makes a variable of the session.
local function session_locals(line)
  local name = line:match("^%s*local%s+function%s+([%a_][%w_]*)")
  if name then return (line:gsub("^%s*local%s+", "", 1)) end
  if line:match("^%s*local%s+[%a_][%w_%s,]*=") then return (line:gsub("^%s*local%s+", "", 1)) end
  return line
end

-- Compiles a line as an expression, then as statements.  Returns chunk, or nil, message, incomplete.
local function compile(line, env)
  local chunk = load("return " .. line, "=stdin", "t", env)
  if chunk then return chunk end
  local statement, message = load(session_locals(line), "=stdin", "t", env)
  if statement then return statement end
  return nil, message, message:find("<eof>", 1, true) ~= nil
end

local function describe(env, name)
  local value = env
  for part in name:gmatch("[%w_]+") do
    local ok, next_value = pcall(function() return value[part] end)
    value = ok and next_value or nil
  end
  core.out(pretty.describe(name, value) .. "\n")
end

local function evaluate(env, line)
  local silent = line:match(";%s*$")
  local chunk, message, incomplete = compile(line, env)
  if not chunk then return message, incomplete end
  local started = core.clock()
  local results = table.pack(core.protected(chunk))
  if not results[1] then
    core.err(tostring(results[2]) .. "\n")
    return
  end
  if results.n > 1 then env._ = results[2] end
  if not silent then
    for i = 2, results.n do core.out(pretty.format(results[i]) .. "\n") end
  end
  local seconds = core.clock() - started
  if seconds > 1 then core.err(("(%.2f s)\n"):format(seconds)) end
end

local function interactive(env)
  core.err(("grpo %s; ?NAME explains, Ctrl-D leaves\n"):format(core.version().version))
  local edit = core.edit
  edit.open(env)
  local pending
  while true do
    local line = edit.read(pending and ">> " or "> ")
    if line == nil then break end
    if line == false then -- Ctrl-C
      pending = nil
    elseif not pending and line:match("^%s*%?") then
      describe(env, line:match("^%s*%?%s*(.-)%s*$"))
    else
      local text = pending and pending .. "\n" .. line or line
      if text:match("%S") then
        edit.remember(line)
        local message, incomplete = evaluate(env, text)
        pending = incomplete and text or nil
        if message and not incomplete then core.err(message .. "\n") end
      end
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
