#!/usr/bin/env bash
# experiments/shakespeare.lua, small and short: every mode, its arguments, a resume.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
script=$root/experiments/shakespeare.lua

shakespeare() { timeout 120 "$GRPO" run "$script" --arg size=tiny "$@" </dev/null; }

# numbers NAME FILE : the values of a metric, one a line
numbers() { grep -o "\"$1\": [-0-9.e]*" "$2" | cut -d' ' -f2; }

problem=$(shakespeare --dir sft --arg steps=60 --arg sample_every=20 2>err >out || cat err)
result "mode=sft runs on a generated text" "$problem$(grep -q 'so a text is generated' err || show err)"
result "its held-out loss falls, and is bits too" "$(numbers eval/loss sft/*/eval.jsonl | awk 'NR == 1 { a = $1 } { b = $1 }
  END { if (!(NR > 2 && b < a - 0.5)) print "loss " a " " b }'
  paste <(numbers eval/loss sft/*/eval.jsonl) <(numbers eval/bits_per_character sft/*/eval.jsonl) |
  awk '($1 / log(2) - $2) ^ 2 > 1e-8')"
result "a text every few steps is in the log" "$([ "$(grep -c '^sample: \|: sample: \| sample: ' sft/*/run.log)" = 3 ] || show sft/*/run.log)"
result "the best checkpoint is the one with the lowest loss" "$([ "$(readlink sft/*/best)" = checkpoints/step-000060 ] || ls -l sft/*)"

args=(--arg mode=grpo --arg reference=random --arg steps=8 --arg pretrain=20 --arg partial_logprob=0.1 --arg reward_mode=signed
  --arg beta_kl=0.2 --arg kl_warmup_tokens=16384 --arg batch_size=16 checkpoint.every=3)
problem=$(shakespeare --dir whole "${args[@]}" 2>err >out || cat err)
result "mode=grpo runs: a supervised stage, then rewards for characters" "$problem"
result "the gain on held-out windows has an interval" \
  "$(grep -q '^match on 16 held-out windows: .* gain .* (95 % interval -\?0\.[0-9]* to -\?0\.[0-9]*)$' err || show err)"
result "the KL's weight grows with tokens, to its end" \
  "$(grep '"kind": "grpo"' whole/*/metrics.jsonl >steps; numbers beta steps |
     awk '{ if (($1 - 0.025 * (NR - 1)) ^ 2 > 1e-18) print "step " NR ": " $1 } END { if (NR != 8) print NR " steps" }')"
result "loss, rewards and tokens are metrics, and the KL once it has a weight" \
  "$(for name in loss reward kl beta num_tokens rewards/match/mean rewards/partial/mean; do
       echo "$name $(numbers "$name" steps | wc -l)"; done | awk '$2 != ($1 == "kl" ? 7 : 8)')"

shakespeare --dir part "${args[@]}" --steps 25 >/dev/null 2>err
timeout 120 "$GRPO" run --resume="$(echo part/*)" --quiet </dev/null >/dev/null 2>>err
result "a run that was stopped goes on to the same bits" "$(different whole/shakespeare-grpo-001 part/shakespeare-grpo-001)"

problem=$(shakespeare --dir ppo --arg mode=ppo --arg reference=random --arg steps=4 --arg pretrain=4 --arg gamma=0 2>err >out || cat err)
result "mode=ppo runs, with its gain and a value loss" "$problem$(grep -q '^match on 16 held-out windows: ' err || cat err
  [ "$(numbers loss/value_avg ppo/*/metrics.jsonl | wc -l)" = 4 ] || tail -n 1 ppo/*/metrics.jsonl)"

# also NAME=VALUE ... : a run with these arguments ends well
also() {
  local problem
  problem=$(shakespeare --dir other --arg mode=grpo --arg reference=initial --arg steps=2 --arg pretrain=2 "$@" 2>&1 >out) && problem=
  result "mode=grpo with $*" "$problem"
}
also --arg reference=random
also --arg partial_logprob=0.1 --arg partial_of=sampled
also --arg pretrain=0
also --arg tokens=bpe --arg vocab=300
printf 'no line ends here, it only goes on and on. %.0s' {1..60} >one-line.txt
also --arg text=one-line.txt --arg sample_every=1

# fails NAME MESSAGE ARGUMENT...
fails() {
  local name=$1 message=$2 status; shift 2
  shakespeare --dir bad --arg steps=1 "$@" >out 2>err; status=$?
  grep -q "^grpo: .*$message" err && [ $status = 2 ] && rm err
  result "$name" "$([ ! -e err ] || { echo "exit $status"; cat err; })"
}
fails "an unknown mode" "mode=sgt: want one of: sft grpo ppo" --arg mode=sgt
fails "an argument of another mode" "horizon: unknown here with mode=sft" --arg horizon=8
fails "a misspelt argument" "horzion: unknown here" --arg mode=grpo --arg horzion=8
fails "a number that is none" "beta_kl=much: want a number" --arg mode=grpo --arg beta_kl=much
fails "a fraction for a whole number" "horizon=1.5: want a whole number" --arg mode=grpo --arg horizon=1.5
fails "a vocabulary for characters" "vocab: unknown here" --arg vocab=300
fails "a horizon beyond the context" "together exceed the model's context of 256" --arg mode=grpo --arg horizon=300
fails "a window that leaves no room for prompts" "window=250: beside prompt=32" --arg mode=grpo --arg window=250
fails "a directory as text" "text=/: cannot be read" --arg text=/
fails "a text that is not there" "no/such.txt" --arg text=no/such.txt

text=${GRPO_SHARED:-}/data/tinyshakespeare/input.txt
if [ -r "$text" ]; then
  problem=$(shakespeare --dir real --arg text="$text" --arg steps=10 2>&1 >out || echo "exit $?")
  result "tiny Shakespeare has 65 characters" "$(grep -q '"vocab_size": 65' real/*/latest/config.json || echo "$problem")"
else
  result "tiny Shakespeare # SKIP needs GRPO_SHARED with data/tinyshakespeare/input.txt"
fi
finish
