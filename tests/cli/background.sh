#!/usr/bin/env bash
# Runs in the background: grpo run --detach, logs, stop.  TAP on stdout.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
write_experiment exp.lua

# ended RUN : waits until it is over
ended() {
  for _ in $(seq 600); do
    grep -q '"state": "running"' "$1/run.json" 2>/dev/null || return 0
    sleep 0.05
  done
  echo "$1 has not ended"
}

"$GRPO" run exp.lua --quiet --dir whole >/dev/null 2>&1
answer=$(timeout 20 "$GRPO" run exp.lua --detach --dir back </dev/null 2>err)
result "a detached run prints its directory and leaves" "$([ "$answer" = back/exp-001 ] || echo "$answer"; cat err)"
problem=$(ended back/exp-001)
result "it ends by itself, and is the run it would have been" "$problem$(different whole/exp-001 back/exp-001)"
result "logs shows its screen" "$("$GRPO" logs back/exp-001 2>&1 >out || echo failed
  grep -q '^stage 2 of 2: ' out && grep -q '^grpo 14/14 | reward ' out && grep -q '^evaluation after grpo: 20 held-out rows' out || show out)"
result "logs -n shows the last lines" "$(diff <(tail -n 3 out) <("$GRPO" logs -n 3 --dir back exp-001))"
result "a run in the foreground keeps its screen too, --quiet or not" \
  "$(plain() { sed -E 's/[0-9]+ tokens.*//; s/^try it:.*//'; }; diff <(plain <out) <("$GRPO" logs whole/exp-001 | plain))"

# A screen that goes away (a closed terminal's pipe, `| head`) does not end a run.
"$GRPO" run exp.lua --dir piped 2>&1 >piped.out | head -n 1 >/dev/null
result "a run outlives whoever reads its screen" "$([ "$(cat piped.out)" = piped/exp-001 ] && grep -q '"state": "finished"' piped/exp-001/run.json || show piped.out piped/exp-001/run.json)"

# It belongs to no terminal and no session of ours: what would end the shell that started it does not reach it.
SLOW=0.2 timeout 20 "$GRPO" run exp.lua --detach --json --dir slow </dev/null >out 2>err
pid=$(grep -oE '"pid": [0-9]+' out | grep -oE '[0-9]+$')
result "--json tells the process" "$([ "$(sed 's/.*) //' "/proc/$pid/stat" | cut -d ' ' -f 4)" = "$pid" ] || show out err)"
timeout 60 "$GRPO" logs -f slow/exp-001 >followed 2>err & follower=$!
wait_for_step slow/exp-001 5
answer=$(timeout 60 "$GRPO" stop exp-001 --dir slow 2>err)
result "stop ends a run after a checkpoint" "$([ "$answer" = 'slow/exp-001 interrupted' ] || echo "$answer"; cat err; [ -e slow/exp-001/latest ] || echo no checkpoint)"
wait $follower; status=$?
result "logs -f has ended with it, and has shown everything" "$([ $status = 0 ] || echo "status $status"; cat err; diff followed slow/exp-001/output.log)"
result "and where it has stopped and how it is continued, once" \
  "$([ "$(grep -c "^interrupted at step .*'grpo run --resume=slow/exp-001' continues it$" followed)" = 1 ] || show followed)"
timeout 60 "$GRPO" run --resume=slow/exp-001 --detach >/dev/null 2>err
problem=$(ended slow/exp-001)
result "and a detached resume brings it to the same end" "$problem$(cat err)$(different whole/exp-001 slow/exp-001)"

SLOW=0.2 timeout 20 "$GRPO" run exp.lua --detach --dir now >/dev/null 2>err
wait_for_step now/exp-001 3
answer=$(timeout 60 "$GRPO" stop --now now/exp-001 2>err)
result "stop --now does not wait for a checkpoint" "$([ "$answer" = 'now/exp-001 crashed' ] || echo "$answer"; cat err)"

# Another user, who may read the run but not write to it.
as_other() { if [ "$(id -u)" = 0 ]; then setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; else "$@"; fi; }
chmod 755 "$work"; chmod -R a-w now
as_other "$GRPO" runs --dir now >out 2>err
result "a crashed run that the caller cannot write to is not running" "$(grep -q '^exp-001 *crashed ' out || show out err)"
as_other "$GRPO" stop now/exp-001 >out 2>err; status=$?
result "and stop says so" "$([ "$status $(cat err)" = '2 grpo: stop: now/exp-001 is not running (crashed)' ] || { echo "status $status"; cat err; })"
chmod 0 now/exp-001/.lock
as_other "$GRPO" runs --dir now >out 2>err
result "nor if its lock cannot be read: the process is gone" "$(grep -q '^exp-001 *crashed ' out || show out err)"
chmod u+w now/exp-001 now/exp-001/run.json
sed -i -z -E "s/,\n  \"crc32c\": \"[0-9a-f]{8}\"//; s/\"host\": \"[^\"]*\"/\"host\": \"elsewhere.invalid\"/" now/exp-001/run.json
as_other "$GRPO" runs --dir now >out 2>err
result "of another machine that is not known" "$([ "$(id -u)" = 0 ] || [ ! -r now/exp-001/.lock ] && grep -q '^exp-001 *unknown ' out || show out err)"
chmod -R u+w now

