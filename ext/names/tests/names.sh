#!/usr/bin/env bash
# Names of other programs in help, in scripts and in files of settings.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
export COLUMNS=100

# finds NAME PATTERN WORD... : the help of the words has a line that matches
finds() {
  local name=$1 pattern=$2; shift 2
  "$GRPO" help "$@" >out 2>err
  result "$name" "$(grep -qE -- "$pattern" out || show out err)"
}
finds "a name of TRL is explained with ours" '^beta of TRL is train\.kl here' beta
finds "and with the help of ours" '^option train\.kl ' beta
finds "a name without an equivalent has its reason" '^use_vllm has no equivalent here, because ' use_vllm
finds "all of TRL's names" '^  num_generations +sampling\.group_size$' from-trl
finds "and those of transformers" '^  learning_rate +train\.lr\.' from-trl
finds "all of verl's names" 'actor_rollout_ref\.rollout\.n$' from-verl

# refused NAME PATTERN FILE : a run of the file says one line, which matches
refused() {
  "$GRPO" run "$3" --quiet >out 2>err </dev/null; local status=$?
  result "$1" "$([ $status = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -qE "^grpo: $2" err || { echo "exit status $status"; cat err; })"
}
# python NAME PATTERN CODE : a script of this line
python() { printf 'local grpo = require "grpo"\n%s\n' "$3" >python.lua; refused "$1" "python.lua:2: $2" python.lua; }
python "GRPOTrainer" 'grpo.GRPOTrainer is grpo.experiment here$' 'grpo.GRPOTrainer {}'
python "load_dataset" 'grpo.load_dataset is grpo.data.load here$' 'local d = grpo.load_dataset("openai/gsm8k")'
python "datasets.load_dataset" 'grpo.data.load_dataset is grpo.data.load here$' 'local d = grpo.data.load_dataset("openai/gsm8k")'
python "dataset.select" 'a dataset has :take and :skip in place of select$' 'local d = grpo.data.list({ {} }):select(3)'
python "dataset.train_test_split" 'a dataset has :split\(fraction, seed\) in place of train_test_split$' 'local d = grpo.data.list({ {} }):train_test_split(0.1)'
echo '{ "sampling": { "max_completion_length": 4 } }' >bad.json
refused "a name of TRL's in a file of settings" \
  "bad\.json:1: sampling\.max_completion_length is sampling\.max_new_tokens here; write sampling\.max_new_tokens = 4" bad.json

mkdir -p "$work/ext/names"
(cd "$root" && OUT=$work "$GRPO" repl <ext/names/gen-page.lua)
result "from-trl.md is what make options writes" "$(diff "$root/ext/names/from-trl.md" "$work/ext/names/from-trl.md" | head -n 6)"
finish
