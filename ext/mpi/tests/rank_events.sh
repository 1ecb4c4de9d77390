#!/usr/bin/env bash
# A run that was changed while it trained, by an attached session and by files that were reloaded, is resumed by several ranks: the
# bytes are those of one process.  TAP on stdout; without mpirun, or built without MPI's header, everything is skipped.
# shellcheck source=tests/cli/lib/tiny.bash
. "$(dirname "$0")/../../../tests/cli/lib/tiny.bash"
# shellcheck source=tests/cli/lib/resume.bash
. "$root/tests/cli/lib/resume.bash"
# shellcheck source=tests/cli/lib/ranks.bash
. "$root/tests/cli/lib/ranks.bash"

original() { echo 'return { scale = 1, more = require("more").more }' >reward.lua; echo 'return { more = 0.5 }' >more.lua; }
edited='echo "return { scale = 3, more = 2 * require(\"more\").more }" >reward.lua; echo "return { more = 0.25 }" >more.lua'
experiment exp.lua 'train = { steps = 12, prompts_per_step = 5, lr = 1e-3, kl = 0.05 }, checkpoint = { every = 3, keep = 9 },
  eval = { group_size = 2 },
  hooks = {
    on_start = function(tr) tr.state.seen = tr.state.seen or 0 end,
    on_reload = function(_, tr) tr.state.seen = tr.state.seen + 1000 * require("reward").scale end,
    on_eval = function(report, tr)
      tr.state.seen = tr.state.seen + 100
      tr:append("evals.txt", ("%s %d %.17g\n"):format(report.label, tr.step_count, tr.state.seen))
    end,
    on_step = function(m, tr)
      tr.state.seen = tr.state.seen + m.reward
      tr:append("steps.txt", ("%d %.17g %.17g %s\n"):format(tr.step_count, tr.state.seen, m.grad_norm, tr.state.note))
      if tr.step_count == tonumber(os.getenv("PAUSE") or 0) then tr.paused = true end
      if tr.step_count == tonumber(os.getenv("EDIT") or 0) then os.execute(os.getenv("COMMAND")) end
      if tr.step_count == tonumber(os.getenv("KILL") or 0) then os.execute("kill -9 $PPID") end
    end }' '{ name = "digits", fn = function(text, _, c)
    return require("reward").scale * select(2, text:gsub("%d", "")) / 6 + c.rng() / 10 end },
  { name = "length", weight = 0.1, fn = function(text) return #text * require("reward").more end }' \
  'train = grpo.data.list(rows), eval = grpo.data.list(table.move(rows, 50, 58, 1, {}))'

# one process, changed after steps 4 and 6, dies in step 11: its checkpoints are those of the steps 3, 6 and 9
original
GRPO_RELOAD_ALWAYS=1 PAUSE=4 EDIT=6 COMMAND=$edited KILL=11 "$GRPO" run exp.lua --quiet --dir live </dev/null >/dev/null 2>live.err &
for _ in $(seq 400); do grep -q 'paused at step' live/exp-001/run.log 2>/dev/null && break; sleep 0.05; done
printf '%s\n' 'weight("length", 0.7)' 'tr.config.train.lr = 5e-3' 'tr.state.note = "kept"' 'evaluate()' 'resume()' |
  timeout 60 "$GRPO" attach live/exp-001 >out 2>err || show out err
wait 2>/dev/null
kinds_of() { grep -oE '"kind": "[a-z]+"' live/exp-001/events.jsonl | cut -d'"' -f4 | sort | tr '\n' ' '; }
result "a run is changed by a session and by an edited file" "$([ "$(kinds_of)" = 'evaluate reload set state weight ' ] || show live/exp-001/events.jsonl live.err)"
original

# from STEP TO : the killed run as if it had died before the checkpoint after STEP was written
from() {
  local step
  rm -rf "$2"; mkdir "$2"; cp -r live/exp-001 "$2"
  for step in 3 6 9; do [ "$step" -le "$1" ] || rm -r "$2/exp-001/checkpoints/step-$(printf %06d "$step")"; done
}
resumed() { [ "$status" = 0 ] || show err; grep -v 'changed since, ' err; }

for step in 3 6 9; do
  from $step one$step
  "$GRPO" run --resume=one$step/exp-001 --quiet --threads 1 >/dev/null 2>err; status=$?
  result "one process resumes after step $step" "$(resumed; [ $step = 3 ] || different one3/exp-001 one$step/exp-001)"
done

# an option on the command line
from 3 onegiven
"$GRPO" run --resume=onegiven/exp-001 --quiet --threads 1 train.lr=0.02 >/dev/null 2>err; status=$?
result "one process resumes with an option" "$(resumed; [ -n "$(different one3/exp-001 onegiven/exp-001)" ] || echo "it is the same")"

# the script of today instead of the saved one, which counts as a reload
sed 's|/ 6 + c.rng|/ 7 + c.rng|' exp.lua >other.lua
forced() { from 6 "$1"; "${@:2}" "$GRPO" run other.lua --resume="$1/exp-001" --force --quiet --threads 1 >/dev/null 2>told; status=$?
  grep -v '^grpo: note: .* changed since, and the run continues with what is on disk' told >err; }
forced onef
result "one process resumes with another script" "$(resumed; [ -n "$(different one3/exp-001 onef/exp-001)" ] || echo "it is the same")"

for kind in openmpi mpich; do
  if ! has $kind; then
    result "$kind: # SKIP its mpirun or its header is not here"
    continue
  fi
  for case in '2 3' '3 6' '2 9' '3 3'; do
    read -r n step <<<"$case"
    from "$step" many
    ranks "$n" "$GRPO" run --resume=many/exp-001 --quiet --threads 1 >/dev/null 2>err; status=$?
    result "$kind, $n ranks resume after step $step: the changes are made again by all, with the bytes of one process" \
      "$(resumed; different one3/exp-001 many/exp-001)"
    result "$kind, $n ranks: nothing is recorded twice" "$(diff live/exp-001/events.jsonl many/exp-001/events.jsonl; ls many/exp-001/source | diff <(ls live/exp-001/source) -)"
  done
  from 3 many
  ranks 2 "$GRPO" run --resume=many/exp-001 --quiet --threads 1 --steps 5 >/dev/null 2>err
  ranks 3 "$GRPO" run --resume=many/exp-001 --quiet --threads 1 --steps 8 >/dev/null 2>err
  "$GRPO" run --resume=many/exp-001 --quiet --threads 1 >/dev/null 2>err; status=$?
  rm -r many/exp-001/checkpoints/step-00000[58] # where the ranks were stopped
  result "$kind: 2 ranks, then 3, then one process: the same bytes" "$(resumed; different one3/exp-001 many/exp-001)"
  from 3 many
  ranks 2 "$GRPO" run --resume=many/exp-001 --quiet --threads 1 --steps 5 train.lr=0.02 >/dev/null 2>err
  ranks 3 "$GRPO" run --resume=many/exp-001 --quiet --threads 1 >/dev/null 2>err; status=$?
  rm -r many/exp-001/checkpoints/step-000005
  result "$kind: 2 ranks resume with an option, then 3 without it keep it: the bytes of one process" \
    "$(resumed; different onegiven/exp-001 many/exp-001; diff {onegiven,many}/exp-001/events.jsonl)"
  COMMAND='echo "weight(\"length\", 2)" | "$GRPO" attach s'$kind'/exp-001 >out 2>err' EDIT=3 ranks 2 "$GRPO" run exp.lua --quiet --dir s$kind --threads 1 --steps 4 >/dev/null 2>&1
  result "$kind: ranks take no sessions, and attach says why" "$(
    grep -q '^grpo: attach: s.*/exp-001 is running, but takes no sessions, because several ranks train it' err || show err
    grep -q 'no sessions can be attached.*several ranks train' s$kind/exp-001/run.log || show s$kind/exp-001/run.log)"
  GRPO_RELOAD_ALWAYS=1 COMMAND='echo "return { scale = 9, more = 1 }" >reward.lua' EDIT=2 ranks 2 "$GRPO" run exp.lua --quiet --dir w$kind \
    --threads 1 --steps 4 >/dev/null 2>err
  result "$kind: a line says that ranks do not reload a file" "$([ "$(grep -c '^not reloaded, because several ranks train: .*reward.lua; ' err)" = 1 ] || show err)"
  original
  forced many ranks 3
  result "$kind: 3 ranks resume with another script: the bytes of one process" "$(resumed; different onef/exp-001 many/exp-001)"
done
finish
