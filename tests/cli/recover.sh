#!/usr/bin/env bash
# What a resume mends after a kill between two writes, what it leaves alone, and what is in force then.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"

resume() { "$GRPO" run --quiet --resume="$1" </dev/null >out 2>err || echo "exit status $?" >>err; }
latest() { [ "$(readlink "$1/latest")" = "checkpoints/$2" ] || ls -l "$1"; }

# ---- a kill between the last checkpoint's rename and the link ---------------------------------------------------------------
write_experiment exp.lua
"$GRPO" run exp.lua --quiet --dir whole >/dev/null 2>&1
cp -a whole stale
ln -sfn checkpoints/step-000012 stale/exp-001/latest
for run in whole stale; do "$GRPO" export $run/exp-001 $run.out --dtype f32 >out 2>err || cat err; done
result "export takes the newest checkpoint although latest is an older one" "$(cmp whole.out/model.safetensors stale.out/model.safetensors 2>&1)"
for run in whole stale; do
  "$GRPO" repl >$run.logits 2>err <<<"print(table.concat(grpo.model.load('$run/exp-001'):logits({ 1, 2 }):totable()[2], ' '))"
done
result "so does grpo.model.load" "$(cmp whole.logits stale.logits 2>&1; [ -s whole.logits ] || show err)"
resume stale/exp-001
result "a resume of a finished run mends latest" "$(latest stale/exp-001 step-000014; grep -q 'finished already' err || show err)"
KILL_CHECKPOINT=14 "$GRPO" run exp.lua --quiet --dir last >/dev/null 2>&1
ln -sfn checkpoints/step-000012 last/exp-001/latest
resume last/exp-001
result "so does one that has only the evaluation to do" "$(latest last/exp-001 step-000014; different whole/exp-001 last/exp-001; cat err)"

# ---- a directory in the place of a link, as a copy makes one that follows links -------------------------------------------------
in_the_way() { grep -qx "grpo: $1: it is a directory, but the run's link to a checkpoint belongs there; move it away or remove it" err; }
KILL_CHECKPOINT=8 "$GRPO" run exp.lua --quiet --dir place >/dev/null 2>&1
cp -rL place/exp-001/latest copy && rm place/exp-001/latest && mv copy place/exp-001/latest
cp -a place before
"$GRPO" run --quiet --resume=place/exp-001 </dev/null >out 2>err; status=$?
result "a directory in the place of latest: one line that says what to do, status 3, and nothing is changed" \
  "$([ "$status $(wc -l <err)" = '3 1' ] && in_the_way place/exp-001/latest && diff -r -x control.sock before place >out || show err out)"
rm -r place/exp-001/latest
resume place/exp-001
result "when it has been removed, the run is resumed to the same bytes" "$(different whole/exp-001 place/exp-001; cat err)"
sed 's/kill_at("KILL_ROLLOUT", tr.step_count + 1)/& if tr.step_count == 9 and os.getenv "MAKE" then os.execute("cd made\/exp-001; rm -f latest; mkdir latest") end/' exp.lua >made.lua
sed -i '/^return grpo.experiment {/a name = "exp",' made.lua
MAKE=1 "$GRPO" run made.lua --quiet --dir made </dev/null >out 2>err; status=$?
result "one that is made while the run trains ends it with the same line and status 1, and nothing is lost" "$([ "$status $(wc -l <err)" = '1 1' ] &&
  in_the_way made/exp-001/latest && [ -e made/exp-001/checkpoints/step-000010/manifest.json ] || { echo "status $status"; show err; ls made/exp-001/checkpoints; })"
rmdir made/exp-001/latest && resume made/exp-001
result "then --resume: the same bytes here, too" "$(different whole/exp-001 made/exp-001; cat err)"

