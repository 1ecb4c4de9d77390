#!/usr/bin/env bash
# grpo help WORD: what is found, in which order, and what is suggested.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
export COLUMNS=100

# finds NAME PATTERN WORD... : the help of the words has a line that matches
finds() {
  local name=$1 pattern=$2; shift 2
  "$GRPO" help "$@" >out 2>err
  result "$name" "$(grep -qE -- "$pattern" out || show out err)"
}
# first NAME PATTERN WORD... : the first line that a search shows matches
first() {
  local name=$1 pattern=$2; shift 2
  result "$name" "$("$GRPO" help "$@" 2>err | head -n 1 | grep -qE -- "$pattern" || "$GRPO" help "$@" 2>&1 | head -n 5)"
}
finds "an option is explained" '^option train\.lr ' train.lr
finds "commands beside a function of the name" '^  grpo run --resume ' resume
finds "headings" 'docs/troubleshooting\.md: A resume is refused' resume
finds "flags" '^  grpo logs --lines' lines
finds "metrics" '^  metric clip_ratio/low_mean' low_mean
finds "functions by a word of their text" 'schedule\.adaptive_kl' kl schedule
finds "rows of tables of the pages" 'docs/lua-api\.md: grpo\.model\.new' random weights
finds "code of a page as it is written" 'tr\.batch\.completions\[i\] is the value' numbers
finds "and with a star, but no link" 'grpo_run_\* runs an experiment script \(see lua-api\.md\)' a whole run
finds "the names of notes" 'docs/troubleshooting\.md: runaway_length' runaway_length
first "the beginning of a name stands before a word of a text" 'rewards\.repetition|repetition' repetit
first "several words are all there" 'adaptive_kl' kl schedule
first "a phrase that an option begins with: the option" '^  train\.lr ' "learning rate"
first "a phrase in one word or in several" '^  train\.lr ' learning rate
first "early stopping" 'docs/how-to\.md: Stop on a condition \(early stopping\)' "early stopping"
first "a custom loss" 'docs/how-to\.md: Use a custom loss' "custom loss"
first "docker" 'docs/install\.md: In a container \(Docker, Podman\)' docker
first "several GPUs" 'docs/features\.md: GPU, multi GPU' "multi gpu"
first "DPO is not GDPO" "^  train\.dpo\.loss_type|Pairs of preferences" dpo
finds "a misspelt word leads to the nearest" "^nothing is known of 'temprature'; this is of 'temperature':$" temprature
result "nothing at all" "$("$GRPO" help zzqqzz 2>&1 | grep -qx "grpo: help: nothing is known of 'zzqqzz'; see 'grpo help'" || show err)"
for pair in trian:run evalute:eval chekc:check lgos:logs genrate:generate ls:runs finetune:run grpo:run predict:generate "watch:logs -f RUN" \
    "resume:run --resume=RUN" "continue:run --resume=RUN"; do
  "$GRPO" "${pair%:*}" >out 2>err; status=$?
  [ $status = 2 ] || echo "exit status $status" >>err
  result "grpo ${pair%:*}" "$(echo "grpo: unknown command '${pair%:*}', did you mean '${pair#*:}'?; see 'grpo help'" | diff - err)"
done
finish
