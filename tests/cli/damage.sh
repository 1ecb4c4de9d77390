#!/usr/bin/env bash
# What commands make of runs and checkpoints in which a byte has changed.  TAP on stdout.  STRIDE=N tries one in N bytes of each
# file (tools/check-damage: all of them).
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

# refused NAME STATUS TEXT... -- WORDS... : one line on stderr that holds every TEXT
refused() {
  local name=$1 want=$2 text status problem='' texts=(); shift 2
  while [ "$1" != -- ]; do texts+=("$1"); shift; done
  shift
  timeout 60 "$GRPO" "$@" >out 2>err </dev/null; status=$?
  for text in "${texts[@]}"; do grep -qF -- "$text" err || problem="no '$text'"; done
  result "$name" "$([ $status = "$want" ] && [ "$(wc -l <err)" = 1 ] && [ -z "$problem" ] || { echo "status $status $problem"; cat err; })"
}

# flip FILE [AT] : changes a bit of a byte, by default of the one in the middle
flip() {
  local at=${2:-$(($(wc -c <"$1") / 2))} byte
  byte=$(od -An -tu1 -j "$at" -N 1 "$1")
  # shellcheck disable=SC2059
  printf "\\x$(printf %02x $((byte ^ 1)))" | dd of="$1" bs=1 seek="$at" conv=notrunc 2>/dev/null
}

# ---- models and adapters --------------------------------------------------------------------------------------------------------
bash "$root/tests/damage/make-runs" || { echo "not ok - the runs for these tests"; exit 1; }
cp -r whole spoilt && flip spoilt/tiny-001/latest/model.safetensors
file=spoilt/tiny-001/checkpoints/step-000002/model.safetensors
says=("$file: it is damaged, because its checksum is" "restore it from a copy, or use another checkpoint")
refused "generate refuses damaged weights" 3 "${says[@]}" -- generate spoilt/tiny-001 1+1= --max-new-tokens 2
refused "chat" 3 "${says[@]}" -- chat spoilt/tiny-001
refused "repl" 3 "${says[@]}" -- repl spoilt/tiny-001
refused "repl with a checkpoint" 3 "${says[@]}" -- repl spoilt/tiny-001/checkpoints/step-000002
refused "export" 3 "${says[@]}" -- export spoilt/tiny-001 exported
result "which writes nothing" "$(absent . exported .tmp-exported)"
refused "eval" 3 "$file: it is damaged" -- eval spoilt/tiny-001
refused "a run that begins with them" 3 "$file: it is damaged" -- run tiny.lua model.path=spoilt/tiny-001
printf '%s\n' 'local f = grpo.tokenizer.load' 'print(#f("spoilt/tiny-001/checkpoints/step-000002"), pcall(grpo.model.load, "spoilt/tiny-001"))' | "$GRPO" repl >out 2>err
result "grpo.model.load; a tokenizer is not weights" "$(grep -q '^14	false	.*model.safetensors: it is damaged' out || show out err)"
echo 'grpo.model.load("whole/tiny-001"):save("base")' | "$GRPO" repl
"$GRPO" run tiny.lua --quiet --dir lora model.path=base model.lora.rank=2 train.kl=0 >/dev/null 2>err || show err
cp -r lora/tiny-001/latest/. adapter
for f in adapter_model.safetensors adapter_config.json tokenizer.json; do
  rm -rf adapter && mkdir adapter && cp -r lora/tiny-001/latest/. adapter && flip adapter/$f
  refused "an adapter whose $f is damaged" 3 "adapter/$f: it is damaged" -- generate adapter 1+1= --base base --max-new-tokens 2
  refused "also merged" 3 "adapter/$f: it is damaged" -- export adapter merged --merge --base base
done

# ---- rows that are lost ---------------------------------------------------------------------------------------------------------
# each row but the first and the last of a log, which its user may cut
"$GRPO" run tiny.lua --quiet --dir plain train.steps=5 eval.every=1 >/dev/null 2>err </dev/null || show err
for log in metrics completions eval; do
  path=lost/tiny-001/$log.jsonl
  rows=$(wc -l <plain/tiny-001/$log.jsonl)
  words='diff lost/tiny-001 plain/tiny-001'
  problem=''
  for row in $(seq 2 $((rows - 1))); do
    rm -rf lost && cp -r plain lost && sed -i "${row}d" $path
    # shellcheck disable=SC2086
    timeout 60 "$GRPO" $words >out 2>err </dev/null; status=$?
    [ "$status $(wc -l <err)" = '3 1' ] && grep -q "^grpo: $path:$row: row $((row + 1)) of the log stands here, where row $row has to be; the file is damaged" err ||
      problem="$problem
row $row: status $status, $(cat err)"
  done
  [ "$rows" -ge 4 ] || problem="$problem only $rows rows"
  result "each row that is taken out of $log.jsonl is missed by ${words%% *}" "$problem"
done
rm -rf lost && cp -r plain lost && sed -i 2p lost/tiny-001/completions.jsonl
refused "a row that stands twice" 3 "lost/tiny-001/completions.jsonl:3: row 2 of the log stands here, where row 3 has to be" \
  "or take this line away if the row stands above it, too" -- diff lost/tiny-001 plain/tiny-001
