local core = require "grpo.core"

local help = {
  usage = "help [COMMAND]",
  words = 1,
  summary = "this list, or the help of one command",
  flags = {},
}

function help.overview()
  local cli = require "grpo.cli"
  local lines = { "grpo: teach a language model with rewards", "", "usage: grpo COMMAND ...", "" }
  for _, name in ipairs(cli.commands) do
    lines[#lines + 1] = ("  %-9s %s"):format(name, cli.command(name).summary)
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "Start with:  grpo run experiments/gsm8k.lua     (or: grpo init my-project)"
  lines[#lines + 1] = "'grpo help COMMAND' explains one.  --version, --trace (Lua traceback on errors)"
  return table.concat(lines, "\n") .. "\n"
end

function help.run(o)
  local cli = require "grpo.cli"
  local name = o.words[1]
  if not name then
    core.out(help.overview())
  elseif cli.command(name) then
    core.out(cli.help_text(name))
  else
    return cli.fail(2, "help: unknown command '%s'; see 'grpo help'", name)
  end
end

return help
