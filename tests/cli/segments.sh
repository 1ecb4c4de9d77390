#!/usr/bin/env bash
# Logs in several files (log.segment_mib): every command reads them as one, a resume cuts back across them.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
write_experiment exp.lua
small=log.segment_mib=0.01 # 10 KiB: some ten rows of the metrics, two steps of completions

# joined RUN : copies the run to joined/exp-001, with each log in one file, as if it had never had another
joined() {
  local log
  rm -rf joined; mkdir joined; cp -r "$1" joined/exp-001
  sed -i -z -E 's/,\n  "crc32c": "[0-9a-f]{8}"//; s/\n  "segments": \{([^{}]*\{[^{}]*\})*[^{}]*\},//' joined/exp-001/run.json
  for log in metrics completions eval; do
    cat "$1/$log".[0-9]*.jsonl "$1/$log.jsonl" >joined/exp-001/$log.jsonl 2>/dev/null
    rm -f joined/exp-001/$log.[0-9]*.jsonl
  done
}

"$GRPO" run exp.lua --quiet --dir plain >/dev/null 2>&1 || { echo "not ok - the run for these tests"; exit 1; }
"$GRPO" run exp.lua --quiet --dir whole $small >/dev/null 2>err || { cat err; echo "not ok - the run for these tests"; exit 1; }
run=whole/exp-001
result "an ordinary run has one file for each log" "$(ls plain/exp-001/*.[0-9]*.jsonl 2>/dev/null; grep segments plain/exp-001/run.json)"
result "full files get numbers" "$([ -e $run/completions.000003.jsonl ] && [ -e $run/metrics.000001.jsonl ] || ls $run; grep -q '"last": ' $run/run.json || echo 'not in run.json')"
joined $run
result "they hold the rows that one file would" "$(different plain/exp-001 joined/exp-001)"

# dies VARIABLE=VALUE DIRECTORY WORDS... : the run is killed
dies() {
  local how=$1 dir=$2; shift 2
  { env "$how" "$GRPO" run exp.lua --quiet --dir "$dir" "$@" >/dev/null 2>&1; } 2>/dev/null
}

# ---- every command reads them as one ------------------------------------------------------------------------------------
# same NAME WORDS... : the command, of which RUN is the run, prints the same of the run and of the joined one
same() {
  local name=$1 where; shift
  for where in whole joined; do
    "$GRPO" "${@//RUN/$where/exp-001}" 2>&1 | sed -E 's,whole|joined,DIR,g' >$where.out
  done
  result "$name" "$([ -s whole.out ] || echo nothing; diff whole.out joined.out | head -n 5)"
}
echo 'return function(text) return #text end' >length.lua
same "replay of a step" replay RUN 6
same "replay of the last step, as JSON" replay RUN --json
same "replay of every step with another reward" replay RUN --reward length.lua
same "diff with the run that has no segments" diff plain/exp-001 RUN
same "runs" runs --dir RUN/..
same "logs" logs RUN -n 3
same "test --record" test --record RUN --count 5 -
"$GRPO" diff plain/exp-001 $run >out 2>err
result "diff finds all steps" "$(grep -q '^metrics: equal on all 14 common steps$' out && grep -q '^completions: equal on all 10 common steps$' out || show out err)"
for where in whole joined; do
  "$GRPO" report $where/exp-001 --out $where.html >/dev/null 2>err || cat err
  "$GRPO" export $where/exp-001 $where-model >/dev/null 2>err || cat err
done >problems
result "report and export" "$(cat problems; cmp whole.html joined.html 2>&1; diff -r whole-model joined-model)"

if command -v python3 >/dev/null; then
  for where in whole joined; do python3 "$root/examples/wandb_forward.py" --dry-run $where/exp-001 >$where.sent 2>&1; done
  result "examples/wandb_forward.py" "$([ "$(wc -l <whole.sent)" -ge 14 ] || show whole.sent; cmp whole.sent joined.sent 2>&1)"
else
  result "examples/wandb_forward.py # SKIP no python3"
fi