rm -rf lost && cp -r plain lost && sed -i 2d lost/tiny-001/completions.jsonl
says=("lost/tiny-001/completions.jsonl:2: row 3 of the log stands here, where row 2 has to be" "or put an empty line in the place")
refused "by replay" 3 "${says[@]}" -- replay lost/tiny-001 --reward tiny.lua
refused "by diff" 3 "${says[@]}" -- diff lost/tiny-001 plain/tiny-001
sed -i '1a\\' lost/tiny-001/completions.jsonl
check "with an empty line in their place the others are read" "$GRPO" diff lost/tiny-001 plain/tiny-001
rm -rf lost && cp -r plain lost && unsummed lost/tiny-001 && sed -i 2d lost/tiny-001/metrics.jsonl
check "rows without sums are read" "$GRPO" diff lost/tiny-001 plain/tiny-001
rm -rf lost && cp -r plain lost && sed -i -E 's/, "log_line": [0-9]+, "crc32c": "[0-9a-f]{8}"\}$/}/' lost/tiny-001/metrics.jsonl
check "and those without numbers" "$GRPO" diff lost/tiny-001 plain/tiny-001

# ---- a log that was cut at its end ----------------------------------------------------------------------------------------------
# run.json has the number of rows of each log from the end of a run on
ends() { grep -qxF "grpo: lost/tiny-001/$1.jsonl: it $2, but the run wrote $3, which run.json counts; the file is damaged: restore it from a copy, or put an empty line in the place of the rows that are lost" err; }
for log in metrics completions eval; do
  rows=$(wc -l <plain/tiny-001/$log.jsonl) path=lost/tiny-001/$log.jsonl problem=''
  words='diff lost/tiny-001 plain/tiny-001'
  for cut in '$d' 3,\$d half all gone; do
    rm -rf lost && cp -r plain lost
    says="ends with row $((rows - 1))"
    case $cut in
      half) truncate -s -20 $path ;;
      all) : >$path; says='has no row' ;;
      gone) rm $path; says='has no row' ;;
      3*) sed -i "$cut" $path; says='ends with row 2' ;;
      *) sed -i "$cut" $path ;;
    esac
    # shellcheck disable=SC2086
    timeout 60 "$GRPO" $words >out 2>err </dev/null; status=$?
    [ "$status $(wc -l <err)" = '3 1' ] && ends $log "$says" "$rows" || problem="$problem
$cut: status $status, $(cat err)"
  done
  result "a $log.jsonl whose last rows are gone, or a part of the last one, is damaged for ${words%% *}" "$problem"
  [ $log != completions ] || refused "and for replay" 3 "$path: it has no row, but the run wrote $rows" -- replay lost/tiny-001 --reward tiny.lua
done
rm -rf lost && cp -r plain lost && echo >lost/tiny-001/metrics.jsonl
check "with an empty line in the place of all rows the other logs are read" "$GRPO" diff lost/tiny-001 plain/tiny-001
rm -rf lost && cp -r plain lost && uncounted lost/tiny-001 && sed -i 3,\$d lost/tiny-001/metrics.jsonl
check "a run that counted no rows is read" "$GRPO" diff lost/tiny-001 plain/tiny-001
"$GRPO" run tiny.lua --quiet --dir partly train.steps=5 eval.every=1 --steps 3 >/dev/null 2>err </dev/null || show err
for log in metrics completions eval; do
  rm -rf lost && cp -r partly lost && sed -i '$d' lost/tiny-001/$log.jsonl
  refused "a resume of a run that was stopped refuses a $log.jsonl without its last row" 3 "lost/tiny-001/$log.jsonl: it ends with row" "which run.json counts" \
    "or resume with --force, which continues without its rows" -- run --quiet --resume=lost/tiny-001
done
timeout 60 "$GRPO" run --quiet --force --resume=lost/tiny-001 >out 2>err </dev/null; status=$?
check "with --force it continues, and the run can be read" "$GRPO" diff lost/tiny-001 plain/tiny-001
result "and says which rows it is without" "$([ $status = 0 ] && grep -q 'eval.jsonl: it ends with row .*; --force continues without its rows' lost/tiny-001/run.log || show err)"
timeout 60 "$GRPO" run --quiet --resume=partly/tiny-001 >out 2>err </dev/null; status=$?
result "an undamaged one is resumed without a word, to the same logs" "$([ $status = 0 ] || show err; cat err; different plain/tiny-001 partly/tiny-001
  diff <(grep -A 4 log_lines plain/tiny-001/run.json) <(grep -A 4 log_lines partly/tiny-001/run.json))"

# ---- a resume -------------------------------------------------------------------------------------------------------------------
# again NAME : a copy of the run that was killed
again() { rm -rf "$1"; cp -a crashed "$1"; run=$1/tiny-001; }
resume() { timeout 60 "$GRPO" run --quiet --resume="$run" "$@" >out 2>err </dev/null; }
again kept; resume
result "an undamaged run is resumed without a word" "$(cat err; different whole/tiny-001 $run)"
again source; flip $run/source/modules/helper.lua 73 # 3 becomes 2
cp $run/run.json before
refused "a damaged saved source" 3 "$run/source/modules/helper.lua: it is damaged" "or resume with --force, which takes it as it is" -- \
  run --quiet --resume=$run
