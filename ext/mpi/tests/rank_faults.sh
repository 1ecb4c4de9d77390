#!/usr/bin/env bash
# A rank that dies, is stopped, waits for ever or has no memory ends all ranks, with one line of grpo's that names it.
# TAP on stdout; without mpirun, or built without MPI's header, everything is skipped.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/ranks.bash
. "$root/tests/cli/lib/ranks.bash"
export GRPO_PATIENCE=4
host=$(hostname)

# one_line STATUS PATTERN : the last run ended by itself, not with status 0, and of grpo's lines there is this one alone
one_line() {
  { [ "$1" != 0 ] && [ "$1" != 124 ] && [ "$(grep -c '^grpo: ' err)" = 1 ] && grep -qE "^grpo: $2" err; } || { echo "status $1"; show err; }
}

# none_left NAME : no process of the last run is there any more, within some seconds
none_left() {
  for _ in $(seq 100); do
    pgrep -f "run $1" >/dev/null || return
    sleep 0.1
  done
  pgrep -af "run $1"
}

# faulty FILE COMMAND [FIELDS] : a run in which the rank that rewards the row with the answer 3 runs a shell's command once;
# it keeps its number in the file `at`
faulty() {
  experiment "$1" "limits = { reward = { seconds = 1 } }, train = { steps = 3, prompts_per_step = 8 }, ${3:-}" \
    "{ name = \"fault\", fn = function(_, row) if row.answer == \"3\" then
      local rank = require(\"grpo.core\").ranks()
      os.execute(('mkdir at 2>/dev/null && echo %d >at/rank && $2'):format(rank)) end return 1 end }"
}

faulty killed.lua 'kill -9 $PPID'
faulty stopped.lua 'kill -STOP $PPID'
faulty waits.lua 'exec sleep 33'
experiment mute.lua 'train = { steps = 3 }, hooks = { on_step = function()
  if require("grpo.core").ranks() ~= tonumber(os.getenv("MUTE")) then return end
  require("grpo.commands").report = function() error("no memory for a line", 0) end
  error("alone") end }'
experiment plain.lua 'train = { steps = 400 }'
experiment short.lua 'train = { steps = 1 }'
printf '#include <unistd.h>\nint MPI_Finalize(void) { return pause(); }\n' >hangs.c
${CC:-cc} -shared -fPIC -o hangs.so hangs.c

for kind in openmpi mpich; do
  if ! has $kind; then
    result "$kind: # SKIP its mpirun or its header is not here"
    continue
  fi
  for fault in killed stopped waits; do
    name="is $fault"
    case $fault in
      killed) why='is gone, because it was killed' ;;
      stopped) why='was not heard of for [0-9]+ s, while rank [0-9] on .* waits, because it is stopped' ;;
      waits) name='waits for ever'; why='made no progress for [0-9]+ s, while rank [0-9] on .* waits, because a reward, a hook or its disk hangs' ;;
    esac
    rm -rf at
    ranks 3 "$GRPO" run $fault.lua --quiet --dir $kind --threads 1 >out 2>err; status=$?
    result "$kind: a rank that $name: one line names it" "$(one_line $status "rank $(cat at/rank) on $host $why")"
    result "$kind: and nothing of the run is left" "$(none_left $fault.lua)"
  done

  # rank 0, whose process watches, is stopped from outside
  ranks 2 "$GRPO" run plain.lua --quiet --dir $kind --threads 1 >out 2>err & pid=$!
  until [ -s $kind/plain-001/metrics.jsonl ] || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
  first=$(sed -nE 's/.*"pid": ([0-9]+).*/\1/p' $kind/plain-001/run.json)
  kill -STOP "$first"
  wait $pid; status=$?
  result "$kind: rank 0 that is stopped: one line names it" "$(one_line $status "rank 0 on $host was not heard of for")"

  # the watching process itself
  ranks 2 "$GRPO" run plain.lua --quiet --dir $kind --threads 1 >out 2>err & pid=$!
  until [ -s $kind/plain-002/metrics.jsonl ] || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
  first=$(sed -nE 's/.*"pid": ([0-9]+).*/\1/p' $kind/plain-002/run.json)
  kill -9 "$(pgrep -P "$first" grpo | head -n 1)"
  wait $pid; status=$?
  result "$kind: the process that watches is killed: one line" "$(one_line $status "rank 0 on $host: the process on $host that watches over the ranks has ended, because it was killed")"

  for patience in abc -3 0 4s; do
    GRPO_PATIENCE=$patience ranks 2 "$GRPO" run plain.lua --quiet --dir none --threads 1 >out 2>err; status=$?
    result "$kind: a patience of $patience: one line, and no run directory" "$(
      one_line $status "GRPO_PATIENCE is $patience, want seconds from 1 to 1000000"; [ ! -e none ] || echo none)"
  done

  ranks 1 "$GRPO" run plain.lua --quiet --dir $kind --threads 1 : -n 1 \
    "$GRPO" run plain.lua --quiet --dir $kind --threads 1 --memory 8M >out 2>err; status=$?
  result "$kind: a rank that has no memory: one line names it" "$(one_line $status '(rank 1 (of 2|on [^ ]*): )?.*memory')"

  for rank in 0 1; do
    GRPO_PATIENCE=600 MUTE=$rank ranks 2 "$GRPO" run mute.lua --quiet --dir $kind --threads 1 >out 2>err; status=$?
    result "$kind: rank $rank has an error that it cannot report as others: one line, and all end at once" "$(one_line $status '(rank 1 of 2: )?no memory for a line')"
  done

  # MPI's own end hangs
  GRPO_PATIENCE=600 ranks 2 env LD_PRELOAD="$work/hangs.so" "$GRPO" run short.lua --quiet --dir $kind \
    --threads 1 >out 2>err; status=$?
  result "$kind: an MPI that does not end is left alone, and the run is complete" "$({ [ $status != 124 ] &&
    [ "$(grep -c '^grpo: ' err)" = 1 ] && grep -q '^grpo: warning: all ranks have ended, but MPI' err &&
    grep -q '"state": "finished"' $kind/short-001/run.json; } || { echo "status $status"; show err; })"
done
finish