# ---- a directory that is moved while the run trains -----------------------------------------------------------------------------
files() { (cd "$1" && find . ! -type d ! -name .lock -exec md5sum {} + | sort); }
moved="grpo: %s: the run ends, because its directory, or the .lock that it began with, is not there any more; nothing more is written to this place; resume the run from where its directory is now\n"
"$GRPO" run exp.lua --quiet --dir moved --as ready seed=5 </dev/null >/dev/null 2>&1
for how in other none lock; do
  run=moved/$how
  SLOW=0.15 timeout 60 "$GRPO" run exp.lua --quiet --dir moved --as $how </dev/null >out 2>err & pid=$!
  wait_for_step $run 3
  case $how in
    lock) rm $run/.lock && cp -a $run moved/old-$how ;;
    *) mv $run moved/old-$how ;;
  esac
  [ $how != other ] || { mv moved/ready $run && files $run >before; }
  wait $pid; status=$?
  case $how in
    other) problem=$(files $run | diff before -) ;;
    none) problem=$(ls -Ad $run 2>/dev/null) ;;
    lock) problem=$(ls $run/checkpoints | diff <(ls moved/old-$how/checkpoints) -) ;;
  esac
  # shellcheck disable=SC2059
  result "a run whose directory is gone ($how in its place) ends with status 5 and one line, and writes nothing there" \
    "$([ $status = 5 ] && printf "$moved" $run | diff - err || { echo "status $status"; show err; }; echo "$problem" | head -n 5 | grep .)"
done
resume moved/old-other
result "and is resumed from where it is, to the same bytes" "$(different whole/exp-001 moved/old-other; cat err)"

# ---- streams and files that the caller has closed or bounded -------------------------------------------------------------------
"$GRPO" run exp.lua --dir closed >&- 2>&- <&-
result "a run whose streams are closed writes no line of the screen into its files" "$(different whole/exp-001 closed/exp-001)"
(ulimit -f 100; "$GRPO" run exp.lua --quiet --dir bounded >out 2>err; echo $? >status)
result "a file that may not grow is a disk that is full: status 5 and one line" "$([ "$(<status) $(wc -l <err)" = '5 1' ] &&
  grep -q 'File too large' err || { cat status; show err; })"
resume bounded/exp-001
result "then --resume: the same bytes" "$(different whole/exp-001 bounded/exp-001; cat err)"

# ---- what is removed, and what is not -------------------------------------------------------------------------------------------
KILL_CHECKPOINT=8 "$GRPO" run exp.lua --quiet --dir own >/dev/null 2>&1
result "runs says how many steps a run has that was killed in its first second" "$("$GRPO" runs --dir own >out 2>&1
  grep -qE '^exp-001 +crashed +step 8/14 ' out || show out)"
run=own/exp-001
mine=(checkpoints/{mybest,notes,step-5,step-000001,.tmp-mine}/file checkpoints/README.txt .notes.12-3.tmp .report.html.12-3.tmp)
for name in "${mine[@]}"; do mkdir -p "$(dirname "$run/$name")" && echo mine >"$run/$name"; done
mkdir -p $run/checkpoints/.tmp-step-000010/reference $run/source/reload-001/modules
touch $run/{.run.json,.events.jsonl,checkpoints/.tmp-step-000010/model.safetensors,source/.main.lua,source/modules/.a.b.lua}.12-3.tmp
for link in latest best; do ln -s checkpoints/step-000008 $run/.$link.4294967-0.tmp; done
mkdir -p own/.new-{1,7}/source && touch own/.new-7/.lock # in which a run was being made
find $run | grep -cE '/(\.[a-z._]+\.[0-9]+-[0-9]+\.tmp|\.tmp-step-[0-9]+)' >count
resume $run
result "a resume leaves alone what the program did not make" \
  "$(for name in "${mine[@]}"; do [ "$(cat "$run/$name" 2>&1)" = mine ] || echo "$name is gone"; done; cat err)"