result "nothing was changed" "$(cmp before $run/run.json 2>&1)"
mv $run/source/modules/helper.lua helper.kept
refused "a missing saved source, which no --force brings back" 3 "$run/source/modules/helper.lua: it is missing" \
  "restore it from a copy" -- run --quiet --resume=$run --force
mv helper.kept $run/source/modules/helper.lua
resume --force; status=$?
result "--force takes it as it is, and says so" \
  "$([ $status = 0 ] && grep -q 'helper.lua: it is damaged.*; --force takes it as it is$' err && grep -q 'takes it as it is$' $run/run.log || show err)"
resume; status=$?
result "and the next resume finds nothing" "$([ $status = 0 ] && [ "$(cat err)" = "grpo: $run is finished already" ] || show err)"
for f in config.json env.json inputs.json run.json; do
  again facts; flip $run/$f 40
  refused "a damaged $f" 3 "$run/$f: it is damaged" "--force, which takes it as it is" -- run --quiet --resume=$run
done
# in a fact that is not compared with the program that resumes
again facts; flip $run/env.json $(($(grep -bo '"pcre2"' $run/env.json | cut -d: -f1) + 3)); resume --force
result "a run that was resumed with --force ends as it would" "$(different whole/tiny-001 $run; [ "$(wc -l <err)" = 1 ] || show err)"
again sizes; flip $run/log_sizes.json
refused "damaged log_sizes.json" 3 "$run/log_sizes.json: it" "--force, which moves it to $run/log_sizes.json.damaged" -- run --quiet --resume=$run
resume --force; status=$?
result "is moved by --force" "$([ $status = 0 ] && [ -s $run/log_sizes.json.damaged ] || show err)"
again gone; rm $run/source/main.lua
refused "a source that is missing" 3 "$run/source/main.lua: it is missing" -- run --quiet --resume=$run
again named; flip $run/run.json 40
refused "the newest run of a script, when that one cannot be read" 3 "no unfinished run" -- run tiny.lua --resume --dir other
"$GRPO" run tiny.lua --resume --dir named >out 2>err
result "is not passed over in silence" "$(grep -q '^grpo: note: named/tiny-001 is not considered, because its run.json is damaged$' err || show err)"

# ---- lines of logs ------------------------------------------------------------------------------------------------------------------
for log in metrics completions eval; do
  again lines; head -c 30 /dev/urandom | od -An -tx1 >>$run/$log.jsonl; tail -n 2 $run/$log.jsonl >noise; resume; status=$?
  line=$(($(wc -l <crashed/tiny-001/$log.jsonl) + 1))
  result "$log.jsonl: unreadable lines are moved, and it is said where they were" "$([ $status = 0 ] || echo "status $status"
    grep -vqF '{' noise && grep -q "^grpo: note: $log.jsonl: [1-9][0-9]* lines* cannot be read, the first is line $line; all were moved to $log.jsonl.damaged$" err || show err
    grep -vF '{' noise | cmp - $run/$log.jsonl.damaged 2>&1; grep -q "$log.jsonl: .*cannot be read" $run/run.log || echo "not in run.log"; different whole/tiny-001 $run)"
done
again torn; printf '{"step": 3, "lo' >>$run/metrics.jsonl; resume
result "an incomplete last line is cut with a notice" "$([ "$(cat err)" = 'grpo: note: metrics.jsonl: the last line is incomplete and was cut' ] || show err
  [ ! -e $run/metrics.jsonl.damaged ] || echo moved; different whole/tiny-001 $run)"
again lost; sed -i 1d $run/metrics.jsonl; resume; status=$?
result "rows before the checkpoint that are missing are noted" "$([ $status = 0 ] &&
  grep -q '^grpo: note: metrics.jsonl has no row, but the checkpoint is of step 1: rows are missing' err || show err)"
again events
echo '{"kind": "set", "path": "train.lr", "value": 0.5, "stage": 1, "step": 1, "crc32c": "00000000"}' >$run/events.jsonl
refused "a damaged event" 3 "$run/events.jsonl:1: it is damaged" "--force, which moves it to $run/events.jsonl.damaged and leaves it out" -- run --quiet --resume=$run
resume --force; status=$?
result "--force leaves it out" "$([ $status = 0 ] && grep -q 0.5 $run/events.jsonl.damaged && [ ! -s $run/events.jsonl ] || show err; different whole/tiny-001 $run)"

# ---- every command --------------------------------------------------------------------------------------------------------------
for part in 1 2; do STRIDE=${STRIDE:-1500} PART=$part/2 "$GRPO" repl <"$root/tests/damage/flips.lua" >flips 2>&1; cat flips; done >all
result "a changed byte in any file of a run is reported, or changes nothing: $(grep -oE '^[0-9]+ trials' all | paste -sd+)" \
  "$(grep -vE '^[1-9][0-9]* trials, [0-9]+ reported, 0 failures$' all)"
finish
