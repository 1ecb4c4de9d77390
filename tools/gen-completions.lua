-- tools/gen-completions.lua - completions for bash, zsh and fish from the commands' declarations.
--
--   make completions      (OUT=DIR ./grpo repl < tools/gen-completions.lua)

local cli = require "grpo.commands"
local core = require "grpo.core"
local declared = require "grpo.commands.flags"
local option_rows = require "grpo.options.option_rows"
local usage = require "grpo.commands.usage"
local out = assert(os.getenv("OUT"), "OUT names the directory for the files")

-- The kinds of words that can be completed.
local kinds = { "script", "model", "run", "file", "dir", "command", "option" }

local function write(path, lines)
  assert(core.fs.write(out .. "/" .. path, table.concat(lines, "\n") .. "\n"))
end

local NOTE = "# Completion of grpo's commands, flags, options, runs and files in %s.  Written by "
  .. "`make completions`."

-- The first clause of what a flag does.
local function brief(flag)
  return (flag.doc:gsub("[;:] .*$", ""):gsub(" ?%(.*$", ""):gsub("%. .*$", ""))
end

-- { name=, summary=, kinds = of its arguments, flags = with those that every command has }
local commands = {}
for i, name in ipairs(cli.commands) do
  local command = cli.command(name)
  local c = { name = name, summary = command.summary, kinds = {}, flags = {} }
  for _, kind in ipairs(kinds) do
    if usage.takes(command, kind) then c.kinds[#c.kinds + 1] = kind end
  end
  for _, list in ipairs { command.flags, declared.common } do
    table.move(list, 1, #list, #c.flags + 1, c.flags)
  end
  commands[i] = c
end

-- Options of an experiment that a command line may set, and those with few values.
local options, valued = {}, {}
for _, row in ipairs(option_rows.rows) do
  local simple = row.type
  for _, kind in ipairs { "function", "table", "list", "dataset" } do
    simple = simple:gsub(kind, "")
  end
  if simple:find("%l") then
    options[#options + 1] = row.path
    local values = {}
    for _, choice in ipairs(row.type:find("enum") and row.choices or {}) do
      values[#values + 1] = choice
    end
    if row.type:find("boolean") then values[#values + 1] = "true"; values[#values + 1] = "false" end
    if #values > 0 then valued[#valued + 1] = { path = row.path, values = values } end
  end
end

local is_kind = {}
for _, kind in ipairs(kinds) do is_kind[kind] = true end

local function names(list)
  local texts = {}
  for i, c in ipairs(list) do texts[i] = c.name end
  return table.concat(texts, " ")
end

-- ---- bash -----------------------------------------------------------------------------------

local function bash()
  local lines = { NOTE:format("bash"), "# shellcheck shell=bash", [==[

# What a kind of word may be: $1 the kind, $2 what is typed so far.
_grpo_words() {
  local f
  case $1 in
    script)
      for f in lua json yaml yml; do compgen -f -X "!*.$f" -- "$2"; done
      compgen -d -S / -- "$2" ;;
    run)
      for f in runs/*/run.json; do
        [ -e "$f" ] || continue
        f=${f%/run.json}
        [[ $f == "$2"* ]] && echo "$f"
        [[ ${f#runs/} == "$2"* ]] && echo "${f#runs/}"
      done ;;
    model) compgen -d -- "$2"; compgen -f -X '!*.gguf' -- "$2" ;;
    dir) compgen -d -- "$2" ;;
    file) compgen -f -- "$2" ;;
    command) compgen -W "]==] .. names(commands) .. [==[" -- "$2" ;;
    option) compgen -S = -W "]==] .. table.concat(options, " ") .. [==[" -- "$2" ;;
  esac
}

_grpo() {
  local cur=${COMP_WORDS[COMP_CWORD]} before='' equals='' kinds='' choices='' flags='' kind line
  COMPREPLY=()
  [ "$COMP_CWORD" -gt 0 ] && before=${COMP_WORDS[COMP_CWORD - 1]}
  # "--flag=x" and "key=x" are three words here
  if [ "$cur" = = ]; then
    cur='' equals=1
  elif [ "$before" = = ] && [ "$COMP_CWORD" -gt 1 ]; then
    before=${COMP_WORDS[COMP_CWORD - 2]} equals=1
  elif [[ $before != -* ]]; then
    before=''
  fi
  if [ "$COMP_CWORD" = 1 ]; then
    kinds=command flags='--help --version --trace'
  else
    case ${COMP_WORDS[1]} in]==] }
  for _, c in ipairs(commands) do
    local flags, cases, words = {}, {}, table.concat(c.kinds, " ")
    for _, f in ipairs(c.flags) do
      flags[#flags + 1] = "--" .. f.name
      if f.short then flags[#flags + 1] = "-" .. f.short end
      if f.type then
        local pattern = "--" .. f.name .. (f.short and " | -" .. f.short or "")
        local what = f.choices and ("choices='%s'"):format(table.concat(f.choices, " "))
          or is_kind[f.type] and ("kinds=%s"):format(f.type) or ":"
        -- what may be left out must be joined by "="
        if f.optional then
          what = ('if [ -n "$equals" ]; then %s; else kinds=\'%s\'; fi'):format(what, words)
        end
        cases[#cases + 1] = ("          %s) %s ;;"):format(pattern, what)
      end
    end
    lines[#lines + 1] = ("      %s)"):format(c.name)
    lines[#lines + 1] = ("        flags='%s'"):format(table.concat(flags, " "))
    lines[#lines + 1] = "        case $before in"
    for _, line in ipairs(cases) do lines[#lines + 1] = line end
    lines[#lines + 1] = ("          *) kinds='%s' ;;"):format(words)
    lines[#lines + 1] = "        esac ;;"
  end
  lines[#lines + 1] = "    esac\n    case $before in"
  for _, row in ipairs(valued) do
    lines[#lines + 1] = ("      %s) kinds='' choices='%s' ;;"):format(row.path,
      table.concat(row.values, " "))
  end
  lines[#lines + 1] = [==[
    esac
  fi
  if [[ $cur == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
    return
  fi
  while IFS= read -r line; do COMPREPLY+=("$line"); done < <(
    [ -z "$choices" ] || compgen -W "$choices" -- "$cur"
    for kind in $kinds; do _grpo_words "$kind" "$cur"; done)
  # a directory or "key=" is not the end of a word
  if [ "${#COMPREPLY[@]}" = 1 ] && [[ ${COMPREPLY[0]} == *[=/] ]]; then
    compopt -o nospace 2>/dev/null
  fi
  return 0
}

complete -F _grpo grpo]==]
  write("grpo.bash", lines)
end

-- ---- zsh ------------------------------------------------------------------------------------

local function zsh_text(text) return (text:gsub("'", "'\\''"):gsub("[%[%]:]", "\\%0")) end

local zsh_actions = { script = '_files -g "*.(lua|json|yaml|yml)"', run = "_grpo_runs",
  model = '_files -g "*(/) *.gguf"',
  dir = "_files -/", file = "_files", command = "_grpo_commands", option = "_grpo_options" }

local function zsh_flag(f)
  local doc, value, joined = ("[%s]"):format(zsh_text(brief(f))), "", ""
  if f.type then
    local action = f.choices and ("(%s)"):format(table.concat(f.choices, " "))
      or zsh_actions[f.type] or ""
    local name = zsh_text(f.choices and f.type or usage.value(f))
    value = (f.optional and "::%s:%s" or ":%s:%s"):format(name, action)
    joined = f.optional and "=-" or "="
  end
  local specs = { ("'--%s%s%s%s'"):format(f.name, joined, doc, value) }
  if f.short then specs[2] = ("'-%s%s%s'"):format(f.short, doc, value) end
  return table.concat(specs, " ")
end

local function zsh()
  local lines = { "#compdef grpo", NOTE:format("zsh"), [==[

_grpo_runs() {
  local -a found=(runs/*/run.json(N:h))
  compadd -a found
  found=(${found#runs/})
  compadd -a found
}

_grpo_options() { compadd -S = -- ]==] .. table.concat(options, " ") .. [==[ }

_grpo_commands() {
  local -a commands=(]==] }
  for _, c in ipairs(commands) do
    lines[#lines + 1] = ("    '%s:%s'"):format(c.name, zsh_text(c.summary))
  end
  lines[#lines + 1] = [==[
  )
  _describe -t commands command commands
}]==]
  for _, c in ipairs(commands) do
    lines[#lines + 1] = ("_grpo_words_%s() {"):format(c.name)
    for _, kind in ipairs(c.kinds) do lines[#lines + 1] = "  " .. zsh_actions[kind] end
    lines[#lines + 1] = #c.kinds == 0 and "  _message 'no words'\n}" or "}"
  end
  lines[#lines + 1] = [==[

_grpo() {
  if (( CURRENT == 2 )); then
    if [[ $words[2] == -* ]]; then compadd -- --help --version --trace; else _grpo_commands; fi
    return
  fi
  shift words
  (( CURRENT-- ))
  case $words[1] in]==]
  for _, c in ipairs(commands) do
    lines[#lines + 1] = ("    %s) _arguments \\"):format(c.name)
    for _, f in ipairs(c.flags) do lines[#lines + 1] = ("      %s \\"):format(zsh_flag(f)) end
    lines[#lines + 1] = ("      '*::word:_grpo_words_%s' ;;"):format(c.name):gsub("%*::", "*:")
  end
  lines[#lines + 1] = "  esac\n}\n\n_grpo \"$@\""
  write("_grpo", lines)
end

-- ---- fish -----------------------------------------------------------------------------------

local function fish_text(text) return (text:gsub("\\", "\\\\"):gsub("'", "\\'")) end

local fish_actions = { script = "(__fish_complete_suffix .lua) (__fish_complete_suffix .json) "
    .. "(__fish_complete_suffix .yaml)", run = "(__grpo_runs)",
  model = "(__fish_complete_directories) (__fish_complete_suffix .gguf)",
  dir = "(__fish_complete_directories)",
  file = "(__fish_complete_path)", command = names(commands), option = "(__grpo_options)" }

local function fish_flag(c, f)
  local line = ("complete -c grpo -n '__fish_seen_subcommand_from %s' -l %s"):format(c.name, f.name)
  if f.short then line = line .. " -s " .. f.short end
  if f.type and not f.optional then line = line .. " -x" end
  local values = f.choices and table.concat(f.choices, " ") or fish_actions[f.type]
  if values then line = ("%s -a '%s'"):format(line, values) end
  return ("%s -d '%s'"):format(line, fish_text(brief(f)))
end

local function fish()
  local lines = { NOTE:format("fish"), [==[

function __grpo_runs
    for f in runs/*/run.json
        string replace -r '/run.json$' '' $f
        string replace -r '^runs/(.*)/run.json$' '$1' $f
    end
end

function __grpo_options
    printf '%s=\n' ]==] .. table.concat(options, " ") .. [==[

end

complete -c grpo -f
complete -c grpo -n __fish_use_subcommand -l version -d 'show versions'
complete -c grpo -n __fish_use_subcommand -l help -s h -d 'show the commands']==] }
  for _, c in ipairs(commands) do
    lines[#lines + 1] = ("\ncomplete -c grpo -n __fish_use_subcommand -a %s -d '%s'"):format(c.name,
      fish_text(c.summary))
    local actions = {}
    for _, kind in ipairs(c.kinds) do actions[#actions + 1] = fish_actions[kind] end
    if #actions > 0 then
      lines[#lines + 1] = ("complete -c grpo -n '__fish_seen_subcommand_from %s' -a '%s'"):format(
        c.name, table.concat(actions, " "))
    end
    for _, f in ipairs(c.flags) do lines[#lines + 1] = fish_flag(c, f) end
  end
  write("grpo.fish", lines)
end

bash()
zsh()
fish()
