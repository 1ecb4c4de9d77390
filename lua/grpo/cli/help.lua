local core = require "grpo.core"
local nearest = require "grpo.options".nearest

local help = {
  usage = "help [COMMAND|OPTION|NAME]",
  words = 1,
  summary = "this list, or the help of one command, option or function",
  help = [[
Shows the list of commands; the help of a COMMAND; or what is known of an option or a name of the Lua interface, as
?NAME at a prompt does: grpo help train.lr, grpo help rewards, grpo help grpo.data.jsonl, grpo help Completion;
or a variable of the environment: grpo help GRPO_CPU.]],
  flags = {},
}

-- Variables of the environment; grpo(1) has them too.
local environment = {
  { "GRPO_CPU", "kernels in place of the best ones: generic, avx2, avx512, avx512bf16 or amx, on ARM generic or neon; "
    .. "bits are the same with one of them, not from one to another" },
  { "GRPO_HISTORY", "where the prompt keeps its history, if not in ~/.grpo_history" },
  { "GRPO_SHARE", "where the files that come with grpo are, if not beside the program" },
  { "GRPO_LUA", "a directory whose Lua files win over those inside the program" },
  { "NO_COLOR", "no colours" },
  { "TERM", "dumb: no colours and nothing that is drawn again" },
  { "COLUMNS", "the width to print for, in place of the terminal's" },
}

local function variable(name)
  for _, row in ipairs(environment) do
    if row[1] == name then return ("%s=VALUE, a variable of the environment: %s"):format(row[1], row[2]) end
  end
end

function help.overview()
  local cli = require "grpo.cli"
  local lines = { "grpo: teach a language model with rewards", "", "usage: grpo COMMAND ...", "" }
  for _, name in ipairs(cli.commands) do
    lines[#lines + 1] = ("  %-9s %s"):format(name, cli.command(name).summary)
  end
  lines[#lines + 1] = ""
  lines[#lines + 1] = "Start with:  grpo run experiments/gsm8k.lua     (or: grpo init my-project)"
  lines[#lines + 1] = "'grpo help COMMAND' explains one, 'grpo help train.lr' an option."
  lines[#lines + 1] = "--version, --trace (Lua traceback on errors)"
  lines[#lines + 1] = "\nEnvironment:"
  for _, row in ipairs(environment) do lines[#lines + 1] = ("  %-13s %s"):format(row[1], row[2]) end
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
    local about = variable(name)
      or require("grpo.repl.explain").find(name, { grpo = require "grpo", schedule = require "grpo.schedule" })
    if about then
      core.out(about .. "\n")
      return 0
    end
    local near = nearest(name, cli.commands)
    return cli.fail(2, "help: unknown command or name '%s'%s; see 'grpo help'", name,
      near and (", did you mean '%s'?"):format(near) or "")
  end
end

return help
