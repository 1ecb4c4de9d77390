#!/usr/bin/env bash
# A resume by other kernels or another build is an event, which diff reads.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
native=$("$GRPO" --version | sed -nE 's/^kernels: ([a-z0-9]+);.*/\1/p')
commit=$("$GRPO" --version | sed -nE '1s/.*\(([^)]*)\).*/\1/p')
GRPO_CPU=generic "$GRPO" --version >/dev/null 2>&1 && [ "$native" != generic ] && [ -n "$commit" ] \
  || { echo "1..0 # SKIP this machine has one kind of kernels"; exit 0; }

experiment exp.lua 'train = { steps = 8, prompts_per_step = 2 }, checkpoint = { every = 2, keep = 9 }'
begun() { "$GRPO" run exp.lua --quiet --as "$1" --steps "$2" </dev/null >out 2>err || show err; }
# resumed NAME KERNELS [ARGUMENT...]
resumed() { GRPO_CPU=$2 "$GRPO" run --resume="runs/$1" --quiet "${@:3}" </dev/null >out 2>err || show err; }
events() { grep -oE '"changed": \["[^]]*\]|"step": [0-9]+' "runs/$1/events.jsonl" 2>/dev/null | tr '\n' ' '; }
begun ref 8

begun k 4; resumed k generic --steps 6; resumed k generic
result "other kernels are an event once, not at each resume" \
  "$([ "$(events k)" = "\"changed\": [\"kernels portable (before: $native)\"] \"step\": 4 " ] || show runs/k/events.jsonl)"
"$GRPO" diff ref k >out 2>err
result "diff names them, and does not call the environment the same" \
  "$(grep -qx "changed at step 4: environment kernels portable (before: $native), only in k" out && ! grep -q '^same options' out || show out err)"
result "env.json has those of the beginning" "$(grep -q "\"kernels\": \"$native\"" runs/k/env.json || show runs/k/env.json)"
"$GRPO" replay k 4 --regenerate --count 0 >out 2>err
result "a step before that is sampled again, the same" "$(grep -q '^8 of 8 completions are the same again$' out || show out err)"

begun back 4; resumed back generic --steps 6; resumed back "$native"
result "a return to the first ones is an event, too" "$(grep -q "kernels $native (before: portable).*\"step\": 6" runs/back/events.jsonl || show runs/back/events.jsonl)"
begun undone 4; resumed undone generic --steps 6; rm -r runs/undone/checkpoints/step-000006; resumed undone "$native"
result "steps that are made again by the first ones leave no event" \
  "$([ -z "$(events undone)" ] && grep -q 'changed at step 4: environment kernels portable' runs/undone/run.log && grep -q '"state": "finished"' runs/undone/run.json || show runs/undone/run.log)"

begun b 4; sed -i -E "s/\"commit\": \"[^\"]*\"/\"commit\": \"0123456789ab\"/" runs/b/env.json && unsummed runs/b
resumed b "$native"
result "another build is an event, and said" \
  "$([ "$(events b)" = "\"changed\": [\"commit $commit (before: 0123456789ab)\"] \"step\": 4 " ] && grep -q "note: changed at step 4: environment commit $commit" err || show err runs/b/events.jsonl)"

# ---- numbers = "portable": the same bits by all classes that have them
weights() { sha256sum <"runs/$1/checkpoints/step-000008/model.safetensors"; }
experiment portable.lua 'numbers = "portable", train = { steps = 8, prompts_per_step = 2 }, checkpoint = { every = 2, keep = 9 }'
"$GRPO" run portable.lua --quiet --as p </dev/null >out 2>err || show err
for kernels in generic portable portable-avx2 portable-avx512 portable-neon; do
  GRPO_CPU=$kernels "$GRPO" --version >/dev/null 2>&1 || continue
  GRPO_CPU=$kernels "$GRPO" run exp.lua --quiet --as "by-$kernels" </dev/null >out 2>err || show err
  result "$kernels has the bits of numbers = \"portable\"" "$([ "$(weights p)" = "$(weights "by-$kernels")" ] || echo "they differ")"
done
result "other kernels have other bits" "$([ "$(weights p)" != "$(weights ref)" ] || echo "they do not")"
result "run.json and env.json have the numbers" "$(grep -q '"numbers": "portable"' runs/p/run.json && grep -q '"kernels": "portable"' runs/p/env.json || show runs/p/run.json)"
GRPO_CPU=generic "$GRPO" run exp.lua --quiet --as half --steps 4 </dev/null >out 2>err || show err
"$GRPO" run --resume=runs/half --quiet </dev/null >out 2>err || show err
result "a resume keeps them, also without GRPO_CPU" "$([ "$(weights p)" = "$(weights half)" ] && [ -z "$(events half)" ] || show err)"
experiment native.lua 'numbers = "native", train = { steps = 8, prompts_per_step = 2 }, checkpoint = { every = 2, keep = 9 }'
GRPO_CPU=generic "$GRPO" run native.lua --quiet --as asked --steps 4 </dev/null >out 2>err || show err
"$GRPO" run --resume=runs/asked --quiet </dev/null >out 2>err || show err
result "so does one whose script asks for native ones" "$([ "$(weights p)" = "$(weights asked)" ] && [ -z "$(events asked)" ] || show err)"
"$GRPO" run portable.lua --quiet --as other --steps 4 </dev/null >out 2>err || show err
refused() { # NAME TEXT COMMAND...
  "${@:3}" </dev/null >out 2>err; status=$?
  result "$1" "$([ $status = 2 ] && [ "$(wc -l <err)" = 1 ] && grep -qF "$2" err || show err)"
}
refused "a resume with other numbers" "numbers=native: the run computes with numbers=portable; --force resumes all the same" \
  "$GRPO" run --resume=runs/other --quiet numbers=native
sed -i 's/numbers = "portable"/numbers = "native"/' portable.lua
"$GRPO" run portable.lua --resume=runs/other --force --steps 6 --quiet </dev/null >out 2>err || show err
"$GRPO" run --resume=runs/other --quiet </dev/null >out 2>err; status=$?
result "what --force has changed holds for later resumes" "$([ $status = 0 ] && grep -q '"numbers": "native"' runs/other/run.json || show err)"
sed -i 's/numbers = "native"/numbers = "portable"/' portable.lua
refused "kernels that have others" "GRPO_CPU=$native: numbers = \"portable\" was asked for, and these kernels have others; unset GRPO_CPU" \
  env GRPO_CPU="$native" "$GRPO" run portable.lua --quiet --as no
finish
