#!/usr/bin/env bash
# Programs whose reference is the bigram of their text: experiments/shakespeare.lua and a recipe.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

# program NAME SCRIPT ARGUMENT... : it runs into the directory NAME
program() {
  local name=$1 script=$2; shift 2
  timeout 120 "$GRPO" run "$root/experiments/$script.lua" --quiet --dir "$name" --arg size=tiny --arg batch_size=4 "$@" </dev/null >out 2>err || show err
}
args=(--arg mode=grpo --arg steps=4 --arg pretrain=4 checkpoint.every=3)
result "mode=grpo measures its KL from the bigram" "$(program whole shakespeare "${args[@]}"
  grep -q '"kl": [0-9.]*[1-9]' whole/*/metrics.jsonl || show whole/*/metrics.jsonl)"
program part shakespeare "${args[@]}" --steps 6
timeout 120 "$GRPO" run --resume="$(echo part/*)" --quiet </dev/null >out 2>err || show err
result "a run that was stopped goes on to the same bits, its bigram counted again" "$(different whole/shakespeare-grpo-001 part/shakespeare-grpo-001)"
result "mode=ppo has it in the reward" "$(program ppo shakespeare --arg mode=ppo --arg steps=2 --arg pretrain=2)"
result "a program of the recipe characters names it" "$(program recipe recipes/characters --arg pretrain=2 --arg steps=1
  grep -A 2 '"reference": {' recipe/*/config.json | grep -q '"value": "bigram"' || echo "no bigram in config.json")"
finish
