-- The program: finds the command, parses its words, turns errors into one line and an exit status.
--
-- A command is a module grpo.cli.NAME:
--   { summary=, usage=, help=, words = how many at most, flags = { NAME = kind }, run = function(o),
--     short = { LETTER = NAME of a flag } }
-- A flag's kind: "flag" (no value), "value", "text" (a value that may be empty), "optional" (--NAME or --NAME=VALUE).
-- run returns an exit status (nil: 0).  o: { words = positional, flags = {...}, args = {--arg}, overrides = {...} }.

local core = require "grpo.core"
local errors = require "grpo.base.errors"
local suggest = require "grpo.options".nearest

local cli = {}

-- In the order of `grpo help`.
cli.commands = { "run", "check", "test", "repl", "attach", "eval", "generate", "chat", "export", "runs", "logs",
  "stop", "report", "replay", "diff", "init", "bench", "doctor", "help" }

local module_of = { init = "grpo.cli.init_project" }

-- Their first word may be a script, and then one that came with grpo.
local takes_script = { run = true, check = true, eval = true, repl = true }

function cli.command(name)
  for _, known in ipairs(cli.commands) do
    if known == name then return require(module_of[name] or "grpo.cli." .. name) end
  end
end

local function fail(status, format, ...)
  core.err("grpo: " .. format:format(...) .. "\n")
  return status
end
cli.fail = fail

local function usage_error(name, format, ...)
  return fail(2, "%s: %s; see 'grpo help %s'", name, format:format(...), name)
end

local function flag_names(command)
  local names = {}
  for name in pairs(command.flags or {}) do names[#names + 1] = "--" .. name end
  names[#names + 1] = "--help"
  names[#names + 1] = "--trace"
  return names
end

-- Splits the words after the command.  Returns o, or nil and a message.
local function parse(command, words)
  local o = { words = {}, flags = {}, args = {}, overrides = {} }
  local i = 1
  while i <= #words do
    local word = words[i]
    local name, value = word:match("^%-%-([%w-]+)=?(.*)$")
    local has_value = word:find("=", 1, true) ~= nil
    local short = word:match("^%-(%a)$")
    if short then name, has_value = short == "h" and "help" or command.short and command.short[short], false end
    if short and not name then return nil, ("unknown flag -%s"):format(short) end
    if name == "arg" then
      if not has_value then
        i = i + 1
        value = words[i] or ""
      end
      local k, v = value:match("^([%w_-]+)=(.*)$")
      if not k then return nil, ("--arg wants KEY=VALUE, got '%s'"):format(value) end
      o.args[k] = v
    elseif name == "help" or name == "trace" then
      o.flags[name] = true
    elseif name then
      local kind = command.flags and command.flags[name]
      if not kind then
        local near = suggest("--" .. name, flag_names(command))
        local option = command.overrides and require("grpo.experiment").whole_name(name:gsub("-", "_"))
        return nil, ("unknown flag --%s%s"):format(name, option and ("; options are written %s=VALUE"):format(option)
          or near and (", did you mean '%s'?"):format(near) or "")
      end
      if kind == "flag" and has_value then return nil, ("--%s takes no value"):format(name) end
      if (kind == "value" or kind == "text") and not has_value then
        i = i + 1
        value = words[i]
        if not value then return nil, ("--%s wants a value"):format(name) end
      end
      if value == "" and (kind == "value" or kind == "optional" and has_value) then
        return nil, ("--%s: its value is empty"):format(name)
      end
      o.flags[name] = (kind == "flag" or (kind == "optional" and not has_value)) and true or value
    elseif command.overrides and word:find("^[%a_][%w_.]*=") and #o.words > 0 then
      o.overrides[#o.overrides + 1] = word
    elseif word == "" and #o.words == 0 then
      return nil, "its first word is empty"
    else
      o.words[#o.words + 1] = word
    end
    i = i + 1
  end
  local extra = command.words and o.words[command.words + 1]
  if extra and not o.flags.help then return nil, ("'%s' is one word too many"):format(extra) end
  return o
end

function cli.help_text(name)
  local command = cli.command(name)
  return ("usage: grpo %s\n\n%s\n"):format(command.usage, command.help or command.summary)
end

local function run_command(name, words)
  local command = cli.command(name)
  if not command then
    local near = suggest(name, cli.commands)
    local hint = near and (", did you mean '%s'?"):format(near) or ""
    return fail(2, "unknown command '%s'%s; see 'grpo help'", name, hint)
  end
  local o, message = parse(command, words)
  if not o then return usage_error(name, "%s", message) end
  if o.flags.help then
    core.out(cli.help_text(name))
    return 0
  end
  cli.trace = o.flags.trace
  local library = os.getenv("GRPO_LUA")
  if library and library ~= "" and not core.fs.isdir(library) then
    return fail(3, "GRPO_LUA=%s: no such directory; want one with lua/grpo/ or rewards/, or no GRPO_LUA", library)
  end
  if takes_script[name] and o.words[1] then o.words[1] = require("grpo.base.install_dir").find(o.words[1]) end
  local ok, status = core.protected(command.run, o)
  if ok then return status or 0 end
  return cli.report(status)
end

-- One line for an error; with --trace the Lua traceback too.  Returns the exit status.
function cli.report(err)
  core.err("grpo: " .. errors.line(err) .. "\n")
  if cli.trace and type(err) == "table" and err.traceback then core.err(err.traceback .. "\n") end
  return core.status_exit(err)
end

function cli.main(words)
  if words[1] == "--trace" then words = { words[2], "--trace", table.unpack(words, 3) } end
  local name = words[1]
  if not name or name == "--help" or name == "-h" then
    core.out(require("grpo.cli.help").overview())
    return name and 0 or 2
  end
  if name == "--version" or name == "version" then
    core.out(require("grpo.cli.doctor").version_text())
    return 0
  end
  return run_command(name, table.move(words, 2, #words, 1, {}))
end

return cli
