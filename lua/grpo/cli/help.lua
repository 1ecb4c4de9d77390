local core = require "grpo.core"
local usage = require "grpo.cli.usage"
local wrap = require "grpo.base.wrap"

local command = {
  name = "help",
  summary = "show this list, or the help of a command, an option or a function",
  arguments = {
    { name = "COMMAND|OPTION|NAME", type = "command", optional = true },
  },
  flags = {},
  about = {
    "Shows the list of commands, or the help of one COMMAND. For an OPTION of an experiment or a "
      .. "NAME of the Lua interface it shows what ?NAME shows at a prompt. For a section of "
      .. "options it lists them. It also explains the variables of the environment. from-trl and "
      .. "from-verl list the options of TRL, transformers, PEFT and verl with their names here. "
      .. "Examples:",
    { { "grpo help train.lr" }, { "grpo help train.ppo" }, { "grpo help rewards" },
      { "grpo help grpo.data.jsonl" }, { "grpo help Completion" }, { "grpo help GRPO_CPU" },
      { "grpo help from-trl" }, { "grpo help from-verl" } },
  },
}

-- Variables of the environment, for the list of commands and for grpo(1).
command.environment = {
  { "GRPO_CPU", "kernels to use instead of the fastest ones: generic, blas, avx2, avx512, "
    .. "avx512bf16 or amx; on ARM generic, blas or neon. A run has the same bits as another only "
    .. "with the same kernels. 'grpo doctor' shows which are used" },
  { "GRPO_HISTORY", "the file that keeps the history of the prompt (default: ~/.grpo_history)" },
  { "GRPO_SHARE", "the directory of the files that come with grpo (default: share/grpo beside the "
    .. "bin directory of the program)" },
  { "GRPO_LUA", "a directory whose Lua files in lua/grpo and rewards replace those inside the "
    .. "program; for development" },
  { "NO_COLOR", "if it is set, nothing is coloured" },
  { "TERM", "if it is dumb, nothing is coloured and no line is redrawn" },
  { "COLUMNS", "the width to print for, instead of the width of the terminal" },
}

local function variable(name)
  for _, row in ipairs(command.environment) do
    if row[1] == name then
      return ("%s=VALUE, a variable of the environment: %s"):format(name, row[2])
    end
  end
end

-- Topics that are tables of their own: names of other programs.
local topics = { ["from-trl"] = { "TRL", "transformers", "PEFT" }, ["from-verl"] = { "verl" } }

local function names_of(programs)
  local foreign, lines = require "grpo.experiment.foreign", {}
  for _, program in ipairs(programs) do
    local rows = {}
    for i, row in ipairs(foreign.rows(program)) do
      local ours = row.ours and row.ours .. (row.about ~= "" and ". " or "") or ""
      rows[i] = { row.name, ours .. row.about }
    end
    lines[#lines + 1] = ("Options of %s, and what they are here:\n%s"):format(program,
      wrap.list(rows, usage.width()))
  end
  return table.concat(lines, "\n\n")
end

-- An option of another program, with the help of what it is here.
local function of_another_program(name)
  local advice, ours = require("grpo.experiment.foreign").explanation(name)
  if not advice then return nil end
  local about = ours and require("grpo.repl.explain").find(ours, {})
  return wrap.paragraph(advice, usage.width()) .. (about and "\n\n" .. about or "")
end

function command.overview(cli)
  local rows, width = {}, usage.width()
  for i, name in ipairs(cli.commands) do rows[i] = { name, cli.command(name).summary } end
  return table.concat({ "grpo: teach a language model with rewards", "usage: grpo COMMAND ...",
    wrap.list(rows, width),
    "Start with:  grpo run experiments/gsm8k.lua     (or: grpo init my-project)\n"
    .. "'grpo help COMMAND' explains a command, 'grpo help train.lr' an option.\n"
    .. "Every command takes --help and --trace (show the Lua traceback of an error); "
    .. "grpo --version shows versions.",
    "Environment:\n" .. wrap.list(command.environment, width) }, "\n\n") .. "\n"
end

function command.run(o, cli)
  local name = o.words[1]
  local named = name and cli.command(name)
  if not name then
    core.out(command.overview(cli))
  elseif named then
    core.out(usage.help(named))
  else
    local names = { grpo = require "grpo", schedule = require "grpo.schedule" }
    local about = topics[name] and names_of(topics[name]) or variable(name)
      or require("grpo.repl.explain").find(name, names) or of_another_program(name)
    core.out((about or cli.unknown("help: unknown command or name", name)) .. "\n")
  end
end

return command
