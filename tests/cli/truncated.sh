#!/usr/bin/env bash
# Sampling with top_p, top_k or min_p: the same bytes whatever a run is cut into, ratio 1, and what `grpo check` says of it.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

filters=(sampling.top_p=0.8 sampling.temperature=0.7)
write_experiment exp.lua
"$GRPO" run exp.lua --quiet --dir one --threads 1 train.reuse_rollout=false "${filters[@]}" >/dev/null 2>err || cat err
"$GRPO" run exp.lua --quiet --dir two --threads 2 train.reuse_rollout=true train.micro_batch_tokens=40 "${filters[@]}" >/dev/null 2>err || cat err
same_weights() { cmp "$1"/latest/model.safetensors "$2"/latest/model.safetensors 2>&1; }
result "threads, reused activations and micro-batches change no weight" "$(same_weights one/exp-001 two/exp-001)"
result "every step begins with ratio 1" "$(grep -ho '"ratio[^,]*' one/exp-001/metrics.jsonl >ratios; every ': 0$' ratios | head -n 3)"
result "no warning is printed" "$(cat err)"

"$GRPO" run exp.lua --quiet --dir r --threads 1 --steps 7 train.reuse_rollout=false "${filters[@]}" >/dev/null 2>err || cat err
"$GRPO" run --resume=r/exp-001 --quiet --threads 1 --steps 14 >/dev/null 2>err || cat err
result "a run that is resumed has the bytes of one that was not" "$(different one/exp-001 r/exp-001)"

grammar='sampling.regex=[0-9]{1,2}'
"$GRPO" run exp.lua --quiet --dir g --threads 2 train.micro_batch_tokens=40 "$grammar" >/dev/null 2>err || cat err
"$GRPO" run exp.lua --quiet --dir h --threads 1 --steps 11 "$grammar" >/dev/null 2>err || cat err
"$GRPO" run --resume=h/exp-001 --quiet --threads 1 --steps 14 >/dev/null 2>err || cat err
result "sampling bound to an expression too: resumed, the same bytes" "$(different g/exp-001 h/exp-001)"
result "and ratio 1, and no other text" "$(grep -ho '"ratio[^,]*' g/exp-001/metrics.jsonl >ratios; every ': 0$' ratios | head -n 3
  grep -ho '"text": "[^"]*"' g/exp-001/completions.jsonl >texts; every '"[0-9]{0,2}"$' texts | head -n 3)"

"$GRPO" check exp.lua "${filters[@]}" >out 2>err
result "check says what truncated sampling means" "$(
  { grep -q '^note: sampling has filters (top_p = 0.8)' out && grep -q '^note: the reference is not filtered' out &&
    grep -q 'masks ' out; } || show out err)"
"$GRPO" check exp.lua >out 2>err
result "and nothing without filters" "$(grep -E 'filter|masks' out)"
finish
