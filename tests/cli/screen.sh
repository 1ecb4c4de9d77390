#!/usr/bin/env bash
# The screen of a run on a terminal: the live line, what is printed above it, widths, Ctrl-C, a resume.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
[ -z "${RUN:-}" ] || { echo "ok 1 - the screen # SKIP built for another machine"; echo 1..1; exit 0; }
${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -o terminal "$root/tests/cli/lib/terminal.c" || { echo "not ok 1 - a terminal"; echo 1..1; exit 1; }
write_experiment exp.lua
unset COLUMNS XTERM_VERSION TMUX NO_COLOR LC_ALL LC_CTYPE
export TERM=xterm-256color LANG=C.UTF-8

# on WIDTH [-r COLUMNS=TEXT] [-k KEY=TEXT] WORDS... : grpo WORDS on a terminal; `shown` has the screen at its end, `bytes` what came
on() {
  local width=$1; shift
  local more=()
  while [[ $1 = -[rk] ]]; do more+=("$1" "$2"); shift 2; done
  timeout 120 ./terminal -w "$width" "${more[@]}" -l bytes "$GRPO" "$@" >shown
}
live='^(sft|grpo) [0-9]+/14 '
lacks() { ! grep -qE "$1" "$2" || { echo "$1 is in $2:"; cat "$2"; }; }
has() { local word; for word in "${@:2}"; do grep -qE -- "$word" "$1" || { echo "no $word in $1:"; cat "$1"; }; done; }
escape=$'\e'
steps() { tr '\r' '\n' <"$1" | sed "s/$escape\\[[0-9;]*[A-Za-z]//g" | grep -oE "$live" | uniq | tr -d '\n'; }

# ---- a run from its beginning to its end -----------------------------------------------------------------------------------------
on 130 run exp.lua --dir wide; status=$?
result "no live line is left on the screen" "$(lacks "$live|first step|evaluating" shown; [ $status = 0 ] || echo "status $status")"
result "one step counter counts through all stages" "$([ "$(steps bytes)" = "sft 1/14 sft 2/14 sft 3/14 sft 4/14 grpo 5/14 grpo 6/14 grpo 7/14 grpo 8/14 grpo 9/14 grpo 10/14 grpo 11/14 grpo 12/14 grpo 13/14 grpo 14/14 " ] || steps bytes)"
result "stages, evaluations and samples are printed above it" \
  "$(has shown '^stage 2 of 2' '^evaluation after grpo' '^  step 5, prompt' '^  step 14, prompt'; lacks 'step 6, prompt' shown)"
result "it has a bar, the reward with its course, throughput and remaining time" \
  "$(has bytes '━' '─' 'reward [0-9.]+ [^ ]*▁' 'tokens/s \| ETA [0-9]+s')"
result "output.log has plain lines, one a step" \
  "$(has wide/exp-001/output.log '^grpo 14/14 \| reward +[0-9.]+ \| .* tokens/s \| ETA 0s$'; lacks "$escape|━" wide/exp-001/output.log)"
"$GRPO" run exp.lua --dir piped >out 2>err
plain() { sed -E 's/[0-9]+ tokens.*//; s/^try it:.*//' "$@"; }
result "a pipe gets the same lines, without a live line" \
  "$(diff <(plain err) <(plain wide/exp-001/output.log) | head -n 5; lacks "$escape|━" err; [ "$(cat out)" = piped/exp-001 ] || cat out)"
COLUMNS=40 on 40 run exp.lua --dir narrow
result "in 40 columns no step takes a second row" "$(lacks "$live" shown; has bytes 'reward [0-9.]+ (\| )?ETA [0-9]+s'; lacks "$escape\\[[0-9]+A" bytes)"

# ---- names and files from elsewhere ------------------------------------------------------------------------------------------------
evil=$'x\e]0;pwn\a\r\e[31m\xc2\x9b2J\n\u202eb'
mkdir -p odd; cp -r wide/exp-001 "odd/$evil"; unsummed "odd/$evil"; cp exp.lua "odd/$evil.lua"
echo "2026-01-01T00:00:00Z note: $evil" | tr '\n' ' ' >>"odd/$evil/run.log"; printf '%s\n' "$evil" >>"odd/$evil/output.log"
sed -i "s/\"name\": \"[^\"]*\"/\"name\": \"a\\\\u001b]0;pwn\\\\u0007\"/" "odd/$evil/config.json"
echo "return { a = 'b\e]0;pwn\a' }" >odd/evil.lua; echo "x: ["$'\e]0;pwn\a' >odd/evil.json
# quiet WORDS... : what the terminal gets holds no sequence but colours and those of the live line
quiet() {
  timeout 60 ./terminal -w 130 -l bytes "$GRPO" "$@" >shown 2>&1
  [ -s bytes ] || echo "nothing is shown"
  LC_ALL=C sed "s/$escape\\[[0-9;]*[mAJK]//g" bytes | LC_ALL=C grep -qE $'[\x01-\x08\x0b\x0c\x0e-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80\xae' && { echo "grpo $*:"; cat -v bytes; }
  LC_ALL=C grep -qF "$escape[31m"$'\xc2' bytes && cat -v bytes
}
for words in "runs --dir odd" "diff odd/* odd/*" "diff wide/exp-001 odd/*" "report odd/*/" "logs odd/*/" "eval odd/*/" "replay odd/*/" "stop odd/*/" "attach odd/*/" \
  "run odd/x*.lua --quiet" "run odd/evil.lua" "check odd/evil.lua" "check odd/evil.json" "chat odd/*/run.json" "generate odd/*/latest 1+1=" "export odd/*/ out.gguf" \
  "test odd/x*.lua" "sweep odd/x*.lua train.lr=1e-3 --dir odd" "run --resume=odd/*/" "run $evil.lua" "$evil" "help $evil" "run exp.lua $evil=1" "pull $evil" "doctor"; do
  # shellcheck disable=SC2046,SC2086  # patterns become the words
  case $words in
  *"$evil"*) mapfile -d '' -t list < <(IFS=' '; printf '%s\0' "${words%% *}" "${words#* }") ;;
  *) IFS=' ' read -r -a parts <<<"$words"; list=(); for part in "${parts[@]}"; do IFS= ; for one in $part; do list+=("$one"); done; unset IFS; done ;;
  esac
  result "a terminal obeys no name and no file: ${words//"$evil"/NAME}" "$(quiet "${list[@]}")"