# ---- a run that dies ----------------------------------------------------------------------------------------------------
# Both logs have begun files since the checkpoint, which the resume takes back.
for step in 6 7 9 12 14; do
  dies KILL_ROLLOUT=$step killed-$step $small
  before=$(cd killed-$step/exp-001 && echo ./*.[0-9]*.jsonl)
  "$GRPO" run --quiet --resume=killed-$step/exp-001 >/dev/null 2>err; status=$?
  result "killed in step $step and resumed: the same files, byte for byte" "$([ $status = 0 ] && [ ! -s err ] || show err
    [ -n "$before" ] || echo 'it had no segment'
    (cd $run && sha256sum completions*.jsonl) >a; (cd killed-$step/exp-001 && sha256sum completions*.jsonl) | diff a -
    joined killed-$step/exp-001; different plain/exp-001 joined/exp-001)"
done
dies KILL_CHECKPOINT=8 back $small
rm -rf back/exp-001/checkpoints/step-000008 # the newest one that is left is before the last segments
"$GRPO" run --quiet --resume=back/exp-001 >/dev/null 2>err; status=$?
joined back/exp-001
result "from an older checkpoint: several files are cut" "$([ $status = 0 ] || show err; different plain/exp-001 joined/exp-001)"
dies KILL_CHECKPOINT=8 other $small
"$GRPO" run --quiet --resume=other/exp-001 log.segment_mib=1 >/dev/null 2>err; status=$?
joined other/exp-001
result "resumed with larger files" "$([ $status = 0 ] || show err; different plain/exp-001 joined/exp-001)"

# ---- files that are not there -------------------------------------------------------------------------------------------
# refused NAME TEXT WORDS... : status 3 and one line on stderr that holds TEXT
refused() {
  local name=$1 text=$2 status; shift 2
  timeout 60 "$GRPO" "$@" >out 2>err; status=$?
  result "$name" "$([ $status = 3 ] && [ "$(wc -l <err)" = 1 ] && grep -qF -- "$text" err || { echo "status $status"; cat out err; })"
}
last=$(cd $run && ls completions.[0-9]*.jsonl | tail -n 1)
for file in completions.000001.jsonl completions.000002.jsonl "$last"; do
  rm -rf gap; cp -r whole gap; rm "gap/exp-001/$file"
  refused "diff without $file" "gap/exp-001/$file: it is missing; restore it from a copy" diff plain/exp-001 gap/exp-001
  refused "report without it" "gap/exp-001/$file: it is missing" report gap/exp-001
  refused "replay without it" "gap/exp-001/$file: it is missing" replay gap/exp-001
  : >"gap/exp-001/$file"
  "$GRPO" diff plain/exp-001 gap/exp-001 >out 2>err; status=$?
  result "an empty file in its place, as the message says" "$([ $status = 0 ] && grep -qE '^completions: (equal on all [0-9] common|differ)' out || show out err)"
done
dies KILL_CHECKPOINT=8 holed $small
rm holed/exp-001/completions.000001.jsonl
"$GRPO" run --quiet --resume=holed/exp-001 >/dev/null 2>err; status=$?
result "a resume says which one is missing and what to do, and is refused" \
  "$([ $status = 3 ] && grep -q '^grpo: holed/exp-001/completions.000001.jsonl: it is missing; restore it from a copy, or resume with --force, which continues without its rows$' err || show err)"
"$GRPO" run --quiet --resume=holed/exp-001 --force >/dev/null 2>err; status=$?
result "--force continues without its rows" \
  "$([ $status = 0 ] && grep -q 'completions.000001.jsonl: it is missing' err && grep -q 'completions.000001.jsonl: it is missing' holed/exp-001/run.log || show err)"

# ---- few are kept -------------------------------------------------------------------------------------------------------
"$GRPO" run exp.lua --quiet --dir few log.segment_mib=0.001 log.keep_segments=2 >/dev/null 2>err; status=$?
result "log.keep_segments removes the oldest" "$([ $status = 0 ] || show err; for log in metrics completions; do
  [ "$(ls few/exp-001/$log.[0-9]*.jsonl | wc -l)" = 2 ] || ls few/exp-001; done)"
"$GRPO" diff plain/exp-001 few/exp-001 >out 2>err; status=$?
result "the others are read" "$([ $status = 0 ] && grep -qE '^metrics: equal on all [3-9] common steps$' out || show out err)"
dies KILL_ROLLOUT=13 few-killed log.segment_mib=0.001 log.keep_segments=2
"$GRPO" run --quiet --resume=few-killed/exp-001 >/dev/null 2>err; status=$?
result "killed and resumed: the same files" "$([ $status = 0 ] && [ ! -s err ] || show err
  for log in completions metrics; do (cd few/exp-001 && timeless $log*.jsonl) >a; (cd few-killed/exp-001 && timeless $log*.jsonl) | diff a - | head -n 3; done
  diff <(cd few/exp-001 && ls) <(cd few-killed/exp-001 && ls) | grep -v tfevents | grep '[<>]')"
finish
