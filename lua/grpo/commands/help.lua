local core = require "grpo.core"
local extensions = require "grpo.base.extensions"
local options = require "grpo.options"
local other_programs = require "grpo.base.other_programs"
local usage = require "grpo.commands.usage"
local wrap = require "grpo.base.wrap"

local command = {
  name = "help",
  summary = "show this list, or the help of a command, an option or a function",
  arguments = {
    { name = "COMMAND|OPTION|WORD", type = "command", optional = true, repeated = true },
  },
  flags = {},
  about = {
    "Shows the list of commands, or the help of one COMMAND. For an OPTION of an experiment or a "
      .. "name of the Lua interface it shows what ?NAME shows at a prompt. Other WORDs are looked "
      .. "for in commands, flags, options, metrics, functions and the pages. For a section of "
      .. "options it lists them. It also explains the variables of the environment.%s Examples:",
    { { "grpo help train.lr" }, { "grpo help train.ppo" }, { "grpo help rewards" },
      { "grpo help grpo.data.jsonl" }, { "grpo help kl schedule" },
      { "grpo help Completion" }, { "grpo help GRPO_CPU" } },
  },
}

do -- what it says of names of other programs
  local topics = ""
  for _, row in ipairs(extensions.rows "other_programs") do
    topics = topics .. " " .. row.help
    for _, line in ipairs(row.examples) do table.insert(command.about[2], { line }) end
  end
  command.about[1] = command.about[1]:format(topics)
end

-- Variables of the environment, for the list of commands and for grpo(1).
command.environment = {
  { "GRPO_CPU", "kernels to use instead of the fastest ones: generic, blas, avx2, avx512, "
    .. "avx512bf16 or amx; on ARM generic, blas or neon. A run has the same bits as another only "
    .. "with the same kernels, or with portable ones: portable, or portable-avx2, portable-avx512, "
    .. "portable-neon and generic, whose bits are the same. 'grpo doctor' shows which are used" },
  { "GRPO_MPI", "openmpi or mpich: the MPI through which the processes of a run meet, instead of "
    .. "the one whose mpirun or srun has started them" },
  { "GRPO_PATIENCE", "seconds, instead of 120, for which a process that hangs may keep the others "
    .. "of its run waiting before all end" },
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

-- An option of another program, with the help of what it is here; and that option.
local function of_another_program(name)
  local advice, ours = other_programs.ask("explanation", name)
  if not advice then return nil end
  local about = ours and require("grpo.commands.repl.explain").find(ours, {})
  return wrap.paragraph(advice, usage.width()) .. (about and "\n\n" .. about or ""), ours
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

local MOST, BESIDE = 12, 6 -- entries of a search, and of one that stands below an explanation

-- The entries that a search finds and that a text does not name yet, as text; nil without any.
local function found_text(words, cli, most, told)
  local rows, left = {}, 0
  for _, entry in ipairs(require("grpo.commands.search").find(words, cli, command.environment)) do
    if told and told:find(entry.shown or entry.name, 1, true) then goto continue end
    if #rows < most then
      rows[#rows + 1] = { entry.shown or entry.name, entry.text }
    else
      left = left + 1
    end
    ::continue::
  end
  local rest = left > 0 and ("\n  %d more; a further word finds fewer"):format(left) or ""
  return rows[1] and wrap.list(rows, usage.width()) .. rest
end

-- An explanation, with what else a search for the word finds.
local function with_more(about, word, cli)
  local more = not word:find("[.:]") and found_text({ word }, cli, BESIDE, about)
  return more and about .. "\n\nSee also:\n" .. more or about
end

local function found_or_nearest(words, cli)
  local asked, changed = table.concat(words, " "), false
  local text = asked:find("%w") and found_text(words, cli, MOST)
  if text then return text end
  local unknown = "help: nothing is known of"
  if not asked:find("%w") or options.nearest(asked, cli.commands) then
    cli.unknown(unknown, asked)
  end
  for i, word in ipairs(words) do
    local near = require("grpo.commands.search").nearest(word, cli, command.environment)
    words[i], changed = near or word, changed or near ~= nil
  end
  text = changed and found_text(words, cli, MOST)
  if not text then cli.unknown(unknown, asked) end
  return ("nothing is known of '%s'; this is of '%s':\n%s"):format(asked, table.concat(words, " "),
    text)
end

-- The help of a name here, and of another program's option of that name.
local function explanation(name, names)
  local own = require("grpo.commands.repl.explain").find(name, names)
  local other, ours = of_another_program(name)
  if not own or not other then return own or other end
  local told = ours and own:find("option " .. ours .. " ", 1, true)
  return told and own or other .. "\n\n" .. own
end

-- "custom loss" in quotes is two words.
local function words_of(arguments)
  local words = {}
  for word in table.concat(arguments, " "):gmatch("%S+") do words[#words + 1] = word end
  return words[1] and words or arguments
end

function command.run(o, cli)
  local words = words_of(o.words)
  local name = words[1]
  local named = name and not words[2] and cli.command(name)
  local topic = name and not words[2] and other_programs.ask("topic", name)
  if not name then
    core.out(command.overview(cli))
  elseif named then
    core.out(usage.help(named))
  elseif topic then
    core.out(topic .. "\n")
  else
    local names = { grpo = require "grpo", schedule = require "grpo.schedule" }
    local about = not words[2] and (variable(name) or explanation(name, names))
    core.out((about and with_more(about, name, cli) or found_or_nearest(words, cli)) .. "\n")
  end
end

return command