for name in "${mine[@]}"; do rm -rf "${run:?}/$(sed -E 's,^(checkpoints/[^/]*)/.*,\1,' <<<"$name")"; done
result "it removes what a killed process was writing" "$([ "$(cat count)" -ge 8 ] || show count; find $run -name '.*.tmp' -o -name '.tmp-*' -o -name 'reload-*')"
result "and what one has left beside the run" "$([ -d own ] || echo no own; compgen -G 'own/.new-*')"
result "and ends with the same bytes" "$(different whole/exp-001 $run)"

# ---- long logs ------------------------------------------------------------------------------------------------------------------
KILL_CHECKPOINT=8 "$GRPO" run exp.lua --quiet --dir long >/dev/null 2>&1
yes "{\"step\": 9, \"text\": \"$(printf '%04000d' 0)\"}" | head -c 300000000 >>long/exp-001/completions.jsonl
# AddressSanitizer would keep 256 MB of what has been freed
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}quarantine_size_mb=16 resume long/exp-001
peak() { tail -n 1 "$1/metrics.jsonl" | sed -E 's/.*"memory\/peak_bytes": ([0-9]+).*/\1/'; }
more=$(($(peak long/exp-001) - $(peak whole/exp-001)))
result "a resume cuts 300 MB off a log, which it never holds in memory" \
  "$(different whole/exp-001 long/exp-001 2>&1 | head -n 4; [ $more -lt 300000000 ] || echo "$more bytes more than without"
  diff - err <<<'grpo: note: completions.jsonl: the last line is incomplete and was cut')"
rm -rf long

# ---- a file that has been extended, and a signal before the cut ---------------------------------------------------------------
KILL_CHECKPOINT=8 "$GRPO" run exp.lua --quiet --dir hole >/dev/null 2>&1
for log in metrics completions; do
  rm -rf holed && cp -a hole holed
  truncate -s 1T holed/exp-001/$log.jsonl 2>/dev/null || continue
  rows=$(wc -l <hole/exp-001/$log.jsonl)
  timeout -s KILL 60 "$GRPO" run --quiet --resume=holed/exp-001 </dev/null >out 2>err; status=$?
  result "a resume over a $log.jsonl with a hole of a TiB ends soon with one line" "$([ "$status $(wc -l <err)" = '3 1' ] &&
    grep -q "^grpo: holed/exp-001/$log.jsonl: a line has more than 64 MiB, and no row has; the file is damaged: restore it from a copy, or cut off" err || show err)"
  timeout -s KILL 60 "$GRPO" diff holed/exp-001 holed/exp-001 >out 2>err; status=$?
  result "so does diff, which names the line" "$([ "$status $(wc -l <err)" = '3 1' ] &&
    grep -q "^grpo: holed/exp-001/$log.jsonl:$((rows + 1)): a line has more than 64 MiB" err || show err)"
  result "and runs lists it" "$(timeout -s KILL 60 "$GRPO" runs --dir holed 2>&1 >out | grep .; grep -q '^exp-001 ' out || show out)"
done
# the script sends it while it is loaded, before the logs are cut
cp -a hole signal
yes '{"step": 9}' | head -n 100000 >>signal/exp-001/metrics.jsonl && cp signal/exp-001/metrics.jsonl long.jsonl
sed -i '1i if os.getenv "TERM_ME" then os.execute("kill -TERM $PPID") end' exp.lua
TERM_ME=1 timeout -s KILL 60 "$GRPO" run --quiet --force --resume=signal/exp-001 exp.lua </dev/null >out 2>err; status=$?
sed -i 1d exp.lua
result "SIGTERM ends a resume before it cuts a log: nothing is changed" "$([ $status = 143 ] && [ ! -s err ] &&
  cmp long.jsonl signal/exp-001/metrics.jsonl || { echo "status $status"; show err; })"
resume signal/exp-001
result "then --resume: the same bytes as ever" "$(different whole/exp-001 signal/exp-001; cat err)"