done
result "a name is one line of the list" "$("$GRPO" runs --dir odd >list; grep -qF 'x\x1b]0;pwn\x07\x0d\x1b[31m\x9b2J\x0a?b finished' list || cat -v list)"

# ---- terminals that can do less ----------------------------------------------------------------------------------------------------

# One count for everything that a run prints: the sft stage has 4 of its 14 steps.
"$GRPO" run exp.lua --dir every --steps 10 log.every=3 eval.every=3 checkpoint.every=3 checkpoint.keep=9 >/dev/null 2>first || show first
"$GRPO" run --resume=every/exp-001 >/dev/null 2>second || show second
result "log.every counts the steps of the run" "$([ "$(grep -ohE '^(sft|grpo) [0-9]+/14 ' first second | tr -d '\n')" = "sft 3/14 grpo 6/14 grpo 9/14 grpo 12/14 " ] || show first second)"
result "eval.every counts them too, and its line says the step" \
  "$([ "$(grep -ohE '^evaluation [a-z]+( step [0-9]+| [a-z]+)?:' first second | tr -d '\n')" = "evaluation before:evaluation at step 3:evaluation after sft:evaluation at step 6:evaluation at step 9:evaluation at step 12:evaluation after grpo:" ] || show first second)"
result "so do checkpoints" "$([ "$(cd every/exp-001/checkpoints && echo *)" = "step-000003 step-000004 step-000006 step-000009 step-000010 step-000012 step-000014" ] || ls every/exp-001/checkpoints)"
result "the last line, the resume, logs and runs count alike" "$(has first '^stopped \(--steps\) at step 10 of 14, '; has second '^resumed at step 10 of 14, '
  "$GRPO" logs every/exp-001 | diff - <(cat first second | grep -v '^compute: ' ) | grep -E '^[<>].*(step|/14)'
  "$GRPO" runs every 2>/dev/null >list || "$GRPO" runs --dir every >list; has list 'step 14/14')"
NO_COLOR=1 on 130 run exp.lua --dir plain
result "NO_COLOR: a live line without colours" "$(has bytes '━'; lacks "$escape\\[[0-9;]*m" bytes)"
LANG=C NO_COLOR=1 on 130 run exp.lua --dir plain
result "a locale without UTF-8: a live line in ASCII" "$(has bytes '\[#+\.*\] +[0-9]+%'; LC_ALL=C lacks $'[\x80-\xff]' bytes)"
TERM=dumb on 130 run exp.lua --dir plain
result "TERM=dumb: one plain line a step" "$(has shown '^grpo 14/14 \| reward'; lacks "$escape" bytes)"
on 130 run exp.lua --dir plain --quiet
result "--quiet: nothing but the run" "$([ "$(cat shown)" = plain/exp-004 ] || cat shown)"

# ---- what happens meanwhile --------------------------------------------------------------------------------------------------------
SLOW=0.05 on 100 -r '45=grpo 8/14' -r '120=grpo 10/14' run exp.lua --dir resized
result "a terminal that becomes narrower and wider again keeps no part of an old line" \
  "$(lacks "$live|tokens/s|ETA" shown; has shown '^  step 9, prompt' '^evaluation after grpo'; has bytes "$escape\\[[0-9]+A")"
SLOW=0.05 on 100 -k '^C=grpo 9/14' run exp.lua --dir stopped; status=$?
result "Ctrl-C leaves a clean line" "$([ $status = 130 ] || echo "status $status"; lacks "$live|\\^C" shown
  has shown "^interrupted at step [0-9]+ of 14, after a checkpoint" '^stopped/exp-001$')"
at=$(sed -n -E 's/^interrupted at step ([0-9]+) .*/\1/p' shown)
on 100 run --resume=stopped/exp-001
result "a resume says where it begins, and its first step has a remaining time" \
  "$(has shown "^resumed at step $at of 14, in stage 2 of 2 \\(grpo\\)$"; lacks '^stage' shown; has bytes "grpo $((at + 1))/14 .*ETA [0-9]+s")"
experiment loud.lua 'train = { steps = 3, prompts_per_step = 1 }, hooks = { on_step = function(m, tr)
  print("printed " .. m.step); io.write("written "); io.write(m.step, "\n"); tr:print("told " .. m.step); io.write("open " .. m.step) end },'
on 100 run loud.lua --dir loud
result "what a hook prints stays, each on a line of its own" "$(has shown '^printed 1$' '^printed 3$' '^written 2$' '^told 2$' '^open 1$' '^open 3$')"
experiment ends.lua 'train = { steps = 3, prompts_per_step = 1 }, hooks = { on_step = function(m)
  if m.step == 2 then error("boom") end end },'
on 100 run ends.lua --dir ends
result "an error is on a clean line" "$(has shown '^grpo: .*boom'; lacks '^grpo [0-9]/3' shown)"
finish
