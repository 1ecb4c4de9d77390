#!/usr/bin/env bash
# Machines that are not as most are: a file system without symbolic links, a clock that is wrong.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

write_experiment exp.lua
if ! cc -shared -fPIC -o odd.so "$root/tests/cli/lib/odd_machine.c" -ldl 2>err || [ "$(LD_PRELOAD=./odd.so "$GRPO" --version 2>&1 | head -c 4)" != grpo ]; then
  result "odd machines # SKIP needs a C compiler, and a program that takes LD_PRELOAD"
  finish
fi
odd() { LD_PRELOAD=$work/odd.so env "$@"; }

# ---- no symbolic links ---------------------------------------------------------------------------------------------------------------
"$GRPO" run exp.lua --quiet --dir one --threads 1 >/dev/null 2>err || show err
for error in 1 38 95; do # EPERM, ENOSYS, EOPNOTSUPP
  odd NO_LINKS=$error "$GRPO" run exp.lua --quiet --dir "none$error" --threads 1 --steps 9 >out 2>err; status=$?
  result "errno $error: a run without links ends well, and has a checkpoint" "$([ $status = 0 ] || show err; ls "none$error/exp-001/checkpoints/step-000009/manifest.json" 2>&1 >/dev/null)"
  result "errno $error: a note says so once" "$([ "$(grep -c 'note: the file system has no symbolic links' "none$error/exp-001/run.log")" = 1 ] || cat "none$error/exp-001/run.log")"
  odd NO_LINKS=$error "$GRPO" run --resume="none$error/exp-001" --quiet --threads 1 >out 2>err; status=$?
  result "errno $error: a resume ends it with the same weights" "$([ $status = 0 ] || show err
    last=$(cd one/exp-001 && readlink latest); cmp "one/exp-001/$last/model.safetensors" "none$error/exp-001/$last/model.safetensors" 2>&1)"
done
result "commands find the newest checkpoint" "$("$GRPO" generate none1/exp-001 '1+1=' --max-new-tokens 2 >out 2>err && [ -s out ] || show err)"
odd NO_LINKS=1 "$GRPO" run exp.lua --quiet --dir best --threads 1 checkpoint.every=1 checkpoint.keep=1 checkpoint.best=reward >/dev/null 2>err || show err
best=$(grep -o '"best_step": [0-9]*' "$(find best/exp-001/checkpoints -name trainer.json | sort | tail -n 1)" | grep -o '[0-9]*')
result "the best checkpoint stays" "$([ -n "$best" ] || echo "no best step"; ls -d "best/exp-001/checkpoints/step-$(printf %06d "${best:-0}")" 2>&1 >/dev/null)"
odd NO_LINKS=5 "$GRPO" run exp.lua --quiet --dir broken --threads 1 >/dev/null 2>err; status=$?
result "another failure of the disk still ends a run" "$([ $status = 5 ] && grep -q '^grpo: cannot make the link .*latest: Input/output error' err || show err)"

# ---- a clock that is wrong -----------------------------------------------------------------------------------------------------------
"$GRPO" run exp.lua --quiet --as back --threads 1 --steps 5 >/dev/null 2>err || show err
odd CLOCK_OFF=-864000 "$GRPO" run --resume=runs/back --quiet --threads 1 >/dev/null 2>err || show err
result "a clock that went back: no duration is negative" "$(none '[^0-9T:]-[0-9.]+ s\b' runs/back/run.log)"
result "and the state is written all the same" "$(grep -q '"state": "finished"' runs/back/run.json && grep -q '"step": 14' runs/back/run.json || cat runs/back/run.json)"
for off in 99999999999 200000000000 900000000000 -1700000000 -9999999999; do
  odd CLOCK_OFF=$off "$GRPO" run exp.lua --quiet --as "far$off" --threads 1 >/dev/null 2>err; status=$?
  result "a clock that is $off s away: the run is whole" "$([ $status = 0 ] || show err
    "$GRPO" runs | grep -qE "^far$off +finished +step 14/14 +[0-9]{4}-" || "$GRPO" runs)"
done
finish