# ---- an evaluation that was missed ----------------------------------------------------------------------------------------------
# A run that was killed in its first step has events to come, as if a session had asked for them.
# shellcheck disable=SC2016  # the shell of the run expands it
experiment ev.lua 'stages = { { kind = "grpo", train = { steps = 3 } }, { kind = "grpo", train = { steps = 3 } } }, train = { prompts_per_step = 2, lr = 1e-3 },
  eval = { every = 2 }, checkpoint = { every = 2, keep = 9, best = "eval/metric" },
  hooks = {
    on_step = function(_, tr) if tr.step_count == tonumber(os.getenv("KILL_STEP")) then os.execute("kill -9 $PPID") end end,
    on_checkpoint = function(_, tr) if tr.step_count == tonumber(os.getenv("KILL_CHECKPOINT")) then os.execute("kill -9 $PPID") end end,
    on_eval = function(m, tr)
      tr.state.seen = (tr.state.seen or 0) + 1
      if m.step == tonumber(os.getenv("KILL_EVAL")) then os.execute("kill -9 $PPID") end
    end,
  }' '' 'train = grpo.data.list(rows), eval = grpo.data.list(table.move(rows, 1, 20, 1, {}))'
KILL_STEP=1 "$GRPO" run ev.lua --quiet --dir begun >out 2>err
mkdir -p begun/ev-001/source/reload-001/modules
sed 's/return select(2, text:gsub("%d", "")) \/ 6 end/return #text end/' ev.lua >begun/ev-001/source/reload-001/main.lua
grep -q 'return #text' begun/ev-001/source/reload-001/main.lua || echo '# the script was not changed'
evaluations() { timeless "$1/eval.jsonl" | grep -oE '"(eval/metric|label|step)": [^,}]*' | paste -sd' '; }
missed() { # NAME EVENT... : kills after the first checkpoint, and at the end of each stage
  local name=$1 line; shift
  rm -rf asked killed; cp -a begun asked
  for line; do echo "$line" >>asked/ev-001/events.jsonl; done
  cp -a asked killed
  resume asked/ev-001
  for at in STEP=3 CHECKPOINT=3 CHECKPOINT=6; do
    env "KILL_$at" "$GRPO" run --quiet --resume=killed/ev-001 >/dev/null 2>err </dev/null
  done
  resume killed/ev-001
  result "$name: a resume makes the evaluations that were missed, with what was in force" "$(
    [ "$(evaluations asked/ev-001)" = "$(evaluations killed/ev-001)" ] || { evaluations asked/ev-001; evaluations killed/ev-001; }
    [ "$(readlink asked/ev-001/best)" = "$(readlink killed/ev-001/best)" ] || ls -l {asked,killed}/ev-001/best
    diff <(grep eval/ asked/ev-001/run.json) <(grep eval/ killed/ev-001/run.json); different asked/ev-001 killed/ev-001; grep -v 'has changed since, but' err)"
}
missed "a changed weight" '{"kind": "weight", "name": "digits", "value": -1, "stage": 1, "step": 2}' \
  '{"kind": "weight", "name": "digits", "value": 5, "stage": 2, "step": 4}'
missed "a reloaded reward" '{"kind": "reload", "source": "source/reload-001", "files": ["ev.lua"], "stage": 1, "step": 2}'
missed "an evaluation in a session" '{"kind": "evaluate", "stage": 1, "step": 2}' \
  '{"kind": "weight", "name": "digits", "value": 5, "stage": 1, "step": 2}' '{"kind": "evaluate", "stage": 1, "step": 2}'
cp -a begun forced
KILL_CHECKPOINT=3 "$GRPO" run --quiet --resume=forced/ev-001 >/dev/null 2>err </dev/null
cp begun/ev-001/source/reload-001/main.lua ev.lua
KILL_EVAL=3 "$GRPO" run ev.lua --quiet --dir forced --resume --force >/dev/null 2>err </dev/null
evaluations forced/ev-001 >first
KILL_EVAL=3 "$GRPO" run --quiet --resume=forced/ev-001 >/dev/null 2>err </dev/null
result "a script that --force took is in force in it too" "$(evaluations forced/ev-001 | diff first - ; grep -q '"after grpo"' first || show first err)"
finish
