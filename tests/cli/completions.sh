#!/usr/bin/env bash
# Completions for bash, zsh and fish, asked as the shells ask them.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
mkdir -p "$work/completions"
(cd "$root" && OUT=$work/completions "$GRPO" repl <tools/gen-completions.lua) >"$work/out" 2>&1
result "the files are written without a word" "$(cat "$work/out")"

mkdir -p here/runs/sums-001 here/runs/sums-002 here/models/small && cd here || exit 1
echo '{}' | tee runs/sums-001/run.json >runs/sums-002/run.json
touch exp.lua notes.txt 'two words.lua' model.gguf

# same NAME EXPECTED GOT : both sorted, a word a line
same() { result "$1" "$([ "$(sort <<<"$2")" = "$(sort <<<"$3")" ] || printf 'wanted:\n%s\ngot:\n%s\n' "$2" "$3")"; }

# ---- bash: the function is called with the words as readline cuts them -----------------------------------------------------------
# shellcheck source=/dev/null
. "$work/completions/grpo.bash"
complete_bash() { # WORD... : the last one is being typed
  COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _grpo
  printf '%s\n' "${COMPREPLY[@]}"
}
listed() {
  "$GRPO" help "$1" >/dev/null && "$GRPO" repl <<<"
    for _, f in ipairs(require('grpo.commands').command('$1').flags) do print('--' .. f.name) end"
}

same "bash: every command" "$("$GRPO" --help | sed -nE 's/^  ([a-z]+) .*/\1/p')" "$(complete_bash grpo '')"
same "bash: part of a command" $'check\nchat' "$(complete_bash grpo ch)"
for command in run generate export logs; do
  same "bash: the flags of $command" "$(listed $command)" \
    "$(complete_bash grpo $command -- | grep -vxE -- '--(help|trace)')"
done
same "bash: a script" $'exp.lua' "$(complete_bash grpo run e | grep -v =)"
same "bash: a script's name with a space" $'two words.lua' "$(complete_bash grpo run two)"
same "bash: an option" $'sampling.group_size=' "$(complete_bash grpo run exp.lua sampling.gro)"
same "bash: an option's value" $'true\nfalse' "$(complete_bash grpo run exp.lua data.shuffle = '')"
same "bash: runs by name" $'sums-001\nsums-002' "$(complete_bash grpo attach su)"
same "bash: runs by directory" $'runs/sums-001\nruns/sums-002' "$(complete_bash grpo diff runs/)"
same "bash: --resume=RUN" $'sums-001\nsums-002' "$(complete_bash grpo run --resume = sums)"
same "bash: a script after --resume" $'exp.lua' "$(complete_bash grpo run --resume exp.l)"
same "bash: a flag's values" $'nf4\nint8' "$(complete_bash grpo chat models/small --quantize '')"
same "bash: values after =" $'adapter' "$(complete_bash grpo export model.gguf out --format = ad)"
same "bash: a model" $'models\nmodel.gguf' "$(complete_bash grpo chat mod)"
same "bash: a command to explain" $'generate' "$(complete_bash grpo help gen)"

skipped() { number=$((number + 1)); echo "ok $number - $1 # SKIP $2"; }
# ---- fish ------------------------------------------------------------------------------------------------------------------------------
if command -v fish >/dev/null; then
  ask_fish() { HOME=$work fish --no-config -c "source '$work/completions/grpo.fish'; complete -C '$1'" 2>&1 | cut -f 1; }
  same "fish: part of a command" $'check\nchat' "$(ask_fish 'grpo ch')"
  same "fish: the flags of logs" "$(listed logs; printf '%s\n' --help --trace)" "$(ask_fish 'grpo logs --')"
  same "fish: runs" $'sums-001\nsums-002' "$(ask_fish 'grpo attach su')"
  same "fish: a script" exp.lua "$(ask_fish 'grpo check exp')"
  same "fish: a flag's values" $'nf4\nint8' "$(ask_fish 'grpo chat x --quantize ')"
  same "fish: an option" 'sampling.group_size=' "$(ask_fish 'grpo run exp.lua sampling.gro')"
else
  skipped "fish" "fish is not installed"
fi
# ---- zsh: at a prompt of its own, in a pseudo-terminal ---------------------------------------------------------------------------------
if command -v zsh >/dev/null && zsh -fc 'zmodload zsh/zpty' 2>/dev/null; then
  cat >"$work/ask.zsh" <<'ZSH'
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PS1='>' TERM=dumb; fpath=($1 \$fpath); autoload -Uz compinit; compinit -u -D; unsetopt list_beep; bindkey '^I' complete-word; zstyle ':completion:*' list-colors ''; echo REA''DY"
zpty -r -m shell line '*READY*'
zpty -n -w shell "$2"$'\t'
sleep ${3:-1}
zpty -n -w shell $'\C-aecho "[[\C-e]]"\r'
zpty -r -m shell line "*]]*]]*"
print -r -- "$line"
zpty -d shell
ZSH
  # What the line became; an only match is put into it.
  ask_zsh() { timeout 20 zsh -f "$work/ask.zsh" "$work/completions" "$1" </dev/null 2>/dev/null | tr -d '\r' | grep -oE '^\[\[.*\]\]' | tail -n 1; }
  same "zsh: a command" "[[grpo attach]]" "$(ask_zsh 'grpo att')"
  same "zsh: a flag" "[[grpo run --detach]]" "$(ask_zsh 'grpo run --det')"
  same "zsh: a run" "[[grpo attach sums-00]]" "$(ask_zsh 'grpo attach su')"
  same "zsh: an option" "[[grpo run exp.lua sampling.group_size=]]" "$(ask_zsh 'grpo run exp.lua sampling.gro')"
else
  skipped "zsh" "zsh is not installed"
fi
finish