# The number in run.json is another process's: it is not believed.
SLOW=0.2 timeout 20 "$GRPO" run exp.lua --detach --json --dir other </dev/null >out 2>err
pid=$(grep -oE '"pid": [0-9]+' out | grep -oE '[0-9]+$')
wait_for_step other/exp-001 3
kill -STOP "$pid"
sleep 1000 & bystander=$!
sed -i -z -E "s/,\n  \"crc32c\": \"[0-9a-f]{8}\"//; s/\"pid\": $pid/\"pid\": $bystander/" other/exp-001/run.json
timeout 20 "$GRPO" stop --now --wait 0 other/exp-001 >out 2>err; status=$?
result "stop signals no process but the run's" "$([ $status = 2 ] && kill -0 $bystander 2>/dev/null && [ "$(cat err)" = \
  "grpo: stop: other/exp-001: run.json names process $bystander, but another one has the run's lock, so no process was signalled; see which one has other/exp-001/.lock open" ] || { echo "status $status"; cat err; })"
kill $bystander 2>/dev/null; wait $bystander 2>/dev/null
sed -i -z -E "s/,\n  \"crc32c\": \"[0-9a-f]{8}\"//; s/\"pid\": $bystander/\"pid\": 1073741823/" other/exp-001/run.json # of no process
(sleep 0.5; sed -i -z -E "s/,\n  \"crc32c\": \"[0-9a-f]{8}\"//; s/\"pid\": 1073741823/\"pid\": $pid/" other/exp-001/run.json) &
answer=$(timeout 20 "$GRPO" stop --now other/exp-001 2>err)
result "and waits a moment for the number of a run that begins again" "$([ "$answer" = 'other/exp-001 crashed' ] || echo "$answer"; cat err)"

# The Slurm script, without Slurm: stopped as Slurm stops it, and begun again.
SLOW=0.2 GRPO_RUNS=job "$root/examples/deploy/grpo.slurm" exp.lua train.max_grad_norm=1 >out 2>err & job=$!
wait_for_step job/exp-001 5
kill -TERM $job
wait $job; status=$?
result "the Slurm script passes the signal on" "$([ $status = 143 ] && [ "$("$GRPO" runs --dir job | cut -d' ' -f1)" = exp-001 ] || { echo "status $status"; cat err; })"
GRPO_RUNS=job "$root/examples/deploy/grpo.slurm" exp.lua train.max_grad_norm=1 >out 2>err; status=$?
result "and, begun again, goes on with the same bits" "$([ $status = 0 ] || show err; different whole/exp-001 job/exp-001)"

# fails NAME STATUS MESSAGE COMMAND...
fails() {
  local name=$1 want=$2 message=$3 status; shift 3
  timeout 20 "$GRPO" "$@" >out 2>err </dev/null; status=$?
  result "$name" "$([ $status = "$want" ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -qE "^grpo: $message\$" err || { echo "status $status"; cat out err; })"
}
fails "what is wrong at the start is said at the start" 3 'nope\.lua: no such file.*' run nope.lua --detach
fails "an error of the script too, with its status" 2 'command line: train\.lr: .*' run exp.lua train.lr=fast --detach
fails "stop: a run that is over" 2 'stop: whole/exp-001 is not running \(finished\)' stop whole/exp-001
fails "stop: no such run" 3 'nope: no such run; .*' stop nope
fails "logs: no such run" 3 'nope: no such run; .*' logs nope
fails "logs: a number that is none" 2 "logs: --lines: 'x' is not a whole number of at least 0; see 'grpo help logs'" logs -n x whole/exp-001
fails "an unknown letter" 2 "logs: unknown flag -x; see 'grpo help logs'" logs -x whole/exp-001
rm whole/exp-001/output.log
fails "logs: a run without its output" 3 'cannot open whole/exp-001/output\.log: .*' logs whole/exp-001
mkfifo whole/exp-001/output.log
fails "logs: a pipe in its place" 3 'cannot read whole/exp-001/output\.log: it is a named pipe; .*' logs whole/exp-001
rm whole/exp-001/output.log
printf 'stage\n\033[31mred\nhalf' >whole/exp-001/output.log
result "logs shows no control characters, and a last line cut short" "$(diff <(printf 'stage\n\\x1b[31mred\nhalf\n') <("$GRPO" logs whole/exp-001))"
finish
